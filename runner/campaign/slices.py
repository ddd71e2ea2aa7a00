"""An audience in slices, each of which can be read by itself: by another process, or on another machine.

A CSV file is cut at line breaks outside quotes, as far as a count of quotes tells: a survey of its
blocks gives the counts. Who reads a slice to its end proves the cut behind it: a strict reader that is then
inside quotes shows that the count was led astray, by a stray quote for instance, and the file is read in one
slice instead. So slices are never wrong. A file that is not plain UTF-8 is one slice from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.campaign.audience import AudienceTally
    from runner.campaign.consent_record import Consent
    from runner.campaign.model import Campaign, Variables
    from runner.campaign.phone_column import Repairs
    from runner.source.diagnostic import Problems

Role = Literal["recipients", "exclude"]
"""Which list of the campaign a source stands in."""

BLOCK_BYTES = 64 << 20
"""How much of a file one survey reads, and about how much a slice has."""


class BrokenSliceError(Exception):
    """A slice cannot be read by itself: its file has to be read in one, by `join_slices`."""


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
class BlockSurvey:
    """What was counted in a block."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an audience. It can be pickled, and names nobody.

    Attributes:
        role: the list that its source stands in.
        source: the source's place in that list, from 0; of recipients in the campaign file, the first one's.
        kind: `inline` recipients, a `whole` file, bytes of a `csv` file, or row groups of a `parquet` file.
        location: the file's absolute path, or its URL; empty for inline recipients.
        start: the first byte or row group; of inline recipients, the place of the first one's source.
        stop: the one after the last.
        line: the line, or row, that it begins with, from 1.
        header: the names of the columns of a CSV slice that does not begin with the header.
        delimiter: of such a slice.
    """

    role: Role
    source: int
    kind: Literal["inline", "whole", "csv", "parquet"]
    location: str = ""
    start: int = 0
    stop: int = 0
    line: int = 1
    header: tuple[str, ...] = ()
    delimiter: str = ","


class AudienceRow(NamedTuple):
    """A row whose phone could be read.

    Attributes:
        source: the place of its source in the campaign's list.
        line: from 1: the line in the source's file; the row of a Parquet file.
        phone: E.164.
        vars: the variables of this row alone, blank ones left out: the campaign's own are not among them.
        timezone: an IANA name; None to go by the number.
        consent: what is on record, where the campaign's policy asks for it.
    """

    source: int
    line: int
    phone: str
    vars: Variables
    timezone: str | None
    consent: Consent


def list_blocks(campaign: Campaign, role: Role, block_bytes: int = BLOCK_BYTES) -> list[Block]:
    """Return the blocks of CSV files that have to be surveyed: of files that are longer than one block.

    Args:
        campaign: whose audience.
        role: which of its lists.
        block_bytes: how long a block is.
    """
    raise NotImplementedError


def survey_block(block: Block) -> BlockSurvey:
    """Count what decides where a file can be cut; to be called anywhere."""
    raise NotImplementedError


def plan_slices(campaign: Campaign, role: Role, surveys: Mapping[Block, BlockSurvey]) -> list[Slice]:
    """Return the slices of a list of sources, in the order of the audience.

    Args:
        campaign: whose audience.
        role: which of its lists.
        surveys: of every block that `list_blocks` names.
    """
    raise NotImplementedError


def join_slices(slices: Sequence[Slice], broken: Slice) -> list[Slice]:
    """Return slices with those of a broken one's source replaced by one that is the whole file."""
    raise NotImplementedError


def iterate_slice(
    campaign: Campaign,
    part: Slice,
    names: frozenset[str],
    problems: Problems,
    tally: AudienceTally,
    repairs: Repairs,
) -> Iterator[AudienceRow]:
    """Yield the rows of a slice whose phones can be read, in their order; nothing is left out as a duplicate.

    The slices of a list give, one after the other, what `iterate_audience` (`read_excluded`) sees, with the
    same lines and problems, when `Problems.merge` joins their problems in that order.

    Args:
        campaign: whose audience.
        part: one of its slices.
        names: the variables that texts refer to; ignored for `exclude`.
        problems: receives what is wrong with the slice's rows, and of a file's first slice with the file.
        tally: counts `rows`.
        repairs: counts what phones were mended of. `Repairs.merge` joins those of the slices of one source,
            in their order; `note_repairs` then says it.

    Raises:
        BrokenSliceError: the slice cannot be read by itself; what the arguments have received is to be
            thrown away, for all slices of its source.
    """
    raise NotImplementedError


def note_repairs(campaign: Campaign, role: Role, source: int, repairs: Repairs, problems: Problems) -> None:
    """Note what the phones of a source were mended of, once for all of its slices.

    Args:
        campaign: whose audience.
        role: which of its lists.
        source: the source's place in that list, from 0.
        repairs: of all of its slices.
        problems: receives the notes.
    """
    raise NotImplementedError
