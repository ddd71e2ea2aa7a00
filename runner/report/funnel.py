"""Who was asked what: derived from who answered, since the service does not say it a question at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.report.facts import MessageOutline, WayOutline
    from runner.report.tally import Paths

_NOT_ANSWERED, _CONCLUDED = "-", "c"


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One question's place in the survey.

    Attributes:
        tag: the question's tag.
        asked: participants who were asked it.
        answered: of these, those who answered.
        unaccounted: participants of `asked` who answered although nothing in the ledger led them there.
        broke_off: participants who answered it, no later one, and did not end the survey by it; None for a
            question that is the last one.
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
        """Return the participants whose path has one of some characters at a question."""
        place = self.places[index]
        return sum(count for path, count in self.paths.items() if path[place] in characters)

    def count_strays(self, index: int) -> int:
        """Return those who answered a question though they had not, without ending it, the one before."""
        here, before = self.places[index], self.places[index - 1]
        return sum(
            count
            for path, count in self.paths.items()
            if path[here] != _NOT_ANSWERED and path[before] in (_NOT_ANSWERED, _CONCLUDED)
        )

    def count_breaks(self, index: int) -> int:
        """Return those whose last answer it was, and who did not end the survey by it."""
        here, later = self.places[index], self.places[index + 1 :]
        return sum(
            count
            for path, count in self.paths.items()
            if path[here] == "a" and all(path[place] == _NOT_ANSWERED for place in later)
        )

    def count_completed(self) -> int:
        """Return those who answered the last question, or ended the survey by an answer."""
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
    """Yield how many participants were asked each question, in the message's order.

    The first question reaches all whose session is not queued; each further one, those who answered the one
    before without ending the survey. Whoever answered was asked, whatever is missing: no rate exceeds 1.

    Args:
        outline: the message.
        paths: participants by arm and path.
        reached: recipients whom the first question has reached, by its tag.
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
    """Return a question's step over all ways in which it is asked; as the first one it reaches everybody."""
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
    """Return how an arm asks; who was sent to by an arm that is no more was asked as the first one asks."""
    ways = outline.all_ways
    return next((way for way in ways if way.arm == arm), ways[0])


def _find_places(outline: MessageOutline, way: WayOutline) -> list[int]:
    places = {question.tag: place for place, question in enumerate(outline.questions)}
    return [places[question.tag] for question in way.questions]
