"""Output as values: a heading, a sentence, a list, a table, a chart, code. Texts are not yet escaped.

A writer for each format (`markdown`, `html`, and the terminal's in `cli`) makes a document of blocks; empty
lists and tables are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Style = Literal["", "strong", "quiet", "notice"]


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


@dataclass(frozen=True, slots=True)
class Link:
    """A cell that leads to an address."""

    text: str
    url: str


Cell = str | int | Fraction | Link | None
"""A text; a number, written with thousands separators; the share of a bar; a link; None is not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts of any origin, figures, or shares drawn as bars."""

    name: str
    kind: Literal["text", "figure", "bar"] = "figure"


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


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that stay as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing as SVG, whose figures are in a table beside it; only pages show it.

    The legend has names by the class that gives their colour.
    """

    svg: str
    caption: str = ""
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """One main figure, with its name and its interval or whole."""

    name: str
    figure: str
    note: str


@dataclass(frozen=True, slots=True)
class Tiles:
    """The main figures at a glance; only pages show them, since sentences say them as well."""

    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks beside each other where there is room."""

    left: Sequence[Block]
    right: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks with a heading; those of a folded section are shown on request."""

    title: str
    blocks: Sequence[Block]
    is_folded: bool = False


Block = Sentence | Items | TableBlock | Code | Chart | Tiles | Beside | Section
