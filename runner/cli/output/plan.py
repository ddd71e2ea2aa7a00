"""Plans for people: tables, reasons for texts that wait, changes since the last send, approvals."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple, get_args

import click

from runner.campaign.timing_words import describe_follow_up
from runner.cli.console import print_prose, print_table
from runner.cli.encoding import print_text
from runner.github.job_summary import DENIED_VARIABLE, append_outputs, append_summary, append_variables
from runner.plan.model import Span
from runner.reasons import REASONS, Disposition
from runner.service.target import EMBEDDED, describe_destination
from runner.text.segment import advise
from runner.timing.decision import count_due
from runner.wording import count_words, escape_markdown, printable, write_table
from runner.workflow.approval_coverage import find_status, list_sent
from runner.workflow.campaigns import show_path
from runner.workflow.documents import asks_again, list_notes
from runner.workflow.plans.planning import STOPPED, list_verdicts, summary_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Message
    from runner.plan.difference import ChangeGroup, MessageDifference
    from runner.plan.model import CampaignPlan, Coming, CostlyCharacter, MessagePlan
    from runner.service.target import Target
    from runner.workflow.approval_coverage import Coverage
    from runner.workflow.failures import Failures
    from runner.workflow.plan import ProjectPlan
    from runner.workflow.plans.differences import Differences
    from runner.workflow.plans.planning import PlanResult

_USUAL = ("rows", "duplicates", "excluded", "already_sent", "unresolved", "over_limit", "to_send")
_OTHERS = ("invalid", *(name for name in get_args(Disposition) if name not in _USUAL))
_COST = ("launches", "segments")
_ESSENTIAL = {"rows", "to_send", *_COST}
"""Columns that are shown even if they are all zeros."""
_SHOWN_CHARACTERS = 3
_SHOWN_PARTS = 5
_SHOWN_HOURS = 12
_BAR = 24
_UNENCRYPTED = "UNENCRYPTED: anybody on the way can read phone numbers, texts and credentials"
COLUMNS = ("when", "message", "why", "recipients", "launches", "segments", "renders")
ONCE_MORE = "Each reply that is none of the choices costs one render more, and the segments of its question."
"""The remark about questions with choices, which are asked again after each other reply."""
_COLOURS = {"@": "cyan", "-": "red", "+": "green"}


def plan_markdown(planned: Sequence[PlanResult], digest: str) -> str:
    """Return plans and their common digest as Markdown for a pull request or a job's summary."""
    text = f"## Plan\n\n{summary_line(planned)}\n\n{destination_line(planned[0].target)}\n"
    for item in planned:
        plan = item.plan
        columns = choose_columns(plan)
        text += f"\n### {plan.campaign.name} → {plan.target}\n\n"
        text += write_table(
            ("message", *map(column_words, columns)),
            [message_row(message, columns) for message in plan.messages],
        )
        text += remarks_markdown(plan) + "\n"
        if comes_later(plan):
            text += f"\n{write_table(COLUMNS, list(list_coming(plan)))}\n{describe_people(plan)}\n"
    text += "".join(f"\n> {line}\n" for line in list_notes(planned))
    return f"{text}\nPlan digest: `{digest}`\n"


def destination_line(target: Target) -> str:
    """Return a plan's destination, and the variables with its credentials, in Markdown."""
    where = describe_destination(target)
    if where["address"] == EMBEDDED:
        return f"Goes to **{EMBEDDED}**, which texts nobody."
    risk = ", **`insecure: true`**" if where["insecure"] else ""
    if where["insecure"] and where["address"].startswith("http:"):
        risk = f", **{_UNENCRYPTED}** (`insecure: true`)"
    names = f"{escape_markdown(where['username_env'])} and {escape_markdown(where['api_key_env'])}"
    return f"Goes to **{escape_markdown(where['address'])}**{risk}, with the credentials in {names}."


def _write_human(planned: Sequence[PlanResult], _: str) -> None:
    write_plan(planned)


