"""Plans as blocks: counts, reasons for texts that wait, what comes later."""

from __future__ import annotations

from datetime import UTC
from math import ceil
from typing import TYPE_CHECKING, get_args

from runner.campaign.timing_words import describe_follow_up
from runner.plan.model import Span, sum_spans
from runner.reasons import REASONS, Disposition
from runner.service.target import EMBEDDED, describe_destination
from runner.source.quantity import write_share
from runner.text.segment import advise
from runner.view.blocks import Items, ListItem, Section, Sentence, TableBlock
from runner.wording import count_people, count_words
from runner.workflow.campaigns import show_path
from runner.workflow.documents import BASELINE, POWER, list_findable, list_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.message_model import Message
    from runner.plan.documents import FindableDifference
    from runner.plan.model import CampaignPlan, Coming, LanguageCounts, ListedCharacter, MessagePlan
    from runner.service.target import Target
    from runner.view.blocks import Block
    from runner.workflow.plans.planning import PlanResult

_USUAL = ("rows", "duplicates", "excluded", "already_sent", "unresolved", "over_limit", "to_send")
_OTHERS = ("invalid", *(name for name in get_args(Disposition) if name not in _USUAL))
_ESSENTIAL = {"rows", "to_send"}
"""Columns that are shown even if they are all zeros."""
_SCREEN = 20
"""Rows of a table, at most, unless all details are wanted."""
_SHOWN_CHARACTERS = 3
_SHOWN_PARTS = 5
_STOPPED = "Stopped"
_UNENCRYPTED = "UNENCRYPTED: anybody on the way can read phone numbers, texts and credentials"


def show_destination(target: Target) -> Sentence:
    """Return a plan's destination, and the variables with its credentials."""
    where = describe_destination(target)
    if where["address"] == EMBEDDED:
        return Sentence(f"Goes to {EMBEDDED}, which texts nobody.")
    risk = ", `insecure: true`" if where["insecure"] else ""
    if where["insecure"] and where["address"].startswith("http:"):
        risk = f", {_UNENCRYPTED} (`insecure: true`)"
    names = f"{where['username_env']} and {where['api_key_env']}"
    text = f"Goes to {where['address']}{risk}, with the credentials in {names}."
    return Sentence(text, "strong" if risk else "")


def show_plans(planned: Sequence[PlanResult], *, is_detailed: bool = False) -> Iterator[Block]:
    """Yield plans as blocks; details are launches, renders, hours, and all rows of long tables."""
    for item in planned:
        plan = item.plan
        title = f"{plan.campaign.name} → {plan.target} ({show_path(plan.campaign.file)})"
        yield Section(title, list(show_campaign(plan, is_detailed=is_detailed)))
    yield from map(Sentence, list_notes(planned))
    for line in _list_verdicts(planned):
        yield Sentence(line, "notice" if line.startswith(f"{_STOPPED}: ") else "strong")


def show_campaign(plan: CampaignPlan, *, is_detailed: bool = False, at_most: bool = False) -> Iterator[Block]:
    """Yield a campaign's counts, remarks on them, and what comes later; `at_most` leaves out lower bounds."""
    if plan.wave is not None and (again := plan.wave.describe()):
        yield Sentence(again, "strong")
    costs = ("launches", "segments") if is_detailed else ("segments",)
    columns = [
        column
        for column in (*_USUAL[:-1], *_OTHERS, _USUAL[-1])
        if column in _ESSENTIAL or any(getattr(message, column) for message in plan.messages)
    ]
    rows = [
        [
            message.id,
            *(getattr(message, column) for column in columns),
            *([message.launches] if is_detailed else []),
            message.segments_min
            if message.segments_min == message.segments_max
            else write_span(Span(message.segments_min, message.segments_max)),
        ]
        for message in plan.messages
    ]
    names = [column.replace("_", " ") for column in (*columns, *costs)]
    essential = frozenset({"message", "rows", "to send", *costs})
    yield from _limit(TableBlock(("message", *names), rows, essential=essential), is_detailed=is_detailed)
    yield Items(list(_list_remarks(plan, is_detailed=is_detailed)))
    if plan.cost is not None:
        yield Sentence(plan.cost.document().describe())
    coming = list_coming(plan, is_detailed=is_detailed, at_most=at_most)
    if coming.rows and any(message.coming for message in plan.messages):
        yield from _limit(coming, is_detailed=is_detailed)


