"""Detection of a CSV file's encoding, among those that spreadsheets and databases save.

UTF-8 and UTF-16 are told from the bytes. Other files are Western, or in a likely encoding by chardet's
statistics and rules of our own: a word has the letters of one script, and no signs in it.
"""

from __future__ import annotations

import codecs
import io
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.source.stand_in import find_stand_in
from runner.source.storage import open_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.source.stand_in import StandIn


GUESSED = "cp1252"
"""Encoding of a file that is not valid UTF-8: Windows-1252, the Western European Excel's CSV."""
_BLOCK = 1 << 20
_FIELD = re.compile(rb'[^,;\t"\r\n]+')
_ENOUGH = 1 << 14
_SAMPLE = 4
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"))
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""First bytes of .xlsx and .ods (ZIP, APPNOTE 4.3.7) and .xls files (MS-CFB 2.2)."""
WESTERN = "windows-1252"
_NAMES = {
    "cp1252": WESTERN,
    **{f"cp{number}": f"windows-{number}" for number in (1250, 1251, 1253, 1254, 1255, 1256, 1257)},
    "cp874": "cp874",
    "iso8859-2": "iso-8859-2",
    "iso8859-5": "iso-8859-5",
    "koi8-r": "koi8-r",
    "gb18030": "gb18030",
    "big5hkscs": "big5hkscs",
    "cp932": "cp932",
    "euc_jis_2004": "euc_jis_2004",
    "cp949": "cp949",
    "mac-roman": "macintosh",
    "cp437": "cp437",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
}
"""Encodings of tables, as chardet and Python call them, each with the name that people read."""
_NEIGHBOURS = ("cp1250", "iso8859-2", "cp1254", "cp1257")
"""Latin ones in which Western words read much the same: `Hélčne`, `Gaėl`."""
_RETIRED = ("mac-roman", "cp437", "cp850", "cp852")
"""Encodings that no program chooses by itself any more: taken only where Windows-1252 is illegible."""
_MARGIN = 1.1
_FEW = 1.4
"""Divided by the words that speak for a neighbour: how much likelier it has to be, beside the margin."""
_TELLING = re.compile("[øõæðþýãœÆØÐÞŒ]")
"""Letters that few Western languages have, and many a word of their neighbours when it is read as Western."""
_BALTIC = re.compile("[ðþÐÞ]")
"""The Baltic š and ž, as they read in Windows-1252."""
_ALMOST = 0.6
_SHOWN = 2
_SIGN = re.compile(
    r"(?<!\d)[©®¹²³ª£¥¦§¨¬¯±´¶¸º¼½¾×÷¤](?=[^\W\d_A-Z])|(?<=[^\W\d_])[¹³£¥¦§¬±¶¼½¾×÷¤](?=[^\W\d_]|\b|$)"
    r"|(?<=[^\W\d_])[¿¡‚„†‡‰ˆ](?=[^\W\d_]|\s|$)"
)
"""Signs where only letters belong: `Micha³`, `¼ubomír`, `Gra¿yna`, but not `1½h` or `Mª`."""
_UNIT = re.compile(r"\b[cdk]?m[²³]")
_CAPITAL = re.compile(r"(?<=[a-z])[À-ÖØ-ÞŠŽŒŸĀĄĆČĎĐĘĚŁŃŇŐŘŚŞŠŤŮŰŹŻŽ]|[A-Z]Ÿ[a-z]")
"""Capitals within words: `MŸller`, `CafÈ`."""
_TYPOGRAPHY = frozenset("‘’“”‹›«»–—…•·€£¥¢§©®™°±²³¹¼½¾×÷µªº¿¡´\N{NO-BREAK SPACE}")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_TOGETHER = {
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL"), "EAST ASIAN"),
    **dict.fromkeys(("FEMININE", "MASCULINE", "MICRO"), "LATIN"),  # ª, º and µ
}
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class BytePlace:
    """A byte of a file: its line and column, both from 1, and its value."""

    line: int
    column: int
    value: int


@dataclass(frozen=True, slots=True)
class FoundEncoding:
    """A file's encoding, by its bytes.

    Attributes:
        name: for `open`; a byte order mark is not part of the text.
        not_utf8: the first byte that is not UTF-8, if the encoding is only guessed from that.
        utf8_line: the first non-ASCII line of such a file that is UTF-8, if any: the file mixes encodings.
        nul: the first NUL byte of a file that is not UTF-16, if any: no text has one.
        is_workbook: whether it is a spreadsheet's own file rather than text.
        stand_in: what the file is instead of itself, if its first block shows that.
    """

    name: str
    not_utf8: BytePlace | None = None
    utf8_line: int | None = None
    nul: BytePlace | None = None
    is_workbook: bool = False
    stand_in: StandIn | None = None


def is_text_encoding(name: str) -> bool:
    """Return whether Python knows an encoding of texts by this name."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return False
    return True


