"""Output as values: a heading, a sentence, a list, a table, a chart, code. Texts are not yet escaped.

A writer for each format (`markdown`, `html`, and the terminal's in `cli`) makes a document of blocks; empty
lists and tables are left out. What a chart shows stands in its block, so that writers without drawings write
the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

Style = Literal["", "strong", "quiet", "notice"]
Tone = Literal["", "good", "fair", "middle", "poor", "bad"]
"""The colour of a part of a chart; the text beside it says the same."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paragraph; a notice stands apart."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class ListItem:
    """An element of a list, with the parts that it sums up; a term before it may lead to an address."""

    text: str
    parts: Sequence[str] = ()
    term: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list; with a title it is a warning that stands apart."""

    items: Sequence[str | ListItem]
    title: str = ""

    @property
    def entries(self) -> list[ListItem]:
        """The elements, of which plain texts have neither term nor parts."""
        return [one if isinstance(one, ListItem) else ListItem(one) for one in self.items]


@dataclass(frozen=True, slots=True)
class Link:
    """A cell that leads to an address, or to the anchor of a section (`#…`)."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell that draws a share of 1 as a bar; None is not known."""

    share: Fraction | None
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A cell that draws a value as a dot, and its interval as a line: what its text and its note say."""

    value: float | None
    interval: tuple[float, float] | None
    text: str
    note: str = ""

    @property
    def words(self) -> str:
        """The value and its interval."""
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True, slots=True)
class Line:
    """A cell that draws values over time, for pages only; None is a gap."""

    values: Sequence[float | None]


Cell = str | int | Link | Bar | Estimate | Line | None
"""A text; a number, written with thousands separators; a link; a drawing; None is not known."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a column of estimates: its ends, the values written at it, and a line for everybody."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    everybody: float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts of any origin, figures, bars, or estimates on an axis."""

    name: str
    kind: Literal["text", "figure", "bar", "estimate", "line"] = "figure"
    axis: Axis | None = None


BAR = Column("", "bar")


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table; the first column names the subjects of its rows, the caption the table.

    Of columns given by their name, the first has texts, and so have the others if `figures` is false.
    `essential` columns are shown on a narrow terminal even if they are all zeros; None stands for all.
    """

    columns: Sequence[str | Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    figures: bool = True
    essential: frozenset[str] | None = None

    @property
    def heads(self) -> list[Column]:
        """The columns with their kinds."""
        return [
            one if isinstance(one, Column) else Column(one, "figure" if number and self.figures else "text")
            for number, one in enumerate(self.columns)
        ]

    @property
    def is_chart(self) -> bool:
        """True if a column is drawn."""
        return any(head.kind in {"bar", "estimate"} for head in self.heads)


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that stay as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing as SVG, which only pages show, below the table's caption; others write the table."""

    svg: str
    table: TableBlock


@dataclass(frozen=True, slots=True)
class StackPart:
    """A part of a whole: its name, count, share of 1 and that share as text."""

    name: str
    count: int
    share: Fraction
    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """One lying bar of the parts of a whole, in order, each with its name and share."""

    parts: Sequence[StackPart]


@dataclass(frozen=True, slots=True)
class Tile:
    """One main figure: its name, what changed, and its interval or whole."""

    name: str
    figure: str
    note: str = ""
    change: str = ""

    @property
    def words(self) -> str:
        """The figure with what changed and the note, as one phrase: `155 people, 60 % of them to the end`."""
        figure = f"{self.figure} ({self.change})" if self.change else self.figure
        goes_on = self.note.startswith(("of ", "people"))
        return f"{figure}{' ' if goes_on else ', '}{self.note}" if self.note else figure


@dataclass(frozen=True, slots=True)
class Tiles:
    """The main figures at a glance."""

    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks beside each other where there is room."""

    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks with a heading; those of a folded section are shown on request.

    An anchor lets links of the page lead to it; paper begins a page with it if `is_page`.
    """

    title: str
    blocks: Sequence[Block]
    is_folded: bool = False
    anchor: str = ""
    is_page: bool = False


Block = Sentence | Items | TableBlock | Code | Chart | Stack | Tiles | Beside | Section


def is_empty(block: Block) -> bool:
    """Return whether a block is a list or table without rows, which no document shows."""
    match block:
        case Items(items=shown) | TableBlock(rows=shown):
            return not shown
    return False


PlainBlock = Sentence | Items | TableBlock | Code | Section
"""A block of a document that has no drawings."""


def list_plain(blocks: Iterable[Block]) -> Iterator[PlainBlock]:
    """Yield blocks for documents that have no drawings, one below the other: drawings by their figures."""
    for block in blocks:
        match block:
            case Beside(inner) | Section(title="", blocks=inner):
                yield from list_plain(inner)
            case Chart(table=table):
                yield from list_plain([Sentence(table.caption), table])
            case Stack(parts):
                rows = [(one.name, one.count, one.text, Bar(one.share)) for one in parts]
                yield TableBlock(("Answer", "People", "Share", BAR), rows)
            case Tiles(tiles):
                yield Items([ListItem(one.words, term=one.name) for one in tiles])
            case _ if not is_empty(block):
                yield block


BAR_WIDTH = 20
"""Characters of a bar of 100 %."""
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def write_cell(cell: Cell) -> str | int:
    """Return a cell for documents that have no drawings: bars are of block characters."""
    match cell:
        case Bar(share):
            eighths = round((share or 0) * BAR_WIDTH * 8)
            return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
        case Link(text=text) | Estimate(words=text):
            return text
        case Line():
            return ""
        case None:
            return "not known"
    return cell
