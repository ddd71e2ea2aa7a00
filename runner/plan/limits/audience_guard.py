"""Guards of an audience: what it is like now, beside what it was like when it was last sent to.

Whole audiences are compared, whoever of them is texted, so that many small runs look like one large one. The
last run that sent a text counts: for a new wave that of the wave before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.audience.table import fold_marks, normalize_name
from runner.document import Count, Moment, Part, build
from runner.source.json_schema import write_flow
from runner.source.quantity import write_share
from runner.wording import count_people, count_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from runner.audience.audience import Recipient
    from runner.campaign.model import AudienceLimit, Campaign
    from runner.ledger.model import Run
    from runner.plan.plan_context import PlanContext
    from runner.source.diagnostic import Diagnostic, Problems

_MUCH = Fraction(3, 10)
"""The difference that is told of where a campaign gives no `change`."""
_FEW = 10
"""People whose coming or going is not worth a word there."""
_TRACE = Fraction(1, 100)
"""The share of an audience whose lost values are not worth a word: of a column that few have."""
_MEANINGS = ("consent", "consent_date", "language", "region", "timezone")
"""Cells that mean something by themselves; `language` if it is another than the default."""

Figure = tuple[str, ...]
"""The path of a figure below `expected`: of people, of a list, or of a column's share of people."""
_PEOPLE, _EXCLUDED, _OPTED_OUT = (("people",), ("excluded",), ("opted_out",))
_LISTS = (_EXCLUDED, _OPTED_OUT)
_COMPARED = (_PEOPLE, _EXCLUDED)
"""Figures of lists in files, which a person must know where the record does not."""


class AudienceTraits:
    """Counts of a pass over an audience: people, and their filled cells. It can be pickled, and names nobody.

    Attributes:
        excluded: distinct phones of the lists to exclude.
    """

    def __init__(self) -> None:
        self._found: Counter[tuple[Any, ...]] = Counter()
        self.excluded = 0

    def add(self, one: Recipient) -> None:
        """Count one person."""
        consent = one.has_consent is not None, one.consent_day is not None
        meant = *consent, one.language, one.region is not None, one.timezone is not None
        self._found[tuple(one.vars), meant] += 1

    def merge(self, other: AudienceTraits) -> None:
        """Add the counts of other people, and of other phones to exclude."""
        self._found.update(other._found)
        self.excluded += other.excluded

    def count_people(self) -> int:
        """Return the number of people."""
        return self._found.total()

    def count_filled(self, names: Collection[str], default: str | None) -> dict[str, int]:
        """Return the people with a value, by column: of those that texts use (`names`), and with a meaning.

        A text's column with the name of a meaning gets another one, as in `region in texts`. `default` is the
        language of people who have none; None without languages.
        """
        taken = set(map(normalize_name, _MEANINGS))
        columns = {one: f"{one} in texts" if normalize_name(one) in taken else one for one in names}
        filled = Counter(dict.fromkeys(columns.values(), 0))
        for (variables, (*consent, language, has_region, has_timezone)), count in self._found.items():
            meant = (*consent, language != default, has_region, has_timezone)
            own = [name for name, is_there in zip(_MEANINGS, meant, strict=True) if is_there]
            for name in (*own, *(columns[one] for one in variables if one in columns)):
                filled[name] += count
        return dict(sorted(filled.items()))


class LastAudience(Part, frozen=True):
    """Figures of an audience when it was last sent to.

    Attributes:
        people: distinct phones, before exclusions.
        excluded: distinct phones of the lists to exclude.
        opted_out: people on record who had opted out.
        filled: people with a value, by column.
        at: when that run began: UTC, ISO 8601.
    """

    people: Count
    excluded: Count
    opted_out: Count
    filled: dict[str, Count]
    at: Moment


class _Difference(NamedTuple):
    """A figure that differs from what it is compared with, in words."""

    figure: Figure
    now: Fraction
    words: str


