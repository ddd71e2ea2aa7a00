"""The survey's funnel, derived from who answered, and the survey field's response rates.

Source: The American Association for Public Opinion Research, "Standard Definitions: Final Dispositions of
Case Codes and Outcome Rates for Surveys", 10th edition, 2023; its letters are I, P, R, NC, O, UH and UO. The
standard knows interviews; a survey by text message maps to it like this:

- complete (I): reached the end of the survey;
- partial (P): answered at least one question, and has not reached the end. The standard asks every survey to
  define a partial interview: here it starts with the first answer;
- refusal (R): opted out without an answer: by a reply that opts out, or because the service says that an
  opt-out ended the session or kept it from beginning;
- non-contact (NC): the session ended without an answer, as it expired or another one took its place;
- other (O): does not occur in text messages, so it is 0 unless a caller sets it;
- unknown eligibility (UH + UO): the session is still queued or active without an answer, no session of the
  recipient is listed, or the outcome of the send is not known.

Each person counts once, by the first of these that holds: one who answered and then opted out is a partial,
or a complete. Each person's own session is looked at (`sessions[].status`), never totals.
Recipients of refused launches are no cases: nobody tried to reach them, and the refusal is about the request.
So nobody is known to be ineligible, and e is 1 as soon as anybody is known to be eligible.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.model import ResponseRates
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.report.facts import MessageOutline, Paths, WayOutline
    from runner.report.people_model import Dispositions


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One question's place in the survey.

    Attributes:
        asked: participants who were asked it.
        answered: of these, those who answered.
        unaccounted: participants of `asked` who answered although nothing in the ledger led them there.
        broke_off: participants who answered it, no later one, and did not end the survey by it; None for a
            last question.
    """

    tag: str
    asked: int
    answered: int
    unaccounted: int
    broke_off: int | None


def follow_questions(
    outline: MessageOutline, paths: Paths, reached: Mapping[str, int]
) -> Iterator[FunnelStep]:
    """Yield the step of each question, in the message's order.

    The first question reaches all whose session is not queued (`reached`, by its tag); each further one,
    those who answered the one before without ending the survey. A participant who answered counts as asked,
    so no rate exceeds 1.
    """
    asked, answered, strays, firsts = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    # Of a question that is the last of every way it is not known who broke off.
    breaks = {question.tag: 0 for way in outline.all_ways for question in way.questions[:-1]}
    for arm, path, count in _list_paths(outline, paths):
        tags = [question.tag for question in _find_way(outline, arm).questions]
        for index, (tag, step) in enumerate(zip(tags, path, strict=True)):
            has_answered = step != "-"
            answered[tag] += has_answered * count
            if not index:
                firsts[tag] += has_answered * count
            else:
                was_led = path[index - 1] == "a"
                asked[tag] += (was_led or has_answered) * count
                strays[tag] += (has_answered and not was_led) * count
            if step == "a" and index < len(tags) - 1 and not path[index + 1 :].strip("-"):
                breaks[tag] += count
    for tag in (question.tag for question in outline.questions):
        begun = reached.get(tag)
        yield FunnelStep(
            tag,
            asked=asked[tag] + (0 if begun is None else max(begun, firsts[tag])),
            answered=answered[tag],
            unaccounted=strays[tag] + (0 if begun is None else max(firsts[tag] - begun, 0)),
            broke_off=breaks.get(tag),
        )


def count_completed(outline: MessageOutline, paths: Paths) -> dict[str, int]:
    """Return the participants who reached the end, by arm: answered the last question, or ended it early."""
    completed: Counter[str] = Counter()
    for arm, path, count in _list_paths(outline, paths):
        completed[arm] += count if path[-1:] not in ("", "-") or "c" in path else 0
    return dict(completed)


def _list_paths(outline: MessageOutline, paths: Paths) -> Iterator[tuple[str, str, int]]:
    """Yield arms and paths with their participants; of a path only the questions of its way, in its order."""
    places = {question.tag: place for place, question in enumerate(outline.questions)}
    for (arm, path), count in paths.items():
        way = _find_way(outline, arm)
        yield arm, "".join(path[places[question.tag]] for question in way.questions), count


def _find_way(outline: MessageOutline, arm: str) -> WayOutline:
    """Return the way of an arm; for an arm that no longer exists, the first one."""
    ways = outline.all_ways
    return next((way for way in ways if way.arm == arm), ways[0])


def response_rates(dispositions: Dispositions, eligibility: Fraction | None) -> ResponseRates:
    """Return AAPOR's response rates 1 to 6.

    With e for `eligibility`, the estimated share of the eligible among the unknown; None leaves RR3 and RR4
    undefined:

        RR1 = I / ((I + P) + (R + NC + O) + (UH + UO))      RR2 = (I + P) / the same
        RR3 = I / ((I + P) + (R + NC + O) + e (UH + UO))    RR4 = (I + P) / the same
        RR5 = I / ((I + P) + (R + NC + O))                  RR6 = (I + P) / the same

    Source: Standard Definitions (see the module), "Response rates". RR1 ≤ RR3 ≤ RR5, and RR2 ≤ RR4 ≤ RR6.

    Raises:
        ValueError: if the eligibility is not from 0 to 1.
    """
    if eligibility is not None and not 0 <= eligibility <= 1:
        raise ValueError(f"an eligibility of {eligibility} is not a share")
    complete, interviews = dispositions.complete, dispositions.interviews
    known = dispositions.eligible
    possible = known + dispositions.unknown_eligibility
    estimated = None if eligibility is None else known + eligibility * dispositions.unknown_eligibility
    return ResponseRates(
        rr1=divide(complete, possible),
        rr2=divide(interviews, possible),
        rr3=Fraction(complete) / estimated if estimated else None,
        rr4=Fraction(interviews) / estimated if estimated else None,
        rr5=divide(complete, known),
        rr6=divide(interviews, known),
    )


def estimate_eligibility(eligible: int, ineligible: int) -> Fraction | None:
    """Return e, the estimated share of the eligible among people of unknown eligibility.

    By proportional allocation, e = eligible / (eligible + ineligible), of the people whose eligibility is
    known; None if there are none. Source: Standard Definitions (see the module), which names it the CASRO
    method, after the Council of American Survey Research Organizations.
    """
    return divide(eligible, eligible + ineligible)
