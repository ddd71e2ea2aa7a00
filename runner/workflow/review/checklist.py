"""The checklist of a target's issue: what a person must do, which of it is new, and how it is done."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from runner.github.comments import Count, convert
from runner.optout.reply import classify
from runner.wording import Markdown, count_words, escape_markdown, write_table
from runner.workflow.review.publishing import (
    MOST_ROWS,
    CommentText,
    IssuePlace,
    Piece,
    say_workflow,
    write_page,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.ledger.people.replies import ListedReply
    from runner.ledger.people.rollout import StoppedCampaign
    from runner.ledger.record.unsettled import HeldCount


Outcome = Literal["success", "failure", "cancelled"]
_MOST_JOBS = 20
_LONGEST_REASON = 500
_LONGEST_REPLY = 80
_UNKNOWN = "not known"
_PLAIN_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_ADDRESS = re.compile(r"\S*@\S+|(?:https?://|www\.)\S+|\S+\.[a-z]{2,}/\S*", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_ENDED = {"failure": "failed", "cancelled": "was cancelled, by a person or after its time limit"}
_ABOUT_TO_BE_SENT = "about to be sent, and no answer proves whether it was"
_UNEXPLAINED = "the service lists texts that no record explains"
_HELD = "they may have got a message, and are not texted until a person says"
_UNDECIDED = "their authors are not texted until a person decides"


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job without a success since.

    Attributes:
        run: the run's unique id.
        outcome: the job's result.
        url: the run's page; empty if unknown.
        later: a later run without a failure of the job, if known; else empty.
    """

    run: str
    outcome: Outcome
    url: str = ""
    later: str = ""


@dataclass(frozen=True, slots=True)
class Checklist:
    """The tasks that are left, from one job and those before it.

    Attributes:
        jobs: those that have failed, by their ids in the workflow; empty if unknown.
        held: the number of held people, over all messages.
        replies: the number of replies to decide.
        denied_by: the people who denied the plan.
        stopped: the reasons of campaigns that broken guards have paused.
    """

    jobs: dict[str, FailedJob] = field(default_factory=dict)
    held: Count = 0
    replies: Count = 0
    denied_by: tuple[str, ...] = ()
    stopped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Checklist:
        """Return the checklist that an earlier job left; an empty one if somebody has edited it."""
        return convert(data, cls) or cls()

    def as_json(self) -> dict[str, Any]:
        """Return the checklist for the next job."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class Sight:
    """The observations of one job.

    Attributes:
        target: the target's name.
        job: the job's id in its workflow.
        run: the run's unique id.
        outcome: the job's; None if it is not given.
        held: held recipients by campaign and message.
        held_gap: why there may be more, or empty.
        replies: undecided replies that may be opt-outs, and those that ask for texts again.
        replies_gap: why there may be more, or empty.
        stopped: campaigns that broken guards have paused; None if that is not known.
        shows_words: whether what they say is shown.
        denied_by: the people who denied the plan; None in jobs without one.
    """

    target: str
    job: str
    run: str
    outcome: Outcome | None
    held: tuple[HeldCount, ...] = ()
    held_gap: str = ""
    replies: tuple[ListedReply, ...] = ()
    replies_gap: str = ""
    stopped: tuple[StoppedCampaign, ...] | None = ()
    shows_words: bool = False
    denied_by: tuple[str, ...] | None = None

    @property
    def people_held(self) -> int:
        """The number held, over all messages."""
        return sum(count.recipients for count in self.held)


def update_checklist(before: Checklist, sight: Sight, url: str = "") -> Checklist:
    """Return what is left to do now; what is not known stays as it was. `url` is the run's page."""
    held, replies = sight.people_held, len(sight.replies)
    return Checklist(
        _update_jobs(before.jobs, sight, url),
        max(held, before.held) if sight.held_gap else held,
        max(replies, before.replies) if sight.replies_gap else replies,
        before.denied_by if sight.denied_by is None else sight.denied_by,
        before.stopped if sight.stopped is None else {one.name: one.reason for one in sight.stopped},
    )


def _update_jobs(jobs: Mapping[str, FailedJob], sight: Sight, url: str) -> dict[str, FailedJob]:
    """Return the jobs that count as failed.

    A job stops counting once it succeeds, or once a whole later run has passed without it, as skipped jobs
    had nothing to do.
    """
    if sight.outcome is None:
        return dict(jobs)
    left = {}
    for name, job in jobs.items():
        if name != sight.job and (job.run == sight.run or job.later in ("", sight.run)):
            later = job.later if job.run == sight.run else sight.run
            left[name] = FailedJob(job.run, job.outcome, job.url, later)
    if sight.outcome != "success":
        left[sight.job] = FailedJob(sight.run, sight.outcome, url)
    return dict(sorted(left.items())[:_MOST_JOBS])


