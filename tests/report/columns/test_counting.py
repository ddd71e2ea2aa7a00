"""What the engine counts is what plain Python counts."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.ledger.report_model import ResultVersion
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns, load_members
from runner.report.columns.replies import build_reader
from runner.report.facts import (
    CampaignFacts,
    CampaignOutline,
    ExperimentOutline,
    MessageOutline,
    QuestionOutline,
)
from runner.report.gathering import pool_questions
from tests.report.counted import count_rows, make_contact, make_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.report_model import FeedRow
    from runner.report.facts import AnswerReading, CampaignTally, MessageTally

NPS = QuestionOutline("nps", "0 to 10?", tuple(map(str, range(11))), "nps", endings=("0",))
COLOUR = QuestionOutline("colour", "Which?", ("Red", "Straße", "ΤΈΛΟΣ", "blue"))
AGE = QuestionOutline("age", "How old?", scale="number")
WHY = QuestionOutline("why", "Why?", scale="text", endings=("stop",))
MORE = QuestionOutline("more", "More?", ("Yes", "No"), endings=("No",))
QUESTIONS = (NPS, COLOUR, AGE, WHY, MORE)
OUTLINE = MessageOutline(
    "ask",
    "tag",
    QUESTIONS,
    {
        "a": (NPS, COLOUR, AGE, WHY),
        # Other responses, another order, and a question of its own.
        "b": (AGE, QuestionOutline("colour", "Which?", ("Blue", "Pink"), endings=("Pink",)), MORE),
    },
)
OTHER = MessageOutline("again", "tag", (AGE,))
KNOWN = {question.tag for question in QUESTIONS}
ARMS = ("a", "b", "gone")
TEXTS = ("0", "7", " 7\N{NO-BREAK SPACE}", "7.50", "12", "red", "BLUE", "blue\n", "STRASSE", "strasse", "Straße",
         "τέλος", "Pink", "no", " Stop", "stop it", "", "own words, 7")  # fmt: skip
TIMES = (
    "2026-11-20T10:00:00",
    "2026-11-20T10:00:00.000001",
    "2026-11-20T10:01:30.9Z",
    "2026-11-21T01:00:00+02:00",
    "2026-11-19T23:00:00",
    "1969-12-31T00:00:00",
    "99999-01-01",
    "soon",
    "",
)

rows_of_two_messages = st.lists(
    st.builds(
        make_row,
        participant=st.sampled_from("pqrst"),
        tag=st.sampled_from((*sorted(KNOWN), "unknown", "")),
        answer=st.sampled_from(("1", " 2 ", "3", "0", "own")),
        response=st.sampled_from(TEXTS),
        message=st.sampled_from(("ask", "asked", "again", "never")),
        arm=st.sampled_from(ARMS),
        started=st.sampled_from(("2026-11-20T09:59:59.5", "2026-11-20T10:00:00", "", "soon")),
        text=st.sampled_from(("Is it?", "Was it?")),
        created=st.sampled_from(TIMES),
        guid=st.integers(0, 2**32 - 1).map(lambda number: f"0a1b2c3d-{number:08x}"),
    ),
    max_size=40,
    unique_by=lambda row: row.result_guid,
)


def outline_all(*outlines: MessageOutline) -> CampaignOutline:
    return CampaignOutline(outlines, tuple(pool_questions(outlines)))


def count(outlines: Iterable[MessageOutline], rows: Iterable[FeedRow]) -> CampaignTally:
    return count_rows(CampaignFacts("pulse", "live", outline_all(*outlines)), rows)


def read_time(text: str) -> datetime | None:
    """Return a time in UTC; None for what a calendar does not have, and for what was before 1970."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time if time.year >= 1970 else None


def order(row: FeedRow) -> tuple[bool, datetime, str]:
    """Return by what rows are sorted: those of no known time come first."""
    time = read_time(row.created)
    return time is not None, time or datetime.min.replace(tzinfo=UTC), row.result_guid


def describe(reading: AnswerReading) -> tuple[object, ...]:
    return reading.answer, reading.label, reading.number, reading.concludes


def read(outline: MessageOutline, row: FeedRow) -> tuple[object, ...]:
    """Return what is kept of one row, by the question as the row's own arm asks it."""
    base = next(one for one in outline.questions if one.tag == row.question_tag)
    own = outline.all_ways.get(row.arm, ())
    question = next((one for one in own if one.tag == row.question_tag), base)
    return describe(build_reader(question)(row.answer, row.response))


