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

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.model import Dispositions, ResponseRates
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.report.facts import MessageOutline, Paths, WayOutline


_NOT_ANSWERED, _CONCLUDED = "-", "c"


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


@dataclass(frozen=True, slots=True)
class _Walk:
    """The questions of one way, by their places in a path, with the participants who took it."""

    places: Sequence[int]
    paths: Mapping[str, int]

    def count(self, index: int, characters: str) -> int:
        """Return the participants with one of some characters at a question of their path."""
        place = self.places[index]
        return sum(count for path, count in self.paths.items() if path[place] in characters)

    def count_strays(self, index: int) -> int:
        """Return the participants who answered a question to which the answer before it did not lead."""
        here, before = self.places[index], self.places[index - 1]
        return sum(
            count
            for path, count in self.paths.items()
            if path[here] != _NOT_ANSWERED and path[before] in (_NOT_ANSWERED, _CONCLUDED)
        )

    def count_breaks(self, index: int) -> int:
        """Return the participants whose last answer it was, and who did not end the survey by it."""
        here, later = self.places[index], self.places[index + 1 :]
        return sum(
            count
            for path, count in self.paths.items()
            if path[here] == "a" and all(path[place] == _NOT_ANSWERED for place in later)
        )

    def count_completed(self) -> int:
        """Return the participants who answered the last question, or ended the survey by an answer."""
        if not self.places:
            return 0
        return sum(
            count
            for path, count in self.paths.items()
            if path[self.places[-1]] != _NOT_ANSWERED
            or any(path[place] == _CONCLUDED for place in self.places)
        )


def follow_questions(
    outline: MessageOutline, paths: Paths, reached: Mapping[str, int]
) -> Iterator[FunnelStep]:
    """Yield the step of each question, in the message's order.

    The first question reaches all whose session is not queued (`reached`, by its tag); each further one,
    those who answered the one before without ending the survey. A participant who answered counts as asked,
    so no rate exceeds 1.
    """
    steps: dict[str, list[FunnelStep]] = defaultdict(list)
    firsts: Counter[str] = Counter()
    for way, walk in _list_walks(outline, paths):
        for index, question in enumerate(way.questions):
            if index:
                steps[question.tag].append(_take_step(walk, question.tag, index))
            else:
                firsts[question.tag] += walk.count(0, "ac")
                steps[question.tag].append(_begin(walk, question.tag))
    for question in outline.questions:
        yield _add_up(question.tag, steps[question.tag], reached.get(question.tag), firsts[question.tag])


def count_completed(outline: MessageOutline, paths: Paths) -> dict[str, int]:
    """Return the participants who reached the end, by arm: answered the last question, or ended it early."""
    completed: Counter[str] = Counter()
    for arm, path in paths:
        walk = _Walk(_find_places(outline, _find_way(outline, arm)), {path: paths[arm, path]})
        completed[arm] += walk.count_completed()
    return dict(completed)


def _take_step(walk: _Walk, tag: str, index: int) -> FunnelStep:
    strays = walk.count_strays(index)
    is_last = index == len(walk.places) - 1
    return FunnelStep(
        tag,
        asked=walk.count(index - 1, "a") + strays,
        answered=walk.count(index, "ac"),
        unaccounted=strays,
        broke_off=None if is_last else walk.count_breaks(index),
    )


def _begin(walk: _Walk, tag: str) -> FunnelStep:
    is_last = len(walk.places) == 1
    return FunnelStep(tag, 0, walk.count(0, "ac"), 0, None if is_last else walk.count_breaks(0))


def _add_up(tag: str, steps: Sequence[FunnelStep], reached: int | None, first: int) -> FunnelStep:
    """Return a question's step over all ways; as the first question it reaches everybody."""
    breaks = [step.broke_off for step in steps if step.broke_off is not None]
    return FunnelStep(
        tag,
        asked=sum(step.asked for step in steps) + (0 if reached is None else max(reached, first)),
        answered=sum(step.answered for step in steps),
        unaccounted=sum(step.unaccounted for step in steps)
        + (0 if reached is None else max(first - reached, 0)),
        broke_off=sum(breaks) if breaks else None,
    )


def _list_walks(outline: MessageOutline, paths: Paths) -> Iterator[tuple[WayOutline, _Walk]]:
    """Yield the ways that somebody took or could take, each with the paths of its participants."""
    taken: dict[WayOutline, Counter[str]] = {way: Counter() for way in outline.all_ways}
    for (arm, path), count in paths.items():
        taken.setdefault(_find_way(outline, arm), Counter())[path] += count
    for way, counted in taken.items():
        yield way, _Walk(_find_places(outline, way), counted)


def _find_way(outline: MessageOutline, arm: str) -> WayOutline:
    """Return the way of an arm; for an arm that no longer exists, the first one."""
    ways = outline.all_ways
    return next((way for way in ways if way.arm == arm), ways[0])


def _find_places(outline: MessageOutline, way: WayOutline) -> list[int]:
    places = {question.tag: place for place, question in enumerate(outline.questions)}
    return [places[question.tag] for question in way.questions]


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
