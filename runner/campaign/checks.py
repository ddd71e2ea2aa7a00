"""Checks of a campaign beyond its schema: rules between its parts, and files that it names."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from runner.audience.consent import find_date_problem, fold_word, is_refusal
from runner.audience.encoding import is_text_encoding
from runner.audience.files import check_file
from runner.audience.phone import REGION_HINT, find_region_fault
from runner.audience.sealing import find_encryption_problems
from runner.campaign.message_model import SCORED, AnswerCondition
from runner.campaign.model import FileRecipients, RecipientSource
from runner.campaign.translations import find_translation_problems
from runner.campaign.variants import find_problems
from runner.source.diagnostic import CellProblem, Diagnostic, Position
from runner.source.json_schema import schema_text
from runner.source.normalize import fold_answer, normalize_to_word, suggest
from runner.source.quantity import write_share
from runner.timing.dates import read_time
from runner.timing.schedule import Schedule, read_schedule
from runner.timing.window import Calendar, LocalWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from fractions import Fraction
    from pathlib import Path

    from runner.campaign.message_model import Message, Question
    from runner.campaign.model import Campaign, Rollout, RolloutStep
    from runner.source.yaml import Key, YamlDocument

COMMAND_WORDS = frozenset(
    "stop stopall unsubscribe cancel end quit optout revoke start yes unstop help info".split()  # noqa: SIM905  words
)
"""Replies that carriers act on themselves (CTIA Messaging Principles and Best Practices 2023, 5.1.3), as
`normalize_to_word` writes them: `Stop.` and `opt-out` opt out as well (47 CFR 64.1200(a)(10))."""

_NAME = re.compile(json.loads(schema_text("campaign"))["$defs"]["name"]["pattern"])
_LONGEST_TAG: int = json.loads(schema_text("campaign"))["$defs"]["tag"]["maxLength"]
_LONGEST_STEM = 200
"""Bytes of a campaign file's name without its ending: its lockfile adds the target's name and more."""


def check_campaign(
    campaign: Campaign, document: YamlDocument, roots: tuple[Path, ...], urls: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """Yield the problems of a campaign that fits the schema and may read below `roots` and `urls`."""
    if not _NAME.fullmatch(campaign.name):
        words = f"the file's name gives no name for the campaign: {campaign.name!r}"
        hint = "write `name:` with letters, digits, `.`, `_` and `-`"
        yield Position(campaign.file, 1, 1).problem("campaign-name", words, hint)
    yield from find_translation_problems(campaign, document)
    yield from _check_messages(campaign)
    yield from _check_tags(campaign)
    for index, message in enumerate(campaign.messages):
        yield from _check_follow_up(campaign, index, message)
        yield from _check_when(campaign, message)
    yield from _check_dates(campaign, document)
    if campaign.variants is not None:
        yield from find_problems(campaign.variants, campaign.messages)
    if campaign.rollout is not None:
        yield from _check_rollout(campaign, campaign.rollout)
    yield from _check_sample(campaign, document)
    yield from _check_score(campaign, document)
    yield from _check_schedule(campaign, document)
    yield from _check_retention(campaign)
    yield from _check_policy(campaign, document)
    yield from _check_file_name(campaign)
    yield from find_encryption_problems(campaign)
    for key, sources in (("recipients", campaign.recipients), ("exclude", campaign.exclude)):
        for index, source in enumerate(sources):
            yield from _check_region(source, document, [key, index, "region"])
            if isinstance(source, FileRecipients):
                yield from _check_encoding(source, document, [key, index, "encoding"])
                yield from _check_yes(source, document, [key, index, "consent", "yes"])
                yield from check_file(source, roots, urls)
            elif source.consent is not None and source.consent.date is not None:
                place = document.position([key, index, "consent", "date"])
                yield from filter(None, (find_date_problem(source.consent.date, place),))


def _check_yes(source: FileRecipients, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    """Yield a problem for each word below `yes` that says no. An x may be a tick, if a campaign says so."""
    for index, word in enumerate(source.consent.yes if source.consent is not None else ()):
        if is_refusal(word) and fold_word(word) != "x":
            words = f"{word!r} is a word for no consent, and stands below `yes`"
            hint = "take it out; if people did agree, say so in the file in other words"
            yield document.position([*path, index]).problem("consent-yes-says-no", words, hint)


def _check_file_name(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield a problem if the campaign's lockfile would have a longer name than file systems allow."""
    if len(os.fsencode(campaign.file.stem)) > _LONGEST_STEM:
        words = "the file's name is too long: its lockfile, which is named after it, could not be written"
        hint = f"rename it: at most {_LONGEST_STEM} bytes before its ending; `name:` keeps its record"
        yield Position(campaign.file, 1, 1).problem("campaign-file-name", words, hint)


