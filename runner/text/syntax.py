r"""The syntax that campaign texts refuse, and why Jinja2 refuses a template.

Jinja2 words a refusal as each of its versions likes. So the source of a refused template is looked at here:
what is found has words of this program, and Jinja2 is quoted only for the rest.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from jinja2 import TemplateSyntaxError, nodes
from jinja2.runtime import LoopContext

from runner.source.normalize import suggest

SAFE_METHODS: dict[type, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in (
        (str, "upper lower title capitalize strip lstrip rstrip split startswith endswith"),
        (dict, "get keys values items"),
        (LoopContext, "index index0 revindex revindex0 first last length"),
    )
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
_KEYS = frozenset("center count find format index join partition replace translate".split())  # noqa: SIM905
"""Methods of texts that may also be keys of a mapping: only rendering can tell."""
_REFUSED_ATTRIBUTES = frozenset(dir(str)) - _SAFE_CALLS - _KEYS
_METHODS_AS_FILTERS = ("join", "replace")
"""Methods of Python's strings whose results are bounded only as filters."""
FUNCTIONS = frozenset({"range"})
_QUOTED = r"""'(?:\\.|[^'\\])*+'|"(?:\\.|[^"\\])*+\""""
_PART = re.compile(
    rf"""
    (?P<comment> \{{\# (?: .*? (?P<comment_end>\#\}}) )? )
    | (?P<raw> \{{% [-+]? \s* raw \s* [-+]? %\}}
      (?: .*? \{{% [-+]? \s* endraw \s* [-+]? (?P<raw_end>%\}}) )? )
    | (?P<value> \{{\{{ (?: {_QUOTED} | (?! \{{[{{%\#] | \}}\}} ) . )*+ (?P<value_end>\}}\}})? )
    | (?P<statement> \{{% [-+]? \s* (?P<word>\w*)
      (?: {_QUOTED} | (?! \{{[{{%\#] | %\}} ) . )*+ (?P<statement_end>%\}})? )
    """,
    re.VERBOSE | re.DOTALL,
)
_HALF_CLOSED = re.compile(r"\{\{\s*(?P<value>[^{}%]+?)\s*%?\}(?!\})|\{%\s*(?P<statement>[^{}%]+?)\s*\}")
_CLOSINGS = {"comment": "#}", "raw": "{% endraw %}", "value": "}}", "statement": "%}"}
_BLOCKS = frozenset({"if", "for", "filter", "with", "autoescape", "set"})
_BRANCHES = {"else": {"if", "for"}, "elif": {"if"}}
_STATEMENTS = _BLOCKS | {f"end{word}" for word in _BLOCKS} | set(_BRANCHES) | {"include", "print"}
_REFUSED = frozenset(words.split()[0] for words in _REFUSED_NODES.values())
"""Statements of Jinja2 that are refused by name once they are parsed."""


class RefusedSyntaxError(TemplateSyntaxError):
    """An error of a template that Jinja2 takes and campaign texts do not."""


class SyntaxFault(NamedTuple):
    """A mistake in a template: its line (from 1), and what to do about it."""

    line: int
    message: str
    hint: str | None = None


def explain_syntax(source: str, error: TemplateSyntaxError) -> SyntaxFault:
    """Return what is wrong with a template that was refused with `error`."""
    if isinstance(error, RefusedSyntaxError):
        return SyntaxFault(error.lineno, error.message or "")
    return _find_fault(source) or SyntaxFault(error.lineno, quote_library(error))


def quote_library(error: Exception) -> str:
    """Return a reason that only Jinja2 knows, as a quotation; only for templates without values."""
    return f"Jinja2 says “{getattr(error, 'message', None) or error}”"


def _find_fault(source: str) -> SyntaxFault | None:
    waiting: list[tuple[str, int]] = []
    for part in _PART.finditer(source):
        line = source.count("\n", 0, part.start()) + 1
        kind = next(name for name in _CLOSINGS if part[name] is not None)
        if part[f"{kind}_end"] is None:
            opening = "{% raw %}" if kind == "raw" else part[0][:2]
            return SyntaxFault(line, f"`{opening}` is never closed", _complete(source, part, _CLOSINGS[kind]))
        fault = _follow(part["word"], part[0], waiting, line) if kind == "statement" else None
        if fault is not None:
            return fault
    return _report_unclosed(*waiting[-1]) if waiting else None