NO_ANSWER, GOES_ON, ENDS = range(3)


class Reference:
    """One message counted in plain Python, by sorting and filtering."""

    def __init__(self, outline: MessageOutline, rows: Sequence[FeedRow]) -> None:
        self.outline = outline
        self.rows = sorted(rows, key=order)
        self.people = sorted({row.participant for row in rows})
        self.latest = {(row.participant, row.question_tag): row for row in self.rows}
        self.arms = {person: min(row.arm for row in self._of(person)) for person in self.people}

    def _of(self, person: str) -> list[FeedRow]:
        return [row for row in self.rows if row.participant == person]

    def completed(self) -> int:
        return sum(steps[-1] != NO_ANSWER or ENDS in steps for steps in map(self._walk, self.people))

    def asked(self) -> dict[str, int]:
        """Return the people who were asked each question, of whom nobody was texted."""
        asked = dict.fromkeys((question.tag for question in self.outline.questions), 0)
        for person in self.people:
            steps = self._walk(person)
            for tag, before, step in zip(self._list_tags(person), [NO_ANSWER, *steps], steps, strict=False):
                asked[tag] += before == GOES_ON or step != NO_ANSWER
        return asked

    def _list_tags(self, person: str) -> list[str]:
        """Return the questions of the person's arm; of one that is no more, those of the first."""
        ways = {arm: [one.tag for one in way] for arm, way in self.outline.all_ways.items()}
        return ways.get(self.arms[person], next(iter(ways.values())))

    def _walk(self, person: str) -> list[int]:
        answers = [self.latest.get((person, tag)) for tag in self._list_tags(person)]
        return [
            NO_ANSWER if row is None else ENDS if read(self.outline, row)[-1] else GOES_ON for row in answers
        ]

    def readings(self, tag: str) -> Counter[tuple[object, ...]]:
        return Counter(read(self.outline, row) for (_, one), row in self.latest.items() if one == tag)

    def median_first(self) -> Fraction | None:
        seconds = list(chain.from_iterable(map(self._first, self.people)))
        return statistics.median(map(Fraction, seconds)) if seconds else None

    def _first(self, person: str) -> list[int]:
        starts = [time for row in self._of(person) if (time := read_time(row.started))]
        times = [time for row in self._of(person) if (time := read_time(row.created))]
        return _seconds(min(starts), min(times)) if starts and times else []

    def days(self) -> Counter[date]:
        return Counter(time.date() for row in self.rows if (time := read_time(row.created)))


def _seconds(since: datetime, until: datetime) -> list[int]:
    return [int((until - since).total_seconds())] if until >= since else []


def check_question(counted: Mapping[AnswerReading, int], reference: Reference, tag: str) -> None:
    found: Counter[tuple[object, ...]] = Counter()
    for reading, people in counted.items():
        found[describe(reading)] += people
    assert found == reference.readings(tag)


def check_message(counted: MessageTally, reference: Reference) -> None:
    assert counted.results == len(reference.rows)
    assert counted.answered == len(reference.people)
    assert counted.completed == reference.completed()
    assert counted.asked == reference.asked()
    assert counted.median_first_s == reference.median_first()
    assert counted.days == reference.days()
    known = [question.tag for question in reference.outline.questions]
    assert list(counted.questions) == known
    assert counted.unknown == Counter(
        row.question_tag for row in reference.rows if row.question_tag not in known
    )
    for tag, question in counted.questions.items():
        check_question(question, reference, tag)


@pytest.mark.slow
@given(rows_of_two_messages)
@example([make_row("p", "nps", "", answer="0", arm="a")])
@settings(max_examples=20)
def test_counts_are_those_of_plain_python(
    tmp_path_factory: pytest.TempPathFactory, rows: list[FeedRow]
) -> None:
    """Latest answers, paths, readings, times and days; of two messages, one of them renamed."""
    copy = ResultColumns(tmp_path_factory.mktemp("copy"))
    with copy.hold() as engine:
        copy.refresh(engine, ResultVersion("edition", 1), lambda _: rows, lambda _: "")
        whole = outline_all(OUTLINE, OTHER)
        tally = count_campaign(engine, whole, {"asked": "ask", "ask": "ask"})
    named = [row._replace(message="ask") if row.message == "asked" else row for row in rows]
    assert tally.strays == sum(row.message == "never" for row in rows)
    assert tally.people.answered == len({row.participant for row in named if row.message != "never"})
    for outline in (OUTLINE, OTHER):
        reference = Reference(outline, [row for row in named if row.message == outline.id])
        check_message(tally.messages[outline.id], reference)
    pooled: Counter[object] = Counter()
    (age,) = (number for number, one in enumerate(whole.questions) if one.question == AGE)
    assert list(tally.questions) == [age]
    for (message, reading), people in tally.questions[age].readings.items():
        pooled[message, describe(reading)] += people
    assert pooled == pool(named)


