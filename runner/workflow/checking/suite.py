"""`runner test`: campaign tests, decided by the planner, and what differs from what they expect."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from runner.document import Count, Described, Document, Part, Positive
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems
from runner.source.normalize import suggest
from runner.text.preview import list_bubbles
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, TESTS, load_campaigns, show_path
from runner.workflow.checking.campaign_tests import CampaignTest, find_test_files, read_tests
from runner.workflow.checking.staging import Stage, StagingError
from runner.workflow.checking.validate import ListedProblem, list_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.campaign.model import Campaign
    from runner.plan.decisions import Decision
    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import Key
    from runner.workflow.campaigns import Loaded
    from runner.workflow.scope import Scope


class ListedTest(Part, frozen=True):
    """A test, and how it went.

    Attributes:
        name: what the campaign does, in words.
        campaign: the campaign's name or file, as the test names it.
        file: the file of the test.
        line: the line of its name, from 1.
        passed: whether what happens is what it expects.
    """

    name: str
    campaign: str
    file: str
    line: Positive
    passed: bool


class SuiteDocument(Document, frozen=True):
    """The document that `runner test --format json` writes.

    Attributes:
        passed: tests that passed.
        failed: tests that failed; files that cannot be read count as none, and are among the problems.
        valid: whether all passed, and all files could be read.
        tests: all tests, in the order of their files.
        diagnostics: what differs, and what is wrong with tests or their files, by file and line.
    """

    passed: Count
    failed: Count
    valid: bool
    tests: tuple[ListedTest, ...]
    diagnostics: tuple[ListedProblem, ...]


@dataclass(slots=True)
class SuiteRun(Described):
    """Campaign tests that were run: each with whether it passed, and all `problems`."""

    problems: Problems = field(default_factory=Problems)
    tests: list[tuple[CampaignTest, bool]] = field(default_factory=list)

    @property
    def is_passed(self) -> bool:
        """True if all tests passed, and all files could be read."""
        return not self.problems.error_count

    @property
    def summary(self) -> str:
        """The numbers of tests that passed and failed, in words."""
        if not self.tests and self.is_passed:
            return f"There are no campaign tests: they are looked for in `{DEFAULT_FOLDER}/{TESTS}/`"
        count = Counter(passed for _, passed in self.tests)
        words = f"{count_words(count[True], 'campaign test')} passed"
        words += f", {count[False]:,} failed" if count[False] else ""
        is_unread = not self.is_passed and not count[False]
        return f"{words}, {count_words(self.problems.error_count, 'error')}" if is_unread else words

    @property
    def document(self) -> SuiteDocument:
        """The tests as a document."""
        count = Counter(passed for _, passed in self.tests)
        return SuiteDocument(
            passed=count[True],
            failed=count[False],
            valid=self.is_passed,
            tests=tuple(
                ListedTest(one.name, one.campaign, show_path(place.file), place.line, passed)
                for one, passed in self.tests
                for place in (one.place("name"),)
            ),
            diagnostics=list_problems(self.problems),
        )


def run_tests(scope: Scope) -> SuiteRun:
    """Run the tests of campaigns; no service is asked, and no record is read or written."""
    run = SuiteRun()
    named = {one.resolve() for one in scope.paths if one.is_file()}
    loaded: dict[Path, Loaded] = {}
    # A campaign that cannot be tested is so for each test of it.
    said: set[Diagnostic] = set()
    for file in find_test_files(scope.paths):
        tests, problems = read_tests(file)
        run.problems.extend(problems)
        for test in tests:
            if test.folder not in loaded:
                own = replace(scope, paths=(test.folder,))
                loaded[test.folder] = load_campaigns(own, Problems(), needs_audience=False)
            campaign = _find_campaign(test, loaded[test.folder])
            about = {file.resolve(), *([campaign.file.resolve()] if campaign else ())}
            if named and named.isdisjoint(about):
                continue
            found = _run(test, campaign) if campaign else [_refuse_campaign(test, loaded[test.folder])]
            run.problems.extend(one for one in found if one not in said)
            said.update(found)
            run.tests.append((test, not found))
    return run


def _find_campaign(test: CampaignTest, loaded: Loaded) -> Campaign | None:
    named = (one for one in loaded.campaigns if test.campaign == one.name)
    return next(named, next((one for one in loaded.campaigns if test.is_about(one.file)), None))


def _refuse_campaign(test: CampaignTest, loaded: Loaded) -> Diagnostic:
    if test.campaign in loaded.claimed or any(map(test.is_about, loaded.files)):
        words, hint = f"the campaign {test.campaign} has errors", "`runner validate` shows them"
    else:
        words = f"there is no campaign {test.campaign!r}{suggest(test.campaign, loaded.claimed)}"
        hint = "write its name, or its file, as in ../customer-pulse.yaml"
    return test.document.position(["campaign"]).problem("test-campaign-unknown", words, hint)


def _run(test: CampaignTest, campaign: Campaign) -> list[Diagnostic]:
    """Return what is wrong with a test, or differs from what it expects, each with the test's name."""
    with TemporaryDirectory() as folder:
        stage = Stage(test, campaign, Path(folder) / "person.csv")
        try:
            found = list(_decide(stage))
        except StagingError as error:
            found = list(error.problems)
    return [replace(one, message=f"{test.name}: {one.message}") for one in found]