class PlannedAudience(Part, frozen=True):
    """Figures of a campaign's whole audience, whoever of it is texted.

    Attributes:
        people: distinct phones, before exclusions.
        excluded: distinct phones of the lists to exclude.
        opted_out: people on record who have opted out; None if that is not known.
        filled: people with a value, by column: of those that texts use, and `consent`, `consent_date`,
            `language` (another than the default), `region` and `timezone`; a text's column of such a name
            is `region in texts`.
        last: what it was like when it was last sent to; None if that is not on record, or not known.
        differences: in words, what differs much from the last time.
        was_sent: whether somebody was texted before, as far as is on record.
    """

    people: Count
    excluded: Count
    opted_out: Count | None
    filled: dict[str, Count]
    last: LastAudience | None
    differences: tuple[str, ...] = ()
    was_sent: bool = False

    @classmethod
    def of(
        cls, traits: AudienceTraits, campaign: Campaign, names: Collection[str], context: PlanContext
    ) -> PlannedAudience:
        """Return the audience of a campaign whose texts use the columns `names`."""
        default = None if campaign.languages is None else campaign.languages.default
        filled = traits.count_filled(names, default)
        last, was_sent = _describe_last(context.last_run), context.was_sent
        people = traits.count_people()
        found = cls(people, traits.excluded, context.opted_out, filled, last, was_sent=was_sent)
        broken = {one.figure for one in found._find_broken(campaign.limits.recipients)}
        told = (one.words for one in found._find_notable() if one.figure not in broken)
        return found.replace(differences=tuple(told))

    def find_refusals(self, limit: AudienceLimit) -> Iterator[str]:
        """Yield, in words, the limits that the audience breaks; the last one says how a person accepts it."""
        if limit.least is not None and self.people < limit.least:
            people = count_people(self.people)
            yield f"its audience has {people}, and limits.recipients.least is {limit.least:,}"
        counted = sorted({*self.filled, *_MEANINGS})
        for name in (one[-1] for one in limit.expected if len(one) > 1):
            if fold_marks(name) not in map(fold_marks, counted):
                yield f"limits.recipients.expected.filled has `{name}`, and counted are: {', '.join(counted)}"
        broken = [*self._find_broken(limit)]
        yield from (f"its audience: {one.words}" for one in broken[:-1])
        for last in broken[-1:]:
            found = (*limit.expected.items(), *((one.figure, one.now) for one in broken))
            expected = dict({_fold(figure): (figure, value) for figure, value in found}.values())
            hint = f"if that is meant, write `expected: {_write_expected(expected)}` in limits.recipients"
            yield f"its audience: {last.words} ({hint})"

    def _find_broken(self, limit: AudienceLimit) -> Iterator[_Difference]:
        """Yield what differs from the last time, or from what a person expects, by more than `change`."""
        if limit.change is None:
            return
        beyond = f", beyond `change: {write_share(limit.change)}`"
        expected = {_fold(figure): value for figure, value in limit.expected.items()}
        for figure, now, was in self._list_pairs():
            base = expected.get(_fold(figure), was)
            if base is not None and _is_beyond(figure, now, base, limit.change):
                is_expected = _fold(figure) in expected
                when = " as `expected` in limits.recipients" if is_expected else self._say_when()
                yield _Difference(figure, now, f"{_compare(figure, now, base)}{when}{beyond}")
            elif base is None and self.last is None and self.was_sent and now and figure in _COMPARED:
                words = f"{_describe(figure, now)}, and there is no record of how many when it was last sent"
                yield _Difference(figure, now, words)

    def _find_notable(self) -> Iterator[_Difference]:
        """Yield what differs much from the last time; of lists of people not to text, all that shrank."""
        for figure, now, was in self._list_pairs():
            if was is None:
                continue
            count = abs(now - was) * (self.people if len(figure) > 1 else 1)
            is_much = count >= _FEW and _is_beyond(figure, now, was, _MUCH)
            if is_much or (figure in _LISTS and now < was):
                yield _Difference(figure, now, f"{_compare(figure, now, was)}{self._say_when()}")

    def find_needless(self, campaign: Campaign) -> Iterator[Diagnostic]:
        """Yield the warning about an `expected` without which the plan goes through: it hides what comes."""
        limit = campaign.limits.recipients
        if self.last and limit.expected and not any(self._find_broken(replace(limit, expected={}))):
            words = "`expected` in limits.recipients is not needed: the audience is about the same"
            hint = "take it out: while it stands, its figures are not compared with those of the last time"
            words += self._say_when()
            yield campaign.position.problem("expected-needless", words, hint, "warning")

    def _say_when(self) -> str:
        return "" if self.last is None else f" as when it was last sent ({self.last.at[:10]})"

    def _list_pairs(self) -> Iterator[tuple[Figure, Fraction, Fraction | None]]:
        """Yield each figure with that of the last time; columns that texts no longer use are left out."""
        known = {} if self.last is None else _list_figures(self.last)
        present = _list_figures(self)
        present |= {("filled", name): Fraction(0) for name in _MEANINGS if name not in self.filled}
        for figure, now in present.items():
            # Without people no column has a value.
            if len(figure) == 1 or self.people:
                yield figure, now, known.get(figure)


