"""The labelled corpus of replies: its own form."""

from __future__ import annotations

import csv
import unicodedata
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "corpus"
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "sv", "tr")
COLUMNS = ["half", "label", "offered", "reply"]

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
def test_a_spelling_has_one_half_and_one_label(language: str) -> None:
    """Replies that differ only in case, accents or punctuation are in one half, under one label."""
    placed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in rows_of(language):
        spelling = (spelling_of(row["offered"]), spelling_of(row["reply"]))
        placed.setdefault(spelling, set()).add((row["half"], row["label"]))
    assert {spelling: places for spelling, places in placed.items() if len(places) > 1} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_reply_holds_a_phone_number(language: str) -> None:
    """No reply has digits enough for somebody's number."""
    for row in rows_of(language):
        assert sum(char.isdigit() for char in row["reply"]) < 7, row
