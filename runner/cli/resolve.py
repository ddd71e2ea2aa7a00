"""`runner resolve`: launches that may have reached people, and a person's word on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runner.cli.approval import APPROVAL, require_approval
from runner.cli.campaign_run import RunOptions
from runner.cli.console import count_words, note
from runner.cli.custody import Custody
from runner.cli.resolve_text import WRITERS, describe_group, list_candidates
from runner.cli.scope import Scope, format_option, target_scope
from runner.cli.workspace import Workspace, utc_now
from runner.deliver.resolution import (
    UnexplainedGroup,
    adopt_unexplained,
    choose_message,
    dismiss_unexplained,
    group_unexplained,
)
from runner.deliver.settle import write_moment
from runner.errors import RunnerError, UsageError
from runner.ledger.entry import adopt_in_part
from runner.ledger.unsettled import release_launch
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.campaign.model import Campaign
    from runner.deliver.match import Candidate, Verdict
    from runner.ledger.database import Ledger

UNKNOWN_OUTCOMES = 4
_SAID = "a person said that it was not sent"


@click.command(
    epilog="\b\nExamples:\n  runner resolve\n  runner resolve campaigns/customer-pulse.yaml --adopt-all\n"
    "  runner resolve --message nudge --not-sent-all\n"
    "  runner resolve --launch 01c0330dfb2a63d67bfe --not-sent\n"
    "  runner resolve --adopt 60ee2192-c686-4f61-a592-957a04378b6f"
)
@target_scope
@format_option("human", "json")
@click.option("--message", metavar="ID", help="The message that is meant, or that the launches were.")
@click.option(
    "--launch", "key", metavar="KEY", help="The launch that is meant: its key, or the service's guid."
)
@click.option("--adopt", "guid", metavar="GUID", help="It was sent: this is the service's launch.")
@click.option("--not-sent", is_flag=True, help="It was not sent by this campaign: its people can be texted.")
@click.option("--adopt-all", is_flag=True, help="All launches that are shown were sent by their campaigns.")
@click.option("--not-sent-all", is_flag=True, help="No launch that is shown was sent by its campaign.")
@APPROVAL
def command(scope: Scope, format_: str, auto_approve: bool, **words: Any) -> int:
    """List launches that may have reached people, and say what became of them.

    A launch of unknown outcome was about to be sent: shown with what the service lists that may be it. A
    launch that no record explains is listed by the service under the campaign's tags: a run whose record is
    lost may have sent it, or somebody else. The people of both are held, and not texted.

    --adopt and --not-sent settle one launch, --adopt-all and --not-sent-all all that are shown, after asking.
    Recipients that an adopted launch has not reached can be texted again. Exits with 4 as long as there
    are any.
    """
    word = _Word(**words)
    word.require_one()
    workspace = Workspace.open(scope)
    campaigns = scope.load_valid_campaigns()
    options = RunOptions(quiet=scope.quiet, verbose=scope.verbose)
    with workspace.open_ledger() as opened, Custody(workspace, opened, options) as held:
        resolving = _Resolving(opened, held, word, quiet=scope.quiet)
        cases = resolving.find_cases(campaigns)
        if word.guid is not None:
            resolving.adopt_one(cases, word.guid)
        elif word.not_sent:
            resolving.release_one(cases)
        elif word.adopt_all or word.not_sent_all:
            _ask(cases, word, is_approved=auto_approve)
            (resolving.adopt_all if word.adopt_all else resolving.release_all)(cases)
        left = resolving.list_left(cases)
    WRITERS[format_]([(case.campaign, case.verdicts, case.groups) for case in left])
    return UNKNOWN_OUTCOMES if left else int(held.is_behind)


@dataclass(slots=True)
class Case:
    """The launches of one campaign that may have reached people.

    Attributes:
        campaign: the campaign.
        verdicts: its launches of unknown outcome, with what the service lists that may be them.
        groups: launches that the service lists under its tags and no record explains.
    """

    campaign: Campaign
    verdicts: list[Verdict] = field(default_factory=list)
    groups: list[UnexplainedGroup] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether anything is left to resolve."""
        return bool(self.verdicts or self.groups)