def pool(rows: Sequence[FeedRow]) -> Counter[object]:
    """Return the latest answers to `age` over both messages: by time, then by message, then by guid."""
    outlines = {outline.id: outline for outline in (OUTLINE, OTHER)}
    latest = {
        row.participant: row
        for row in sorted(rows, key=lambda row: (order(row)[:2], row.message == "again", order(row)))
        if row.message in outlines and row.question_tag == "age"
    }
    return Counter((row.message, read(outlines[row.message], row)) for row in latest.values())


def test_replies_that_opt_out_are_no_answers(tmp_path: Path) -> None:
    """They are counted among the results, and nowhere else: no person, no day, no question of theirs."""
    rows = [make_row(f"p{number}", "why", "so so", guid=f"a{number}") for number in range(6)]
    rows += [make_row(f"p{number}", "why", "stop please", guid=f"s{number}") for number in range(5, 12)]
    rows += [make_row("p12", "gone", "stop please", guid="t")]
    copy = ResultColumns(tmp_path)
    refusals = {(1, "t"): True, **{(1, f"s{number}"): number < 7 for number in range(5, 12)}}
    with copy.hold() as engine:
        copy.refresh(engine, ResultVersion("e", 1), lambda _: rows, lambda _: "", refusals)
        tally = count_campaign(engine, outline_all(OUTLINE), {})
        # What a person decides counts at once, though no result has changed.
        copy.refresh(engine, ResultVersion("e", 1), lambda _: (), lambda _: "")
        undecided = count_campaign(engine, outline_all(OUTLINE), {})
    counted = tally.messages["ask"]
    assert (counted.results, counted.answered, tally.people.answered) == (14, 6, 6)
    assert sum(counted.questions["why"].values()) == 6
    assert list(counted.days.values()) == [6]
    assert counted.unknown == {}
    assert undecided.people.answered == 13
    # The ledger knows nobody else as sent to.
    assert (tally.people.opted_out, undecided.people.opted_out) == (1, 0)


def count_one(question: QuestionOutline, rows: Iterable[FeedRow]) -> Mapping[AnswerReading, int]:
    tally = count([MessageOutline("ask", "tag", (question,))], rows)
    return tally.messages["ask"].questions[question.tag]


@pytest.mark.parametrize(
    ("guids", "latest"),
    [
        (("a", "b"), "second"),
        (("b", "a"), "first"),
        (("b", "aa"), "first"),
        (("", "a"), "second"),
        (("é", "z"), "first"),
        (("😀", "a"), "first"),
        (("0a1b2c3d-1", "0a1b2c3d-2"), "second"),
        (("0a1b2c3d-2", "0a1b2c3d-1"), "first"),
    ],
)
@pytest.mark.parametrize("created", ["2026-11-20T10:00:00", ""])
def test_answers_of_one_moment_are_ordered_by_guid(
    tmp_path: Path, guids: tuple[str, str], latest: str, created: str
) -> None:
    """Of two answers of one moment, that with the largest guid counts, in whatever order they are copied."""
    question = QuestionOutline("q", "?", ("first", "second"))
    outline = outline_all(MessageOutline("ask", "tag", (question,)))
    rows = [
        make_row("p", "q", text, guid=guid, created=created)
        for guid, text in zip(guids, question.responses, strict=True)
    ]
    feeds = [[rows], [rows[::-1]], [rows[:1], rows[1:]], [rows[1:], rows[:1]]]
    for number, feed in enumerate(feeds):
        copy = ResultColumns(tmp_path / str(number))
        with copy.hold() as engine:
            for revision, part in enumerate(feed, start=1):
                version = ResultVersion("e", revision)
                copy.refresh(engine, version, {revision - 1: part, -1: part}.__getitem__, lambda _: "")
            (reading,) = count_campaign(engine, outline, {}).messages["ask"].questions["q"]
        assert reading.label == latest