def write_plan(planned: Sequence[PlanResult], *, err: bool = False) -> None:
    """Write plans for people to standard output, or to standard error: the verdict comes last."""
    essential = {"message", *map(column_words, _ESSENTIAL)}
    for item in planned:
        plan = item.plan
        columns = choose_columns(plan)
        name = click.style(f"{plan.campaign.name} → {plan.target}", bold=True)
        print_prose(f"{name}  ({show_path(plan.campaign.file)})", err=err)
        rows = [message_row(message, columns) for message in plan.messages]
        print_table(("message", *map(column_words, columns)), rows, essential=essential, err=err)
        for remark in _list_remarks(plan):
            parts = "".join(f"\n    {part}" for part in _shorten(remark))
            print_prose(f"  {remark.text}{parts}", err=err)
        for message in plan.messages:
            for line in _histogram(message):
                print_text(f"  {line}", err=err)
        if comes_later(plan):
            print_text(err=err)
            print_table(COLUMNS, list(list_coming(plan)), err=err)
            print_prose(f"  {describe_people(plan)}", err=err)
        print_text(err=err)
    for line in list_notes(planned):
        print_prose(f"{line}\n", err=err)
    for line in list_verdicts(planned):
        label, colon, words = line.partition(": ")
        is_stop = label == STOPPED
        print_prose(f"{click.style(label, fg='red', bold=True) if is_stop else label}{colon}{words}", err=err)


def choose_columns(plan: CampaignPlan) -> tuple[str, ...]:
    """Return the counts to show in a plan's table: the essential ones, and those that are not all zeros."""
    return tuple(
        column
        for column in (*_USUAL[:-1], *_OTHERS, _USUAL[-1], *_COST)
        if column in _ESSENTIAL or any(getattr(message, column) for message in plan.messages)
    )


def message_row(message: MessagePlan, columns: Sequence[str]) -> list[str | int]:
    """Return a message's row in a table: its id and its counts."""
    return [message.id, *(getattr(message, column) for column in columns)]


def column_words(column: str) -> str:
    """Return a count's name as a column's heading."""
    return column.replace("_", " ")


class Remark(NamedTuple):
    """A sentence on a plan beside its counts, styled for a terminal, and the parts that it sums up.

    A part is a number of recipients and their reason, the largest number first.
    """

    text: str
    parts: tuple[tuple[int, str], ...] = ()


def _shorten(remark: Remark) -> Iterator[str]:
    shown = remark.parts[:_SHOWN_PARTS]
    rest = remark.parts[_SHOWN_PARTS:]
    if len(rest) == 1:
        shown, rest = remark.parts, ()
    yield from (f"{count:,}: {words}" for count, words in shown)
    if rest:
        people = sum(count for count, _ in rest)
        yield f"{people:,}: {len(rest):,} more sets of reasons, which `--format markdown` lists"


def remarks_markdown(plan: CampaignPlan, escape: Callable[[str], str] = str) -> str:
    """Return remarks on a plan, and the limits that it breaks, as a list in Markdown."""
    remarks = [*_list_remarks(plan), *(Remark(f"{STOPPED}: {refusal}") for refusal in plan.refusals)]
    return "".join(
        f"\n- {escape(click.unstyle(remark.text))}"
        + "".join(f"\n  - {escape(f'{count:,}: {words}')}" for count, words in remark.parts)
        for remark in remarks
    )


def _list_remarks(plan: CampaignPlan) -> Iterator[Remark]:
    found: dict[Remark, list[str]] = {}
    for message in plan.messages:
        for remark in _remark_on(plan, message):
            found.setdefault(remark, []).append(message.id)
    for remark, ids in found.items():
        each = ", each" if len(ids) > 1 else ""
        yield remark._replace(text=f"{', '.join(ids)}{each}: {remark.text}")
    if plan.pause is not None:
        words = f"nothing is due now, and nothing is sent until `runner resume {plan.campaign.name}`"
        if plan.paused:
            words = f"{count_words(plan.paused, 'text waits', 'texts wait')}, and reminders with them"
        label = click.style("Paused", fg="yellow", bold=True)
        yield Remark(f"{label}{plan.pause.describe().removeprefix('paused')}; {words}")


def _remark_on(plan: CampaignPlan, message: MessagePlan) -> Iterator[Remark]:
    if message.to_send:
        renders = Span(message.renders_min, message.renders_max)
        yield Remark(f"{_write_span(renders)} {'render' if renders.most == 1 else 'renders'}")
    if message.arms:
        yield Remark("arms: " + ", ".join(f"{arm} {count:,}" for arm, count in message.arms.items()))
    yield from map(Remark, _advise(message.costly_characters))
    heads = dict(_sum_up_held(plan, message))
    for disposition in get_args(Disposition):
        causes = [
            (count, "; and ".join(reasons))
            for (own, reasons), count in sorted(message.causes.items(), key=lambda item: (-item[1], item[0]))
            if own == disposition
        ]
        if disposition in heads:
            yield Remark(heads[disposition] + (":" if causes else ""), tuple(causes))
        else:
            yield from (Remark(_name_people(disposition, *cause)) for cause in causes)