def _check_tags(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield a problem for each message whose tag is too long with the wave at its end."""
    for message in campaign.messages:
        if any(len(one.tag) > _LONGEST_TAG for one in campaign.list_written(message)):
            text = (
                f"the tag of `{message.id}` has more than {_LONGEST_TAG} characters with the wave at its end"
            )
            yield message.position.problem("wave-tag-long", text, "write a shorter `tag` or `wave`")


def _check_messages(campaign: Campaign) -> Iterator[Diagnostic]:
    seen: dict[str, int] = {}
    for message in campaign.messages:
        if message.id in seen:
            text = f"the message id `{message.id}` stands twice; first in line {seen[message.id]}"
            yield message.position.problem("message-id-repeated", text, "rename one of them")
        seen.setdefault(message.id, message.position.line)
        languages = () if campaign.languages is None else campaign.languages.known
        yield from _check_questions(message, languages)
        for varied in campaign.list_arms(message.id).values():
            if varied.questions is not message.questions:
                yield from _check_questions(varied, languages)
    yield from _check_message_renames(campaign)


def _check_message_renames(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield ids whose record two messages would claim."""
    places = {message.id: message.position for message in campaign.messages}
    claims: dict[str, Message] = {}
    for message in campaign.messages:
        for name in dict.fromkeys(message.renamed_from):
            if name in places:
                words = f"which this campaign still has, in line {places[name].line}"
                hint = "take it out, or give the message its new id"
            elif name in claims:
                words = f"which `{claims[name].id}` claims, too"
                hint = "only one message can go on with it: take it out"
            else:
                claims[name] = message
                continue
            text = f"`renamed_from` of the message `{message.id}` claims the record of `{name}`, {words}"
            yield message.position.problem("message-id-in-use", text, hint)


def _check_questions(message: Message, languages: Sequence[str]) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for question in message.questions:
        if question.tag in seen:
            text = f"the question tag `{question.tag}` stands twice in message `{message.id}`"
            yield question.text.position.problem("question-tag-repeated", text, "rename one of them")
        seen.add(question.tag)
        yield from _check_scale(question)
        worded = [question.in_language(language) for language in languages] or [question]
        is_translated = question.conclude_on is not None and bool(question.conclude_on.by_language)
        for one in worded if is_translated else [question]:
            yield from _check_conclusion(one)
        for response in dict.fromkeys(response for one in worded for response in one.responses):
            if normalize_to_word(response.source) in COMMAND_WORDS:
                words = (
                    f"carriers read {response.source.strip()!r} as a command: "
                    "they may keep the answer, or opt the person out"
                )
                hint = "choose another word"
                yield response.position.problem("response-command-word", words, hint, "warning")


def _check_scale(question: Question) -> Iterator[Diagnostic]:
    if question.scale in ("nps", "csat", "ces") and not question.responses:
        text = f"the scale `{question.scale}` needs `responses`"
        yield question.text.position.problem("scale-responses", text, "list the answers, lowest first")
    elif question.values and question.scale not in SCORED:
        text = "the values of these responses count for nothing: the question has no `scale` with a score"
        hint = f"give it a `scale` of {', '.join(sorted(SCORED))}, or write the texts alone"
        yield question.responses[0].position.problem("scale-values", text, hint)


def _check_conclusion(question: Question) -> Iterator[Diagnostic]:
    ending = question.conclude_on
    texts = [response.source for response in question.responses]
    if ending is None or not texts or any("{" in text for text in (*texts, ending.source)):
        return
    if fold_answer(ending.source) not in map(fold_answer, texts):
        text = f"`conclude_on` is {ending.source!r}, which is none of the responses"
        text += suggest(ending.source, texts, "{!r}")
        yield ending.position.problem("conclude-on-unknown", text, f"one of: {', '.join(texts)}")


def _check_region(source: RecipientSource, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    fault = None if source.region is None else find_region_fault(source.region)
    if fault is not None:
        yield document.position(path).problem("region-unknown", fault, REGION_HINT)


def _check_encoding(source: FileRecipients, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    name = source.encoding
    if name is not None and not is_text_encoding(name):
        hint = "write utf-8, windows-1252, or another name that Python knows"
        yield document.position(path).problem("encoding-unknown", f"there is no encoding {name!r}", hint)


def _check_follow_up(campaign: Campaign, index: int, message: Message) -> Iterator[Diagnostic]:
    after = message.after
    if after is None:
        return
    above = {other.id: other for other in campaign.messages[:index]}
    place = after.position
    earlier = above.get(after.message)
    if earlier is None:
        words = f"there is no message `{after.message}` above `{message.id}`{suggest(after.message, above)}"
        is_below = any(other.id == after.message for other in campaign.messages[index + 1 :])
        hint = f"move `{message.id}` below that message"
        hint = hint if is_below or not above else f"name one of: {', '.join(above)}"
        yield place.problem("after-unknown", words, hint)
    elif isinstance(message.to, AnswerCondition):
        return
    elif message.to != "everyone" and not campaign.asks(earlier):
        words = f"`to: {message.to}` goes by answers, and the message `{earlier.id}` asks nothing"
        hint = "take `to` out, or give that message `questions`"
        yield place.problem("after-asks-nothing", words, hint)
    elif message.to != "answered" and not message.complete_existing_sessions and campaign.asks(earlier):
        leaves = ", and then leaves at any hour" if campaign.policy.open_session == "queue" else ""
        words = (
            f"`{message.id}` waits until `{earlier.id}` has expired for those who have not ended it{leaves}"
        )
        hint = "end that survey with `complete_existing_sessions`, and ask its `questions` again"
        yield place.problem("after-queued", words, hint, "warning")
    elif message.to == "unanswered" and message.complete_existing_sessions and not campaign.asks(message):
        words = (
            f"`{message.id}` ends the survey `{earlier.id}` for those it reminds: they can no longer answer"
        )
        hint = f"write the `questions` of `{earlier.id}`, with its `text` as the `introduction`"
        yield place.problem("after-ends-survey", words, hint, "warning")


def _check_when(campaign: Campaign, message: Message) -> Iterator[Diagnostic]:
    when = message.when
    if when is not None and message.after is not None:
        words = f"`{message.id}` would come after `{message.after.message}`, and go by a date: one of the two"
        hint = "take `when` or `after` out; a follow-up of a message with `when` goes by its date as well"
        yield when.position.problem("when-after", words, hint)
    if when is not None and campaign.wave:
        yield when.position.problem(
            "when-wave",
            f"`{message.id}` goes by dates, and the campaign has a `wave`: each is an occasion to text "
            "people again, and which of them counts is not clear",
            "move the message to a campaign of its own, without `wave`",
        )


def _check_dates(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    for name in sorted(campaign.date_columns & campaign.vars.keys()):
        written = str(campaign.vars[name])
        problem = read_time(written)
        if isinstance(problem, CellProblem):
            words = f"the date {written!r} is refused: {problem.reason}"
            yield document.position(["vars", name]).problem("when-date", words, problem.hint)


def _check_score(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    asked = [
        question
        for message in campaign.messages
        for one in campaign.list_written(message)
        for question in one.questions
    ]
    if campaign.score_target is not None:
        place = document.position(["score", "target"])
        yield from _check_score_target(campaign, asked, campaign.score_target, place)
    if campaign.score is None:
        return
    place = document.position(["score", "question"])
    scales = {question.scale for question in asked if question.tag == campaign.score}
    if not scales:
        guess = suggest(campaign.score, [question.tag for question in asked])
        words = f"no message asks a question tagged `{campaign.score}`{guess}"
        yield place.problem("score-unknown", words, "write the `tag` of a question")
    elif len(scales) > 1:
        words = f"`{campaign.score}` is asked on several scales: {', '.join(sorted(scales))}"
        yield place.problem("score-scales", words, "give each of its questions the same `scale`")
    elif not scales <= SCORED:
        words = f"`{campaign.score}` has `scale: {min(scales)}`, of which there is no score"
        hint = f"give its questions a `scale` that has one: {', '.join(sorted(SCORED))}"
        yield place.problem("score-none", words, hint)


_REACHES = {"nps": (-100, 100), "csat": (0, 100)}
"""The lowest and the highest score, by scale; those of others hang on the values of the responses."""


def _check_score_target(
    campaign: Campaign, asked: Iterable[Question], target: Fraction, place: Position
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the score to reach, where the question that has the score is sound."""
    scored = {(one.tag, one.scale) for one in asked if one.scale in SCORED}
    found = sorted({scale for tag, scale in scored if campaign.score in (None, tag)})
    tags = sorted({tag for tag, _ in scored})
    if not scored:
        words = "no question of this campaign has a score, so none can reach this target"
        yield place.problem("score-target", words, "give a question a `scale`, or take `target` out")
    elif campaign.score is None and len(tags) > 1:
        words = f"this target is of one score, and these questions have one each: {', '.join(tags)}"
        hint = f"say which, as in `score: {{question: {tags[0]}, target: {float(target):g}}}`"
        yield place.problem("score-target", words, hint)
    elif len(found) == 1 and found[0] in _REACHES:
        lowest, highest = _REACHES[found[0]]
        if not lowest <= target <= highest:
            words = f"no score of `scale: {found[0]}` can reach this target"
            yield place.problem("score-target", words, f"write a number from {lowest} to {highest}")


def _check_schedule(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    schedule = read_schedule(document.data.get("schedule", {}))
    if not isinstance(schedule, Schedule):
        for problem in schedule:
            words = f"`{problem.key}`: {problem.reason}"
            yield document.position(["schedule", problem.key]).problem("schedule", words, problem.hint)
        return
    start, end = schedule.not_before, schedule.expires
    if start is None or end is None or schedule.timezone is None:
        return
    opening = Calendar((LocalWindow(schedule.window, schedule.timezone),)).find_opening(start)
    if opening is None or opening[0] >= end:
        # No error: people in other time zones may well be texted.
        place = document.position(["schedule", "expires"])
        words = (
            f"`not_before` to `expires`: `send_between` and `days` never allow sending in {schedule.timezone}"
        )
        hint = "nobody there would be texted: move one of them"
        yield place.problem("schedule-never-open", words, hint, "warning")
    yield from _check_waits(campaign, end - start)


def find_late_follow_ups(campaign: Campaign, now: datetime) -> Iterator[Diagnostic]:
    """Warn of follow-ups of a campaign that has sent nothing yet, if they come due after its `expires`."""
    start, end = campaign.schedule.not_before, campaign.schedule.expires
    if end is None or end <= now or (start is not None and start >= now):
        return
    known = set(_check_waits(campaign, end - start)) if start is not None else ()
    yield from (problem for problem in _check_waits(campaign, end - now) if problem not in known)


def _check_waits(campaign: Campaign, length: timedelta) -> Iterator[Diagnostic]:
    """Warn of follow-ups that come due after the campaign's end, even if the first message leaves at once.

    `length` is the time that is left until that end.
    """
    earliest: dict[str, timedelta] = {}
    for message in campaign.messages:
        after = message.after
        if after is None:
            earliest[message.id] = timedelta()
            continue
        due = earliest.get(after.message, timedelta()) + after.wait
        earliest[message.id] = due
        if due >= length:
            place = after.position
            words = f"`{message.id}` is never sent: it comes due when the campaign has expired"
            hint = "shorten `wait`, or move `expires`"
            yield place.problem("after-expires", words, hint, "warning")


def _check_retention(campaign: Campaign) -> Iterator[Diagnostic]:
    retention = campaign.policy.retention
    for message in campaign.messages if retention is not None else ():
        after = message.after
        if retention is not None and after is not None and after.wait >= retention:
            words = f"`{message.id}` may never be sent: the answers that it goes by are pruned before"
            hint = "shorten `wait`, or lengthen `policy.retention`"
            yield after.position.problem("retention-short", words, hint, "warning")


def _check_sample(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    if campaign.sample is not None and campaign.renamed_from and "seed" not in document.data["sample"]:
        former = campaign.renamed_from[-1]
        words = "the sample has no `seed`: with the campaign's new name for one, other people would be drawn"
        hint = f"write `seed: {former}` to go on with the people drawn so far, or a new one to draw anew"
        yield document.position(["sample"]).problem("sample-seed", words, hint)
    if campaign.sample is not None and campaign.sample.share == 0:
        words = "a sample of 0% texts nobody, ever"
        yield campaign.sample.position.problem("sample-nobody", words, "write a share above 0%, as in 10%")
    if campaign.limits.completes is not None and not campaign.list_surveys():
        words = "`completes` counts people who answer, and no message asks anything"
        hint = "take it out, or write `questions`"
        yield document.position(["limits", "completes"]).problem("limits-completes", words, hint)


def _check_rollout(campaign: Campaign, rollout: Rollout) -> Iterator[Diagnostic]:
    former = campaign.renamed_from
    for message in campaign.messages:
        if message.when is not None:
            words = f"`{message.id}` goes to each person at a time of their own (`when`): no step would end"
            hint = "take the rollout out, or put the message into a campaign of its own"
            yield rollout.position.problem("rollout-when", words, hint)
    if former and not rollout.is_seeded:
        yield rollout.position.problem(
            "rollout-seed",
            "the steps are drawn from the campaign's name, which has changed: others would be in each step",
            f"write `seed: {former[-1]}` to keep everybody in their step, or another seed to draw anew",
        )
    yield from _check_steps(rollout.steps)
    for guard in rollout.guards:
        if not 0 < guard.limit < 1:
            words = f"`{guard.name}` is {write_share(guard.limit)}, which stops "
            words += "everything" if not guard.limit else "nothing"
            yield guard.position.problem("rollout-guard-limit", words, "write a share such as 2%")
        elif len(rollout.steps) == 1:
            words = f"`{guard.name}` is judged before the next step opens, and there is only one step"
            hint = "add a smaller step before it, as in {share: 10%, hold: 1d}"
            yield guard.position.problem("rollout-guard-idle", words, hint)


def _check_steps(steps: Sequence[RolloutStep]) -> Iterator[Diagnostic]:
    for before, step in pairwise(steps):
        if step.share <= before.share:
            words = f"steps grow, and {write_share(step.share)} is not more than {write_share(before.share)}"
            hint = "each share counts the people of the steps before it, too: write a larger one"
            yield step.position.problem("rollout-shares", words, hint)
        if before.hold is None:
            words = f"the step of {write_share(before.share)} does not say how long it is watched"
            hint = "add the time in which people may opt out, as in {share: 1%, hold: 2h}"
            yield before.position.problem("rollout-hold-missing", words, hint)
    last = steps[-1]
    if not steps[0].share > 0 or last.share > 1:
        step = last if last.share > 1 else steps[0]
        words = f"{write_share(step.share)} is no share of the audience"
        yield step.position.problem("rollout-shares", words, "write shares above 0% and up to 100%")
    elif last.share < 1:
        words = f"the last step is {write_share(last.share)}: the others are never texted"
        hint = "add `{share: 100%}` for everybody; to text a part of the audience only, use `sample`"
        yield last.position.problem("rollout-part", words, hint, "warning")
    if last.hold is not None:
        words = "the `hold` of the last step changes nothing: no step comes after it"
        yield last.position.problem("rollout-hold-last", words, "take it out", "warning")


def _check_policy(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    policy = campaign.policy
    if policy.timezone_unknown == "campaign" and campaign.schedule.timezone is None:
        words = "`timezone_unknown: campaign` needs the campaign's time zone, and `schedule` names none"
        hint = "add `timezone` to `schedule`, such as America/New_York"
        yield document.position(["policy", "timezone_unknown"]).problem("policy-timezone", words, hint)
    if policy.consent == "required" and all(source.consent is None for source in campaign.recipients):
        yield document.position(["policy", "consent"]).problem(
            "policy-consent",
            "`consent: required` would text nobody: no entry of `recipients` says where consent is on record",
            "add `consent` to the entries whose people agreed to be texted",
        )
