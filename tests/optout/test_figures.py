"""Recall and precision of opt-outs on the labelled corpus, and the page that names them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from runner.optout.reply import classify
from tests.optout.test_corpus import LANGUAGES, rows_of

PAGE = Path(__file__).parents[2] / "docs" / "opt-outs.md"
SENTENCES = Path(__file__).with_name("sentences.txt")
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
HALVES = ("dev", "held")
NAMES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "sv": "Swedish",
    "tr": "Turkish",
}
RECALL, ENGLISH_RECALL, SURE_PRECISION, DOUBTFUL_PRECISION = 0.85, 0.9, 0.995, 0.9


@dataclass(frozen=True)
class Figures:
    """Counts of the replies of a language, in one half, as they were read.

    Attributes:
        opt_outs: replies that opt out.
        opt_ins: replies that ask for texts again.
        sure: opt-outs that were read as sure.
        doubtful: opt-outs that were read as doubtful.
        not_sure: other replies that were read as sure; unclear ones count neither way.
        not_doubtful: other replies that were read as doubtful, likewise.
        returning: replies that ask for texts again and were read so.
    """

    opt_outs: int
    opt_ins: int
    sure: int
    doubtful: int
    not_sure: int
    not_doubtful: int
    returning: int

    @property
    def recall(self) -> float:
        """Return which share of the opt-outs is found, for certain or for a person to decide."""
        return (self.sure + self.doubtful) / self.opt_outs

    @property
    def sure_precision(self) -> float:
        """Return which share of what is read as sure opts out."""
        return self.sure / (self.sure + self.not_sure)

    @property
    def doubtful_precision(self) -> float:
        """Return which share of what is read as doubtful opts out."""
        return self.doubtful / (self.doubtful + self.not_doubtful)


@lru_cache
def measure(half: str, *languages: str) -> Figures:
    """Read all replies of some languages in one half of the corpus."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in (row for language in languages for row in rows_of(language) if row["half"] == half):
        offered = [response for response in row["offered"].split("|") if response]
        counts[row["label"], classify(row["reply"], offered=offered).kind] += 1
    return Figures(
        sum(count for (label, _), count in counts.items() if label == "opt_out"),
        sum(count for (label, _), count in counts.items() if label == "opt_in"),
        counts["opt_out", "sure"],
        counts["opt_out", "doubtful"],
        counts["answer", "sure"] + counts["opt_in", "sure"],
        counts["answer", "doubtful"] + counts["opt_in", "doubtful"],
        counts["opt_in", "opt_in"],
    )


def write_row(name: str, figures: Figures) -> str:
    """Write a row of the page's table."""
    return (
        f"| {name} | {figures.opt_outs} | {figures.sure} | {figures.doubtful} | {figures.recall:.3f} "
        f"| {figures.sure_precision:.3f} | {figures.doubtful_precision:.3f} "
        f"| {figures.returning} of {figures.opt_ins} |\n"
    )


def write_figures() -> str:
    """Write the part of the page that holds the figures."""
    parts = []
    for half, title in (("held", "Held half"), ("dev", "Half that the rules were written from")):
        rows = [(NAMES[language], measure(half, language)) for language in sorted(NAMES, key=NAMES.get)]  # type: ignore[arg-type]
        parts.append(
            f"\n{title}:\n\n"
            "| language | opt-outs | sure | doubtful | recall | precision of sure | precision of doubtful "
            "| START and its kin |\n"
            "|---|---|---|---|---|---|---|---|\n"
            + "".join(write_row(name, figures) for name, figures in rows)
            + write_row("all", measure(half, *LANGUAGES))
        )
    return "".join(parts) + "\n"


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_opt_outs_are_found(language: str, half: str) -> None:
    """Nine in ten in English, 85 in a hundred in the other languages, are sure or doubtful."""
    assert measure(half, language).recall >= (ENGLISH_RECALL if language == "en" else RECALL)


@pytest.mark.parametrize("half", HALVES)
def test_what_is_sure_opts_out(half: str) -> None:
    """Over all languages, at most one in two hundred replies that opt somebody out at once is no opt-out."""
    assert measure(half, *LANGUAGES).sure_precision >= SURE_PRECISION


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_doubtful_mostly_opts_out(language: str, half: str) -> None:
    """In each language, at most one in ten replies that a person has to look at is an answer."""
    assert measure(half, language).doubtful_precision >= DOUBTFUL_PRECISION


@pytest.mark.parametrize("half", ["", ", second"])
def test_english_sentences_are_told_apart(half: str) -> None:
    """Nine in ten opt-outs are found, and of seventeen other replies at most one waits for a person."""
    read = {
        label: Counter(classify(text).kind for text in read_sentences(label + half))
        for label in ("opt_out", "none")
    }
    found, others = read["opt_out"], read["none"]
    assert found["sure"] + found["doubtful"] >= ENGLISH_RECALL * found.total()
    assert 17 * (others["sure"] + others["doubtful"]) <= others.total()


def read_sentences(label: str) -> list[str]:
    """Return the replies under a heading of `sentences.txt`."""
    _, _, rest = SENTENCES.read_text(encoding="utf-8").partition(f"# {label}\n")
    return rest.partition("\n# ")[0].splitlines()


def test_the_page_has_the_figures_that_are_measured() -> None:
    """`docs/opt-outs.md` holds what this module measures, digit by digit."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    written, end, _ = rest.partition(END)
    assert end
    assert written == write_figures()