def _limit(table: TableBlock, *, is_detailed: bool) -> Iterator[Block]:
    """Yield a table, without the rows beyond a screen unless all details are wanted."""
    left = len(table.rows) - _SCREEN
    if is_detailed or left <= 0:
        yield table
        return
    yield TableBlock(table.columns, table.rows[:_SCREEN], essential=table.essential)
    yield Sentence(f"and {count_words(left, 'more row')}: `--verbose` shows all")


def _shorten(causes: Sequence[tuple[int, str]], *, is_detailed: bool) -> Iterator[str]:
    left = causes[_SHOWN_PARTS:]
    shown = causes if is_detailed or len(left) == 1 else causes[:_SHOWN_PARTS]
    yield from (f"{count:,}: {words}" for count, words in shown)
    if len(shown) < len(causes):
        people = sum(count for count, _ in left)
        yield f"{people:,}: {len(left):,} more sets of reasons, which `--verbose` lists"


def _list_remarks(plan: CampaignPlan, *, is_detailed: bool) -> Iterator[ListItem]:
    found: dict[ListItem, list[str]] = {}
    for message in plan.messages:
        for remark in _remark_on(plan, message, is_detailed=is_detailed):
            found.setdefault(remark, []).append(message.id)
    for remark, ids in found.items():
        each = ", each" if len(ids) > 1 else ""
        yield ListItem(f"{', '.join(ids)}{each}: {remark.text}", remark.parts)
    yield from (ListItem(f"Audience: {words}") for words in plan.audience.differences)
    wanted = plan.campaign.limits.completes
    if wanted is not None and plan.completed is not None:
        end = ": nobody else is texted" if plan.completed >= wanted else ""
        yield ListItem(f"{count_words(plan.completed, 'complete')} of {wanted:,}{end}")
    rollout = plan.campaign.rollout
    if plan.rollout is not None:
        yield ListItem(f"Rollout: {plan.rollout.describe(plan.campaign.name)}")
    elif rollout is not None:
        shares = ", ".join(write_share(step.share) for step in rollout.steps)
        yield ListItem(f"Rollout: by steps of {shares}; which one is open is not known here")
    if plan.pause is not None and (plan.rollout is None or plan.rollout.state != "broken"):
        words = f"nothing is due now, and nothing is sent until `runner resume {plan.campaign.name}`"
        if plan.paused:
            words = f"{count_words(plan.paused, 'text waits', 'texts wait')}, and reminders with them"
        yield ListItem(f"Paused{plan.pause.describe().removeprefix('paused')}; {words}")


def _remark_on(plan: CampaignPlan, message: MessagePlan, *, is_detailed: bool) -> Iterator[ListItem]:
    if message.to_send and is_detailed:
        renders = Span(message.renders_min, message.renders_max)
        yield ListItem(f"{write_span(renders)} {'render' if renders.most == 1 else 'renders'}")
    if message.arms:
        yield ListItem("arms: " + ", ".join(f"{arm} {count:,}" for arm, count in message.arms.items()))
    if message.languages:
        yield ListItem("languages: " + ", ".join(map(_describe_language, message.languages)))
    if message.pending:
        yield from map(ListItem, _describe_findable(list_findable(plan, message)))
    yield from map(ListItem, _advise(message.costly_characters))
    heads = dict(_sum_up_held(plan, message))
    for disposition in get_args(Disposition):
        causes = [
            (count, "; and ".join(reasons))
            for (own, reasons), count in sorted(message.causes.items(), key=lambda item: (-item[1], item[0]))
            if own == disposition
        ]
        if disposition in heads:
            parts = _shorten(causes, is_detailed=is_detailed)
            yield ListItem(heads[disposition] + (":" if causes else ""), tuple(parts))
        else:
            to_send = " to send" if disposition == "to_send" else ""
            for count, words in causes:
                yield ListItem(f"{count_words(count, 'person', 'people')}{to_send}: {words}")