def _list_figures(audience: PlannedAudience | LastAudience) -> dict[Figure, Fraction]:
    """Return the figures of an audience that are known; of columns the share of people with a value."""
    counts = {"people": audience.people, "excluded": audience.excluded, "opted_out": audience.opted_out}
    found: dict[Figure, Fraction] = {(name,): Fraction(n) for name, n in counts.items() if n is not None}
    for name, count in audience.filled.items() if audience.people else ():
        found["filled", name] = Fraction(count, audience.people)
    return found


def _is_beyond(figure: Figure, now: Fraction, base: Fraction, change: Fraction) -> bool:
    """Return whether a figure differs by more than a share of `base`; all but people may grow."""
    if figure == _PEOPLE:
        return abs(now - base) > change * base or (not now and base > 0)
    lost = base - now
    return lost > 0 and (lost > change * base or not now) and (figure in _LISTS or lost >= _TRACE)


def _fold(figure: Figure) -> Figure:
    """Return a figure for comparison: columns are found without regard to case and blanks."""
    return tuple(map(fold_marks, figure))


def _compare(figure: Figure, now: Fraction, was: Fraction) -> str:
    return f"{_describe(figure, now)}, not {f'{int(was):,}' if len(figure) == 1 else f'{float(was):.0%}'}"


def _describe(figure: Figure, now: Fraction) -> str:
    if figure == _PEOPLE:
        return count_people(int(now))
    if figure == _EXCLUDED:
        return f"{count_words(int(now), 'phone')} in `exclude`"
    if figure == _OPTED_OUT:
        return f"{count_people(int(now))} on record opted out"
    return f"`{figure[-1]}` has a value for {float(now):.0%} of people"


def _write_expected(expected: Mapping[Figure, Fraction]) -> str:
    """Return what a person writes to accept some figures, in YAML."""
    counts: dict[str, Any] = {one[0]: int(value) for one, value in expected.items() if len(one) == 1}
    shares = {one[-1]: f"{float(value):.0%}" for one, value in expected.items() if len(one) > 1}
    written = counts | ({"filled": shares} if shares else {})
    return write_flow(written if written.keys() != {"people"} else written["people"])


def _describe_last(run: Run | None) -> LastAudience | None:
    if run is None or run.audience is None:
        return None
    return build(LastAudience, run.audience, filled=dict(run.audience.filled), at=run.started_at)


def refuse_empty(campaign: Campaign, problems: Problems) -> Iterator[str]:
    """Yield, in words, the campaign's lists without a phone that are among its problems, if it has `change`.

    In a sum of several lists an emptied one may be within it.
    """
    for one in problems if campaign.limits.recipients.change is not None else ():
        if one.code == "audience-empty" and one.file == campaign.file:
            yield f"line {one.line}: {one.message}, and with `change` no list may be empty ({one.hint})"
