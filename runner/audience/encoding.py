"""The encoding of a CSV file: UTF-8, UTF-16, or the one that a person names.

For a file in another one the likeliest readings of its first foreign cell are shown, for a person to choose.
"""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OpenFile = Callable[[], BinaryIO]

_SAMPLE = 4
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"))
_FIELD = re.compile(rb'[^,;\t|"\r\n]+')
_ENOUGH = 1 << 14
_SHOWN = 3
_LATIN = (
    *("windows-1252", "windows-1250", "iso-8859-2", "windows-1254", "windows-1257", "macintosh"),
    *("cp850", "cp852"),
)
_OTHER = (
    *("windows-1251", "windows-1253", "windows-1255", "windows-1256", "koi8-r", "cp866"),
    *("gb18030", "cp932", "cp949", "big5hkscs", "cp874"),
)
"""Encodings that spreadsheets and databases write, of several scripts, the usual ones first."""
_RETIRED = frozenset(("macintosh", "cp850", "cp852", "cp866"))
"""Those that no program chooses by itself any more."""
_SIGN = re.compile(
    r"(?<!\d)[©®¹²³ª£¥¦§¨¬¯±´¶¸º¼½¾×÷¤](?=[^\W\d_A-Z])"
    r"|(?<=[^\W\d_])(?<!\bm)[¹³£¥¦§¬±¶¼½¾×÷¤¿¡‚„†‡‰ˆ](?=[^\W\d_]|\b|\s|$)|[\x80-\x9f\ue000-\uf8ff]"
)
"""Signs where only letters belong: `Micha³`, `Wi¶niewski`, `¼ubomír`; and characters that are none."""
_CAPITAL = re.compile("(?<=[a-zà-öø-ÿа-яα-ω])[À-ÖØ-ÞŠŽŒŸĀĄĆČĎĐĘĚŁŃŇŐŘŚŞŤŮŰŹŻА-ЯΑ-Ω]|[A-Z]Ÿ[a-z]")
"""Capitals within words: `MŸller`, `CafÈ`."""
_WORD = re.compile(r"[^\W\d_ªºµ¹²³¼½¾]+")
_JAPANESE = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK"}


class BytePlace(NamedTuple):
    """A byte of a file: its line and column, both from 1, and its value."""

    line: int
    column: int
    value: int


class ForeignText(NamedTuple):
    """The text of a file that is not UTF-8.

    Attributes:
        place: the first byte that is not UTF-8.
        readings: the likeliest encodings, each with the first such cell as it reads in it.
        utf8_line: the first line that is UTF-8 and not ASCII, if any: the file mixes encodings.
    """

    place: BytePlace
    readings: dict[str, str]
    utf8_line: int | None


def is_text_encoding(name: str) -> bool:
    """Return whether Python knows an encoding of texts by this name."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return False
    return True


def choose_encoding(start: bytes, named: str | None) -> str:
    """Return a file's encoding, for `open`, by its first bytes; one that a person names is taken as given.

    UTF-16 without a byte order mark is told by the first two characters, which in a header are nearly always
    ASCII: each has one zero byte.
    """
    if named is not None:
        found = codecs.lookup(named).name
        return "utf-8-sig" if found == "utf-8" else found
    zeros = "".join("0" if byte == 0 else "x" for byte in start[:_SAMPLE])
    marked = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    return marked or {"x0x0": "utf-16-le", "0x0x": "utf-16-be"}.get(zeros, "utf-8-sig")


def find_undefined(open_file: OpenFile, encoding: str) -> BytePlace | None:
    """Return the file's first byte that an encoding has no character for, if any; raises OSError."""
    for number, content in _iterate_lines(open_file):
        try:
            content.decode(encoding)
        except UnicodeDecodeError as error:
            return BytePlace(number, error.start + 1, content[error.start])
    return None


def read_foreign(open_file: OpenFile) -> ForeignText | None:
    """Return what a file that is not UTF-8 may say; None if it is UTF-8. Raises OSError."""
    place = find_undefined(open_file, "utf-8")
    if place is None:
        return None
    fields: dict[bytes, None] = {}
    # Whole lines: within one, Windows-1252 happens to be UTF-8 now and then, as in the German Spaß“.
    for _, line in _iterate_foreign_lines(open_file, is_utf8=False):
        fields.update((field, None) for field in _FIELD.findall(line) if not field.isascii())
        if sum(map(len, fields)) > _ENOUGH:
            break
    first = next(iter(fields), b"")
    readings = {name: _show(first, name) for name in _rank_encodings(list(fields))}
    utf8_line = next((number for number, _ in _iterate_foreign_lines(open_file, is_utf8=True)), None)
    return ForeignText(place, readings, utf8_line)


def _iterate_foreign_lines(open_file: OpenFile, *, is_utf8: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not ASCII and are, or are not, UTF-8, each with its number from 1."""
    for number, content in _iterate_lines(open_file):
        if not content.isascii() and (_decode(content, "utf-8") is not None) == is_utf8:
            yield number, content


def _iterate_lines(open_file: OpenFile) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file by universal newlines, each with its number from 1."""
    with io.TextIOWrapper(open_file(), encoding="latin-1") as stream:  # one character a byte
        for number, line in enumerate(stream, start=1):
            yield number, line.encode("latin-1")


def _rank_encodings(fields: list[bytes]) -> list[str]:
    """Return the likeliest encodings of fields, no two of which read the first one alike."""
    ranked = sorted((*_LATIN, *_OTHER), key=lambda name: _judge(b"\n".join(fields), name))
    distinct = {_show(fields[0], name): name for name in reversed(ranked)} if fields else {}
    return [name for name in ranked if name in distinct.values()][:_SHOWN]


def _judge(sample: bytes, name: str) -> tuple[bool, bool, bool]:
    """Return what speaks against an encoding, the gravest first; those that are alike keep their order."""
    text = _decode(sample, name)
    if text is None:
        return True, True, True
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    letters = "".join(words)
    # Most letters of a Latin text are ASCII, and none of another.
    is_latin = 2 * sum(not letter.isascii() for letter in letters) <= len(letters) + len(words)
    is_mixed = any(len(set(map(_name_script, word))) > 1 for word in words)
    is_riddle = bool(_SIGN.search(text) or _CAPITAL.search(text))
    return is_riddle, is_mixed or is_latin != (name in _LATIN), name in _RETIRED


def _name_script(letter: str) -> str:
    name = unicodedata.name(letter, "?").split()[0]
    return _JAPANESE.get(name, name)


def _show(field: bytes, encoding: str) -> str:
    """Return a field as it reads in an encoding, without digits, which may be somebody's phone."""
    text = field.decode(encoding, errors="replace").strip()
    return "".join("•" if character.isdigit() else character for character in text)[:40]


def _decode(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return None