def _describe_language(one: LanguageCounts) -> str:
    segments = write_span(Span(one.segments, one.segments_max))
    unit = "segment" if segments == "1" else "segments"
    now = f"{count_words(one.recipients, 'person', 'people')} ({segments} {unit})" if one.recipients else ""
    later = f"up to {one.later:,} later" if one.later else ""
    return f"{one.language} {' and '.join(filter(None, (now, later)))}"


def _describe_findable(pairs: Sequence[FindableDifference]) -> Iterator[str]:
    """Yield what an experiment can show, if there is one."""
    shares = sorted(one.difference for one in pairs if one.difference is not None)
    points = dict.fromkeys(f"{ceil(1000 * share) / 10:.1f}" for share in (*shares[:1], *shares[-1:]))
    none = len(pairs) - len(shares)
    if points:
        found = f"a difference of {' to '.join(points)} points in response"
        left = f"; of {count_words(none, 'pair')} of arms none: too few people" if none else ""
        yield f"the experiment can find {found} ({POWER:.0%} power, if {BASELINE:.0%} answer){left}"
    elif pairs:
        yield "the experiment can find no difference in response: too few people"


def _sum_up_held(plan: CampaignPlan, message: MessagePlan) -> Iterator[tuple[Disposition, str]]:
    """Yield the dispositions that a sentence tells of; each person is in at most one."""
    if message.no_consent:
        yield "no_consent", f"{_count_people(message.no_consent, 'has', 'have')} no consent on record"
    if message.opt_out_doubtful:
        people = count_people(message.opt_out_doubtful)
        yield "opt_out_doubtful", f"{people} may have opted out, a person must decide: `runner optouts list`"
    if message.awaiting:
        yield "awaiting", _describe_awaiting(plan, message)
    if message.deferred:
        first = "" if message.next_due is None else f", the first due at {write_minute(message.next_due)}"
        yield "deferred", f"{_count_people(message.deferred, 'is', 'are')} deferred{first}"
    if message.capped:
        people = _count_people(message.capped, "has", "have")
        yield "capped", f"{people} reached the frequency cap: a later run sends"


def _count_people(count: int, one: str, many: str) -> str:
    return count_words(count, f"person {one}", f"people {many}")


def _describe_awaiting(plan: CampaignPlan, message: MessagePlan) -> str:
    own = next(one for one in plan.campaign.messages if one.id == message.id)
    earlier = f"`{own.after.message}`" if own.after else "the message before"
    read = "" if own.to == "everyone" else " and `runner reconcile` has read their answers"
    return f"{_count_people(message.awaiting, 'waits', 'wait')} until {earlier} is sent to them{read}"


def _advise(characters: Iterable[ListedCharacter]) -> Iterator[str]:
    ranked = sorted(characters, key=lambda one: (-one.recipients, one.character))
    for one in ranked[:_SHOWN_CHARACTERS]:
        yield advise(one.character, one.recipients, one.segments, one.segments_without)
    if len(ranked) > _SHOWN_CHARACTERS:
        yield f"{len(ranked) - _SHOWN_CHARACTERS} more characters make texts UCS-2"


def list_coming(plan: CampaignPlan, *, is_detailed: bool, at_most: bool = False) -> TableBlock:
    """Return a table of a plan's texts, now and later.

    `at_most` leaves out lower bounds: some of these people may have the text already.
    """
    rows: list[tuple[str | Span | None, ...]] = []
    sent = {message.id: message for message in plan.campaign.messages}
    for message in plan.messages:
        if message.to_send:
            recipients = Span(message.to_send, message.to_send)
            launches = Span(message.launches, message.launches)
            segments = Span(message.segments_min, message.segments_max)
            renders = Span(message.renders_min, message.renders_max)
            rows.append(("now", message.id, "", recipients, segments, launches, renders))
    for message in plan.messages:
        for one in message.coming:
            spans = one.recipients, one.segments, one.launches, one.renders
            rows.append((_describe_moments(one), message.id, _describe_coming(one, sent[message.id]), *spans))
    columns = ("when", "message", "why", "people", "segments", "launches", "renders")
    width = len(columns) if is_detailed else 5
    shown = [
        tuple(cell if isinstance(cell, str) else write_span(cell, at_most=at_most) for cell in row[:width])
        for row in rows
    ]
    return TableBlock(columns[:width], shown, figures=False)


