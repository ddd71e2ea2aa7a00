"""The language that campaign texts are written in: Jinja2, sandboxed, strict, and bounded.

Campaigns come from pull requests, so a text must not reach the machine, and must end in bounded
time and size: all that takes time costs steps, by the length of what it works on, and every value that
could grow is measured before it does. There is no clock, no randomness and no network in it: a
campaign is a function of its files.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, cast

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS

from runner.campaign.bounds import (
    COLLECTIONS,
    OPERATOR_CHECKS,
    BoundError,
    add_numbers,
    format_text,
    join_values,
    measure,
    replace_text,
    require_flat,
    require_printable,
    require_short,
    round_number,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_STEPS = 10_000
"""Steps that one rendering may take.

A filter, test, call or operator takes one, and one more for each 100 characters that it works on or makes. A
turn of a loop, or an included file, takes one, and one more for each ten nodes in it.
"""
_CHARACTERS_A_STEP = 100
_NODES_A_STEP = 10

SAFE_METHODS: dict[type, frozenset[str]] = {
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
"""Methods and attributes that texts may use, by the kind of value."""
_REFUSED_NODES: dict[type[nodes.Node], str] = {
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
    nodes.Block: "block",
}
_SAFE_CALLS = frozenset[str]().union(*SAFE_METHODS.values())
_KEYS = frozenset({"center", "count", "find", "format", "index", "join", "partition", "replace", "translate"})
"""Methods of texts that may be keys of a mapping, too: which of them is meant, only rendering tells."""
_REFUSED_ATTRIBUTES = frozenset(dir(str)) - _SAFE_CALLS - _KEYS
_METHODS_AS_FILTERS = ("join", "replace")
"""Methods of texts that people know from Python, whose results are bounded as filters alone."""
_FUNCTIONS = frozenset({"range"})
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
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
)


class CampaignEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 as campaign texts may use it. One thread at a time: the budget of steps is its own.

    Args:
        undefined: how variables without a value behave.
        load: returns the text of an included template by its name.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, undefined: type[Undefined] = StrictUndefined, *, loader: Any = None) -> None:
        super().__init__(
            undefined=undefined,
            loader=loader,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=self._print,
            cache_size=-1,
        )
        self.steps = 0.0
        self._weights: dict[str | None, float] = {}
        self.globals = {"range": self._range}
        ours: dict[str, Callable[..., Any]] = {
            "join": join_values,
            "replace": replace_text,
            "round": round_number,
            "format": format_text,
            "string": write_text,
            "sum": add_numbers,
        }
        kept = {name: FILTERS[name] for name in _KEPT_FILTERS}
        self.filters = {name: self._counted(f) for name, f in {**kept, **ours}.items()}
        self.filters["#turns"] = self._turns
        self.filters["#bounded"] = require_flat
        self.filters["#weighed"] = self._weigh
        tests = cast("dict[str, Callable[..., Any]]", TESTS)
        self.tests = {name: self._counted(test) for name, test in tests.items()}

    def spend(self, cost: float = 1) -> None:
        """Take steps from the budget.

        Raises:
            BoundError: the budget is used up.
        """
        self.steps += cost
        if self.steps > MAX_STEPS:
            raise BoundError(f"the text takes more than {MAX_STEPS:,} steps")

    def _range(self, *bounds: int) -> range:
        steps = range(*bounds)
        if len(steps) > MAX_STEPS:
            raise BoundError(f"a range of more than {MAX_STEPS:,} numbers")
        return steps

    def _turns(self, values: Iterable[Any], weight: float) -> Iterator[Any]:
        cost = 1 + max(0, weight) / _NODES_A_STEP
        for value in values:
            self.spend(cost)
            yield value

    def _print(self, value: Any) -> Any:
        printed = require_printable(value)
        if isinstance(printed, str) and len(printed) > _CHARACTERS_A_STEP:
            self.spend(len(printed) / _CHARACTERS_A_STEP)
        return printed

    def _weigh(self, value: Any, more: int = 0) -> Any:
        """Take steps for work on a value: at once, or as its items come.

        Args:
            value: any.
            more: characters that the work on each item grows with, beside its own.
        """
        if type(value) is str and len(value) + more <= _CHARACTERS_A_STEP:  # nearly all values of all texts
            return value
        if isinstance(value, Iterator) and not isinstance(value, LoopContext):
            return self._weigh_items(value, more)
        items = len(value) if isinstance(value, COLLECTIONS) else 1
        size = measure(value) + items * max(0, more)
        if size > _CHARACTERS_A_STEP:
            self.spend(size / _CHARACTERS_A_STEP)
        return value

    def _weigh_items(self, values: Iterator[Any], more: int) -> Iterator[Any]:
        for value in values:
            self.spend((measure(value) + 1 + max(0, more)) / _CHARACTERS_A_STEP)
            yield value

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        first = (
            1 if hasattr(function, "jinja_pass_arg") else 0
        )  # before the value: the environment, or the like

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.spend()
            value, others = args[first], args[first + 1 :]
            more = measure(others) + measure(kwargs) if others or kwargs else 0
            weighed = self._weigh(value, more)
            if weighed is not value:
                args = (*args[:first], weighed, *others)
            return self._weigh(require_short(function(*args, **kwargs)))

        return run

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _refuse_statements(tree)
        _refuse_methods(tree)
        self._refuse_unknown(tree)
        _bound_tree(tree)
        self._weights[name] = sum(map(_weigh_node, tree.body))
        return tree

    def _refuse_unknown(self, tree: nodes.Template) -> None:
        # Jinja2 leaves those in branches to whose turn it is to render them.
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            kind, known = ("filter", self.filters) if isinstance(node, nodes.Filter) else ("test", self.tests)
            if node.name not in known:
                _refuse(f"No {kind} named {node.name!r}.", node)

    def get_template(self, name: Any, parent: Any = None, globals: Any = None) -> Any:  # noqa: A002  Jinja2's name
        """Return an included template; costs steps by its length."""
        self.spend()
        template = super().get_template(name, parent, globals)
        self.spend(self._weights[name] / _NODES_A_STEP)
        return template

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method; costs steps by the length of what it works on."""
        self.spend()
        self._weigh(getattr(obj, "__self__", None), measure(args) + measure(kwargs))
        return self._weigh(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator, unless what comes out would be too large."""
        self.spend()
        self._weigh(left, measure(right))
        if operator in OPERATOR_CHECKS:
            OPERATOR_CHECKS[operator](left, right)
        return self._weigh(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> None:
        """Leave `str.format` to `is_safe_attribute`, which refuses it."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002  Jinja2's signature
        """Return whether a text may use a method or attribute of a value."""
        return any(isinstance(obj, kind) and attr in names for kind, names in SAFE_METHODS.items())

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse a method or attribute: were it an undefined value, `default(…)` would stand in for it."""
        if isinstance(obj, Undefined):
            return super().unsafe_undefined(obj, attribute)
        raise SecurityError(f"access to attribute {attribute!r} of {type(obj).__name__!r} object is unsafe.")


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


def _refuse_methods(tree: nodes.Template) -> None:
    """Refuse what no rendering would allow, in branches that nobody takes, too."""
    for call in tree.find_all(nodes.Call):
        called = call.node
        if isinstance(called, nodes.Name) and called.name not in _FUNCTIONS:
            _refuse(f"{called.name}() is not available in campaign texts", call)
        name = _name_attribute(called)
        if name is not None and name not in _SAFE_CALLS:
            way = f": write `| {name}(…)`" if name in _METHODS_AS_FILTERS else ""
            _refuse(f".{name}() is not available in campaign texts{way}", call)
    for node in tree.find_all(nodes.Getattr):
        if node.attr in _REFUSED_ATTRIBUTES:
            _refuse(f".{node.attr} is not available in campaign texts", node)


def _name_attribute(node: nodes.Node) -> str | None:
    """Return the name of an attribute that stands in the text itself, as in `x.name` and `x["name"]`."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return node.arg.value if isinstance(node.arg.value, str) else None
    return None


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
        turn = [*node.body, *((node.test,) if node.test else ())]
        weight = nodes.Const(sum(map(_weigh_node, turn)), lineno=node.lineno)
        node.iter = _filter(cast("nodes.Expr", node.iter), "#turns", weight)
    elif isinstance(node, nodes.AssignBlock):
        node.filter = _filter(node.filter, "#bounded", lineno=node.lineno)
    elif isinstance(node, nodes.Concat):
        node.nodes = [_filter(part, "string") for part in node.nodes]
        return _filter(node, "#bounded")
    elif isinstance(node, nodes.Compare):
        node.expr = _filter(node.expr, "#weighed")
        for operand in node.ops:
            operand.expr = _filter(operand.expr, "#weighed")
    elif _is_literal(node):
        return _filter(node, "#bounded")
    return node


def _weigh_node(node: nodes.Node) -> float:
    """Return how many nodes there are in a node; the turns of loops count by themselves."""
    if isinstance(node, nodes.TemplateData):
        return 1 + len(node.data) * _NODES_A_STEP / _CHARACTERS_A_STEP
    inner = (node.iter, *node.else_) if isinstance(node, nodes.For) else node.iter_child_nodes()
    return 1 + sum(map(_weigh_node, inner))


def _is_literal(node: nodes.Node) -> TypeGuard[nodes.Expr]:
    is_value = isinstance(node, (nodes.List, nodes.Dict))
    return is_value or (isinstance(node, nodes.Tuple) and node.ctx == "load")


def _filter(node: nodes.Expr | None, name: str, *args: nodes.Expr, lineno: int | None = None) -> nodes.Filter:
    line = node.lineno if node is not None else lineno
    return nodes.Filter(node, name, list(args), [], None, None, lineno=line)