class Item(NamedTuple):
    """An item of the checklist.

    Attributes:
        title: what is to do, for the issue's title.
        said: what is wrong, in Markdown; empty if nothing is.
        well: that nothing is wrong; empty if that is not worth a line.
        is_new: whether it is worse than before, so that people are notified.
        advice: what to do, in Markdown.
        gap: why it is not known whether there is more, or empty.
    """

    title: str
    said: str
    well: str
    is_new: bool
    advice: str = ""
    gap: str = ""

    @property
    def line(self) -> str:
        """The item as a task, done or not; empty if there is nothing to say."""
        task = f"- [ ] {self.said}\n" if self.said else f"- [x] {self.well}\n" if self.well else ""
        if not self.gap:
            return task
        unknown = f"- Not known here: whether {self.title} ({escape_markdown(self.gap[:_LONGEST_REASON])})\n"
        return f"{task if self.said else ''}{unknown}"


def list_items(before: Checklist, now: Checklist, sight: Sight, place: IssuePlace) -> list[Item]:
    """Return the items of the checklist, the ones that are done too."""
    names = ", ".join(map(escape_markdown, now.denied_by))
    denial = f"**The plan was denied by {names}:** nobody is asked about it again until it changes"
    held = count_words(now.held, "person is held", "people are held")
    replies = f"{count_words(now.replies, 'reply waits', 'replies wait')} for a decision"
    return [
        Item(
            "a run failed",
            "; ".join(_say_job(name, job) for name, job in now.jobs.items()),
            "" if sight.outcome is None else "No job has failed since.",
            bool(now.jobs and not before.jobs),
            f"{_FAILED}{say_workflow(place)} the action `send`.\n",
        ),
        Item(
            "people are held",
            _say_left(held, _HELD, now.held, sight.people_held),
            "Nobody is held.",
            now.held > before.held,
            _write_held(sight, place),
            sight.held_gap,
        ),
        Item(
            "replies wait for a decision",
            _say_left(replies, _UNDECIDED, now.replies, len(sight.replies)),
            "No reply waits for a decision.",
            now.replies > before.replies,
            _write_replies(sight, place),
            sight.replies_gap,
        ),
        Item(
            "a rollout stopped itself",
            "; ".join(f"**{escape_markdown(name)}** is paused" for name in now.stopped),
            "",
            bool(now.stopped.keys() - before.stopped.keys()),
            _write_stopped(now, sight, place),
        ),
        Item("a plan was denied", denial if names else "", "", bool(names and not before.denied_by)),
    ]


def write_title(target: str, items: Sequence[Item]) -> str:
    """Return the issue's title: what is wrong, without counts, so that it rarely changes."""
    return f"Campaigns on {target}: {', '.join(item.title for item in items if item.said) or 'all is well'}"


def write_checklist(target: str, items: Sequence[Item], place: IssuePlace) -> CommentText:
    """Return the issue's text."""
    run = write_page("this run", place.run_url)
    seen = f" Last looked at by {run}." if run else ""
    tail = f"<sub>Kept up to date by `runner ci alert`, which closes it when all is done.{seen}</sub>"
    left = [item for item in items if item.said]
    head = f"### Campaigns → {escape_markdown(target)}: {'action needed' if left else 'all is well'}\n\n"
    pieces = [
        Piece(item.title, f"#### {item.title.capitalize()}\n\n{item.advice}", is_open=True)
        for item in left
        if item.advice
    ]
    return CommentText(head + "".join(item.line for item in items), tuple(pieces), tail)


def write_news(items: Sequence[Item], place: IssuePlace) -> str:
    """Return the comment on what is worse, or on the end of it all; empty if nothing is worse."""
    if not any(item.said for item in items):
        run = write_page("The run", place.run_url)
        return f"All is well.{f' {run}.' if run else ''}\n"
    lines = [f"- {item.said}\n" for item in items if item.said and item.is_new]
    return f"{''.join(lines)}\nWhat to do stands above.\n" if lines else ""


_FAILED = (
    "Its summary and its log say why. The next run goes on where it ended, and nobody is texted twice. To "
    "start one now: "
)


def _say_job(name: str, job: FailedJob) -> str:
    run = write_page("its run", job.url)
    words = f"The job {escape_markdown(name)}" if name else "A job"
    return f"**{words} {_ENDED.get(job.outcome, 'failed')}**{f': {run}' if run else ''}"