def _name_people(disposition: str, count: int, words: str) -> str:
    people = count_words(count, "recipient")
    return f"{people}{' to send' if disposition == 'to_send' else ''}: {words}"


def _sum_up_held(plan: CampaignPlan, message: MessagePlan) -> Iterator[tuple[Disposition, str]]:
    """Yield the dispositions that a sentence tells of; each recipient is in at most one."""
    if message.no_consent:
        people = count_words(message.no_consent, "recipient has", "recipients have")
        yield "no_consent", f"{people} no consent on record"
    if message.opt_out_doubtful:
        people = count_words(message.opt_out_doubtful, "recipient", "recipients")
        yield "opt_out_doubtful", f"{people} may have opted out, a person must decide: `runner optouts list`"
    if message.awaiting:
        yield "awaiting", _describe_awaiting(plan, message)
    if message.deferred:
        people = count_words(message.deferred, "recipient is", "recipients are")
        due = message.next_due
        first = "" if due is None else f", the first due at {due.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        yield "deferred", f"{people} deferred{first}"
    if message.capped:
        people = count_words(message.capped, "recipient has", "recipients have")
        yield "capped", f"{people} reached the frequency cap: a later run sends"


def _describe_awaiting(plan: CampaignPlan, message: MessagePlan) -> str:
    own = next(one for one in plan.campaign.messages if one.id == message.id)
    before = next((one for one in plan.messages if own.after and one.id == own.after.message), None)
    earlier = f"`{own.after.message}`" if own.after else "the message before"
    one, many = ("recipient waits", "recipients wait")
    unsent = f"until {earlier} is sent to them"
    read = "`runner reconcile` has read their answers"
    if own.to == "everyone":
        words = unsent
    elif before is None or not before.already_sent:
        words = f"{unsent} and {read}"
    elif before.pending or before.unresolved:
        words = f"until {earlier} is sent to those who lack it, and {read}"
    else:
        one, many = (f"recipient got {earlier} and waits", f"recipients got {earlier} and wait")
        words = f"until {read}"
    return f"{count_words(message.awaiting, one, many)} {words}"


def _advise(characters: dict[str, CostlyCharacter]) -> Iterator[str]:
    ranked = sorted(characters.items(), key=lambda item: (-item[1].recipients, item[0]))
    for character, cost in ranked[:_SHOWN_CHARACTERS]:
        yield advise(character, *cost)
    if len(ranked) > _SHOWN_CHARACTERS:
        yield f"{len(ranked) - _SHOWN_CHARACTERS} more characters make texts UCS-2"


def _histogram(message: MessagePlan) -> Iterator[str]:
    hours = count_due(message.due)
    if not hours:
        return
    yield f"{message.id}: due, by the clocks of the recipients:"
    most = max(hour.recipients for hour in hours)
    for hour in hours[:_SHOWN_HOURS]:
        bar = "█" * max(1, round(_BAR * hour.recipients / most))
        yield f"  {hour.day:%a} {hour.day} {hour.hour:02}:00  {hour.recipients:>9,}  {bar}"
    if len(hours) > _SHOWN_HOURS:
        left = sum(hour.recipients for hour in hours[_SHOWN_HOURS:])
        yield f"  later{'':14}  {left:>9,}"


def _write_markdown(planned: Sequence[PlanResult], digest: str) -> None:
    print_text(plan_markdown(planned, digest), nl=False)


def _write_github(planned: Sequence[PlanResult], digest: str) -> None:
    _write_human(planned, digest)
    append_summary(plan_markdown(planned, digest))


WRITERS: dict[str, Callable[[Sequence[PlanResult], str], None]] = {
    "human": _write_human,
    "markdown": _write_markdown,
    "github": _write_github,
}


def write_failures(failures: Failures, format_: str) -> None:
    """Write a table of the campaigns that were left out to standard output, or to the job's summary."""
    text = failures.markdown()
    if text and format_ == "markdown":
        print_text(f"\n{text}", nl=False)
    elif text and format_ == "github":
        append_summary(f"\n{text}")


