"""The language of campaign texts: Jinja2, sandboxed, strict, and bounded.

Campaigns come from pull requests, so texts must not reach the machine, and must end in bounded time and size:
every operation costs steps, and growing values are measured. There is no clock, randomness or network: a
campaign depends on its files alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, MappingView
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from jinja2 import Undefined, nodes
from jinja2.filters import FILTERS
from jinja2.meta import TrackingCodeGenerator
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS

from runner.source.normalize import suggest
from runner.text import cells
from runner.text.faults import OWN, UNSUITABLE, Absent, AbsentError, BoundError, MisuseError, name_kind
from runner.text.syntax import FUNCTIONS, SAFE_METHODS, refuse, refuse_syntax

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Environment


MAX_LENGTH = 10_000
"""The most characters of a text, and of any value on the way to it."""
_MAX_BITS = 64
"""The most bits of a whole number."""
_COLLECTIONS = (list, tuple, dict, range, MappingView)
_SIZED = (str, *_COLLECTIONS)
_WIDE_SPEC = re.compile(r"%[^a-zA-Z%]*(?:\*|\d{3})")
MAX_STEPS = 10_000
"""The most steps of one rendering.

A filter, test, call or operator takes one step, and one more for each 100 characters or items that it works
on. A turn of a loop, or an included file, takes one step, and one more for each ten nodes in it.
"""
_PARTS_A_STEP = 100
_NODES_A_STEP = 10
_KEPT_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "first", "last", "length", "lower"),
    *("title", "trim", "truncate", "upper", "urlencode"),
)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float)) or value is None


def measure(value: Any) -> int:
    """Return the approximate characters that a value prints as.

    Raises:
        BoundError: it holds a number of more than 64 bits.
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise BoundError("a number of more than 19 digits is not available in campaign texts")
    items = chain.from_iterable(value.items()) if isinstance(value, dict) else value
    return sum(measure(item) + 1 for item in items) if isinstance(value, _COLLECTIONS) else 1


def _require_size(size: int) -> None:
    if size > MAX_LENGTH:
        raise BoundError(f"a value grows beyond {MAX_LENGTH:,} characters")


def _require_given(values: Iterable[Any]) -> None:
    """Raise the error of a missing value, if one is among some values."""
    for value in values:
        if isinstance(value, Undefined):
            str(value)


def require_flat(value: Any) -> Any:
    """Measure an operator's or literal's value; lists may hold only texts and numbers."""
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, _COLLECTIONS) and not all(map(_is_scalar, items)):
        raise BoundError("a list or mapping in another one is not available in campaign texts")
    _require_size(measure(value))
    return value


def require_printable(value: Any) -> Any:
    """Return a text or number to print; refuse others: `['a', 'b']` on a phone is a mistake."""
    if isinstance(value, str):
        return value
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, bool):
        raise MisuseError('true and false cannot be printed: write {{ "a" if x else "b" }}')
    if value is None or not _is_scalar(value):
        raise MisuseError('only texts and numbers can be printed: a list wants `| join(", ")`')
    return value