@dataclass(frozen=True, slots=True)
class _Word:
    """A person's word, as the command line has it."""

    message: str | None
    key: str | None
    guid: str | None
    not_sent: bool
    adopt_all: bool
    not_sent_all: bool

    def require_one(self) -> None:
        """Refuse words that contradict each other."""
        given = {
            "--adopt": self.guid is not None,
            "--not-sent": self.not_sent,
            "--adopt-all": self.adopt_all,
            "--not-sent-all": self.not_sent_all,
        }
        names = [name for name, is_given in given.items() if is_given]
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} contradict each other")

    def is_meant(self, case: Case, verdict: Verdict) -> bool:
        """Return whether a launch of unknown outcome may be the one that is meant."""
        return self.key in (None, verdict.launch.key) and self._fits(case, [verdict.launch.message])

    def _fits(self, case: Case, messages: Iterable[str]) -> bool:
        current = case.campaign.message_ids
        return self.message is None or self.message in {current.get(one, one) for one in messages}

    def keep_meant(self, case: Case) -> Case:
        """Return a case with what concerns the message that is meant."""
        return Case(
            case.campaign,
            [verdict for verdict in case.verdicts if self._fits(case, [verdict.launch.message])],
            [group for group in case.groups if self._fits(case, group.messages)],
        )


class _Resolving:
    """Records what a person says of launches, and takes it out of the cases."""

    def __init__(self, ledger: Ledger, custody: Custody, word: _Word, *, quiet: bool) -> None:
        self._ledger = ledger
        self._custody = custody
        self._word = word
        self._quiet = quiet

    def find_cases(self, campaigns: Iterable[Campaign]) -> list[Case]:
        """Lock campaigns, ask the service about them, and return what is open."""
        cases = [Case(one, self._custody.judge(one), []) for one in campaigns]
        for case in cases:
            self._read_groups(case)
        return [case for case in cases if case.is_open]

    def _read_groups(self, case: Case) -> None:
        campaign_id, _ = self._custody.record_of(case.campaign).require_entered()
        case.groups = group_unexplained(self._ledger, campaign_id, case.campaign.message_ids)

    def adopt_one(self, cases: Sequence[Case], guid: str) -> None:
        """Record that the service's launch is the campaign's."""
        wanted = fold_guid(guid)
        for case in cases:
            for group in case.groups:
                for launch in group.launches:
                    if fold_guid(launch.project_launch_guid) == wanted and self._word.key in (None, guid):
                        self._adopt_group(case, UnexplainedGroup(group.tag, group.messages, (launch,)))
                        return
        found = [
            (case, verdict, candidate)
            for case in cases
            for verdict in case.verdicts
            if self._word.is_meant(case, verdict)
            for candidate in list_candidates(verdict)
            if fold_guid(candidate.stat.project_launch_guid) == wanted
        ]
        self._adopt(*_choose(found, f"the service's launch {guid} may be none of"))

    def release_one(self, cases: Sequence[Case]) -> None:
        """Record that one launch was not sent, or is not the campaign's."""
        key = self._word.key
        for case in cases:
            for group in case.groups:
                for launch in group.launches:
                    if key is not None and fold_guid(launch.project_launch_guid) == fold_guid(key):
                        self._dismiss_group(case, UnexplainedGroup(group.tag, group.messages, (launch,)))
                        return
        found = [
            (case, verdict)
            for case in cases
            for verdict in case.verdicts
            if self._word.is_meant(case, verdict)
        ]
        self._release(*_choose(found, "there is no such launch among"))

    def adopt_all(self, cases: Sequence[Case]) -> None:
        """Record that all launches that are shown were sent by their campaigns."""
        for case in map(self._word.keep_meant, cases):
            for group in case.groups:
                self._adopt_group(case, group)
            taken: set[str] = set()
            for verdict in case.verdicts:
                candidates = [
                    one for one in list_candidates(verdict) if one.stat.project_launch_guid not in taken
                ]
                if len(candidates) == 1:
                    taken.add(candidates[0].stat.project_launch_guid)
                    self._adopt(case, verdict, candidates[0])

    def release_all(self, cases: Sequence[Case]) -> None:
        """Record that no launch that is shown was sent by its campaign."""
        for case in map(self._word.keep_meant, cases):
            for group in case.groups:
                self._dismiss_group(case, group)
            for verdict in case.verdicts:
                if verdict.match is None:
                    self._release(case, verdict)

    def list_left(self, cases: Sequence[Case]) -> list[Case]:
        """Return what is still open."""
        left = []
        for case in cases:
            self._read_groups(case)
            unsettled = self._custody.list_unsettled_keys(case.campaign)
            case.verdicts = [verdict for verdict in case.verdicts if verdict.launch.key in unsettled]
            left += [case] if case.is_open else []
        return left

    def _adopt(self, case: Case, verdict: Verdict, candidate: Candidate) -> None:
        launch, guid = verdict.launch, candidate.stat.project_launch_guid
        at = write_moment(candidate.stat.project_launch_start, utc_now())
        # Where the service doesn't say of all whom it has reached, everybody counts as reached.
        others = frozenset() if candidate.stat.is_whole else launch.recipients
        reached = candidate.recipients | others
        with self._ledger.writing() as connection:
            adopt_in_part(connection, case.campaign.name, launch, guid, at, reached)
        self._say(case, f"{launch.key} ({count_words(len(reached), 'recipient')}) was sent")

    def _release(self, case: Case, verdict: Verdict) -> None:
        launch = verdict.launch
        if verdict.match is not None:
            guid = verdict.match.stat.project_launch_guid
            raise RunnerError(
                f"{launch.key} was sent: the service lists the same text to the same recipients as {guid}",
                hint=f"record it with: runner resolve --launch {launch.key} --adopt {guid}",
            )
        with self._ledger.writing() as connection:
            release_launch(connection, launch.id, utc_now(), _SAID)
        self._say(case, f"{launch.key} ({count_words(len(launch.recipients), 'recipient')}) was not sent")

    def _adopt_group(self, case: Case, group: UnexplainedGroup) -> None:
        message = choose_message(group, self._word.message)
        record = self._custody.record_of(case.campaign)
        adopt_unexplained(self._custody.inquiry.describe(case.campaign, record), message, group.launches)
        self._say(
            case, f"{describe_group(group)} were the message {message!r}", is_one=len(group.launches) == 1
        )

    def _dismiss_group(self, case: Case, group: UnexplainedGroup) -> None:
        campaign_id, _ = self._custody.record_of(case.campaign).require_entered()
        dismiss_unexplained(self._ledger, campaign_id, group.launches)
        words = f"{describe_group(group)} were not sent by this campaign"
        self._say(case, words, is_one=len(group.launches) == 1)

    def _say(self, case: Case, words: str, *, is_one: bool = False) -> None:
        self._custody.rewrite_lockfile(case.campaign)
        if not self._quiet:
            note(f"Recorded: {words.replace(' were ', ' was ') if is_one else words}.")


