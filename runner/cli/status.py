"""`runner status`: what is known of each campaign, and what is not."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from runner.cli.campaigns import load_campaigns, show_path
from runner.cli.circumstances import CircumstanceReader
from runner.cli.console import count_words, markdown_table, note, print_json, print_table, warn
from runner.cli.diagnostics import human_lines, refuse_errors, show_problems
from runner.cli.gone import find_gone, say_gone
from runner.cli.inert import inert
from runner.cli.plan_text import column_words
from runner.cli.planning import list_texted, plan_campaign
from runner.cli.scope import Scope, format_option, target_scope
from runner.cli.unread import list_unread
from runner.cli.workspace import Workspace
from runner.errors import LedgerError, LockfileError, RunnerError
from runner.ledger.differences import read_differences
from runner.ledger.moment import format_moment
from runner.ledger.reconciled import count_answered, read_totals
from runner.ledger.record import find_campaign_id
from runner.ledger.report_model import MessageTotals, OpenDifferences, describe_difference, describe_parts
from runner.ledger.suppressions import Pause
from runner.ledger.unread_replies import UnreadReplies
from runner.plan.model import MessagePlan, PlanOptions
from runner.plan.texted import TextedPeople, concerns
from runner.reconcile.refusals import count_refusing
from runner.repository.git import GitError
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.recorded import Record

_NOT_KNOWN = "not known"
_SOMETIMES = ("deferred", "open_session", "no_rule")
"""Those who are not planned now, where there are any."""
_COLUMNS = ("planned", "sent", "queued", "active", "complete", "answered", "unresolved", "rejected")


@click.command(
    epilog="\b\nExamples:\n  runner status\n  runner status campaigns/customer-pulse.yaml --format json"
)
@target_scope
@format_option("human", "json", "markdown")
def command(scope: Scope, format_: str) -> int:
    """Show per campaign and message what is planned, sent, queued, active, complete, answered, unresolved.

    Reads only, and asks no service: sessions and answers are as last reconciled, and not known where some
    launch was not. What cannot be read or planned is shown as not known, too, with the reason on standard
    error, and the exit code is 1.
    """
    workspace = Workspace.open(scope)
    problems = Problems()
    loaded = load_campaigns(scope.paths, scope.allowed, problems)
    loaded.say_if_none(quiet=scope.quiet)
    if not loaded.campaigns:
        refuse_errors(problems, quiet=scope.quiet)
    show_problems(problems, quiet=scope.quiet)
    with ExitStack() as stack:
        reader = _Reader(workspace, verbose=scope.verbose)
        reader.open_ledger(stack)
        statuses = reader.find_statuses(loaded.campaigns)
        gone = reader.find_gone(scope, loaded.claimed)
    if format_ == "json":
        print_json({"campaigns": statuses, "gone": [campaign.name for campaign in gone]})
    elif statuses:
        _WRITERS[format_](statuses)
    if reader.unfilled and not scope.quiet:
        unfilled = ", ".join(reader.unfilled)
        note(f"The ledger lacks launches that a lockfile has: {unfilled}. `runner reconcile` brings them in.")
    if reader.unread and not scope.quiet:
        unread = ", ".join(reader.unread)
        note(
            f"A follow-up is due, and waits for answers to be read: {unread}. `runner reconcile` reads them."
        )
    return 1 if problems.error_count or reader.has_failed else 0


class _Reader:
    """Reads what is known of campaigns, and goes on with the rest where something cannot be read.

    Args:
        workspace: names the records.
        verbose: say why a campaign cannot be planned.

    Attributes:
        has_failed: whether something could not be read or planned.
        unread: the messages whose answers were not read since a follow-up to them became due.
        unfilled: the messages with launches that a lockfile has and the ledger lacks.
    """

    def __init__(self, workspace: Workspace, *, verbose: bool) -> None:
        self._workspace = workspace
        self._verbose = verbose
        self._ledger: Ledger | None = None
        self._is_ledger_readable = True
        self._texted: tuple[TextedPeople, ...] = ()
        self._records: list[tuple[Campaign, Record]] = []
        self._left: list[Campaign] = []
        self._pauses: dict[str, Pause | None] = {}
        self._waiting: dict[str, UnreadReplies] = {}
        self._reader: CircumstanceReader | None = None
        self.has_failed = False
        self.unread: list[str] = []
        self.unfilled: list[str] = []

    def open_ledger(self, stack: ExitStack) -> None:
        """Open the ledger until the stack is closed."""
        try:
            self._ledger = stack.enter_context(self._workspace.open_ledger_if_present())
        except LedgerError as error:
            self._give_up_ledger(error)

    def find_statuses(self, campaigns: Sequence[Campaign]) -> list[dict[str, Any]]:
        """Return what is known of campaigns; what isn't is None."""
        found = [(campaign, *self._read_safely(campaign)) for campaign in campaigns]
        self._records = [(campaign, record) for campaign, record, _ in found if record is not None]
        self._left = [campaign for campaign, record, _ in found if record is not None]
        return [self._find_status(*item) for item in found]

    def find_gone(self, scope: Scope, claimed: Collection[str]) -> list[Campaign]:
        """Return the campaigns whose files are gone, and name them."""
        # A state remote that cannot be read has been complained of already.
        with suppress(GitError):
            gone = find_gone(self._workspace, scope, self._ledger, claimed)
            say_gone(self._workspace, gone, quiet=scope.quiet)
            return gone
        return []

    def _read_safely(self, campaign: Campaign) -> tuple[Record | None, _Counts | None]:
        try:
            return self._read(campaign)
        except LedgerError as error:
            self._give_up_ledger(error)
            return self._read(campaign)

    def _find_status(
        self, campaign: Campaign, record: Record | None, counts: _Counts | None
    ) -> dict[str, Any]:
        planned = None
        lost = _find_lost(campaign, record, counts)
        if record is not None and counts is not None:
            planned = self._plan(campaign, record)
            self.unread += list_unread(campaign, planned or {})
        messages = [
            *(_count(message.id, message.tag, planned, record, counts) for message in campaign.messages),
            *(_count(message, None, planned, record, counts) for message in lost),
        ]
        if counts is not None:
            self.unfilled += [f"{campaign.name}/{one['id']}" for one in messages if one["launches"] is None]
        unread = self._waiting.get(campaign.name)
        return {
            "name": campaign.name,
            "file": show_path(campaign.file),
            "target": self._workspace.target.name,
            "pause": self._describe_pause(campaign),
            "unread_replies": None if unread is None else unread.as_json(),
            "messages": messages,
        }

    def _read(self, campaign: Campaign) -> tuple[Record | None, _Counts | None]:
        """Return what is on record and what the ledger counts; None for what is unclear."""
        record = counts = None
        try:
            record = self._workspace.read_record(self._ledger, campaign)
        except (LockfileError, GitError) as error:
            self._complain(error)
        if self._is_ledger_readable:
            # A record that is unclear has been complained of already.
            with suppress(LockfileError, GitError):
                counts = _read_counts(self._ledger, self._workspace.identify(campaign))
        return record, counts

    def _plan(self, campaign: Campaign, record: Record) -> dict[str, MessagePlan] | None:
        problems = Problems()
        per_send = self._workspace.target.recipients_per_send
        self._left = [each for each in self._left if each is not campaign]
        keeps_people = concerns(campaign, self._left)
        options = PlanOptions(recipients_per_send=per_send, keeps_people=keeps_people)
        try:
            if self._reader is None:
                self._reader = CircumstanceReader(self._workspace, self._ledger, self._workspace.now())
                self._reader.note_records(self._records)
            circumstances = self._reader.read(campaign, self._texted)
        except RunnerError as error:
            self._complain(error)
            return None
        item = plan_campaign(self._workspace, campaign, record, options, circumstances, problems)
        if item is not None:
            self._pauses[campaign.name] = item.plan.pause
            if item.plan.unread is not None and item.plan.waiting_for_replies:
                self._waiting[campaign.name] = item.plan.unread
            self._texted += tuple(list_texted(item))
            return {message.id: message for message in item.plan.messages}
        self.has_failed = True
        errors = count_words(problems.error_count, "error")
        warn(f"{campaign.name} cannot be planned: {errors}, see `runner validate`")
        for line in human_lines(problems) if self._verbose else ():
            note(line)
        return None

    def _describe_pause(self, campaign: Campaign) -> dict[str, str] | None:
        pause = self._pauses.get(campaign.name)
        return None if pause is None else asdict(pause)

    def _give_up_ledger(self, error: LedgerError) -> None:
        self._complain(error)
        note("What the lockfiles say is shown; what only the ledger knows is shown as not known.")
        self._ledger, self._is_ledger_readable, self._reader = None, False, None

    def _complain(self, error: RunnerError) -> None:
        self.has_failed = True
        warn(error.message)
        if error.hint:
            note(f"  {error.hint}")