def comes_later(plan: CampaignPlan) -> bool:
    """Return whether a plan sends anything later."""
    return any(message.coming for message in plan.messages)


def list_coming(plan: CampaignPlan, *, at_most: bool = False) -> Iterator[Sequence[str | int]]:
    """Yield the rows of a table of a plan's texts, now and later.

    `at_most` leaves out lower bounds: some of these people may have the text already.
    """
    for message in plan.messages:
        if message.to_send:
            segments = Span(message.segments_min, message.segments_max)
            renders = Span(message.renders_min, message.renders_max)
            recipients = Span(message.to_send, message.to_send)
            launches = Span(message.launches, message.launches)
            now = recipients, launches, segments, renders
            yield ("now", message.id, "", *(_write_span(span, at_most=at_most) for span in now))
    sent = {message.id: message for message in plan.campaign.messages}
    for message in plan.messages:
        for one in message.coming:
            spans = one.recipients, one.launches, one.segments, one.renders
            why = _describe_coming(one, sent[message.id])
            yield (
                _describe_moments(one),
                message.id,
                why,
                *(_write_span(span, at_most=at_most) for span in spans),
            )


def _describe_coming(one: Coming, message: Message) -> str:
    arms = ", ".join(f"{arm} {count:,}" for arm, count in one.arms.items())
    why = describe_follow_up(message) if one.why == "awaiting" else REASONS[one.why].later or one.why
    return f"{why} ({arms})" if arms else why


def _describe_moments(one: Coming) -> str:
    if one.first is None:
        return "not known"
    if one.last is None:
        return f"from {_write_minute(one.first)}"
    if one.first == one.last:
        return _write_minute(one.first)
    first, last = one.first.astimezone(UTC), one.last.astimezone(UTC)
    end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {end} UTC"


def _write_minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _write_span(span: Span | None, *, at_most: bool = False) -> str:
    if span is None:
        return "not known"
    return f"{span.most:,}" if at_most or span.least == span.most else f"{span.least:,} to {span.most:,}"


def sum_up_later(plans: Iterable[CampaignPlan]) -> str:
    """Return the number and the start of later texts in a few words; empty if there are none."""
    found = list(plans)
    texts = sum(plan.texts_later.most for plan in found)
    if not texts:
        return ""
    groups = [one for plan in found for message in plan.messages for one in message.coming]
    due = min((one.first for one in groups if one.first is not None), default=None)
    others = sum(plan.recipients_later.most for plan in found)
    people = f" ({count_words(others, 'more person', 'more people')})" if others else ""
    moment = f", from {_write_minute(due)}" if due is not None else ""
    return f"later at most {count_words(texts, 'text')}{people}{moment}"


def describe_people(plan: CampaignPlan) -> str:
    """Return in words how many people a plan reaches, each counted once."""
    later = plan.recipients_later
    now = count_words(plan.recipients_to_send, "person", "people")
    text = f"Each person counted once: {now} now, {_write_span(later)} of the others later."
    return f"{text} {ONCE_MORE}" if asks_again(plan) else text


def write_differences(differences: Differences, format_: str) -> None:
    """Write differences (`human`, `markdown` or `github`) below a plan; `github` adds the job's summary."""
    if format_ == "markdown":
        print_text(differences_markdown(differences), nl=False)
        return
    for campaign, found in differences.items():
        print_text()
        print_text(f"{campaign}: changes since it was sent", bold=True)
        for difference in found:
            _write_difference(difference)
    if format_ == "github":
        append_summary(differences_markdown(differences))


def _write_difference(difference: MessageDifference) -> None:
    print_text(f"  {_summary(difference)}")
    for line in _diff_lines(difference):
        print_text(f"    {line}", fg=_COLOURS[line[0]])
    for line in _remark_on_difference(difference):
        print_text(f"    {line}")


def differences_markdown(differences: Differences) -> str:
    """Return differences as Markdown for a pull request or a job's summary."""
    return "".join(
        f"\n### {campaign}: changes since it was sent\n" + "".join(map(difference_markdown, found))
        for campaign, found in differences.items()
    )