def _describe_coming(one: Coming, message: Message) -> str:
    arms = ", ".join(f"{arm} {count:,}" for arm, count in one.arms.items())
    why = describe_follow_up(message) if one.why == "awaiting" else REASONS[one.why].later or one.why
    return f"{why} ({arms})" if arms else why


def _describe_moments(one: Coming) -> str:
    if one.first is None:
        return "not known"
    if one.last is None:
        return f"from {write_minute(one.first)}"
    if one.first == one.last:
        return write_minute(one.first)
    first, last = one.first.astimezone(UTC), one.last.astimezone(UTC)
    end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {end} UTC"


def _list_verdicts(planned: Sequence[PlanResult]) -> Iterator[str]:
    """Yield the end of plans: what is to send, and the limits that stop the others."""
    sound = [item for item in planned if not item.plan.refusals]
    if sound:
        yield summary_line(sound)
    for item in planned:
        if item.plan.refusals:
            yield f"{_STOPPED}: {item.campaign.name}: {'; '.join(item.plan.refusals)}. None of it is sent."


def summary_line(planned: Sequence[PlanResult]) -> str:
    """Return a one-sentence summary of plans without those over a limit, unless all are."""
    if all(item.plan.refusals for item in planned):
        return " ".join(_list_verdicts(planned)) or "Nothing to send."
    planned = [item for item in planned if not item.plan.refusals]
    paused = ", ".join(item.campaign.name for item in planned if item.plan.pause is not None)
    return f"{_sum_up(planned)}{f' Paused: {paused}.' if paused else ''}"


def _sum_up(planned: Sequence[PlanResult]) -> str:
    plans = [item.plan for item in planned]
    people = sum(plan.recipients_to_send for plan in plans)
    messages = [message for plan in plans for message in plan.messages]
    # Of a paused campaign nothing is sent when it is due.
    later = sum_up_later(plan for plan in plans if plan.pause is None)
    held = sum(message.open_session for message in messages)
    if not people and not later and not held:
        return "Nothing to send."
    segments = write_span(sum_spans(Span(one.segments_min, one.segments_max) for one in messages))
    now = f"{count_words(people, 'person', 'people')} now, {segments} segment{'' if segments == '1' else 's'}"
    parts = [f"To send to {plans[0].target}: {now}" if people else "Nothing to send now"]
    parts += [later] if later else []
    parts += filter(None, [", ".join(_list_left_out(plans))])
    behind = f" Behind an open survey: {held:,}; `runner reconcile` reads which have ended."
    return f"{'; '.join(parts)}.{behind if held and not people else ''}"


def _list_left_out(plans: Sequence[CampaignPlan]) -> Iterator[str]:
    """Yield the numbers of rows that no message is for."""
    for name, one in {"excluded": "excluded", "duplicates": "duplicate", "invalid": "invalid row"}.items():
        count = sum(max((getattr(message, name) for message in plan.messages), default=0) for plan in plans)
        if count:
            yield f"{count:,} {one}" if name == "excluded" else count_words(count, one)


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
    moment = f", from {write_minute(due)}" if due is not None else ""
    return f"up to {count_words(texts, 'text')} later{people}{moment}"


def write_minute(moment: datetime) -> str:
    """Return a moment in UTC to the minute, for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def write_span(span: Span | None, *, at_most: bool = False) -> str:
    """Return a range for people: `236 to 472`, or its most."""
    if span is None:
        return "not known"
    return f"{span.most:,}" if at_most or span.least == span.most else f"{span.least:,} to {span.most:,}"
