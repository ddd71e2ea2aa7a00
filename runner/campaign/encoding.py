"""How the bytes of a CSV file are to be read: what spreadsheets and databases save, told from the bytes."""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.source.storage import open_binary

if TYPE_CHECKING:
    from collections.abc import Iterator

GUESSED = "cp1252"
"""What a file is read as when it is not valid UTF-8: Windows-1252, the Western European Excel's CSV."""
_BLOCK = 1 << 20
_FIELD = re.compile(rb'[^,;\t"\r\n]+')
_ENOUGH = 1 << 14
_SAMPLE = 4
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"))
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How .xlsx and .ods (ZIP, APPNOTE 4.3.7) and .xls files (MS-CFB 2.2) begin."""


@dataclass(frozen=True, slots=True)
class BytePlace:
    """A byte of a file: in which line it stands, at which column, both from 1, and its value."""

    line: int
    column: int
    value: int


@dataclass(frozen=True, slots=True)
class FoundEncoding:
    """What a file's bytes say of its encoding.

    Attributes:
        name: for `open`; a byte order mark is not part of the text.
        not_utf8: the first byte that is not UTF-8, if the encoding is only guessed from that.
        utf8_line: the first line that is UTF-8 all the same and not only ASCII, if there is one: the file
            mixes encodings, and no single one reads it.
        nul: the first NUL byte of a file that is not UTF-16, if there is one: no text has any.
        is_workbook: whether it is a spreadsheet's own file rather than a text.
    """

    name: str
    not_utf8: BytePlace | None = None
    utf8_line: int | None = None
    nul: BytePlace | None = None
    is_workbook: bool = False


def is_text_encoding(name: str) -> bool:
    """Return whether Python knows an encoding of texts by this name."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        return False
    return True


def find_encoding(location: str, named: str | None = None) -> FoundEncoding:
    """Find a file's encoding in one pass over its bytes, a block of them in memory.

    UTF-16 without a byte order mark is told by the first two characters, which in a header are ASCII
    nearly always: each has one zero byte.

    Args:
        location: of a text, a path or a URL.
        named: the encoding that a person says it has; None to find it.

    Raises:
        OSError: it cannot be read.
    """
    with open_binary(location) as stream:
        start = stream.read(_SAMPLE)
    if start.startswith(WORKBOOKS):
        return FoundEncoding("utf-8-sig", is_workbook=True)
    if named is not None:
        return FoundEncoding("utf-8-sig" if is_utf8_name(named) else codecs.lookup(named).name)
    marked = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    name = marked or _unmarked_utf16(start) or "utf-8-sig"
    if name.startswith("utf-16"):
        return FoundEncoding(name)
    not_utf8 = _first_not_utf8(location)
    nul = next((offset + block.index(0) for offset, block in _iterate_blocks(location) if 0 in block), None)
    nul_place = None if nul is None else place_of(location, nul)
    if not_utf8 is None:
        return FoundEncoding("utf-8-sig", nul=nul_place)
    return FoundEncoding(GUESSED, place_of(location, not_utf8), _first_utf8_line(location), nul_place)


def is_utf8_name(name: str | None) -> bool:
    """Return whether an encoding is UTF-8, which needs no name."""
    return name is None or codecs.lookup(name).name in ("utf-8", "utf-8-sig")


def list_foreign_fields(location: str) -> list[bytes]:
    """Return fields that are not UTF-8, each once, some thousand bytes of them, in the file's order.

    No byte that ends a field here is part of a character in East Asia's encodings.

    Args:
        location: of a text that is not UTF-8.
    """
    found: dict[bytes, None] = {}
    size = 0
    # One character a byte, and universal newlines.
    with io.TextIOWrapper(open_binary(location), encoding="latin-1") as stream:
        for text in stream:
            line = text.encode("latin-1")
            if line.isascii() or is_utf8(line):
                continue
            for field in _FIELD.findall(line):
                if not field.isascii() and field not in found:
                    found[field] = None
                    size += len(field)
            if size > _ENOUGH:
                break
    return list(found)


def first_undefined(location: str, encoding: str) -> BytePlace | None:
    """Return the first byte that an encoding has no character for, if the file has one."""
    decoder = codecs.getincrementaldecoder(encoding)()
    for offset, block in _iterate_blocks(location):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return place_of(location, offset - held + error.start)
    return None


def place_of(location: str, offset: int) -> BytePlace:
    """Return the place of a byte; a line ends as Python's universal newlines say."""
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


def _first_not_utf8(location: str) -> int | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    end = 0
    for offset, block in _iterate_blocks(location):
        # What the decoder still holds of the block before belongs to where an error is.
        held = len(decoder.getstate()[0])
        end = offset + len(block)
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return offset - held + error.start
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return end - len(error.object) + error.start
    return None


def _first_utf8_line(location: str) -> int | None:
    # Whole lines: within one, Windows-1252 happens to be UTF-8 now and then, as in the German Spaß“.
    # One character a byte, and universal newlines.
    with io.TextIOWrapper(open_binary(location), encoding="latin-1") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.isascii() and is_utf8(line.encode("latin-1")):
                return number
    return None


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