def difference_markdown(difference: MessageDifference) -> str:
    """Return the difference between a message and its sent texts, as Markdown."""
    text = f"\n{_summary(difference)}\n"
    lines = list(_diff_lines(difference))
    if lines:
        shown = "\n".join(lines)
        # Longer than any that a text could close it with (CommonMark 0.31, 4.5).
        longest = max((len(run) for run in re.findall("`+", shown)), default=0)
        fence = "`" * max(3, longest + 1)
        text += f"\n{fence}diff\n{shown}\n{fence}\n"
    return text + "".join(f"\n- {line}\n" for line in _remark_on_difference(difference))


def _summary(difference: MessageDifference) -> str:
    name = difference.message
    if difference.is_empty:
        return f"{name}: nothing was sent yet; {count_words(difference.new, 'recipient')} new"
    counts = {
        "unchanged": difference.unchanged,
        "changed": difference.changed + difference.lost,
        "no longer in the audience": difference.gone,
        "new": difference.new,
    }
    return f"{name}: " + ", ".join(f"{count:,} {words}" for words, count in counts.items())


def _diff_lines(difference: MessageDifference) -> Iterator[str]:
    for group in difference.groups:
        yield f"@@ {_group_words(group)} @@"
        old, new = dict(group.old), dict(group.new)
        for part in dict.fromkeys((*old, *new)):
            for sign, wording in (("-", old), ("+", new)):
                if part in wording:
                    yield from _part_lines(sign, part, wording[part])


def _group_words(group: ChangeGroup) -> str:
    people = count_words(group.recipients, "recipient")
    return f"{people}, as for one of them" if group.is_example else people


def _part_lines(sign: str, part: str, text: str) -> Iterator[str]:
    first, *others = text.split("\n")
    yield f"{sign}{part}: {printable(first)}"
    yield from (f"{sign}  {printable(line)}" for line in others)


def _remark_on_difference(difference: MessageDifference) -> Iterator[str]:
    if difference.more_groups:
        more = count_words(difference.more_groups, "more change")
        yield f"and {more}, for {count_words(difference.more_recipients, 'recipient')}"
    if difference.lost:
        people = count_words(difference.lost, "recipient's text has", "recipients' texts have")
        yield f"{people} changed; the old one is not in this ledger"
    if difference.unreadable:
        yield f"{count_words(difference.unreadable, 'recipient')} texted; with what is not in this ledger"
    if difference.failing:
        people = count_words(difference.failing, "recipient's text", "recipients' texts")
        yield f"{people} can no longer be rendered"


def write_coverage(coverages: Iterable[Coverage], format_: str) -> None:
    """Write a line for each campaign that sends something: that it is approved, or why not.

    `format_` is the plan's format.
    """
    lines = [line for coverage in coverages for line in _describe_coverage(coverage)]
    markdown = "".join(f"- {escape_markdown(line)}\n" for line in lines)
    if not lines or format_ == "json":
        return
    if format_ == "markdown":
        print_text(f"\n### Approval\n\n{markdown}", nl=False)
        return
    for line in lines:
        print_text(line)
    if format_ == "github":
        append_summary(f"\n### Approval\n\n{markdown}")


def _describe_coverage(coverage: Coverage) -> Iterator[str]:
    name = coverage.planned.campaign.name
    if coverage.status == "covered":
        yield f"{name}: approved by {', '.join(coverage.approved_by)}"
    elif coverage.status == "needed":
        yield f"{name}: needs approval: {coverage.gap}"


def set_plan_outputs(plan: ProjectPlan, format_: str) -> None:
    """Set outputs for later steps of a job: how many people the plan sends to, and whether all are approved.

    Approved campaigns may be sent while the others wait. The issue learns who denied the plan.
    """
    if format_ == "github":
        asking = plan.asking
        if asking is not None and asking.words:
            print_text(asking.words)
            append_summary(f"\n{escape_markdown(asking.words)}\n")
        append_variables({DENIED_VARIABLE: ",".join(asking.denied_by) if asking is not None else ""})
        sent = [item for item in plan.planned if list_sent(item)]
        covered = [one.planned for one in plan.coverages if one.status == "covered"]
        values = {
            "to-send": f"{sum(item.plan.recipients_to_send for item in sent)}",
            "covered": f"{sum(item.plan.recipients_to_send for item in covered)}",
            "approval": asking.state if asking is not None else find_status(plan.coverages),
            "plan-digest": plan.digest if plan.planned else "",
        }
        append_outputs(values)