def find_encoding(location: str, named: str | None = None) -> FoundEncoding:
    """Find the encoding of a file at a path or URL in one pass, with one block in memory.

    UTF-16 without a byte order mark is told by the first two characters, which in a header are nearly always
    ASCII: each has one zero byte. The encoding that a person names is taken as given.

    Raises:
        OSError: it cannot be read.
    """
    with open_binary(location) as stream:
        block = stream.read(_BLOCK)
    start = block[:_SAMPLE]
    if start.startswith(WORKBOOKS):
        return FoundEncoding("utf-8-sig", is_workbook=True)
    stand_in = find_stand_in(block)
    if stand_in is not None:
        return FoundEncoding("utf-8-sig", stand_in=stand_in)
    if named is not None:
        return FoundEncoding("utf-8-sig" if is_utf8_name(named) else codecs.lookup(named).name)
    marked = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    name = marked or _unmarked_utf16(start) or "utf-8-sig"
    if name.startswith("utf-16"):
        return FoundEncoding(name)
    not_utf8 = _find_undefined(location, "utf-8")
    nul = next((offset + block.index(0) for offset, block in _iterate_blocks(location) if 0 in block), None)
    nul_place = None if nul is None else place_of(location, nul)
    if not_utf8 is None:
        return FoundEncoding("utf-8-sig", nul=nul_place)
    # Whole lines: within one, Windows-1252 happens to be UTF-8 now and then, as in the German Spaß“.
    utf8_line = next((number for number, line in _iterate_foreign_lines(location) if is_utf8(line)), None)
    return FoundEncoding(GUESSED, place_of(location, not_utf8), utf8_line, nul_place)


def is_utf8_name(name: str | None) -> bool:
    """Return whether an encoding is UTF-8, which needs no name."""
    return name is None or codecs.lookup(name).name in ("utf-8", "utf-8-sig")


def list_foreign_fields(location: str) -> list[bytes]:
    """Return distinct fields that are not UTF-8, some thousand bytes of them, in the file's order.

    No byte that ends a field here is part of a character in East Asia's encodings.
    """
    found: dict[bytes, None] = {}
    size = 0
    for _, line in _iterate_foreign_lines(location):
        if is_utf8(line):
            continue
        for field in _FIELD.findall(line):
            if not field.isascii() and field not in found:
                found[field] = None
                size += len(field)
        if size > _ENOUGH:
            break
    return list(found)


def _iterate_foreign_lines(location: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not ASCII, each with its number from 1."""
    # One character a byte, and universal newlines.
    with io.TextIOWrapper(open_binary(location), encoding="latin-1") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.isascii():
                yield number, line.encode("latin-1")


def first_undefined(location: str, encoding: str) -> BytePlace | None:
    """Return the file's first byte that an encoding has no character for, if any."""
    offset = _find_undefined(location, encoding)
    return None if offset is None else place_of(location, offset)


def place_of(location: str, offset: int) -> BytePlace:
    """Return the place of a byte; lines end as in Python's universal newlines."""
    line, line_start, before = 1, 0, b""
    for start, block in _iterate_blocks(location):
        text = block[: max(offset - start, 0)]
        for end in ("\r", "\n"):
            line += text.count(end.encode())
        line -= (before + text).count(b"\r\n")
        last = max(text.rfind(b"\r"), text.rfind(b"\n"))
        line_start = start + last + 1 if last >= 0 else line_start
        before = text[-1:] if text.endswith(b"\r") else b""
        if offset < start + len(block):
            return BytePlace(line, offset - line_start + 1, block[offset - start])
    return BytePlace(line, max(offset - line_start, 0) + 1, 0)


def _unmarked_utf16(start: bytes) -> str | None:
    if len(start) < _SAMPLE:
        return None
    zeros = [byte == 0 for byte in start]
    if zeros == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False, True, False] else None