_Found = TypeVar("_Found", bound=tuple[Any, ...])


def _choose(found: Sequence[_Found], otherwise: str) -> _Found:
    """Return the one that is meant.

    Raises:
        UsageError: there are several.
        RunnerError: there is none.
    """
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(verdict.launch.key for _, verdict, *_ in found)
        raise UsageError(
            "there are several launches of unknown outcome", hint=f"name one with --launch: {keys}"
        )
    raise RunnerError(f"{otherwise} the launches of unknown outcome", hint="`runner resolve` lists them")


def _ask(cases: Sequence[Case], word: _Word, *, is_approved: bool) -> None:
    """Say what settling all launches would do, and ask."""
    meant = [word.keep_meant(case) for case in cases]
    groups = [group for case in meant for group in case.groups]
    verdicts = [verdict for case in meant for verdict in case.verdicts]
    launches = sum(len(group.launches) for group in groups) + len(verdicts)
    people = sum(len(group.people) for group in groups) + sum(len(one.launch.recipients) for one in verdicts)
    if not launches:
        raise RunnerError("there is nothing to resolve", hint="`runner resolve` lists what there is")
    what = f"{count_words(launches, 'launch', 'launches')} that reached {count_words(people, 'recipient')}"
    question = (
        f"Record {what} as sent? They are not texted again."
        if word.adopt_all
        else f"Record that {what} were not sent by these campaigns? The next `runner apply` texts them."
    )
    require_approval(question, is_approved=is_approved)