@dataclass(frozen=True, slots=True)
class _Counts:
    """What the ledger counts of one campaign, by message id."""

    totals: dict[str, MessageTotals] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)
    differences: dict[str, OpenDifferences] = field(default_factory=dict)


def _read_counts(ledger: Ledger | None, identity: Identity) -> _Counts:
    campaign_id = None if ledger is None else find_campaign_id(ledger, identity)
    if ledger is None or campaign_id is None:
        return _Counts()
    with ledger.reading() as connection:
        return _Counts(
            read_totals(connection, campaign_id, identity.message_ids),
            count_answered(connection, campaign_id, identity.message_ids)
            # A reply that opts out is no answer, here as in reports.
            - count_refusing(connection, campaign_id, identity.message_ids),
            read_differences(connection, campaign_id, identity.message_ids),
        )


def _find_lost(campaign: Campaign, record: Record | None, counts: _Counts | None) -> list[str]:
    """Return the messages that somebody got, or may have got, and that the campaign no longer has."""
    known = record.known.messages if record is not None else set[str]()
    if counts is not None:
        known |= {message for message, totals in counts.totals.items() if totals.sent or totals.unresolved}
    return sorted(known - {message.id for message in campaign.messages})


def _count(
    message: str,
    tag: str | None,
    planned: dict[str, MessagePlan] | None,
    record: Record | None,
    counts: _Counts | None,
) -> dict[str, Any]:
    plan = None if planned is None else planned.get(message, MessagePlan(message, ""))
    totals = None if counts is None else counts.totals.get(message, MessageTotals(message))
    if record is not None and totals is not None and len(record.known.sent.get(message, ())) > totals.sent:
        # A lockfile knows of launches that the ledger lacks: its counts are no totals.
        totals = None
    sent, unresolved = totals and totals.sent, totals and totals.unresolved
    if record is not None:
        # Both as of one moment, whatever a run does meanwhile; only the ledger knows what is unresolved.
        sent = len(record.known.sent.get(message, ()))
        unresolved = totals and len(record.known.unresolved.get(message, ()))
    answered = differences = None
    parts = {} if totals is None else dict(totals.partly_known)
    if counts is not None and totals is not None:
        read = counts.answered.get(message, 0)
        differences = counts.differences.get(message, OpenDifferences(0, 0, ()))
        answered = None if totals.unread or differences.hidden else read
        if not differences.hidden and (part := totals.know_in_part(read)):
            parts["answered"] = part
    return {
        "id": message,
        "tag": tag,
        "planned": None if plan is None else plan.to_send,
        "deferred": None if plan is None else plan.deferred,
        "open_session": None if plan is None else plan.open_session,
        "no_rule": None if plan is None else plan.no_rule,
        "next_due": format_moment(plan.next_due) if plan is not None and plan.next_due else None,
        "sent": sent,
        "queued": totals and totals.queued,
        "active": totals and totals.active,
        "complete": totals and totals.complete,
        "answered": answered,
        "unresolved": unresolved,
        "rejected": totals and totals.rejected,
        "reconciled_at": totals and totals.reconciled_at,
        "launches": totals and totals.launches,
        "reconciled_launches": totals and totals.reconciled,
        "partly_known": describe_parts({name: part for name, part in parts.items() if name in _COLUMNS}),
        "differing_launches": differences and differences.waiting,
        "accepted_launches": differences and differences.accepted,
        "differences": [describe_difference(one) for one in differences.first] if differences else [],
    }


