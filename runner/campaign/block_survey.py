"""Surveys blocks of a CSV file, each by itself, for what decides where the file can be cut."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

from runner.campaign.encoding import WORKBOOKS
from runner.source.storage import open_binary

Role = Literal["recipients", "exclude"]
"""Which list of the campaign a source stands in."""

_BREAK = rb"(?:\r\n|\n|\r(?!\n|\Z))"
"""A line's end; a CR that ends the block may be half of one."""
_FROM_OUTSIDE = re.compile(rb'(?:[^"\r\n]+|"[^"]*")*+' + _BREAK)
"""As far as the first line's end outside quotes, from outside quotes."""
_FROM_INSIDE = re.compile(rb'[^"]*+"(?:[^"\r\n]+|"[^"]*")*+' + _BREAK)
_PORTION = 1 << 20
_CONTINUATION = range(0x80, 0xC0)
"""Bytes of a UTF-8 sequence after its first (RFC 3629, section 3); there are three at most."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a file to survey. It can be pickled, and names nobody.

    Attributes:
        role: the list that the file stands in.
        source: its place in that list, from 0.
        location: the file's absolute path, or its URL.
        start: its first byte.
        stop: the byte after its last one.
    """

    role: Role
    source: int
    location: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a block can be cut: behind a line's end.

    Attributes:
        offset: bytes of the block before it.
        breaks: line ends before it.
    """

    offset: int
    breaks: int


@dataclass(frozen=True, slots=True)
class BlockSurvey:
    """What was counted in a block.

    Attributes:
        quotes: quotation marks.
        breaks: line ends: CRLF, LF or CR; the halves of one that is cut in two count once each.
        begins_with_lf: whether its first byte is one.
        ends_with_cr: whether its last byte is one.
        cut_outside: the first cut if the block begins outside quotes; None if it has none.
        cut_inside: the first cut if it begins inside quotes; None if it has none.
        head: the bytes at its start that belong to a character which begins before it.
        tail: the bytes at its end that belong to a character which ends behind it.
        is_seam_alone: whether the block is nothing but `head`.
        is_text: whether all else is UTF-8, without NUL, and no spreadsheet's own file.
    """

    quotes: int
    breaks: int
    begins_with_lf: bool
    ends_with_cr: bool
    cut_outside: Cut | None
    cut_inside: Cut | None
    head: bytes
    tail: bytes
    is_seam_alone: bool
    is_text: bool


def survey_block(block: Block) -> BlockSurvey:
    """Count what decides where a file can be cut; to be called anywhere.

    Raises:
        OSError: the file cannot be read.
    """
    with open_binary(block.location) as stream:
        stream.seek(block.start)
        return survey_bytes(stream.read(block.stop - block.start))


def survey_bytes(content: bytes) -> BlockSurvey:
    """Count what decides where a file can be cut that has these bytes somewhere in it."""
    head = content[:3]
    head = head[: next((i for i, byte in enumerate(head) if byte not in _CONTINUATION), len(head))]
    tail = _find_tail(content, len(head))
    return BlockSurvey(
        quotes=content.count(b'"'),
        breaks=_count_breaks(content),
        begins_with_lf=content.startswith(b"\n"),
        ends_with_cr=content.endswith(b"\r"),
        cut_outside=_find_cut(_FROM_OUTSIDE, content),
        cut_inside=_find_cut(_FROM_INSIDE, content),
        head=head,
        tail=tail or b"",
        is_seam_alone=len(head) == len(content),
        is_text=tail is not None and 0 not in content and not content.startswith(WORKBOOKS),
    )


def _count_breaks(content: bytes) -> int:
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


def _find_cut(pattern: re.Pattern[bytes], content: bytes) -> Cut | None:
    found = pattern.match(content)
    return None if found is None else Cut(found.end(), _count_breaks(content[: found.end()]))


def _find_tail(content: bytes, start: int) -> bytes | None:
    """Return the bytes of a last character that is not whole; None if what is before is not UTF-8."""
    if content.isascii():
        return b""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for offset in range(start, len(content), _PORTION):
            decoder.decode(content[offset : offset + _PORTION])
    except UnicodeDecodeError:
        return None
    return decoder.getstate()[0]
