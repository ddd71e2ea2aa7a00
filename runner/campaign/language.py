"""The language that campaign texts are written in: Jinja2, sandboxed, strict, and bounded.

Campaigns come from pull requests, so a text must not reach the machine, and must end in bounded
time and size: loops, calls and filters share a budget of steps, and every value that could grow
is measured before it does (design: campaign format, reading rules). There is no clock, no
randomness and no network in it: a campaign is a function of its files.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, cast

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.campaign.bounds import (
    OPERATOR_CHECKS,
    BoundError,
    format_text,
    join_values,
    replace_text,
    require_flat,
    require_printable,
    require_short,
    round_number,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_STEPS = 10_000
"""Turns of loops, calls and filters in one rendering."""

_SAFE_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        {
            "upper",
            "lower",
            "title",
            "capitalize",
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "startswith",
            "endswith",
        }
    ),
    dict: frozenset({"get", "keys", "values", "items"}),
    LoopContext: frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"}),
}
_REFUSED_NODES: dict[type[nodes.Node], str] = {
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
    nodes.Block: "block",
}
_KEPT_FILTERS = (
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "sum",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
    "wordcount",
)


class CampaignEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 as campaign texts may use it. One thread at a time: the budget of steps is its own.

    Args:
        undefined: how variables without a value behave.
        load: returns the text of an included template by its name.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, undefined: type[Undefined] = StrictUndefined, *, loader: Any = None) -> None:
        super().__init__(
            undefined=undefined,
            loader=loader,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=require_printable,
        )
        self.steps = 0
        self.globals = {"range": self._range}
        ours: dict[str, Callable[..., Any]] = {
            "join": join_values,
            "replace": replace_text,
            "round": round_number,
            "format": format_text,
            "string": write_text,
        }
        kept = {name: FILTERS[name] for name in _KEPT_FILTERS}
        self.filters = {name: self._counted(f) for name, f in {**kept, **ours}.items()}
        self.filters["#turns"] = self._turns
        self.filters["#bounded"] = require_flat

    def spend(self) -> None:
        """Take one step from the budget.

        Raises:
            BoundError: the budget is used up.
        """
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise BoundError(f"the text takes more than {MAX_STEPS:,} steps")

    def _range(self, *bounds: int) -> range:
        steps = range(*bounds)
        if len(steps) > MAX_STEPS:
            raise BoundError(f"a range of more than {MAX_STEPS:,} numbers")
        return steps

    def _turns(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.spend()
            yield value

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.spend()
            return require_short(function(*args, **kwargs))

        return run

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _refuse_statements(tree)
        _bound_tree(tree)
        return tree

    def get_template(self, name: Any, parent: Any = None, globals: Any = None) -> Any:  # noqa: A002  Jinja2's name
        """Return an included template; costs a step."""
        self.spend()
        return super().get_template(name, parent, globals)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method; costs a step."""
        self.spend()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator, unless what comes out would be too large."""
        OPERATOR_CHECKS[operator](left, right)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> None:
        """Leave `str.format` to `is_safe_attribute`, which refuses it."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002  Jinja2's signature
        """Return whether a text may use a method or attribute of a value."""
        return any(isinstance(obj, kind) and attr in names for kind, names in _SAFE_METHODS.items())


def _refuse_statements(tree: nodes.Template) -> None:
    for node in tree.find_all(tuple(_REFUSED_NODES)):
        word = next(w for kind, w in _REFUSED_NODES.items() if isinstance(node, kind))
        _refuse(f"{{% {word} %}} is not available in campaign texts", node)
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            _refuse("a recursive loop is not available in campaign texts", loop)
    for include in tree.find_all(nodes.Include):
        if not isinstance(include.template, nodes.Const):
            _refuse("an included file's name must be a fixed text", include)


def _refuse(message: str, node: nodes.Node) -> NoReturn:
    raise TemplateSyntaxError(message, node.lineno)


def _bound_tree(node: nodes.Node) -> nodes.Node:
    """Rewrite a parsed text so that loops take steps and growing values are measured."""
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, field, _bound_tree(value))
        elif isinstance(value, list):
            setattr(node, field, [_bound_tree(v) if isinstance(v, nodes.Node) else v for v in value])
    return _bound_node(node)


def _bound_node(node: nodes.Node) -> nodes.Node:
    if isinstance(node, nodes.For):
        node.iter = _filter(cast("nodes.Expr", node.iter), "#turns")
    elif isinstance(node, nodes.Concat):
        node.nodes = [_filter(part, "string") for part in node.nodes]
        return _filter(node, "#bounded")
    elif _is_literal(node):
        return _filter(node, "#bounded")
    return node


def _is_literal(node: nodes.Node) -> TypeGuard[nodes.Expr]:
    is_value = isinstance(node, (nodes.List, nodes.Dict))
    return is_value or (isinstance(node, nodes.Tuple) and node.ctx == "load")


def _filter(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
