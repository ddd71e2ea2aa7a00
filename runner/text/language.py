"""The language of campaign texts: Jinja2, sandboxed, strict, and bounded.

Campaigns come from pull requests, so texts must not reach the machine, and must end in bounded time and size:
every operation costs steps by the length of its input, and growing values are measured in advance. There is
no clock, randomness or network: a campaign depends on its files alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, MappingView
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from jinja2 import Undefined, nodes, pass_environment
from jinja2.filters import FILTERS
from jinja2.meta import TrackingCodeGenerator
from jinja2.runtime import LoopContext
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
"""The most bits of a whole number: larger ones can share a hash, which makes sets of them very slow."""
COLLECTIONS = (list, tuple, dict, range, MappingView)
"""Types of values with a length that hold others."""
_WIDE_SPEC = re.compile(r"%[^a-zA-Z%]*(?:\*|\d{3})")
_MAX_EXPONENT = 64
MAX_STEPS = 10_000
"""The most steps of one rendering.

A filter, test, call or operator takes one step, and one more for each 100 characters that it works on or
makes. A turn of a loop, or an included file, takes one step, and one more for each ten nodes in it.
"""
_CHARACTERS_A_STEP = 100
_NODES_A_STEP = 10
_APPLIED = {
    "map": ("filter", 0),
    **dict.fromkeys(("select", "reject"), ("test", 0)),
    **dict.fromkeys(("selectattr", "rejectattr"), ("test", 1)),
}
"""Filters that apply a filter or test, and which of their arguments names it."""
_KEPT_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse"),
    *("select", "selectattr", "sort", "title", "trim", "truncate", "unique", "upper"),
    *("urlencode", "wordcount"),
)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float)) or value is None


def measure(value: Any) -> int:
    """Return the approximate characters that a value prints as, by which the work of filters grows.

    Raises:
        BoundError: it holds a number of more than 64 bits.
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise BoundError("a number of more than 19 digits is not available in campaign texts")
        return value.bit_length() // 3 + 1
    if value is None or isinstance(value, (float, Undefined)):
        return 1
    if isinstance(value, range):
        return len(value) * max(map(measure, (*value[:1], *value[-1:])), default=0)
    items = chain.from_iterable(value.items()) if isinstance(value, dict) else value
    return sum(measure(item) + 1 for item in items) if isinstance(value, COLLECTIONS) else 1


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
    if isinstance(value, (list, tuple)) and not all(_is_scalar(item) for item in value):
        raise BoundError("a list in a list is not available in campaign texts")
    if isinstance(value, dict) and not all(_is_scalar(item) for item in value.values()):
        raise BoundError("a list or mapping in a mapping is not available in campaign texts")
    _require_size(measure(value))
    return value


def require_printable(value: Any) -> Any:
    """Return a text or number to print; refuse others: `['a', 'b']` on a phone is a mistake."""
    if isinstance(value, str):  # first, as nearly all are: this is asked for each value of each text
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
    try:
        number = float(value)
    except ValueError:  # its words would quote the value, which may be anyone's phone
        raise MisuseError("only numbers can be rounded") from None
    return round(number, max(-10, min(10, precision)))


def format_text(pattern: str, *values: Any) -> str:
    """Format texts and numbers as printf does, in fields of at most two digits; the filter `format`."""
    if _WIDE_SPEC.search(pattern):
        raise BoundError("a format as wide as this is not available in campaign texts")
    _require_size(measure(pattern) + measure(values))
    return pattern % tuple(require_printable(value) for value in values)


def write_text(value: Any) -> str:
    """Write a text or number as a text; the filter `string`."""
    return str(require_printable(value))


def require_short(value: Any) -> Any:
    """Return a filter's result; refuse texts that are too long."""
    if isinstance(value, str):
        _require_size(len(value))
    return value


@pass_environment
def add_numbers(
    environment: Environment, values: Any, attribute: str | int | None = None, start: float = 0
) -> Any:
    """Add numbers; the filter `sum`."""
    if not isinstance(start, (int, float)):
        raise MisuseError("`sum` adds numbers alone")
    return FILTERS["sum"](environment, values, attribute, start)


def _check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _require_size(measure(left) + measure(right))
    elif isinstance(right, int):
        _require_size(measure(left) * max(right, 0))
    elif isinstance(left, int):
        _require_size(measure(right) * max(left, 0))
    if any(isinstance(one, str) and any(map(str.isdigit, one)) for one in (left, right)):
        raise MisuseError("a text is no number to `*`, which would repeat it: write `… | int` or `… | float`")


def _check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _require_size(measure(left) * max(right, 1))
    if abs(right) > _MAX_EXPONENT:
        raise BoundError(f"a power beyond {_MAX_EXPONENT} is not available in campaign texts")


def _check_sum(left: Any, right: Any) -> None:
    _require_size(measure(left) + measure(right))


def _check_remainder(left: Any, _right: Any) -> None:
    if isinstance(left, str):
        raise MisuseError("text % values is not available: write `text | format(values)`")


OPERATOR_CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "+": _check_sum,
    "*": _check_product,
    "**": _check_power,
    "%": _check_remainder,
}
"""Checks that refuse operands with too large a result, by operator."""


