"""Writes what the merged pull request is told: what was sent since, and what was not, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.cli.alert_text import write_page, write_resolving
from runner.cli.comment_text import CommentText, Piece, write_table
from runner.cli.console import count_words
from runner.cli.inert import inert
from runner.ledger.sendings import SentCount
from runner.plan.model import MessagePlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.cli.alert_text import Place
    from runner.cli.planning import Planned

_MOST_ROWS = 100


@dataclass(frozen=True, slots=True)
class Sending:
    """What became of one campaign.

    Attributes:
        planned: what is left to send, and to whom not.
        sent: what was sent, by message id.
    """

    planned: Planned
    sent: Mapping[str, SentCount] = field(default_factory=dict)

    def list_rows(self) -> Iterator[_Row]:
        """Yield a row a message; those that the campaign no longer has stand last."""
        plan = self.planned.plan
        plans = {message.id: message for message in plan.messages}
        for name in (*plans, *sorted(self.sent.keys() - plans.keys())):
            yield _Row(
                plan.campaign.name,
                name,
                plans.get(name) or MessagePlan(name, ""),
                self.sent.get(name) or SentCount(),
            )


@dataclass(frozen=True, slots=True)
class _Row:
    campaign: str
    message: str
    plan: MessagePlan
    sent: SentCount

    @property
    def cells(self) -> dict[str, str | int]:
        due = self.plan.next_due
        return {
            "campaign": self.campaign,
            "message": self.message,
            "texted": self.sent.recipients,
            "launches": self.sent.launches,
            "texted before": self.sent.before,
            "deferred": self.plan.deferred,
            "the first due": "" if due is None else f"{due:%Y-%m-%d %H:%M} UTC",
            "held": self.plan.unresolved,
            "refused": self.sent.rejected,
            "still to send": self.plan.to_send,
        }


_ALWAYS = ("campaign", "message", "texted", "launches")


def write_merged_text(
    target: str,
    sendings: Sequence[Sending],
    merged_at: str | None,
    left_out: str,
    place: Place,
    approvers: Sequence[str] = (),
) -> CommentText:
    """Return what was sent since a pull request was merged.

    Args:
        target: the target's name.
        sendings: the campaigns that could be planned.
        merged_at: when that was; UTC, ISO 8601. None if it isn't known: then all counts as sent since.
        left_out: a table of the campaigns that could not be planned; Markdown, empty if all could.
        place: where it is read.
        approvers: the names of those who approved what was sent, as far as is on record.
    """
    rows = [row for sending in sendings for row in sending.list_rows()]
    head = f"### Campaigns sent → {inert(target)}\n\n"
    when = f"Since this was merged ({merged_at[:16].replace('T', ' ')} UTC): " if merged_at else ""
    head += f"{when}**{_count(rows)}**\n"
    pieces = [Piece("Messages", _write_rows(rows), is_open=True)] if rows else []
    pieces += [Piece("Left out", left_out, is_open=True)] if left_out else []
    if any(row.plan.unresolved for row in rows):
        pieces.append(Piece("People are held", _write_held(target, place), is_open=True))
    if any(row.sent.rejected for row in rows):
        pieces.append(Piece("Refused", _REFUSED, is_open=True))
    return CommentText(head, tuple(pieces), _write_tail(place, approvers))


_REFUSED = (
    "#### Refused\n\nThe service refused these texts, and nobody got them: the run's log says why. "
    "The next plan has them again."
)


def _write_held(target: str, place: Place) -> str:
    return (
        "#### People are held\n\nThey may have got a message, and are not texted until a person says what "
        f"became of it.\n\n{write_resolving(target, place)}"
    )


def _count(rows: Sequence[_Row]) -> str:
    texts = count_words(sum(row.sent.recipients for row in rows), "text")
    launches = count_words(sum(row.sent.launches for row in rows), "launch", "launches")
    others = {
        "deferred": sum(row.plan.deferred for row in rows),
        "held": sum(row.plan.unresolved for row in rows),
        "refused": sum(row.sent.rejected for row in rows),
        "still to send": sum(row.plan.to_send for row in rows),
    }
    left = [f"{count:,} {name}" for name, count in others.items() if count]
    return " · ".join([f"{texts} sent in {launches}", *left])


def _write_rows(rows: Sequence[_Row]) -> str:
    cells = [row.cells for row in rows]
    columns = [name for name in cells[0] if name in _ALWAYS or any(one[name] for one in cells)]
    more = f"\n… and {len(rows) - _MOST_ROWS:,} more\n" if len(rows) > _MOST_ROWS else ""
    return write_table(columns, [[one[name] for name in columns] for one in cells[:_MOST_ROWS]]) + more


def _write_tail(place: Place, approvers: Sequence[str]) -> str:
    run = write_page("the last run", place.run_url)
    words = [
        *([f"As of {run}"] if run else []),
        *([f"approved by {', '.join(map(inert, approvers))}"] if approvers else []),
    ]
    text = ", ".join(words)
    return f"<sub>{text[:1].upper()}{text[1:]}.</sub>" if text else ""