def _write_held(sight: Sight, place: IssuePlace) -> str:
    header = ("campaign", "file", "message", "people", "why")
    rows = [
        (
            count.campaign,
            place.files.get(count.campaign, "not in these folders"),
            count.message,
            count.recipients,
            _ABOUT_TO_BE_SENT if count.is_explained else _UNEXPLAINED,
        )
        for count in sight.held
    ]
    table = write_table(header, rows, MOST_ROWS) if rows else ""
    return f"{table}\n{write_resolving(sight.target, place)}"


def write_resolving(target: str, place: IssuePlace) -> str:
    """Return instructions for resolving launches that may have reached people."""
    return (
        f"Say what became of these launches {say_workflow(place)} the campaign's file and `adopt-all` "
        "(they were sent) or `not-sent-all` (they were not sent by it), or with one launch's guid or key "
        "and `adopt` or `not-sent`. With `pause` the campaign waits meanwhile.\n\n"
        f"Or in a clone: `runner resolve --target {target}` lists them, and takes `--adopt-all`, "
        "`--not-sent-all`, `--adopt GUID` or `--launch KEY --not-sent`; then `runner ci record`.\n"
    )


def _write_stopped(now: Checklist, sight: Sight, place: IssuePlace) -> str:
    """Return the figures of broken guards, the replies that opted out, and how to go on."""
    figures = write_table(("campaign", "why"), list(now.stopped.items()), MOST_ROWS)
    said = [
        (one.name, *map(_hide_personal, reply))
        for one in sight.stopped or ()
        for reply in (one.replies if sight.shows_words else ())
    ]
    columns = "campaign", "it was asked", "they replied"
    replies = f"{write_table(columns, said, MOST_ROWS)}\n" if said else ""
    words = "" if sight.shows_words else f"{_NOT_SHOWN}\n\n"
    return (
        f"{figures}\n{replies}{words}Nothing of it is sent meanwhile. To accept these figures and go on: "
        f"{say_workflow(place)} the campaign's file and `resume`.\n\n"
        f"Or in a clone: `runner resume CAMPAIGN --target {sight.target}`; then `runner ci record`.\n"
    )


def _say_left(words: str, what: str, left: int, seen: int) -> str:
    """Return how many there are, and what that means; empty if there is none."""
    last = " when it was last known" if left > seen else ""
    return f"**{words}**{last}: {what}" if left else ""


def _write_replies(sight: Sight, place: IssuePlace) -> str:
    header = ["reply", "asks", "campaign", "message", "read as", "found"]
    header += ["what it says"] if sight.shows_words else []
    rows = [_write_row(one, shows_words=sight.shows_words) for one in sight.replies]
    listed = f"{write_table(header, rows, MOST_ROWS)}\n" if rows else ""
    words = "Digits and addresses in them are masked." if sight.shows_words else _NOT_SHOWN
    return (
        f"{listed}Decide {say_workflow(place)} the replies, with blanks between, and `confirm` (they opt "
        "out, or their authors are let in again) or `dismiss` (they don't, or stay out).\n\n"
        f"Or in a clone, by one key each: `runner reconcile --target {sight.target}`, "
        f"`runner optouts list --show-replies --target {sight.target}`, `runner ci record`.\n\n{words}\n"
    )


_NOT_SHOWN = (
    "What they say is not shown to everybody who may read this issue: a review shows it, and so does this "
    "issue where the repository's variable `CAMPAIGNS_REPLIES` is `true`, with digits and addresses masked."
)


def _write_row(reply: ListedReply, *, shows_words: bool) -> list[str]:
    # As code, where digits like a phone's are not masked, and the id can be copied.
    name = Markdown(f"`{reply.reply}`") if _PLAIN_ID.fullmatch(reply.reply) else reply.reply
    asks = "for no more texts" if reply.asks == "opt_out" else "for texts again"
    words = reply.text or None
    rule = None if words is None else classify(words).rule
    row = [name, asks, reply.campaign or _UNKNOWN, reply.message or _UNKNOWN, rule or _UNKNOWN]
    shown = _UNKNOWN if words is None else _hide_personal(words)
    return [*row, reply.found_at[:10], *([shown] if shows_words else [])]


def _hide_personal(text: str) -> str:
    """Return the beginning of a personal text, without digits and addresses."""
    shown = _DIGIT.sub("•", _ADDRESS.sub("•••", text))
    return shown if len(shown) <= _LONGEST_REPLY else f"{shown[: _LONGEST_REPLY - 1]}…"