class CampaignEnvironment(ImmutableSandboxedEnvironment):
    """Jinja2 as campaign texts may use it, for one thread at a time, since it counts steps.

    Args:
        undefined: the class of variables without a value.
        load: returns the text of an included template by its name.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})

    def __init__(self, undefined: type[Undefined] = Absent, *, loader: Any = None) -> None:
        super().__init__(
            undefined=undefined,
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
            "sum": add_numbers,
            "is_yes": cells.is_yes,
            "int": cells.read_whole,
            "float": cells.read_decimal,
        }
        kept = {name: FILTERS[name] for name in _KEPT_FILTERS}
        self.filters = {name: self._counted(name, f) for name, f in {**kept, **ours}.items()}
        self.filters.update(cells.FILTERS)
        self.filters["#turns"] = self._turns
        self.filters["#bounded"] = require_flat
        self.filters["#weighed"] = self._weigh
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

    def _range(self, *bounds: int) -> range:
        steps = range(*bounds)
        if len(steps) > MAX_STEPS:
            raise BoundError(f"a range of more than {MAX_STEPS:,} numbers")
        return steps

    def _turns(self, values: Iterable[Any], weight: float) -> Iterator[Any]:
        cost = 1 + max(0, weight) / _NODES_A_STEP
        if not isinstance(values, (Iterable, Undefined)):
            raise MisuseError(f"{{% for %}} goes through a list, not {name_kind(values)}")
        for value in values:
            self.spend(cost)
            yield value

    def _print(self, value: Any) -> Any:
        printed = require_printable(value)
        if isinstance(printed, str) and len(printed) > _CHARACTERS_A_STEP:
            self.spend(len(printed) / _CHARACTERS_A_STEP)
        return printed

    def _weigh(self, value: Any, more: int = 0) -> Any:
        """Take steps for work on a value, now or as its items come; `more` characters count for each item."""
        if type(value) is str and len(value) + more <= _CHARACTERS_A_STEP:  # nearly all values of all texts
            return value
        if isinstance(value, Iterator) and not isinstance(value, LoopContext):
            return self._weigh_items(value, more)
        items = len(value) if isinstance(value, COLLECTIONS) else 1
        size = measure(value) + items * max(0, more)
        if size > _CHARACTERS_A_STEP:
            self.spend(size / _CHARACTERS_A_STEP)
        return value

    def _weigh_items(self, values: Iterator[Any], more: int, name: str = "list") -> Iterator[Any]:
        try:
            for value in values:
                self.spend((measure(value) + 1 + max(0, more)) / _CHARACTERS_A_STEP)
                yield value
        except OWN:
            raise
        except UNSUITABLE:
            raise MisuseError(f"`{name}` cannot be used on this list") from None

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
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
            try:
                result = function(*args, **kwargs)
            except OWN:
                raise
            except UNSUITABLE:
                _require_given(args)
                way = " with these arguments" if others or kwargs else ""
                raise MisuseError(f"`{name}` cannot be used on {name_kind(value)}{way}") from None
            if isinstance(result, Iterator):
                return self._weigh_items(result, 0, name)
            return self._weigh(require_short(result))

        return run

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        refuse_syntax(tree)
        self._refuse_unknown(tree)
        _bound_tree(tree)
        self._weights[name] = sum(map(_weigh_node, tree.body))
        return tree

    def _refuse_unknown(self, tree: nodes.Template) -> None:
        # Jinja2 leaves nodes in branches to the visitor that renders them.
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            asked = [("filter" if isinstance(node, nodes.Filter) else "test", node.name)]
            kind, index = _APPLIED.get(node.name, ("", 0))
            applied = node.args[index] if kind and index < len(node.args) else None
            if isinstance(applied, nodes.Const):
                asked.append((kind, str(applied.value)))
            for kind, name in asked:
                known = self.filters if kind == "filter" else self.tests
                if name not in known:
                    close = suggest(name, filter(str.isalpha, known))
                    refuse(f"no {kind} named {name!r}{close}", node)

    def get_template(self, name: Any, parent: Any = None, globals: Any = None) -> Any:  # noqa: A002  Jinja2's name
        """Return an included template; costs steps by its length."""
        self.spend()
        template = super().get_template(name, parent, globals)
        self.spend(self._weights[name] / _NODES_A_STEP)
        return template

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method; costs steps by the length of its value."""
        self.spend()
        self._weigh(getattr(obj, "__self__", None), measure(args) + measure(kwargs))
        try:
            return self._weigh(super().call(context, obj, *args, **kwargs))
        except OWN:
            raise
        except UNSUITABLE:
            _require_given(args)
            name = getattr(obj, "__name__", "").lstrip("_")
            words = f"`{name}()` cannot be called like this" if name else f"{name_kind(obj)} cannot be called"
            raise MisuseError(words) from None

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator, unless the result would be too large."""
        self.spend()
        self._weigh(left, measure(right))
        try:
            if operator in OPERATOR_CHECKS:
                OPERATOR_CHECKS[operator](left, right)
            return self._weigh(super().call_binop(context, operator, left, right))
        except TypeError:
            words = f"`{operator}` cannot be used between {name_kind(left)} and {name_kind(right)}"
            raise MisuseError(words) from None

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
    elif isinstance(node, nodes.Compare):
        compared: list[nodes.Compare | nodes.Operand] = [node, *node.ops]
        for operand in compared:
            if not isinstance(operand.expr, nodes.Const):
                operand.expr = _filter(operand.expr, "#weighed")
    elif _is_literal(node):
        return _filter(node, "#bounded")
    return node


def _weigh_node(node: nodes.Node) -> float:
    """Return the number of nodes in a node, without loops, whose turns count by themselves."""
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
