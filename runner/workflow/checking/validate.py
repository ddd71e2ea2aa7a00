"""`runner validate`: every problem of every campaign, those that only its audience shows included.

Phone numbers in what git keeps of campaigns, outside the audiences that these declare, are problems, too.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, find_export_problems, iterate_audience, list_dates
from runner.audience.encoding import choose_encoding
from runner.audience.phone_search import PHONE_COMMITTED, find_phones, list_regions
from runner.audience.rows import find_missing_columns
from runner.audience.sealing import is_sealed, list_encrypted
from runner.audience.table import normalize_name
from runner.campaign.checks import find_late_follow_ups
from runner.campaign.lint import SilencedWarnings, find_lint, silence_warnings
from runner.campaign.model import FileRecipients
from runner.campaign.text_checks import find_unknown_variables
from runner.document import UNSET, Count, Described, Document, Part, Positive, UnsetType, build
from runner.git.command import Git, find_work_tree
from runner.ledger.model import RecordedDeliveries
from runner.plan.guards import find_weak_guards
from runner.plan.limits.plan_rules import find_rule_problems
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.plan_counts import find_long_texts
from runner.plan.planner import AudiencePass, Planner
from runner.service.target import read_targets
from runner.source.diagnostic import Diagnostic, ProblemError, Problems, Severity
from runner.source.encrypted import STARTS
from runner.text.include import include_folder
from runner.text.template import TextCompiler
from runner.timing.legal_hours import list_whereabouts, load_law
from runner.wording import count_people
from runner.workflow.campaigns import DEFAULT_FOLDER, find_targets_file, load_campaigns, show_path
from runner.workflow.checking.campaign_tests import find_test_files, read_tests
from runner.workflow.observer import note

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.plan.model import CampaignPlan
    from runner.workflow.scope import Scope


_NAMES_OF_PEOPLE = frozenset(
    (
        *("name", "firstname", "givenname", "forename", "lastname", "surname", "fullname", "customername"),
        *("vorname", "nachname", "prénom", "prenom", "nom", "nombre", "apellido", "nome", "cognome", "imię"),
        *("naam", "voornaam", "achternaam", "nazwisko", "namn", "förnamn", "isim", "ad", "soyad"),
    )
)
"""Variables that hold a person's name, by their normalized names."""
_DIGIT = re.compile(r"\d")
_SAMPLE = 1 << 16


@dataclass(frozen=True, slots=True)
class Validation(Described):
    """Every problem of every campaign in `files`; iterates over the problems.

    `silenced` are the warnings that campaigns silence; they are not among the problems.
    """

    problems: Problems
    files: tuple[Path, ...]
    silenced: tuple[SilencedWarnings, ...] = ()

    @property
    def is_valid(self) -> bool:
        """True if there are no errors."""
        return not self.problems.error_count

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.problems)

    @property
    def document(self) -> ValidationDocument:
        """The problems as a document."""
        problems = self.problems
        return build(
            ValidationDocument,
            problems,
            valid=self.is_valid,
            diagnostics=list_problems(problems),
            omitted=tuple(
                OmittedProblems(code, show_path(file), count) for code, file, count in problems.omitted()
            ),
            silenced=self.silenced,
        )


class ListedProblem(Part, frozen=True):
    """One problem of one file.

    Attributes:
        severity: how grave it is: `error` stops a plan.
        code: a stable slug, such as `recipient-phone-invalid`.
        message: what is wrong.
        file: where it is.
        line: from 1; of a CSV, the line in that file.
        column: from 1.
        hint: what to do about it.
    """

    severity: Severity
    code: str
    message: str
    file: str
    line: Positive
    column: Positive
    hint: str | UnsetType = UNSET


def list_problems(problems: Problems) -> tuple[ListedProblem, ...]:
    """Return problems for a document."""
    return tuple(
        build(ListedProblem, one, file=show_path(one.file), hint=one.hint or UNSET) for one in problems
    )


