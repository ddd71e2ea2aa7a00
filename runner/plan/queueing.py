"""Keeps messages out of the service's own queue, from which nothing can call them back.

What is sent to a person with an open survey waits at the service until that has ended. It leaves then: at any
hour, after `expires`, after an opt-out. So a campaign waits instead, unless it says otherwise
(`policy.open_session`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan.assignment import Assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.campaign.model import Campaign, Message
    from runner.ledger.open_sessions import OpenSession
    from runner.plan.track import Track

    FindSession = Callable[[str], OpenSession | None]

ENDS = "they lose a survey that they have not ended: this goes with `complete_existing_sessions: true`"
"""The remark about those whose open survey a message ends."""
QUEUES = (
    "`open_session: queue`: this waits at the service until an open survey of theirs has ended, and leaves "
    "then, at any hour, after `expires`, after an opt-out: nothing can call it back"
)
"""The remark about those to whom a message is sent that queues."""
SAME_RUN = "another message goes to them in this run, and one of the two is a survey: a later run sends"
"""The reason for which the second message of a run waits."""
IN_ORDER = "an earlier message of the campaign waits for a later run, and this one comes after it"
"""The reason for which those after the second one wait, too."""


class QueueRule:
    """Decides what becomes of messages that would queue.

    Args:
        campaign: the campaign.
        find_session: returns what holds a person, by phone; None if nothing holds anybody.
    """

    def __init__(self, campaign: Campaign, find_session: FindSession | None) -> None:
        self._names = {campaign.name, *campaign.renamed_from}
        self._lets_queue = campaign.policy.open_session == "queue"
        self._find_session = find_session

    def keep_apart(
        self, found: list[Assignment], phone: str, find_message: Callable[[Assignment], Message]
    ) -> list[Assignment]:
        """Return what a recipient gets, less what would queue.

        Of several messages to one person in a run the first goes alone if one of them asks something: behind
        a survey even a plain text would queue. Those after one that waits for this wait with it: people get
        messages in the order of the file.

        Args:
            found: what they get of every message.
            phone: E.164.
            find_message: returns the message of one of these, as it is sent to them.
        """
        if not any(assignment.counts for assignment in found):
            return found
        session = self._find_session(phone) if self._find_session is not None else None
        kept: list[Assignment] = []
        sent: list[Message] = []
        for assignment in found:
            if assignment.counts:
                message = find_message(assignment)
                is_next = session is not None or all(one.disposition != "open_session" for one in kept)
                kept.append(
                    self._resolve(assignment, message, session, sent)
                    if is_next
                    else _hold(assignment, IN_ORDER)
                )
                sent += [message] if kept[-1].counts else []
            else:
                kept.append(assignment)
        return kept

    def _resolve(
        self, assignment: Assignment, message: Message, session: OpenSession | None, sent: list[Message]
    ) -> Assignment:
        meets = bool(sent) and any(one.questions for one in (*sent, message))
        if session is None and not meets:
            return assignment
        if message.complete_existing_sessions:
            # That it ends the survey that it comes after is what such a follow-up is for.
            is_meant = message.after is not None and (session is None or session.campaign in self._names)
            return assignment if is_meant else _remark(assignment, ENDS)
        if self._lets_queue:
            return _remark(assignment, QUEUES)._replace(may_queue=True)
        return _hold(assignment, SAME_RUN if session is None else _explain(session))


def may_meet(tracks: Sequence[Track]) -> bool:
    """Return whether one run may send somebody a survey and another message."""
    sent = [renderer.message for track in tracks for renderer in track.renderers.values()]
    return len(tracks) > 1 and any(message.questions for message in sent)


def _hold(assignment: Assignment, reason: str) -> Assignment:
    payload = assignment.payload
    largest = payload.largest if payload is not None else 0
    return Assignment(
        assignment.message,
        "open_session",
        arm=assignment.arm,
        reasons=(reason,),
        largest=largest,
        coming=payload,
    )


def _remark(assignment: Assignment, remark: str) -> Assignment:
    return assignment._replace(reasons=(*assignment.reasons, remark))


def _explain(session: OpenSession) -> str:
    if session.state == "planned":
        return f"`{session.campaign}` sends them a survey in this run: this waits until that has ended"
    if session.state == "read":
        return (
            f"they have an open survey of `{session.campaign}`, as last read: this goes out once `runner "
            "reconcile` finds that it has ended; `open_session` in `policy` can end it instead"
        )
    return (
        f"`{session.campaign}` has sent them a survey, and whether it has ended was not read yet: run "
        "`runner reconcile` first"
    )
