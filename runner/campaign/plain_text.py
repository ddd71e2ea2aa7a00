"""Texts that only put values into place: filled in at once, without a template engine.

Most campaign texts are words and `{{ name }}`, at most with `| default("there")`. For them, and for values
that are text or numbers, this says what Jinja2 would; it declines everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import nodes

from runner.campaign.bounds import MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.recipients import Variables

_PRINTED_AS_THEY_ARE = frozenset((str, int, float))
"""Types themselves, not what derives from them: `True` is printed by no text."""
_MOST_VALUES = 100
"""In a text; far below its budget of steps, which is not counted here."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text that only puts values into place.

    Attributes:
        pattern: for `%`, with a `%s` for each value.
        names: the variables in their order.
        defaults: what stands for each if it is not there; None if nothing does.
    """

    pattern: str
    names: tuple[str, ...]
    defaults: tuple[str | None, ...]

    def fill(self, variables: Variables) -> str | None:
        """Return the text, outer blanks removed; None if it is not as simple as that for these values."""
        given = tuple(map(variables.get, self.names, self.defaults))
        if not _PRINTED_AS_THEY_ARE.issuperset(map(type, given)):
            return None
        try:
            text = self.pattern % given
        except ValueError:  # a number of more digits than Python writes (sys.set_int_max_str_digits)
            return None
        return text.strip() if len(text) <= MAX_LENGTH else None


def find_plain(tree: nodes.Template, names: frozenset[str]) -> PlainText | None:
    """Return what a text does if it only puts values into place, else None.

    Args:
        tree: the parsed text.
        names: the variables that it refers to.
    """
    parts = list(_iterate_parts(tree))
    values = [part for part in parts if isinstance(part, tuple)]
    if None in parts or len(values) > _MOST_VALUES or not names.issuperset(name for name, _ in values):
        return None
    pattern = "".join(part.replace("%", "%%") if isinstance(part, str) else "%s" for part in parts)
    return PlainText(pattern, tuple(name for name, _ in values), tuple(default for _, default in values))


def _iterate_parts(tree: nodes.Template) -> Iterator[str | tuple[str, str | None] | None]:
    """Yield words, variables with their defaults, and None for everything else."""
    for output in tree.body:
        for node in output.nodes if isinstance(output, nodes.Output) else (None,):
            match node:
                case nodes.TemplateData(data=words):
                    yield words
                case nodes.Name(name=name):
                    yield name, None
                case nodes.Filter(
                    node=nodes.Name(name=name),
                    name="default" | "d",
                    args=[nodes.Const(value=str(default))],
                    kwargs=[],
                    dyn_args=None,
                    dyn_kwargs=None,
                ):
                    yield name, default
                case _:
                    yield None