class OmittedProblems(Part, frozen=True):
    """Problems of a kind in a file that are counted, not listed.

    Attributes:
        code: what kind of problem it is: a stable slug.
        file: where they are.
        count: how many.
    """

    code: str
    file: str
    count: Positive


class ValidationDocument(Document, frozen=True):
    """The document that `runner validate --format json` writes.

    Attributes:
        valid: whether there are no errors.
        error_count: errors, those that are not listed included.
        warning_count: warnings, those that are not listed included.
        note_count: what was mended, and needs nobody.
        diagnostics: what was found, by file and line.
        omitted: problems beyond the first 20 of a kind in a file: counted, not listed.
        silenced: warnings that campaigns silence, with their reasons: counted here alone.
    """

    valid: bool
    error_count: Count
    warning_count: Count
    note_count: Count
    diagnostics: tuple[ListedProblem, ...]
    omitted: tuple[OmittedProblems, ...]
    silenced: tuple[SilencedWarnings, ...]


def validate_campaigns(scope: Scope, *, searches_phones: bool = False) -> Validation:
    """Find every problem of every campaign, `targets.yaml` and file of tests; no service is asked.

    With `searches_phones`, and where a campaign requires encrypted audiences, also phone numbers in what git
    keeps.
    """
    problems = Problems()
    _check_targets(scope, problems)
    loaded = load_campaigns(scope, problems)
    for file in find_test_files(scope.paths):
        problems.extend(read_tests(file)[1])
    if searches_phones or any(one.policy.audience == "encrypted" for one in loaded.campaigns):
        problems.extend(search_phones(scope.paths, loaded.campaigns))
    plans: list[CampaignPlan] = []
    for campaign in loaded.campaigns:
        problems.extend(_find_derived_name(campaign))
        if scope.verbose:
            note(f"Checking {show_path(campaign.file)}")
        plan = find_audience_problems(campaign, problems)
        plans += [plan] if plan is not None else []
    for plan in plans:
        # A campaign with a lockfile has begun: its plan knows whose follow-ups are too late.
        file = plan.campaign.file
        has_begun = any(file.parent.glob(f"{escape(file.stem)}.*.lock.json"))
        problems.extend(find_rule_problems(plan, has_begun=has_begun))
        if not has_begun:
            problems.extend(find_late_follow_ups(plan.campaign, datetime.now(UTC)))
        problems.extend(find_long_texts(plan))
        rollout, sizes = plan.campaign.rollout, [one.recipients - one.excluded for one in plan.messages]
        if rollout is not None and len(rollout.steps) > 1:
            everybody, sample = max(sizes, default=0), campaign.sample
            texted = everybody if sample is None else sample.estimate(everybody)
            problems.extend(find_weak_guards(rollout, texted))
        if any(message.duplicates for message in plan.messages):
            problems.extend(_find_shared_phones(plan.campaign))
        problems.extend(find_lint(plan.campaign, load_law(), partial(count_places, plan.campaign)))
    silenced = [each for one in loaded.campaigns for each in silence_warnings(one, problems, is_last=True)]
    return Validation(problems, loaded.files, tuple(silenced))


def _find_derived_name(campaign: Campaign) -> Iterator[Diagnostic]:
    if not campaign.is_named:
        yield campaign.position.problem(
            "campaign-name-derived",
            f"the name {campaign.name!r} comes from the file's: with another one, everybody would look new",
            f"add `name: {campaign.name}`",
            severity="warning",
        )


_Texted = tuple[int, tuple[str, ...]]
"""A phone as a number, and the dates for which it is texted."""


