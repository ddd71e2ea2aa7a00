"""The issue of a target's undecided replies, with masked phones and instructions."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.audience.audience import AudienceTally, iterate_audience
from runner.audience.phone import mask_phone
from runner.github.comments import Report, write_marker
from runner.optout.reply import classify
from runner.source.diagnostic import Problems
from runner.wording import Markdown, count_words, inert
from runner.workflow.campaigns import load_campaigns
from runner.workflow.records.opt_outs import read_view, reading_filled
from runner.workflow.review.publishing import (
    MOST_ROWS,
    CommentText,
    IssuePlace,
    Piece,
    fit_body,
    keep_issue,
    publish,
    say_workflow,
    write_page,
    write_table,
)
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.people.replies import ReplyText, WaitingReply
    from runner.workflow.records.opt_outs import OptOutView
    from runner.workflow.scope import Scope

_MOST_REMEMBERED = 200
_NAME_LENGTH = 8
_HIDDEN_UNITS = 8_000
"""Space in an issue's body for its marker and state."""
_LONGEST_REPLY = 80
_UNKNOWN = "not known"
_PLAIN_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_ADDRESS = re.compile(r"\S*@\S+|(?:https?://|www\.)\S+|\S+\.[a-z]{2,}/\S*", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_SAID = {
    "opened": "Issue of replies opened: {url}",
    "updated": "Issue of replies edited: {url}",
    "unchanged": "Issue of replies unchanged: {url}",
    "closed": "Issue of replies closed, none waits: {url}",
    "duplicate": "Another job has opened the issue of replies at the same time: {url}",
    "left closed": "Somebody has closed the issue of replies, and no other has come since: {url}",
    "nothing": "No reply waits for a decision: there is no issue",
}


@dataclass(frozen=True, slots=True)
class ReplyQueue:
    """The undecided replies of a target.

    `phones` are masked, by fingerprint, and only those found in audiences; `shows_words` includes the
    replies' texts.
    """

    view: OptOutView
    phones: Mapping[str, str] = field(default_factory=dict)
    shows_words: bool = False

    @property
    def replies(self) -> tuple[WaitingReply, ...]:
        """All undecided replies."""
        return (*self.view.waiting, *self.view.returning)

    def find_text(self, reply: WaitingReply) -> ReplyText | None:
        """Return a reply's text and question; None if the ledger lacks them."""
        return (self.view.texts or {}).get(reply.result_guid)


def keep_reply_issue(scope: Scope, *, shows_words: bool) -> None:
    """Open, edit or close the issue; without a forge, write to the job's summary or standard output.

    `shows_words` includes the replies' texts.
    """
    workspace = Workspace.open(scope)
    target = workspace.target
    with reading_filled(workspace) as connection:
        view = read_view(connection, target.name, with_texts=True)
    campaigns = load_campaigns(scope.paths, scope.allowed, Problems()).campaigns if view.texts else ()
    _keep(
        ReplyQueue(view, _find_phones(view, workspace.key, campaigns), shows_words=shows_words),
        quiet=scope.quiet,
    )


def _find_phones(view: OptOutView, key: TargetKey, campaigns: Iterable[Campaign]) -> dict[str, str]:
    """Return masked phones, by fingerprint, of undecided replies' authors found in audiences."""
    wanted = {one.author for one in (*view.waiting, *view.returning)}
    names = {text.campaign for text in (view.texts or {}).values()}
    found: dict[str, str] = {}
    for campaign in campaigns:
        if names.isdisjoint((campaign.name, *campaign.renamed_from)):
            continue
        for recipient in iterate_audience(campaign, frozenset(), Problems(), AudienceTally()):
            fingerprint = key.fingerprint(recipient.phone)
            if fingerprint in wanted:
                found[fingerprint] = mask_phone(recipient.phone)
                if len(found) == len(wanted):
                    return found
    return found


def _keep(queue: ReplyQueue, *, quiet: bool) -> None:
    target = queue.view.target
    text = _write(queue, IssuePlace.find(os.environ, None))

    def compose(state: Mapping[str, Any]) -> Report:
        before = state.get("replies")
        known = frozenset(one for one in before if isinstance(one, str)) if isinstance(before, list) else ()
        names = [one.result_guid[:_NAME_LENGTH] for one in queue.replies[:_MOST_REMEMBERED]]
        return Report(
            title=f"Replies on {target} wait for a decision",
            text=fit_body(text, _HIDDEN_UNITS)[0],
            state={"replies": names},
            is_trouble=bool(queue.replies),
            news=_write_news(sum(name not in known for name in names), is_first=not known),
            farewell="No reply waits for a decision any more.\n",
        )

    marker = write_marker(target, name_folder(), kind="replies")
    publish("issue", lambda: text, lambda: keep_issue(marker, compose, _SAID, quiet=quiet))


def _write_news(count: int, *, is_first: bool) -> str:
    if not count:
        return ""
    more = "" if is_first else "more "
    replies = count_words(count, f"{more}reply waits", f"{more}replies wait")
    return f"**{replies} for a decision**, as stands above.\n"


def _write(queue: ReplyQueue, place: IssuePlace) -> CommentText:
    target = inert(queue.view.target)
    run = write_page("this run", place.run_url)
    seen = f" Last looked at by {run}." if run else ""
    tail = f"<sub>Kept up to date by `runner optouts issue`, which closes it when none waits.{seen}</sub>"
    if not queue.replies:
        return CommentText(f"### Replies → {target}\n\nNo reply waits for a decision.\n", (), tail)
    head = f"### Replies → {target}: a decision is needed\n\n"
    pieces = [Piece("How to decide", _write_advice(queue, place), is_open=True)]
    waiting, returning = queue.view.waiting, queue.view.returning
    if waiting:
        words = count_words(len(waiting), "reply sounds", "replies sound")
        head += f"- **{words} like an opt-out**: nobody who wrote so is texted until a person decides\n"
        body = f"#### Do they opt out?\n\n{_write_replies(queue, waiting)}"
        pieces.append(Piece("Do they opt out?", body, is_open=True))
    if returning:
        words = count_words(len(returning), "reply asks", "replies ask")
        head += f"- **{words} for texts again**: nobody who wrote so is texted until a person lets them in\n"
        body = f"#### Are they let in again?\n\n{_write_replies(queue, returning)}"
        pieces.append(Piece("Are they let in again?", body, is_open=True))
    return CommentText(head, tuple(pieces), tail)


def _write_replies(queue: ReplyQueue, replies: Sequence[WaitingReply]) -> str:
    header = ["reply", "campaign", "message", "phone", "read as", "found"]
    rows = [_write_row(queue, one) for one in replies]
    return write_table([*header, "what it says"] if queue.shows_words else header, rows, MOST_ROWS)


def _write_row(queue: ReplyQueue, reply: WaitingReply) -> list[str]:
    guid = reply.result_guid
    # As code, where digits like a phone's are not masked, and the id can be copied.
    name = Markdown(f"`{guid}`") if _PLAIN_ID.fullmatch(guid) else guid
    phone = queue.phones.get(reply.author, _UNKNOWN)
    text = queue.find_text(reply)
    row = [name, *([_UNKNOWN] * 2 if text is None else [text.campaign, text.message]), phone]
    row += [_UNKNOWN if text is None else classify(text.text).rule or _UNKNOWN, reply.at[:10]]
    if queue.shows_words:
        row.append(_UNKNOWN if text is None else _hide_personal(text.text))
    return row


def _hide_personal(text: str) -> str:
    """Return the beginning of a personal text, without digits and addresses."""
    shown = _DIGIT.sub("•", _ADDRESS.sub("•••", text))
    return shown if len(shown) <= _LONGEST_REPLY else f"{shown[: _LONGEST_REPLY - 1]}…"


def _write_advice(queue: ReplyQueue, place: IssuePlace) -> str:
    target = queue.view.target
    ids = "as below; several with blanks between"
    confirm, dismiss = Markdown("`confirm`"), Markdown("`dismiss`")
    table = write_table(
        ("if", "action", "replies"),
        [
            ("a reply opts out", confirm, ids),
            ("a reply is an answer, and no opt-out", dismiss, ids),
            ("the author of one that asks for texts again is let in", confirm, ids),
            ("the author of one that asks for texts again stays out", dismiss, ids),
        ],
    )
    commands = (
        "runner record --fetch",
        f"runner reconcile --target {target}",
        f"runner optouts review --target {target}",
        "runner record",
    )
    fenced = "\n".join(("```sh", *commands, "```"))
    words = "Digits and addresses in them are masked." if queue.shows_words else _NOT_SHOWN
    return (
        f"#### How to decide\n\nDecide {say_workflow(place)}\n\n{table}\n"
        f"Or in a clone, by one key each:\n\n{fenced}\n\n{words}\n"
    )


_NOT_SHOWN = (
    "What they say is not shown to everybody who may read this issue: a review shows it, and so does this "
    "issue where the repository's variable `CAMPAIGNS_REPLIES` is `true`, with digits and addresses masked."
)
