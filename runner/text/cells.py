"""Cells in conditions: a cell is a text, so that `FALSE` would be true, and "20" more than "100".

Compared with a number, a text is read as one; tested for truth, a text that says no is refused. What can be
told from a template alone is found before anything is rendered. Messages never quote a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Undefined, nodes
from jinja2.filters import FILTERS as FILTERS_OF_JINJA

from runner.source.quantity import read_number
from runner.text.faults import MisuseError
from runner.text.syntax import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

YES_WORDS = frozenset(
    (
        *("yes", "y", "true", "t", "1", "on", "x", "checked", "✓", "✔", "✅"),
        *("ja", "j", "wahr", "oui", "o", "vrai", "si", "sí", "sì", "sim", "s", "tak", "evet"),
    )
)
NO_WORDS = frozenset(
    (
        *("no", "n", "false", "f", "0", "off", "unchecked", "✗", "✘", "❌"),
        *("nein", "falsch", "non", "faux", "nee", "não", "nao", "nie", "nej", "hayır", "hayir"),
    )
)
_ORDER = frozenset(("lt", "lteq", "gt", "gteq"))


def is_yes(value: Any) -> bool:
    """Return whether a cell says yes; the filter `is_yes`. A blank says no."""
    if not isinstance(value, str):
        return not isinstance(value, Undefined) and bool(value)
    folded = value.strip().casefold()
    if folded in YES_WORDS:
        return True
    if folded and folded not in NO_WORDS:
        raise MisuseError(
            "`is_yes` reads words such as yes, true, 1, no, false and 0, and this is none of them"
        )
    return False


def read_as(kind: type[int | float], value: Any, *default: Any, **options: Any) -> Any:
    """Return the number of a kind that a value is; the filters `int` and `float`.

    A text that is no number needs a default.
    """
    name = kind.__name__
    if not isinstance(value, str) or default or options:
        return FILTERS_OF_JINJA[name](value, *default, **options)
    number = _read(value)
    if number is None:
        raise MisuseError(f"`{name}` reads numbers, and this text is none: `{name}(0)` takes 0 for such")
    return kind(number)


def refuse_no(value: Any, name: str) -> Any:
    """Return a value that is tested for truth; refuse a text that says no, which would count as true."""
    if isinstance(value, str) and value.strip().casefold() in NO_WORDS:
        raise MisuseError(f"{name} is a text that says no, and would count as true: write {_ask_yes(name)}")
    return value


def refuse_text(value: Any, name: str) -> Any:
    """Return a value that is compared with true or false; refuse a text, which is neither."""
    if isinstance(value, str):
        raise MisuseError(f"{name} is a text, and never equal to true or false: write {_ask_yes(name)}")
    return value


def require_number(value: Any, name: str) -> Any:
    """Return a value that is compared with a number; a text must read as one."""
    if not isinstance(value, str):
        return value
    number = _read(value)
    if number is None:
        raise MisuseError(f"{name} is compared with a number, and its text is none here")
    return number


def read_ordinal(value: Any) -> Any:
    """Return a text that reads as a number as that; any other value as it is."""
    number = _read(value) if isinstance(value, str) else None
    return value if number is None else number


def _read(text: str) -> int | float | None:
    number = read_number(text)
    if number is None:
        return None
    return int(number) if number.denominator == 1 else float(number)


def _ask_yes(name: str) -> str:
    return f"`{name.strip('`')} | is_yes`" if name.startswith("`") else "`… | is_yes`"


FILTERS: dict[str, Callable[..., Any]] = {
    "#truth": refuse_no,
    "#constant": refuse_text,
    "#number": require_number,
    "#ordinal": read_ordinal,
}
"""Filters that `guard` puts around cells."""


def guard(node: nodes.Node) -> None:
    """Put filters around what a condition tests or compares, in a node whose children were guarded."""
    if isinstance(node, (nodes.If, nodes.CondExpr)) or (isinstance(node, nodes.For) and node.test):
        node.test = _guard_truth(node.test)  # type: ignore[arg-type]
    elif isinstance(node, nodes.Compare):
        _guard_comparison(node)


def _guard_truth(node: nodes.Expr) -> nodes.Expr:
    if isinstance(node, (nodes.And, nodes.Or)):
        node.left, node.right = _guard_truth(node.left), _guard_truth(node.right)
    elif isinstance(node, nodes.Not):
        node.node = _guard_truth(node.node)
    elif isinstance(node, (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Filter)):
        return node if _names_is_yes(node) else _wrap(node, "#truth", _name(node))
    return node


def _names_is_yes(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Filter) and node.name == "is_yes"


def _guard_comparison(node: nodes.Compare) -> None:
    places: list[nodes.Compare | nodes.Operand] = [node, *node.ops]
    for left, right in zip(places, node.ops, strict=False):
        if right.op in _ORDER:
            _refuse_quoted(left.expr)
            _refuse_quoted(right.expr)
        if right.op in ("in", "notin"):
            if _are_numbers(right.expr):
                left.expr = _wrap(left.expr, "#number", _name(left.expr))
            continue
        for one, other in ((left, right), (right, left)):
            if _is_number(other.expr):
                one.expr = _wrap(one.expr, "#number", _name(one.expr))
            elif _is_truth(other.expr):
                one.expr = _wrap(one.expr, "#constant", _name(one.expr))
        if right.op in _ORDER and not any(isinstance(bare(each.expr), nodes.Const) for each in (left, right)):
            left.expr, right.expr = _wrap(left.expr, "#ordinal"), _wrap(right.expr, "#ordinal")


def _refuse_quoted(node: nodes.Expr) -> None:
    number = _read(node.value) if isinstance(node, nodes.Const) and isinstance(node.value, str) else None
    if number is not None:
        refuse(f"in quotes '20' is more than '100', letter by letter: write {number} without them", node)


def _wrap(node: nodes.Expr, name: str, *args: str) -> nodes.Expr:
    if isinstance(node, nodes.Const) or (isinstance(node, nodes.Filter) and node.name == name):
        return node
    constants: list[nodes.Expr] = [nodes.Const(arg, lineno=node.lineno) for arg in args]
    return nodes.Filter(node, name, constants, [], None, None, lineno=node.lineno)


def bare(node: nodes.Node) -> nodes.Node:
    """Return a node without the filters that this program puts around it."""
    while isinstance(node, nodes.Filter) and node.name.startswith("#") and node.node is not None:
        node = node.node
    return node


def _name(node: nodes.Node) -> str:
    node = bare(node)
    while isinstance(node, nodes.Filter) and node.node is not None:
        node = bare(node.node)
    return f"`{node.name}`" if isinstance(node, nodes.Name) else "a value"


def _is_number(node: nodes.Node) -> bool:
    node = bare(node)
    if isinstance(node, (nodes.Neg, nodes.Pos)):
        node = bare(node.node)
    return isinstance(node, nodes.Const) and isinstance(node.value, (int, float)) and not _is_truth(node)


def _is_truth(node: nodes.Node) -> bool:
    node = bare(node)
    return isinstance(node, nodes.Const) and isinstance(node.value, bool)


def _are_numbers(node: nodes.Node) -> bool:
    node = bare(node)
    return (
        isinstance(node, (nodes.List, nodes.Tuple)) and bool(node.items) and all(map(_is_number, node.items))
    )


def find_bare_conditions(tree: nodes.Template) -> Iterator[nodes.Name]:
    """Yield the variables that a template tests for truth as they are: right for none but true and false."""
    for node in tree.find_all((nodes.If, nodes.CondExpr, nodes.For)):
        waiting = [getattr(node, "test", None)]
        while waiting:
            tested = bare(waiting.pop() or nodes.Const(True))  # noqa: FBT003  a loop without a condition
            if isinstance(tested, (nodes.And, nodes.Or)):
                waiting += [tested.right, tested.left]
            elif isinstance(tested, nodes.Not):
                waiting.append(tested.node)
            elif isinstance(tested, nodes.Name):
                yield tested


def iterate_literal_text(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Yield the parts of a template that are sent as they are written, each with its line."""
    for node in tree.find_all(nodes.TemplateData):
        yield node.lineno, node.data
