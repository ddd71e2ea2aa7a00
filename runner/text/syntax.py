"""The syntax that campaign texts refuse, though Jinja2 takes it."""

from __future__ import annotations

from typing import NoReturn

from jinja2 import TemplateSyntaxError, nodes
from jinja2.runtime import LoopContext

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
    nodes.Macro: "{% macro %} is not available in campaign texts",
    nodes.CallBlock: "{% call %} is not available in campaign texts",
    nodes.Import: "{% import %} is not available in campaign texts",
    nodes.FromImport: "{% from … import %} is not available in campaign texts",
    nodes.Extends: "{% extends %} is not available in campaign texts",
    nodes.Block: "{% block %} is not available in campaign texts",
    nodes.NSRef: "{% set %} gives a value to a name, not to an entry of one",
    nodes.Pow: "`**` is not available in campaign texts",
}
_SAFE_CALLS = frozenset[str]().union(*SAFE_METHODS.values())
_KEYS = frozenset("center count find format index join partition replace translate".split())  # noqa: SIM905
"""Methods of texts that may also be keys of a mapping: only rendering can tell."""
_REFUSED_ATTRIBUTES = frozenset(dir(str)) - _SAFE_CALLS - _KEYS
_METHODS_AS_FILTERS = ("join", "replace")
"""Methods of Python's strings whose results are bounded only as filters."""
FUNCTIONS = frozenset({"range"})
_HINT = "write {{ name }} for a value, and {% if … %} with {% endif %} for a condition"


class RefusedSyntaxError(TemplateSyntaxError):
    """An error of a template that Jinja2 takes and campaign texts do not."""


def explain_syntax(error: TemplateSyntaxError) -> tuple[str, str | None]:
    """Return what is wrong with a template that was refused with `error`, and a hint."""
    if isinstance(error, RefusedSyntaxError):
        return error.message or "", None
    return quote_library(error), _HINT


def quote_library(error: Exception) -> str:
    """Return a reason that only Jinja2 knows, as a quotation; only for templates without values."""
    return f"Jinja2 says “{getattr(error, 'message', None) or error}”"


def refuse_syntax(tree: nodes.Template) -> None:
    """Refuse statements and methods that campaign texts may not use.

    Raises:
        RefusedSyntaxError: the parsed text has one.
    """
    for node in tree.find_all(tuple(_REFUSED_NODES)):
        refuse(next(words for kind, words in _REFUSED_NODES.items() if isinstance(node, kind)), node)
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
    for attribute in tree.find_all(nodes.Getattr):
        if attribute.attr in _REFUSED_ATTRIBUTES:
            refuse(f".{attribute.attr} is not available in campaign texts", attribute)


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