def _choose_columns(statuses: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    messages = [message for status in statuses for message in status["messages"]]
    shown = [column for column in _SOMETIMES if any(message[column] for message in messages)]
    return (_COLUMNS[0], *shown, *_COLUMNS[1:])


def _name_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    return ("campaign", "message", *map(column_words, columns))


def _rows(statuses: Sequence[dict[str, Any]], columns: tuple[str, ...]) -> list[list[str | int]]:
    return [
        [status["name"], message["id"], *(_NOT_KNOWN if message[c] is None else message[c] for c in columns)]
        for status in statuses
        for message in status["messages"]
    ]


def _write_human(statuses: Sequence[dict[str, Any]]) -> None:
    click.secho(f"Target: {statuses[0]['target']}", bold=True)
    columns = _choose_columns(statuses)
    print_table(_name_columns(columns), _rows(statuses, columns))
    for status in statuses:
        for message in status["messages"]:
            if message["next_due"]:
                due = _write_minute(message["next_due"])
                click.echo(f"{status['name']}/{message['id']}: the first of those deferred is due at {due}.")
    for line in _list_remarks(statuses):
        click.echo(line)


def _list_remarks(statuses: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what is known of some launches alone, and what does not add up, each as a line."""
    stale = []
    for status in statuses:
        if status["pause"] is not None:
            yield f"{status['name']} is {Pause(**status['pause']).describe()}."
        if status["unread_replies"] is not None:
            yield f"{status['name']} waits: {UnreadReplies.from_json(status['unread_replies']).reason}."
        for message in status["messages"]:
            name = f"{status['name']}/{message['id']}"
            if message["launches"] and not message["reconciled_launches"]:
                stale.append(name)
            elif message["launches"] != message["reconciled_launches"] or message["partly_known"]:
                yield f"{name}: {_describe_part(message)}"
            if message["differing_launches"]:
                first = message["differences"][0]
                yield (
                    f"{name}: the service contradicts itself about the answers to "
                    f"{count_words(message['differing_launches'], 'launch', 'launches')}, since "
                    f"{_write_minute(first['since'])}, first {first['project_launch_guid']}; follow-ups "
                    "that go by answers wait. `runner reconcile` says more."
                )
    if stale:
        yield f"Not reconciled since the send: {', '.join(stale)}. `runner reconcile` reads what came in."


def _describe_part(message: dict[str, Any]) -> str:
    """Return what is known of some launches of a message: `reconciled at …, 60 of 61 launches`."""
    launches = f"{message['launches']:,} launches"
    text = (
        f"reconciled at {_write_minute(message['reconciled_at'])}, "
        f"{message['reconciled_launches']:,} of {launches}"
    )
    parts = [
        f"{part['name']} {part['count']:,} in {part['launches']:,} of {launches}"
        for part in message["partly_known"]
    ]
    return f"{text}; {', '.join(parts)}." if parts else f"{text}."


def _write_minute(moment: str) -> str:
    return f"{moment[:16].replace('T', ' ')} UTC"


def _write_markdown(statuses: Sequence[dict[str, Any]]) -> None:
    columns = _choose_columns(statuses)
    click.echo(markdown_table(_name_columns(columns), _rows(statuses, columns)), nl=False)
    for line in _list_remarks(statuses):
        click.echo(f"\n{inert(line)}")


_WRITERS = {"human": _write_human, "markdown": _write_markdown}
