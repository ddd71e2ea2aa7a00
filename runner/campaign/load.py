"""Loading of a campaign file: the campaign, or every problem of the file.

Parts that the schema refuses are removed, so that the rest can be checked, and so are references to them.
Schema rules for the whole document concern only its keys, so the rest fits, except for emptied lists.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runner.audience.encoding import is_text_encoding
from runner.audience.files import check_file, expand_files
from runner.audience.rows import find_missing_columns
from runner.audience.sealing import find_closed_files, is_sealed, list_encrypted
from runner.campaign.checks import check_campaign
from runner.campaign.message_model import (
    After,
    AnswerCondition,
    Arm,
    Languages,
    Message,
    Question,
    TemplateText,
    When,
    ask_openly,
    name_wave,
)
from runner.campaign.model import (
    Analysis,
    AudienceSample,
    Campaign,
    FileRecipients,
    Guard,
    Ignore,
    InlineRecipient,
    Limits,
    Policy,
    RecipientSource,
    Rollout,
    RolloutStep,
    Variants,
)
from runner.campaign.refused_parts import drop_invalid, find_schema_problems, list_violations
from runner.campaign.rules import find_broken_rules, name_taker, read_rules
from runner.campaign.slips import find_slips
from runner.campaign.text_checks import find_reference_problems, find_unknown_variables
from runner.campaign.values import READERS, read_consent, read_consent_columns, read_times, read_value
from runner.source.diagnostic import Diagnostic, Position, ProblemError
from runner.source.encrypted import is_encrypted
from runner.source.normalize import fold_answer
from runner.source.quantity import parse_share
from runner.source.storage import (
    HIDDEN,
    is_hidden_below,
    is_readable_below,
    is_url,
    is_written_hidden,
    reading_root,
    stamp_file,
)
from runner.source.yaml import Key, YamlDocument, pause_collector, read_yaml
from runner.timing.schedule import DateRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FILE_URL = "file://"
"""Start of a path written as a URL, which is read as a path."""


@pause_collector()
def load_campaign(
    file: Path,
    *,
    current: Path,
    allowed: tuple[Path | str, ...] = (),
    needs_audience: bool = True,
    identity: str = "",
    keeps_rules: bool = True,
) -> tuple[Campaign | None, list[Diagnostic]]:
    """Return a file's campaign with its defaults and rules, None if there are errors; and every problem.

    Args:
        file: the campaign file.
        current: the current folder, which bounds reading outside a git repository.
        allowed: further folders and URLs that the campaign may read from.
        needs_audience: whether a missing file of people is an error; else it is a warning.
        identity: the key of encrypted audiences; empty if there is none.
        keeps_rules: whether a broken rule of `targets.yaml` is an error; without, nothing may be sent.
    """
    roots = (reading_root(file, current=current), *(each for each in allowed if isinstance(each, Path)))
    urls = tuple(each for each in allowed if isinstance(each, str))
    stamp = stamp_file(str(file))
    try:
        document = read_yaml(read_text(file, roots), file)
    except ProblemError as error:
        return None, [*error.diagnostics]
    slips = list(find_slips(document))
    rules, wrong = read_rules(document, current)
    problems = [*document.problems, *find_schema_problems(document)]
    if not isinstance(document.data, dict):
        return None, problems
    violations = list_violations(document.data) if problems else []
    broken = list(find_broken_rules(document, rules, violations)) if keeps_rules else []
    knows_audience = not problems or drop_invalid(document.data, violations)
    campaign = replace(_Reader(document, roots[0], identity).read(), rules=rules)
    problems = [*wrong, *(name_taker(one, file) for one in problems), *slips, *broken]
    checked = check_campaign(campaign, document, roots, urls)
    problems.extend(name_taker(one, file) for one in (checked if needs_audience else map(_tolerate, checked)))
    if _has_errors(problems):
        problems.extend(_check_rest(campaign, roots, urls, knows_audience=knows_audience))
        return None, problems
    is_whole = needs_audience or not any(one.code == _NO_FILE for one in problems)
    campaign = replace(_expand(campaign), stamp=stamp)
    problems.extend(_check_audience(campaign, needs_audience=needs_audience, is_whole=is_whole))
    return None if _has_errors(problems) else replace(campaign, digest=_digest(document.data)), problems


def _expand(campaign: Campaign) -> Campaign:
    """Return a campaign with each file of people as a source of its own."""
    recipients, exclude = (tuple(expand_files(each)) for each in (campaign.recipients, campaign.exclude))
    return replace(campaign, recipients=recipients, exclude=exclude)


def _check_audience(campaign: Campaign, *, needs_audience: bool, is_whole: bool) -> Iterator[Diagnostic]:
    """Yield what is wrong with files of people, and with what texts take from them, if all are here."""
    if needs_audience:
        yield from find_closed_files(campaign)
    is_known = is_whole and not any(map(is_sealed, list_encrypted(campaign)))
    yield from find_reference_problems(campaign, knows_audience=is_known)


def _has_errors(problems: list[Diagnostic]) -> bool:
    return any(problem.severity == "error" for problem in problems)


_NO_FILE = "csv-not-found"


def _tolerate(problem: Diagnostic) -> Diagnostic:
    """Return a missing file of people as a warning: it may have been deleted, as privacy asks."""
    if problem.code != _NO_FILE:
        return problem
    return replace(
        problem, severity="warning", hint="reports need it for --by, comments and files of answers"
    )


_READ_BY_REPORTS = frozenset(
    ("title", "description", "owner", "series", "score", "report", "export_columns", "ignore")
)
"""Keys that decide nothing that is sent: who corrects a title needs no new plan."""


def _digest(data: dict[str, Any]) -> str:
    """Return a digest of what a file says, aliases filled in, apart from what only reports read."""
    said = [(key, value) for key, value in data.items() if key not in _READ_BY_REPORTS]
    # The order of variables may show in texts, so it counts.
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _check_rest(
    campaign: Campaign, roots: tuple[Path, ...], urls: tuple[str, ...], *, knows_audience: bool
) -> Iterator[Diagnostic]:
    """Yield what else is wrong with a campaign that has errors, without what may follow from them."""
    files = [source for source in campaign.recipients if isinstance(source, FileRecipients)]
    sound = [
        source
        for source in files
        if is_text_encoding(source.encoding or "utf-8") and not any(check_file(source, roots, urls))
    ]
    for source in expand_files(sound):
        yield from find_missing_columns(source)
    knows_audience = knows_audience and len(sound) == len(files) and not any(map(is_sealed, files))
    recipients = tuple(expand_files(campaign.recipients)) if knows_audience else ()
    campaign = replace(campaign, recipients=recipients)
    yield from find_reference_problems(campaign, knows_audience=knows_audience)
    if knows_audience:
        yield from find_unknown_variables(campaign)


NONE = "none"
"""The word by which a campaign or message says that it has no former name."""


def derive_name(file: Path) -> str:
    """Return the name of a campaign whose file gives none; a link to a file is the same campaign."""
    return file.resolve().stem


def _read_renaming(item: dict[str, Any]) -> dict[str, Any]:
    """Return the former names of a campaign or message, and whether it says that it is new."""
    former = item.get("renamed_from", ())
    return {"is_new": True} if former == NONE else {"renamed_from": tuple(former)}


def read_names(file: Path, *, current: Path, allowed: tuple[Path | str, ...] = ()) -> tuple[str, ...]:
    """Return the names whose record a campaign file claims; for an unreadable file, its own name."""
    roots = (reading_root(file, current=current), *(each for each in allowed if isinstance(each, Path)))
    try:
        data = read_yaml(read_text(file, roots), file).data
    except ProblemError:
        data = None
    if not isinstance(data, dict):
        return (derive_name(file),)
    former = data.get("renamed_from")
    names = (data.get("name", derive_name(file)), *(former if isinstance(former, list) else []))
    return tuple(name for name in names if isinstance(name, str))


def read_text(file: Path, roots: tuple[Path, ...], what: str = "campaign") -> str:
    """Return the text of a file below some folders; `what` is the file's kind, in words.

    Raises:
        ProblemError: it cannot be read, or must not be.
    """
    start = Position(file, 1, 1)
    is_hidden = is_hidden_below(file, roots)
    if is_hidden and not is_written_hidden(file, roots[0]):  # a named file is read, even if hidden
        message = f"this {what} is a link to a file that {HIDDEN}"
        raise ProblemError(start.problem("path-hidden", message, f"write the {what} here"))
    if not is_hidden and not is_readable_below(file, roots):
        message = f"this {what} is a link to a file outside the repository"
        hint = "use --allow-path to widen what may be read"
        raise ProblemError(start.problem("path-outside", message, hint))
    try:
        raw = file.read_bytes()
    except OSError as error:
        words = f"this file cannot be read: {error.strerror}"
        raise ProblemError(start.problem("campaign-unreadable", words)) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        place, hint = Position(file, line, 1), "save it as UTF-8"
        raise ProblemError(place.problem("campaign-encoding", "this file is not UTF-8", hint)) from None


class _Reader:
    """A converter of a document that fits the schema to a campaign that may read files below `root`."""

    def __init__(self, document: YamlDocument, root: Path, identity: str) -> None:
        self._document = document
        self._identity = identity
        self._root = root
        self._position = document.position_of
        self._wave: str = document.data.get("wave", "")
        self._languages = self._read_languages(document.data)
        self._completes = document.data.get("policy", {}).get("open_session") == "complete"

    def read(self) -> Campaign:
        data = self._document.data
        name = data.get("name", derive_name(self._document.file))
        tag, columns = data.get("tag", name), data.get("export_columns", [])
        score = data.get("score", {})
        return Campaign(
            name=name,
            is_named="name" in data,
            position=self._position(data, "name"),
            file=self._document.file,
            root=self._root,
            messages=tuple(self._message(item, tag) for item in data["messages"]),
            recipients=tuple(map(self._source, data["recipients"])),
            exclude=tuple(map(self._source, data.get("exclude", ()))),
            vars=data.get("vars", {}),
            limits=Limits(**self._read_keys(data.get("limits", {}))),
            **_read_renaming(data),
            variants=self._variants(data["variants"]) if "variants" in data else None,
            sample=self._sample(data["sample"], name) if "sample" in data else None,
            schedule=read_times(data.get("schedule", {})),
            policy=Policy(**self._read_keys(data.get("policy", {}))),
            lockfile=data.get("lockfile", "full"),
            export_columns=tuple((name, self._position(columns, i)) for i, name in enumerate(columns)),
            score=score.get("question"),
            score_target=Fraction(str(score["target"])) if "target" in score else None,
            **{key: data.get(key) for key in ("title", "description", "owner", "series")},
            wave=self._wave,
            rollout=self._rollout(data["rollout"], name) if "rollout" in data else None,
            shows_comments=data.get("report", {}).get("comments", False),
            languages=self._languages,
            ignore=tuple(
                Ignore(**one, position=self._position(one, "code")) for one in data.get("ignore", ())
            ),
        )

    def _read_languages(self, data: dict[str, Any]) -> Languages | None:
        if data.get("languages") is None:
            return None
        known: list[str] = data["languages"]["known"]
        default: str = data["languages"]["default"]
        found = Languages(default, tuple(known), self._position(data["languages"], "default"))
        return replace(found, default=found.find(default) or default)

    def _source(self, row: dict[str, Any]) -> RecipientSource:
        if "csv" in row:
            return self._file(row)
        return InlineRecipient(
            row["phone"],
            vars=row.get("vars", {}),
            position=self._position(row, "phone"),
            consent=read_consent(row["consent"]) if "consent" in row else None,
            **{key: row.get(key) for key in ("region", "timezone", "language")},
        )

    def _file(self, row: dict[str, Any]) -> FileRecipients:
        written: str = row["csv"]
        has_path = written.startswith(_FILE_URL) or not is_url(written)
        path = self._document.file.parent / written.removeprefix(_FILE_URL) if has_path else Path(written)
        return FileRecipients(
            path,
            row.get("phone_column", "phone"),
            position=self._position(row, "csv"),
            consent=read_consent_columns(row["consent"]) if "consent" in row else None,
            location=str(path.absolute()) if has_path else written,
            skips_invalid=row.get("invalid_rows") == "skip",
            rows_position=self._position(row, "rows") if "rows" in row else None,
            **{key: row.get(key) for key in _KEYS_OF_FILES},
            # Others have no need for it, and may go to a cluster.
            identity=self._identity if is_encrypted(written) else "",
        )

    def _sample(self, item: dict[str, Any], name: str) -> AudienceSample:
        key = next(key for key in ("size", "share") if key in item)
        return AudienceSample(**{"seed": name, **self._read_keys(item)}, position=self._position(item, key))

    def _rollout(self, item: dict[str, Any], name: str) -> Rollout:
        steps = tuple(
            RolloutStep(**self._read_keys(one), position=self._position(one, "share"))
            for one in item["steps"]
        )
        limits, place = item.get("guards", {}), self._position(self._document.data, "rollout")
        guards = tuple(Guard(one, parse_share(limits[one]), self._position(limits, one)) for one in limits)
        return Rollout(item.get("seed", name), place, steps, guards, is_seeded="seed" in item)

    def _variants(self, item: dict[str, Any]) -> Variants:
        place = next(key for key in ("of", "holdout", "seed") if key in item)
        read = {"of": None, **self._read_keys(item, "arms", "analysis")}
        if "analysis" in item:
            own = {key: item["analysis"][key] for key in ("at", "per_arm") if key in item["analysis"]}
            read["analysis"] = Analysis(self._position(item["analysis"], next(iter(item["analysis"]))), **own)
        arms = tuple(self._arm(arm) for arm in item.get("arms", []))
        return Variants(**read, arms=arms, position=self._position(item, place))

    def _arm(self, item: dict[str, Any]) -> Arm:
        read = self._read_keys(item)
        if "tag" in read:
            read["tag"] = name_wave(read["tag"], self._wave)
        return Arm(read.pop("id"), read.pop("weight", 1.0), self._position(item, "id"), read)

    def _message(self, item: dict[str, Any], tag: str) -> Message:
        read = {"tag": tag, "complete_existing_sessions": self._completes}
        read |= self._read_keys(item, "renamed_from", "after", "to", "when")
        read["tag"] = name_wave(read["tag"], self._wave)
        if read.get("replies") == "recorded" and "text" in read:
            read["questions"] = ask_openly(cast("TemplateText", read.pop("text")))
        if "after" in item:
            after = item["after"]
            read["after"] = After(**self._read_keys(after), position=self._position(after, "message"))
        if "to" in item:
            to = item["to"]
            read["to"] = self._answer_condition(to) if isinstance(to, dict) else to
        if "when" in item:
            when = item["when"]
            rule = DateRule(**self._read_keys(when, "column"))
            read["when"] = When(when["column"], rule, self._position(when, "column"))
        return Message(**read, **_read_renaming(item), position=self._position(item, "id"))

    def _answer_condition(self, item: dict[str, Any]) -> AnswerCondition:
        values: Any = item["values"]
        is_list = isinstance(values, list)
        places = [self._position(values, i) for i in range(len(values))] if is_list else []
        return AnswerCondition(
            item["question"],
            tuple(map(str, values if is_list else [values])),
            self._position(item, "question"),
            tuple(places or [self._position(item, "values")]),
        )

    def _question(self, item: dict[str, Any]) -> Question:
        responses: list[str | dict[str, Any]] = item.get("responses", [])
        valued = [one if isinstance(one, dict) and "value" in one else None for one in responses]
        values = tuple(None if one is None else read_value(one["value"]) for one in valued)
        read = {"scale": "choice" if responses else "text", **self._read_keys(item, "responses")}
        texts = tuple(
            self._text(responses, index) if one is None else self._text(one, "text")
            for index, one in enumerate(valued)
        )
        if "conclude_on" in read:
            read["conclude_on"] = _translate_as_response(read["conclude_on"], texts)
        counted = values if any(value is not None for value in values) else ()
        return Question(**read, responses=texts, values=counted)

    def _read_keys(self, item: dict[str, Any], *others: str) -> dict[str, Any]:
        """Return the values of a mapping, but for some keys, by the names of fields, which are the keys."""
        read: dict[str, Any] = {key: item[key] for key in item if key not in others}
        for key, value in read.items():
            if key in _TEXTS:
                read[key] = self._text(item, key)
            elif key == "questions":
                read[key] = tuple(map(self._question, value))
            elif key in READERS:
                read[key] = READERS[key](value)
            elif isinstance(value, list):
                read[key] = tuple(value)
        return read

    def _text(self, container: dict[str, Any] | list[Any], key: Key) -> TemplateText:
        source: str | dict[str, Any] = container[key]  # type: ignore[index]
        if isinstance(source, dict):
            return self._translated(source)
        position, place = self._position(container, key), self._document.place(container, key)
        if place is None or place.style != "|":
            quote = "" if place is None else place.style.strip("|>")
            return TemplateText(source, position, position.line, position.column, is_block=False, quote=quote)
        first = next((line for line in self._document.lines[position.line :] if line.strip()), "")
        indent = len(first) - len(first.lstrip(" ")) + 1
        return TemplateText(source, position, position.line + 1, indent, is_block=True)

    def _translated(self, written: dict[str, Any]) -> TemplateText:
        """Return a text by language, which reads as the default language's; else as the first."""
        languages = self._languages
        found = tuple(
            ((languages.find(code) if languages else None) or code, self._text(written, code))
            for code in written
        )
        return replace(
            dict(found).get(languages.default if languages else "", found[0][1]), by_language=found
        )


_TEXTS = frozenset(("text", "introduction", "conclusion", "conclude_on"))
_COLUMNS = ("timezone_column", "region_column", "language_column")
_KEYS_OF_FILES = ("region", *_COLUMNS, "encoding", "phone_form", "rows")


def _translate_as_response(ending: TemplateText, responses: Iterable[TemplateText]) -> TemplateText:
    """Return a `conclude_on` in all languages, if it is one text that names a response by the default's."""
    if ending.by_language:
        return ending
    wanted = fold_answer(ending.source)
    named = (one.by_language for one in responses if fold_answer(one.source) == wanted)
    return replace(ending, by_language=next(named, ()))