def _decide(stage: Stage) -> Iterator[Diagnostic]:
    """Plan a test's campaign, and yield what differs, or what is wrong with the person."""
    problems, options = Problems(), PlanOptions(watched=frozenset((stage.person.phone,)))
    planner = Planner(stage.campaign, "", stage.known, stage.key, options, stage.context)
    is_planned = planner.make_plan(problems) is not None
    yield from _compare(stage, planner.watched) if is_planned else stage.place_problems(problems)


def _compare(stage: Stage, decisions: Mapping[str, Decision]) -> Iterator[Diagnostic]:
    """Yield what differs from the expectations of a test."""
    written, listed = stage.test.read("expect"), set[str]()
    places: list[tuple[Key, ...]] = [("expect",)]
    if isinstance(written, list):
        places = [("expect", index) for index in range(len(written))]
    lacking = [name for name in decisions if name not in stage.sent]
    for keys in places:
        expected: dict[str, Any] = stage.test.read(*keys)
        name = expected.get("message", (lacking or list(decisions))[0])
        stage.require_known([*keys, "message"], "message", name, decisions)
        listed.add(name)
        yield from _compare_message(stage, keys, name, decisions[name])
    for name, one in decisions.items():
        if one.payload is not None and name not in listed:
            yield _differ(stage, ("expect",), f"they get `{name}`, which is not expected", one)


def _compare_message(
    stage: Stage, keys: tuple[Key, ...], name: str, decision: Decision
) -> Iterator[Diagnostic]:
    """Yield what differs from one expectation about a message."""
    expected: dict[str, Any] = stage.test.read(*keys)
    wanted: str = expected.get("none", "to_send")
    if decision.disposition != wanted:
        found = "they get it" if decision.payload is not None else f"they get nothing: {decision.disposition}"
        if wanted == "excluded" and not stage.knows_excluded:
            found = "this is not known here: a list of `exclude` is missing, or encrypted without its key"
        words = f"expected {f'no `{name}`: {wanted}' if 'none' in expected else f'`{name}`'}; {found}"
        yield _differ(stage, (*keys, "none" if "none" in expected else "message"), words, decision)
        return
    says = expected.get("says", [])
    for index, words in enumerate([says] if isinstance(says, str) else says):
        if not any(words in text for text in _list_texts(decision)):
            place = (*keys, "says", *(() if isinstance(says, str) else (index,)))
            yield _differ(stage, place, f"`{name}` does not say {words!r}", decision)


def _list_texts(decision: Decision) -> list[str]:
    payload = decision.payload
    return [] if payload is None else [one.text for one in list_bubbles(payload.definition)]


def _differ(stage: Stage, keys: tuple[Key, ...], words: str, decision: Decision) -> Diagnostic:
    texts = _list_texts(decision)
    hint = f"it says: {' / '.join(' '.join(text.split()) for text in texts)}"
    hint = hint if texts else "; ".join(decision.reasons)
    return stage.test.place(*keys).problem("test-failed", words, hint or None)
