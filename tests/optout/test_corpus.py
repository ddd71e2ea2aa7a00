"""The labelled corpus of replies: its own form."""

from __future__ import annotations

import csv
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "corpus"
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "sv", "tr")
COLUMNS = ["half", "label", "offered", "reply"]
LABELS = {"opt_out", "opt_in", "answer", "unclear"}

Row = dict[str, str]


def rows_of(language: str) -> list[Row]:
    """Read the replies of a language, as they stand in its file."""
    with (CORPUS / f"{language}.tsv").open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
        rows = list(reader)
        assert reader.fieldnames == COLUMNS
    return rows


def spelling_of(text: str) -> str:
    """Keep the words of a text, without case, accents, punctuation and the spaces around it."""
    plain = [
        char for char in unicodedata.normalize("NFD", text.casefold()) if unicodedata.category(char) != "Mn"
    ]
    words = "".join(
        " " if unicodedata.category(char)[0] in "PZ" else char for char in plain if char not in "'’"
    )
    return " ".join(words.split()) or text


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_row_has_a_half_a_label_and_a_reply(language: str) -> None:
    """A row has four fields: a known half, a known label, responses without blanks, a reply that says something."""
    for row in rows_of(language):
        assert list(row) == COLUMNS, row
        assert row["half"] in {"dev", "held"}, row
        assert row["label"] in LABELS, row
        assert not row["offered"] or all(part.strip() for part in row["offered"].split("|")), row
        assert row["reply"], row
        assert row["reply"] == row["reply"].strip(), row
        assert not any(unicodedata.category(char) == "Cc" for char in row["reply"]), row


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_spelling_has_one_half_and_one_label(language: str) -> None:
    """Replies that differ only in case, accents or punctuation are in one half, under one label."""
    placed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in rows_of(language):
        spelling = (spelling_of(row["offered"]), spelling_of(row["reply"]))
        placed.setdefault(spelling, set()).add((row["half"], row["label"]))
    assert {spelling: places for spelling, places in placed.items() if len(places) > 1} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_both_halves_have_their_share_of_each_label(language: str) -> None:
    """Neither half has more than two replies more of a label than the other."""
    counts = Counter((row["half"], row["label"]) for row in rows_of(language))
    for label in LABELS:
        assert abs(counts["dev", label] - counts["held", label]) <= 2, label
        assert counts["held", label] > 0, label


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_reply_holds_a_phone_number(language: str) -> None:
    """No reply has digits enough for somebody's number."""
    for row in rows_of(language):
        assert sum(char.isdigit() for char in row["reply"]) < 7, row


def test_the_corpus_is_large_enough() -> None:
    """English has 600 replies and 300 opt-outs, each other language 150 and 70, all of them 2,000."""
    total = 0
    for language in LANGUAGES:
        rows = rows_of(language)
        total += len(rows)
        opt_outs = sum(row["label"] == "opt_out" for row in rows)
        replies, least = (600, 300) if language == "en" else (150, 70)
        assert (len(rows) >= replies, opt_outs >= least) == (True, True), language
    assert total >= 2000