@pytest.mark.parametrize(
    ("offered", "given"),
    [
        ("Straße", ("Straße", "STRASSE", "straße ")),
        ("Τέλος", ("Τέλος", "ΤΈΛΟΣ", "τέλοσ")),
        ("Yes", ("yes", "\N{NO-BREAK SPACE}YES\N{IDEOGRAPHIC SPACE}", "\x0byes\x1f", "\N{NEXT LINE}yes")),
    ],
)
def test_case_and_blanks_do_not_matter(offered: str, given: tuple[str, ...]) -> None:
    """An answer is recognised in whatever letters it is typed, in languages with letters of their own, too."""
    question = QuestionOutline("q", "?", endings=(offered,), scale="text")
    rows = [make_row(f"p{number}", "q", text, text, guid=text) for number, text in enumerate(given)]
    ((reading, people),) = count_one(question, rows).items()
    assert (reading.concludes, people) == (True, len(given))


def test_decimal_commas_are_counted_and_thousands_are_no_numbers() -> None:
    """`7,5` and `7.5` are one number; what may be a thousand is in the participant's own words.

    Of two different marks the last one is decimal.
    """
    texts = ("7,5", "7.5", " +7,50 ", "1,500", "0,5", "1.234,5", "1,234.5", " 1\N{NO-BREAK SPACE}234,50 ")
    rows = [make_row(f"p{number}", "age", text, text, guid=str(number)) for number, text in enumerate(texts)]
    tally = count_one(AGE, rows)
    numbers = Counter({reading.number: count for reading, count in tally.items()})
    assert numbers == {Fraction(15, 2): 3, Fraction(1, 2): 1, Fraction(2469, 2): 3, None: 1}


def test_strange_responses_are_kept_up_to_a_thousand() -> None:
    """The rarest of more than 1,000 strange responses count as own words; none that the question offers does."""
    rows = [
        make_row(f"p{number}", "colour", f"c{number:04}", "1", guid=str(number)) for number in range(1005)
    ]
    rows += [
        make_row(f"q{number}", "colour", f"c{number:04}", "1", guid=f"q{number}") for number in range(5, 1005)
    ]
    rows += [make_row("r", "colour", "red", "1", guid="r")]
    question = count_one(COLOUR, rows)
    readings = {reading.label: people for reading, people in question.items()}
    assert readings.pop("Red") == 1
    assert readings.pop(None) == 5
    assert readings == {f"c{number:04}": 2 for number in range(5, 1005)}


@pytest.mark.slow
@given(
    rows_of_two_messages,
    st.dictionaries(st.sampled_from("pqrstuv"), st.sampled_from(("Lyon", " lyon", "Paris", "")), max_size=7),
    st.frozensets(st.sampled_from("pqrstuv")),
)
@settings(max_examples=10)
def test_groups_are_those_of_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[FeedRow],
    cities: dict[str, str],
    reached: frozenset[str],
) -> None:
    """People, answers and scores by a column; who is in the audience no more is of the group without a name."""
    mine = [row for row in rows if row.message == "ask"]
    copy = ResultColumns(tmp_path_factory.mktemp("copy"))
    contacts = [make_contact(person, arm="a") for person in reached] + [make_contact("p", message="again")]
    with copy.hold() as engine:
        version = ResultVersion("edition", 1)
        copy.refresh(engine, version, lambda _: mine, lambda _: "", {}, "mark", lambda: contacts)
        load_members(
            engine, [(person, "", "0", "x", city) for person, city in cities.items()], ["value_0", "value_1"]
        )
        outline = outline_all(OUTLINE)
        tally = count_campaign(engine, outline, {}, ("plan", "city"))
    groups = {name.casefold(): group for name, group in tally.groups["city"].items()}
    assert set(tally.groups) == {"plan", "city"}
    folded = {person: cities.get(person, "").strip().casefold() for person in "pqrstuv"}
    assert set(groups) == {folded[person] for person in reached}
    for city, group in groups.items():
        people = {person for person in reached if folded[person] == city}
        assert group.texted == len(people)
        theirs = Reference(OUTLINE, [row for row in mine if row.participant in people])
        assert group.answered == len(theirs.people)
        for number, one in enumerate(outline.questions):
            if one.question.scale not in ("nps", "number"):
                continue
            found: Counter[tuple[object, ...]] = Counter()
            for reading, count in group.readings.get(number, {}).items():
                found[describe(reading)] += count
            wanted: Counter[tuple[object, ...]] = Counter()
            for kept, count in theirs.readings(one.question.tag).items():
                wanted[kept] += count
            assert found == wanted


