"""Files that are no UTF-8: their likeliest readings, tried on people's names, and the key to paste."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from runner.audience.encoding import read_foreign
from runner.audience.table import open_table
from runner.source.diagnostic import ProblemError

if TYPE_CHECKING:
    from pathlib import Path

WESTERN = (  # noqa: SIM905  names
    "Jürgen Müller|Käthe Groß|Zoë Lefèvre|Hélène Beauséjour|André Noël|José Núñez|María Peña|Íñigo Muñoz"
    "|Mª Ángel|João Conceição|Inês|Søren Kjær|Åse Ødegård|Åke Öberg|Päivi Hämäläinen|Þórður Guðmundsson"
    "|Niccolò Fantò|Núria Solà|Daniël|Jüri Põld|Seán Ó Súilleabháin|Mary O’Neil|It’s “ok” – Bob|€ 10"
    "|Café – 5 €|MÜLLER|Siân|Éric|Évora|Çelik|STRAßE|Coruña|Tromsø|Šmit|é|Ñúñez|Åsa|Þór|20 °C|5 µg|© Acme"
    "|50 ± 2|10²|100 m³|N° 5|½ price|¹ note|Col·lell"
).split("|")
OTHERS = [
    ("cp1251", "windows-1251", "Иван Петров"),
    ("cp1251", "windows-1251", "Олександр Шевченко"),
    ("koi8-r", "koi8-r", "Иван Петров"),
    ("iso8859-2", "iso-8859-2", "Łukasz Wiśniewski"),
    ("cp1250", "windows-1250", "Łukasz Stępień"),
    ("cp1250", "windows-1250", "Jiří Dvořák"),
    ("cp1250", "windows-1250", "Nagy Győző"),
    ("cp1254", "windows-1254", "Gülşen Yılmaz"),
    ("gbk", "gb18030", "王伟"),
    ("shift_jis", "cp932", "田中 ゆり"),
    ("shift_jis", "cp932", "田中"),
    ("big5", "big5hkscs", "陳大文"),
    ("euc-kr", "cp949", "김민준"),
    ("cp1253", "windows-1253", "Γιώργος Παπαδόπουλος"),
    ("cp1255", "windows-1255", "דוד כהן"),
    ("cp1256", "windows-1256", "محمد علي"),
    ("mac-roman", "macintosh", "Jürgen Müller"),
    ("cp850", "cp850", "José"),
]


def read(file: Path, content: bytes) -> dict[str, str]:
    file.write_bytes(b"phone,name\n+14155550101," + content + b"\n")
    foreign = read_foreign(lambda: file.open("rb"))
    assert foreign is not None
    return foreign.readings


def test_western_text_is_read_as_such_first(tmp_path: Path) -> None:
    """A file of Western Europe is most likely Windows-1252, even by a single name or sign."""
    for text in WESTERN:
        assert next(iter(read(tmp_path / "people.csv", text.encode("cp1252")))) == "windows-1252", text


def test_the_right_reading_is_one_of_three(tmp_path: Path) -> None:
    """For names in other encodings the right one is among the three that are shown."""
    for encoding, said, name in OTHERS:
        readings = read(tmp_path / "people.csv", name.encode(encoding))
        assert (len(readings), readings.get(said)) == (3, name), readings


def test_a_shown_field_has_no_figures(tmp_path: Path) -> None:
    """Digits that may be somebody's phone are not in a message."""
    readings = read(tmp_path / "people.csv", "Иван 79161234567".encode("cp1251"))
    assert readings["windows-1251"] == "Иван •••••••••••"


def test_the_key_of_the_hint_reads_the_file(tmp_path: Path) -> None:
    """The `encoding` that the error says to write reads the name as it was written."""
    file = tmp_path / "people.csv"
    file.write_bytes("phone,name\n+14155550101,Zoë\n".encode("cp1252"))
    with pytest.raises(ProblemError) as caught, open_table(file) as table:
        list(table.rows)
    named = re.search("`encoding: ([^`]+)`", caught.value.diagnostics[0].hint or "")
    assert named is not None
    with open_table(file, encoding=named[1]) as table:
        assert [cells for _, cells in table.rows] == [["+14155550101", "Zoë"]]
