"""What a report is made of: the campaign's outline, and what the ledger says was sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from runner.ledger.report_model import (
        AudienceRow,
        MessageTotals,
        OpenDifferences,
        RunRow,
        SentRow,
        ServicePlan,
    )

Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
"""How a question's answers are read; the names of the campaign file."""


@dataclass(frozen=True, slots=True)
class QuestionOutline:
    """One question as the campaign asks it.

    Attributes:
        tag: what its results are known by (`question_tag`).
        text: what is asked.
        responses: the answers to choose from, worst or lowest first; empty for a freeform question.
        scale: how its answers are read.
        conclude_on: the answer that ends the survey early (wire facts, send body); None for no such answer.
    """

    tag: str
    text: str
    responses: tuple[str, ...] = ()
    scale: Scale = "choice"
    conclude_on: str | None = None


@dataclass(frozen=True, slots=True)
class WayOutline:
    """One way in which a message goes out: as an arm of the experiment sends it, or the only one.

    Attributes:
        arm: the arm's id; empty for a message without arms.
        questions: in the order in which they are asked; none for a plain text.
        introduces: whether something is rendered before the first question.
        concludes: whether something is rendered after the last answer.
    """

    arm: str
    questions: tuple[QuestionOutline, ...]
    introduces: bool = False
    concludes: bool = False

    @property
    def renders_min(self) -> int:
        """Renders for a recipient who answers nothing."""
        return int(self.introduces) + 1

    @property
    def renders_max(self) -> int:
        """Renders for a recipient who answers every question validly at once."""
        return int(self.introduces) + max(len(self.questions), 1) + int(self.concludes)


@dataclass(frozen=True, slots=True)
class AnalysisPlan:
    """When the verdict on an experiment is taken; with neither, at every look, by a test that allows that.

    Attributes:
        at: the day, UTC: people asked, and answers, before it count.
        per_arm: people asked in each arm, from which the day follows.
    """

    at: date | None = None
    per_arm: int | None = None


@dataclass(frozen=True, slots=True)
class MessageOutline:
    """One message as the campaign sends it; a plain text has no questions.

    Attributes:
        id: the message's id.
        tag: its project tag.
        questions: of all ways in which it goes out, each tag once.
        ways: none given stands for one without introduction and conclusion.
        analysis: of the experiment, if there is one.
    """

    id: str
    tag: str
    questions: tuple[QuestionOutline, ...] = ()
    ways: tuple[WayOutline, ...] = ()
    analysis: AnalysisPlan = AnalysisPlan()

    @property
    def all_ways(self) -> tuple[WayOutline, ...]:
        """The ways in which it goes out, one at least."""
        return self.ways or (WayOutline("", self.questions),)


@dataclass(frozen=True, slots=True)
class ScoreOutline:
    """The question whose score is the campaign's.

    Attributes:
        question: as the first of the messages asks it.
        messages: the ids of those that ask it.
    """

    question: QuestionOutline
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OptOutFacts:
    """Opt-outs that a message met with.

    Attributes:
        replied: results that opt out.
        reported: opt-outs that are no results: the service itself says that they ended sessions.
    """

    replied: int = 0
    reported: int = 0


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """How the sessions of a message stand, as the service lists them one by one.

    Attributes:
        listed: sessions.
        ended: of people without any result, whose session has ended, and not by an opt-out.
        stopped: of people without any result, whose session an opt-out ended, or kept from beginning.
        open: of people without any result, sessions that are queued or active, or of no known status.
        refused: people whose only results opt out.
        blocked: of `listed`, those that an earlier opt-out kept from beginning: nothing was rendered.
    """

    listed: int = 0
    ended: int = 0
    stopped: int = 0
    open: int = 0
    refused: int = 0
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """A campaign, where it was sent, and what became of each of its messages.

    Attributes:
        name: the campaign's name.
        target: the name of the target that it was sent through.
        messages: each message with its totals, in the order of the campaign.
        sent: recipients by day and way.
        audiences: by message id; none for messages that no `apply` has planned.
        opt_outs: by message id.
        sessions: by message id; none for messages whose sessions the service never listed.
        forgotten: people whom the service may still count, and the ledger does not.
        price: None when the service was never asked.
        runs: those that sent it, as far as that is known, the earliest first.
        differences: by message id, launches about whose answers the service contradicts itself.
        score: the question whose score is the campaign's; None for none.
    """

    name: str
    target: str
    messages: tuple[tuple[MessageOutline, MessageTotals], ...]
    sent: tuple[SentRow, ...] = ()
    audiences: Mapping[str, AudienceRow] = field(default_factory=dict)
    opt_outs: Mapping[str, OptOutFacts] = field(default_factory=dict)
    sessions: Mapping[str, SessionFacts] = field(default_factory=dict)
    forgotten: int = 0
    price: ServicePlan | None = None
    runs: tuple[RunRow, ...] = ()
    differences: Mapping[str, OpenDifferences] = field(default_factory=dict)
    score: ScoreOutline | None = None
