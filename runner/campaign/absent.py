"""What stands in the place of a variable that isn't there, while a text is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Undefined

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS = (
    *("getitem", "call", "neg", "pos", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv"),
    *("floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow"),
)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "contains", "bool")


class Noting(Undefined):
    """Stands for anything and notes its name, so that all missing variables are found in one go."""

    noted: list[str]

    def note(self, *_operands: object) -> Noting:
        """Note the variable's name, and stand for whatever comes out of an operation on it."""
        # What is looked up in a value may be anything: a number, or a list.
        name = self._undefined_name
        if isinstance(name, str) and name not in self.noted:
            self.noted.append(name)
        return self

    def compare(self, *_other: object) -> bool:
        """Note the variable's name; nothing is true of it."""
        self.note()
        return False

    def measure(self) -> float:
        """Note the variable's name, and be nothing as a number."""
        self.note()
        return 0.0

    def __str__(self) -> str:
        self.note()
        return ""

    def __len__(self) -> int:
        self.note()
        return 0

    def __iter__(self) -> Iterator[Any]:
        self.note()
        return iter(())

    def __hash__(self) -> int:
        self.note()
        return 0

    def __getattr__(self, name: str) -> Noting:
        if name.startswith("__"):  # Python's own questions, such as how to copy it
            raise AttributeError(name)
        return self.note()


for _method, _names in (
    (Noting.note, _OPERATORS),
    (Noting.compare, _COMPARISONS),
    (Noting.__len__, ("int", "index")),
    (Noting.measure, ("float", "abs")),
):
    for _name in _names:
        setattr(Noting, f"__{_name}__", _method)


class Placeholder(Undefined):
    """Renders as the variable's name in brackets: how a text reads before it is anyone's."""

    def __str__(self) -> str:
        return f"[{self._undefined_name}]"