def _find_undefined(location: str, encoding: str) -> int | None:
    """Return the offset of a file's first byte that an encoding has no character for, if any."""
    decoder = codecs.getincrementaldecoder(encoding)()
    end = held = 0
    for offset, block in _iterate_blocks(location):
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return offset - held + error.start
        # The rest of the block, which the next one may complete.
        held = len(decoder.getstate()[0])
        end = offset + len(block)
    return end - held if held else None


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8, from the first to the last."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _iterate_blocks(location: str) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with open_binary(location) as stream:
        while block := stream.read(_BLOCK):
            yield offset, block
            offset += len(block)


def find_likely(fields: list[bytes]) -> list[str]:
    """Return the likely encodings of foreign fields, likeliest first; Windows-1252 alone for Western ones."""
    # Imported here: nearly all files are UTF-8.
    import chardet  # noqa: PLC0415

    sample = b"\n".join(fields)
    western = _decode(sample, "cp1252")
    if western is not None and _has_only_typography(western) and _is_written_by_people(western):
        return [WESTERN]
    found = chardet.detect_all(
        sample, ignore_threshold=True, prefer_superset=False, compat_names=False, include_encodings=_NAMES
    )
    scores = {one["encoding"]: one["confidence"] for one in reversed(found)}
    texts = {name: _decode(sample, name) for name in _NAMES}
    legible = {
        name: scores.get(name, 0.0)
        for name, text in texts.items()
        if text is not None and _is_written_by_people(text)
    }
    likelier = {
        name: score
        for name, score in legible.items()
        if texts[name] != western and score > legible.get("cp1252", -1.0) * _margin_of(name, legible, western)
    }
    if not likelier:
        return [WESTERN]
    ranked = sorted(likelier.items(), key=lambda pair: -pair[1])
    best = ranked[0][1]
    return [_NAMES[name] for name, score in ranked if score >= best * _ALMOST][:_SHOWN]


def show_field(field: bytes, encoding: str) -> str:
    """Return a field as it reads in an encoding, without digits, which may be somebody's phone."""
    text = field.decode(encoding, errors="replace")
    return "".join("•" if character.isdigit() else character for character in text.strip())[:40]


def _decode(sample: bytes, encoding: str) -> str | None:
    try:
        return sample.decode(encoding)
    except UnicodeDecodeError:
        return None


def _margin_of(name: str, legible: dict[str, float], western: str | None) -> float:
    """Return the margin by which an encoding has to be likelier than Windows-1252."""
    if western is None or "cp1252" not in legible:
        return _MARGIN
    if name in _RETIRED or (name == "cp1257" and not _BALTIC.search(western)):
        return math.inf
    if name not in _NEIGHBOURS or _TELLING.search(western):
        return _MARGIN
    return _MARGIN + _FEW / max(sum(not word.isascii() for word in set(_WORD.findall(western))), 1)


def _has_only_typography(text: str) -> bool:
    """Return whether all non-ASCII characters are signs of Western typography, not letters."""
    return all(character.isascii() or character in _TYPOGRAPHY for character in text)


def _is_written_by_people(text: str) -> bool:
    text = _UNIT.sub("m", text)
    if _SIGN.search(text) or _CAPITAL.search(text) or _CONTROL.search(text):
        return False
    return all(len(set(_list_scripts(word))) == 1 for word in _WORD.findall(text))


def _list_scripts(word: str) -> Iterator[str]:
    """Yield the scripts of a word's letters, by their names' beginnings; joined ones as one."""
    for letter in word:
        name = unicodedata.name(letter, "?").partition(" ")[0]
        yield _TOGETHER.get(name, name)