def join_values(values: Iterable[Any], separator: str = "") -> str:
    """Join texts and numbers; the filter `join`."""
    if not isinstance(separator, str):
        raise MisuseError('`join` wants a text to put between: join(", ")')
    texts = [str(require_printable(value)) for value in values]
    _require_size(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def replace_text(text: str, old: str, new: str) -> str:
    """Replace a part of a text; the filter `replace`."""
    text = str(require_printable(text))
    _require_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def round_number(value: float, precision: int = 0) -> float:
    """Round a number, to at most ten places; the filter `round`."""
    return round(float(value), max(-10, min(10, precision)))


def format_text(pattern: str, *values: Any) -> str:
    """Format texts and numbers as printf does, in fields of at most two digits; the filter `format`."""
    if _WIDE_SPEC.search(pattern):
        raise BoundError("a format as wide as this is not available in campaign texts")
    _require_size(measure(pattern) + measure(values))
    return pattern % tuple(require_printable(value) for value in values)


def write_text(value: Any) -> str:
    """Write a text or number as a text; the filter `string`."""
    return str(require_printable(value))


class CampaignEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 as campaign texts may use it, for one thread at a time, since it counts steps.

    Args:
        loader: gives the text of an included template by its name.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})
    intercepted_unops = frozenset({"+", "-"})

    def __init__(self, *, loader: Any = None) -> None:
        super().__init__(
            undefined=Absent,
            loader=loader,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # Jinja2's optimizer takes cubic time for chains of filters
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
            "is_yes": cells.is_yes,
            "int": functools.partial(cells.read_as, int),
            "float": functools.partial(cells.read_as, float),
        }
        kept = {name: FILTERS[name] for name in _KEPT_FILTERS}
        self.filters = {name: self._counted(name, f) for name, f in {**kept, **ours}.items()}
        self.filters.update(cells.FILTERS)
        self.filters["#turns"] = self._turns
        self.filters["#bounded"] = require_flat
        tests = cast("dict[str, Callable[..., Any]]", TESTS)
        self.tests = {name: self._counted(name, test) for name, test in tests.items()}

    def spend(self, cost: float = 1) -> None:
        """Take steps from the budget.

        Raises:
            BoundError: the budget is used up.
        """
        self.steps += cost
        if self.steps > MAX_STEPS:
            raise BoundError(f"the text takes more than {MAX_STEPS:,} steps")

    def _work_on(self, *values: Any) -> None:
        """Take the steps of an operation on values."""
        self.spend(1 + sum(len(value) for value in values if isinstance(value, _SIZED)) / _PARTS_A_STEP)

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        if len(numbers) > MAX_STEPS:
            raise BoundError(f"a range of more than {MAX_STEPS:,} numbers")
        return numbers

    def _turns(self, values: Iterable[Any], weight: float) -> Iterator[Any]:
        if not isinstance(values, (Iterable, Undefined)):
            raise MisuseError(f"{{% for %}} goes through a list, not {name_kind(values)}")
        for value in values:
            self.spend(1 + weight / _NODES_A_STEP)
            yield value

    def _print(self, value: Any) -> Any:
        # First, as nearly all are: this is asked for each value of each text.
        printed = value if type(value) is str else require_printable(value)
        if isinstance(printed, str) and len(printed) > _PARTS_A_STEP:
            self.spend(len(printed) / _PARTS_A_STEP)
        return printed

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        first = int(hasattr(function, "jinja_pass_arg"))  # before the value: the environment

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            value, *others = args[first:]
            self._work_on(value, *others, *kwargs.values())
            try:
                result = function(*args, **kwargs)
            except OWN:
                raise
            except UNSUITABLE:
                _require_given(args)
                way = " with these arguments" if others or kwargs else ""
                raise MisuseError(f"`{name}` cannot be used on {name_kind(value)}{way}") from None
            if isinstance(result, str):
                _require_size(len(result))
            return result

        return run

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        refuse_syntax(tree)
        # Jinja2 leaves nodes in branches to the visitor that renders them.
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            kind, known = ("filter", self.filters) if isinstance(node, nodes.Filter) else ("test", self.tests)
            if node.name not in known:
                close = suggest(node.name, filter(str.isalpha, known))
                refuse(f"no {kind} named {node.name!r}{close}", node)
        _bound_tree(tree)
        self._weights[name] = sum(map(_weigh_node, tree.body))
        return tree

    def get_template(self, name: Any, parent: Any = None, globals: Any = None) -> Any:  # noqa: A002  Jinja2's name
        """Return an included template; costs steps by its length."""
        self.spend()
        template = super().get_template(name, parent, globals)
        self.spend(self._weights[name] / _NODES_A_STEP)
        return template

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method; costs steps by the length of its value."""
        self._work_on(getattr(obj, "__self__", None), *args)
        try:
            return super().call(context, obj, *args, **kwargs)
        except OWN:
            raise
        except UNSUITABLE:
            _require_given(args)
            name = getattr(obj, "__name__", "").lstrip("_")
            words = f"`{name}()` cannot be called like this" if name else f"{name_kind(obj)} cannot be called"
            raise MisuseError(words) from None

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator: to two numbers, or `+` to two texts or lists."""
        self._work_on(left, right)
        _require_given((left, right))
        try:
            if operator == "+" or not (isinstance(left, _SIZED) or isinstance(right, _SIZED)):
                return require_flat(super().call_binop(context, operator, left, right))
        except TypeError:
            pass
        words = f"`{operator}` cannot be used between {name_kind(left)} and {name_kind(right)}"
        way = ": `… | int` reads a text as a number" if str in {type(left), type(right)} else ""
        raise MisuseError(f"{words}{way}")

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        """Apply a sign."""
        try:
            return super().call_unop(context, operator, arg)
        except TypeError:
            raise MisuseError(f"`{operator}` cannot stand before {name_kind(arg)}") from None

    def wrap_str_format(self, value: Any) -> None:
        """Leave `str.format` to `is_safe_attribute`, which refuses it."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002  Jinja2's signature
        """Return whether a text may use a method or attribute of a value."""
        return any(isinstance(obj, kind) and attr in names for kind, names in SAFE_METHODS.items())

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse a method or attribute; `default(…)` would replace an undefined value."""
        if isinstance(obj, Undefined):
            return super().unsafe_undefined(obj, attribute)
        raise AbsentError(obj, attribute, "unsafe attribute")