def _find_shared_phones(campaign: Campaign) -> Iterator[Diagnostic]:
    """Warn of phones that stand under two names, where texts call people by name.

    The first pass finds the phones that repeat, so that few names are kept.
    """
    compiler = TextCompiler(include_folder(campaign))
    texts = (
        text
        for message in campaign.messages
        for sent in campaign.iterate_sent(message)
        for text in sent.iterate_texts()
    )
    used = (compiler.find_references(text).names for text in texts)
    names = frozenset(name for one in used for name in one if normalize_name(name) in _NAMES_OF_PEOPLE)
    if not names:
        return
    read = partial(iterate_audience, campaign, problems=Problems(), tally=AudienceTally(), keeps_repeats=True)
    columns = sorted(campaign.date_columns)
    seen, repeated = set[_Texted](), set[_Texted]()
    for recipient in read(names=campaign.date_columns):
        number = int(recipient.phone), list_dates(recipient, columns)
        (repeated if number in seen else seen).add(number)
    firsts: dict[_Texted, tuple[frozenset[str], str]] = {}
    for recipient in read(names=names | campaign.date_columns):
        if (number := (int(recipient.phone), list_dates(recipient, columns))) not in repeated:
            continue
        name = frozenset(" ".join(str(recipient.vars.get(one, "")) for one in names).casefold().split())
        place = f"line {recipient.line} of {recipient.file.name}"
        first, where = firsts.setdefault(number, (name, place))
        if not (name <= first or first <= name):
            words = f"{place} has the phone of {where} under another name: only the first is texted"
            hint = "keep the row of the person whose phone it is"
            yield Diagnostic("warning", "phone-shared", words, recipient.file, recipient.line, 1, hint)


def _check_targets(scope: Scope, problems: Problems) -> None:
    for file in dict.fromkeys(find_targets_file([path]) for path in scope.paths or [DEFAULT_FOLDER]):
        try:
            read_targets(file, scope.environ)
        except ProblemError as error:
            problems.extend(error.diagnostics)


def find_audience_problems(campaign: Campaign, problems: Problems) -> CampaignPlan | None:
    """Render every text for every recipient as if nobody had been texted; return the plan.

    Returns None if there are errors, which go to `problems`. Without the key of an encrypted audience, texts
    are only compiled.
    """
    if any(map(is_sealed, list_encrypted(campaign))):
        AudiencePass.compile(campaign, PlanOptions(), PlanContext(), problems)
        return None
    known = problems.error_count
    nothing = RecordedDeliveries({}, {})
    plan = Planner(campaign, "", nothing, None, PlanOptions(), PlanContext()).make_plan(problems)
    if problems.error_count == known:
        problems.extend(find_export_problems(campaign))
        problems.extend(_find_places_left_out(campaign))
    elif any(find_missing_columns(source) for source in campaign.recipients):
        # Texts were not rendered for the rows of such a file.
        said = {problem.message for problem in problems}
        problems.extend(one for one in find_unknown_variables(campaign) if one.message not in said)
    return plan


def _find_places_left_out(campaign: Campaign) -> Iterator[Diagnostic]:
    """Warn of places whose people are left out by `quiet_hours: legal`, or get no reminder by their law."""
    policy, law = campaign.policy, load_law()
    if policy.quiet_hours != "legal":
        return
    methods = sorted({one.method for one in campaign.messages})
    reminders = ", ".join(f"`{one.id}`" for one in campaign.messages if one.to == "unanswered")
    for places, people in count_places(campaign).items():
        name = " or ".join(places) or "no country"
        unknown = [method for method in methods if not law.rules_of(places, method)]
        if unknown and policy.no_rule == "refuse":
            kind = "calls" if unknown == ["VOICE"] else "texts"
            words = f"no legal hours for {kind} are known in {name}: none go to {count_people(people)} there"
            hint = "`no_rule` in `policy` can have them reached by `schedule` alone"
            yield campaign.position.problem("legal-hours-unknown", words, hint, severity="warning")
        rules = [one for method in methods for one in law.rules_of(places, method, policy.purpose)]
        silence = next((one for one in rules if one.no_reply_opts_out), None)
        if silence is not None and reminders:
            words = f"{reminders} will not go to {count_people(people)} in {name}, where no reply counts as"
            hint = "ask them once, in words that need no reminder"
            reason = f"{words} opting out: {silence.citation}"
            yield campaign.position.problem("legal-silence", reason, hint, severity="warning")