def test_arms_are_counted_as_their_verdict_counts(tmp_path: Path) -> None:
    """On the day of the verdict arms have the people and answers before it; how many came later is told."""
    due = date(2026, 11, 25)
    outline = replace(
        outline_all(OUTLINE), experiment=ExperimentOutline("ask", {"a": 1, "b": 1}, due), score=0
    )
    times = {"early": "2026-11-24T23:59:59", "late": "2026-11-25T00:00:00"}
    answers = {("p", "a"): "early", ("q", "a"): "late", ("r", "a"): "late", ("s", "b"): "early"}
    rows = [
        make_row(person, "nps", "9", "10", arm=arm, created=times[when], guid=person)
        for (person, arm), when in answers.items()
    ]
    rows.append(make_row("p", "nps", "3", "4", arm="a", created=times["late"], guid="again"))
    contacts = [make_contact(person, arm=arm) for person, arm in answers if person != "r"]
    contacts.append(make_contact("r", arm="a", began=times["late"]))
    copy = ResultColumns(tmp_path)
    with copy.hold() as engine:
        version = ResultVersion("edition", 1)
        copy.refresh(engine, version, lambda _: rows, lambda _: "", {}, "mark", lambda: contacts)
        before, after = (
            count_campaign(engine, outline, {}, as_of=datetime(2026, 11, day, 12, tzinfo=UTC)).arms
            for day in (24, 25)
        )
    assert before is not None
    assert after is not None
    assert [(one.texted, one.answered) for one in before.groups.values()] == [(3, 3), (1, 1)]
    assert before.answered_later == 0
    assert [(one.texted, one.answered, one.completed) for one in after.groups.values()] == [
        (2, 1, None),
        (1, 1, None),
    ]
    (score,) = after.groups["a"].readings[0]
    assert score.number == Fraction(9)
    assert after.groups["a"].readings[0][score] == 1
    assert after.answered_later == 3


def test_a_group_is_called_as_most_of_it_are(tmp_path: Path) -> None:
    """`Berlin`, `berlin ` and `BERLIN` are one group."""
    cities = {"a": "berlin ", "b": "Berlin", "c": "Berlin", "d": "BERLIN", "e": "Bonn"}
    copy = ResultColumns(tmp_path)
    with copy.hold() as engine:
        copy.refresh(
            engine,
            ResultVersion("e", 1),
            lambda _: (),
            lambda _: "",
            {},
            "m",
            lambda: map(make_contact, cities),
        )
        load_members(engine, [(person, "", "0", city) for person, city in cities.items()], ["value_0"])
        tally = count_campaign(engine, outline_all(OUTLINE), {}, ("city",))
    assert {name: group.texted for name, group in tally.groups["city"].items()} == {"Berlin": 4, "Bonn": 1}


def test_days_are_those_of_the_campaign_s_zone() -> None:
    """Answers of one evening in Los Angeles are of one day, though Greenwich has two."""
    rows = [
        make_row("p", "age", "1", created="2026-11-20T23:59:00", guid="a"),
        make_row("q", "age", "1", created="2026-11-21T07:59:59", guid="b"),
        make_row("q", "why", "so", created="2026-11-21T08:00:00", guid="c"),
    ]
    outline = CampaignOutline((OUTLINE,), time_zone=ZoneInfo("America/Los_Angeles"))
    tally = count_rows(CampaignFacts("pulse", "live", outline), rows)
    assert tally.messages["ask"].days == {
        date(2026, 11, 20): 2,
        date(2026, 11, 21): 1,
    }


def test_digits_of_every_script_are_numbers() -> None:
    """`٣` and `３` are three, and `٣٫٥` is what its author alone knows."""
    texts = ("3", "٣", "３", "३", "١٢,٥", "٣٫٥")
    rows = [make_row(f"p{number}", "age", text, text, guid=str(number)) for number, text in enumerate(texts)]
    readings = count_one(AGE, rows)
    numbers = Counter({reading.number: count for reading, count in readings.items()})
    assert numbers == {Fraction(3): 4, Fraction(25, 2): 1, None: 1}