def find_variables(tree: nodes.Template) -> set[str]:
    """Return the variables that a parsed text refers to."""
    # As `meta.find_undeclared_variables`, which would optimize the text.
    finder = TrackingCodeGenerator(cast("Environment", tree.environment))
    finder.optimizer = None
    finder.visit(tree)
    return finder.undeclared_identifiers - FUNCTIONS


def _bound_tree(node: nodes.Node) -> nodes.Node:
    """Rewrite a parsed text so that loops take steps and growing values are measured."""
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, field, _bound_tree(value))
        elif isinstance(value, list):
            setattr(node, field, [_bound_tree(v) if isinstance(v, nodes.Node) else v for v in value])
    return _bound_node(node)


def _bound_node(node: nodes.Node) -> nodes.Node:
    cells.guard(node)
    if isinstance(node, nodes.For):
        turn = [*node.body, *((node.test,) if node.test else ())]
        weight = nodes.Const(sum(map(_weigh_node, turn)), lineno=node.lineno)
        node.iter = _filter(cast("nodes.Expr", node.iter), "#turns", weight)
    elif isinstance(node, nodes.AssignBlock):
        node.filter = _filter(node.filter, "#bounded", lineno=node.lineno)
    elif isinstance(node, nodes.Concat):
        node.nodes = [_filter(part, "string") for part in node.nodes]
        return _filter(node, "#bounded")
    elif _is_literal(node):
        return _filter(node, "#bounded")
    return node


def _weigh_node(node: nodes.Node) -> float:
    """Return the number of nodes in a node, without loops, whose turns count by themselves."""
    if isinstance(node, nodes.TemplateData):
        return 1 + len(node.data) * _NODES_A_STEP / _PARTS_A_STEP
    inner = (node.iter, *node.else_) if isinstance(node, nodes.For) else node.iter_child_nodes()
    return 1 + sum(map(_weigh_node, inner))


def _is_literal(node: nodes.Node) -> TypeGuard[nodes.Expr]:
    is_value = isinstance(node, (nodes.List, nodes.Dict))
    return is_value or (isinstance(node, nodes.Tuple) and node.ctx == "load")


def _filter(node: nodes.Expr | None, name: str, *args: nodes.Expr, lineno: int | None = None) -> nodes.Filter:
    line = node.lineno if node is not None else lineno
    return nodes.Filter(node, name, list(args), [], None, None, lineno=line)