def count_places(campaign: Campaign) -> Counter[tuple[str, ...]]:
    """Count people by the places whose laws hold for them: the same for all of an area code and region."""
    counts: Counter[tuple[str, str | None]] = Counter()
    phones: dict[tuple[str, str | None], str] = {}
    for one in iterate_audience(campaign, frozenset(), Problems(), AudienceTally()):
        key = one.phone[1:5], one.region
        counts[key] += 1
        phones.setdefault(key, one.phone)
    found: Counter[tuple[str, ...]] = Counter()
    for key, people in counts.items():
        phone, keeps_number = phones[key], campaign.rules.keeps_number
        for place in list_whereabouts(phone, None, key[1], keeps_number=keeps_number):
            found[place.places] += people
    return found


def search_phones(paths: Sequence[Path], campaigns: Collection[Campaign]) -> Iterator[Diagnostic]:
    """Yield a problem for each phone number in files and their names; numbers are not shown.

    Searched is what git keeps below `paths`, by default below `campaigns/`; without git, all files. Audiences
    of `campaigns` are left out. In a campaign that silences it a number is a warning, unless a rule requires
    encrypted audiences.
    """
    sources = [source for one in campaigns for source in (*one.recipients, *one.exclude)]
    declared = {Path(one.location).resolve() for one in sources if isinstance(one, FileRecipients)}
    inline = {(one.position.file.resolve(), one.position.line) for one in sources}
    regions = list_regions(sources)
    silent = {
        one.file.resolve()
        for one in campaigns
        if any(each.code == PHONE_COMMITTED for each in one.ignore) and one.rules.find("audience") is None
    }
    for file in sorted({file for path in paths or (DEFAULT_FOLDER,) for file in _list_files(path)}):
        real = file.resolve()
        shown, hint = _hide(file, regions), "take it out, or move it to an encrypted audience"
        lines = [] if real in declared else _read_lines(file)
        found = [(1, 1, "this file's name", phone) for _, _, phone in find_phones(file.name, regions)]
        found += [
            (number, start + 1, "this line", phone)
            for number, line in enumerate(lines, start=1)
            if (real, number) not in inline
            for start, _, phone in find_phones(line, regions)
        ]
        for line, column, where, phone in found:
            words = f"there is a phone number in {where}: it ends in {phone[-2:]}"
            severity: Severity = "warning" if real in silent else "error"
            yield Diagnostic(severity, PHONE_COMMITTED, words, shown, line, column, hint)


def _hide(file: Path, regions: Collection[str]) -> Path:
    """Return a path without the phone numbers in its name."""
    name = file.name
    for start, end, _ in find_phones(name, regions):
        name = name[:start] + _DIGIT.sub("•", name[start:end]) + name[end:]
    return file.with_name(name)


def _list_files(path: Path) -> Iterator[Path]:
    folder = path if path.is_dir() else path.parent
    top = find_work_tree(folder)
    if top is None:
        yield from (file for file in path.rglob("*") if file.is_file())
        return
    # Beside the paths that git keeps are those that are to be committed.
    kept = Git(folder).ask("ls-files", "-z", "--cached", "--", str(path.absolute())).output
    yield from (file for name in kept.split("\0") if name and (file := folder / name).is_file())


def _read_lines(file: Path) -> list[str]:
    content = file.read_bytes()
    encoding = choose_encoding(content[:_SAMPLE], None)
    is_text = encoding.startswith("utf-16") or b"\0" not in content[:_SAMPLE]
    is_text = is_text and not content.startswith(STARTS)
    return content.decode(encoding, errors="replace").splitlines() if is_text else []