def _report_unclosed(word: str, line: int) -> SyntaxFault:
    hint = f"write `{{% end{word} %}}` where it ends"
    return SyntaxFault(line, f"`{{% {word} %}}` is never closed", hint)


def _follow(word: str, written: str, waiting: list[tuple[str, int]], line: int) -> SyntaxFault | None:
    """Note the blocks that a statement opens or closes; return what is wrong with it."""
    inner = waiting[-1][0] if waiting else None
    if word and word not in _STATEMENTS | _REFUSED:
        close = suggest(word, sorted(_STATEMENTS))
        return SyntaxFault(line, f"{{% {word} %}} is not available in campaign texts{close}")
    if word in _BRANCHES and inner not in _BRANCHES[word]:
        return SyntaxFault(line, f"this `{{% {word} %}}` belongs to no `{{% if %}}`")
    if word.startswith("end"):
        ended = word.removeprefix("end")
        if inner is not None and ended != inner and ended in dict(waiting):
            return _report_unclosed(*waiting[-1])
        if ended != inner:
            return SyntaxFault(line, f"this `{{% {word} %}}` ends no `{{% {ended} %}}`")
        waiting.pop()
    elif word in _BLOCKS and not (word == "set" and "=" in written):
        waiting.append((word, line))
    return None


def _complete(source: str, part: re.Match[str], closing: str) -> str:
    """Return the remedy for what is not closed; a single brace may have been meant to."""
    end = source.find("\n", part.start())
    found = _HALF_CLOSED.match(source, part.start(), len(source) if end < 0 else end)
    if found is None:
        return f"write `{closing}` where it ends"
    value, statement = found.groups()
    return f"write `{{{{ {value} }}}}`" if value else f"write `{{% {statement} %}}`"


def refuse_syntax(tree: nodes.Template) -> None:
    """Refuse statements and methods that campaign texts may not use.

    Raises:
        RefusedSyntaxError: the parsed text has one.
    """
    for node in tree.find_all(tuple(_REFUSED_NODES)):
        word = next(w for kind, w in _REFUSED_NODES.items() if isinstance(node, kind))
        refuse(f"{{% {word} %}} is not available in campaign texts", node)
    for attribute in tree.find_all(nodes.NSRef):
        refuse("{% set %} gives a value to a name, not to an entry of one", attribute)
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            refuse("a recursive loop is not available in campaign texts", loop)
    for include in tree.find_all(nodes.Include):
        if not isinstance(include.template, nodes.Const):
            refuse("an included file's name must be a fixed text", include)
    _refuse_methods(tree)


def _refuse_methods(tree: nodes.Template) -> None:
    """Refuse methods that rendering would refuse, also in branches that nobody takes."""
    for call in tree.find_all(nodes.Call):
        called = call.node
        if isinstance(called, nodes.Name) and called.name not in FUNCTIONS:
            refuse(f"{called.name}() is not available in campaign texts", call)
        name = _name_attribute(called)
        if name is not None and name not in _SAFE_CALLS:
            way = f": write `| {name}(…)`" if name in _METHODS_AS_FILTERS else ""
            refuse(f".{name}() is not available in campaign texts{way}", call)
    for node in tree.find_all(nodes.Getattr):
        if node.attr in _REFUSED_ATTRIBUTES:
            refuse(f".{node.attr} is not available in campaign texts", node)


def _name_attribute(node: nodes.Node) -> str | None:
    """Return the name of an attribute written in the text, as in `x.name` and `x["name"]`."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return node.arg.value if isinstance(node.arg.value, str) else None
    return None


def refuse(message: str, node: nodes.Node) -> NoReturn:
    """Raise the error for a node that a text may not have."""
    raise RefusedSyntaxError(message, node.lineno)
