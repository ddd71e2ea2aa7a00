"""Points of responses on a scale: by value, number and known words, never by place alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.campaign import scales
from runner.campaign.scales import find_scale_problem, read_points
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from runner.campaign.message_model import ResponseValue, Scale


def test_the_table_of_words_is_sound() -> None:
    """No word of the table is written twice in one place, and none is both a point and no point."""
    file = Path(scales.__file__).with_name("scale_words.yaml")
    assert not read_yaml(file.read_text(encoding="utf-8"), file).problems
    words = scales._load_words()  # noqa: SLF001  the table itself is tested
    assert not words.no_point & words.worth.keys()


KNOWN_WORDS_COUNT_FROM_WORST_TO_BEST: list[str] = [
    "Very dissatisfied|Dissatisfied|Neutral|Satisfied|Very satisfied",
    "Not at all satisfied|Slightly satisfied|Moderately satisfied|Very satisfied|Extremely satisfied",
    "Awful|Poor|Fair|Good|Great",
    "Poor|Fair|Good|Very good|Excellent",
    "Strongly disagree|Disagree|Neither agree nor disagree|Agree|Strongly agree",
    "Very difficult|Difficult|Neutral|Easy|Very easy",
    "Sehr unzufrieden|Unzufrieden|Teils/teils|Zufrieden|Sehr zufrieden",
    "Ungenügend|Mangelhaft|Ausreichend|Befriedigend|Gut|Sehr gut",
    "Pas du tout satisfait(e)|Peu satisfait(e)|Plutôt satisfait(e)|Très satisfait(e)",
    "Muy insatisfecho|Insatisfecho|Ni satisfecho ni insatisfecho|Satisfecho|Muy satisfecho",
    "Per niente soddisfatto|Poco soddisfatto|Abbastanza soddisfatto|Molto soddisfatto",
    "Zeer ontevreden|Ontevreden|Neutraal|Tevreden|Zeer tevreden",
    "Muito insatisfeito|Insatisfeito|Neutro|Satisfeito|Muito satisfeito",
    "Bardzo niezadowolony|Niezadowolony|Neutralny|Zadowolony|Bardzo zadowolony",
    "Mycket missnöjd|Missnöjd|Varken nöjd eller missnöjd|Nöjd|Mycket nöjd",
    "Çok kötü|Kötü|Orta|İyi|Çok iyi",
]


def test_known_words_count_from_worst_to_best() -> None:
    """Known words from worst to best count by place; from best to worst they are refused, with values."""
    for written in KNOWN_WORDS_COUNT_FROM_WORST_TO_BEST:
        texts = written.split("|")
        ascending = tuple(map(Fraction, range(1, len(texts) + 1)))
        assert read_points("csat", texts) == ascending
        assert find_scale_problem("csat", texts, (), texts) is None
        turned = texts[::-1]
        assert read_points("csat", turned) == (None,) * len(texts)
        problem = find_scale_problem("csat", turned, (), turned)
        assert problem is not None
        mended = read_yaml(problem.hint.split("`")[1], Path("hint")).data["responses"]
        assert [one["text"] for one in mended] == turned
        assert [one["value"] for one in mended] == [int(point) for point in reversed(ascending)]


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("1 (very good)|2|3", [3, 2, 1]),
        ("1|2|3 (very bad)", [3, 2, 1]),
        ("1 (low effort)|2|3 (high effort)", [1, 2, 3]),
        ("1 😀|2|3 😡", [1, 2, 3]),
        ("Love it|It is what it is|Hate it", [3, 2, 1]),
        ("1 (very bad)|2|3 (super duper)", None),
        ("3|2|1 (very bad)", None),
        ("1 star|2 stars|3 stars", None),
        ("1 ⭐|2 ⭐⭐|3 ⭐⭐⭐", None),
        ("1 of 3|2 of 3|3 of 3", None),
    ],
)
def test_words_beside_numbers_say_which_end_is_best(written: str, values: list[int] | None) -> None:
    """One end with known words tells; words that are not known leave it open, but for a unit."""
    texts = written.split("|")
    problem = find_scale_problem("csat", texts, (), texts)
    assert (problem is None) == (values is None)
    if problem is not None:
        mended = read_yaml(problem.hint.split("`")[1], Path("hint")).data["responses"]
        assert [one["value"] for one in mended] == values


def test_a_remedy_turns_no_net_promoter_score_round() -> None:
    """Where 0 is very likely, it counts as 10."""
    texts = ["0 = very likely", *map(str, range(1, 10)), "10 = not at all likely"]
    problem = find_scale_problem("nps", texts, (), texts)
    assert problem is not None
    mended = read_yaml(problem.hint.split("`")[1], Path("hint")).data["responses"]
    assert [one["value"] for one in mended] == list(range(10, -1, -1))


@pytest.mark.parametrize(
    ("scale", "texts", "values", "points"),
    [
        ("csat", ["Good", "Bad", "N/A"], (Fraction(2), Fraction(1), "none"), (2, 1, None)),
        ("nps", ["ten", "0"], (Fraction(10), None), (10, 0)),
        ("number", ["None", "2"], (Fraction(0), None), (0, 2)),
    ],
)
def test_values_outrank_texts(
    scale: Scale,
    texts: list[str],
    values: tuple[ResponseValue | None, ...],
    points: tuple[int | None, ...],
) -> None:
    """A response counts as its value; `none` is no point; without one, its number counts."""
    assert read_points(scale, texts, values) == points
