"""The few expressions that our workflows use, evaluated as GitHub documents it; any other is an error.

https://docs.github.com/actions/reference/evaluate-expressions-in-workflows-and-actions
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TOKEN = re.compile(r"\s*(?:(==|!=|&&|\|\||[()!])|'((?:[^']|'')*)'|([A-Za-z_][\w.-]*))")
_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}")
_OPEN = ("secrets", "vars", "steps", "needs", "inputs")
"""Contexts whose missing properties are empty, as on GitHub; of the others a missing one is our mistake."""
STATUS_FUNCTIONS = ("always", "success", "failure", "cancelled")


class Evaluator:
    """Evaluates expressions.

    Args:
        contexts: `github`, `secrets` and so on.
        functions: status functions by their names.
    """

    def __init__(self, contexts: Mapping[str, Any], functions: Mapping[str, Callable[[], bool]]) -> None:
        self._contexts = contexts
        self._functions = functions

    def fill(self, text: str) -> str:
        """Return a text with its `${{ … }}` replaced."""
        return _TEMPLATE.sub(lambda found: _write(self.evaluate(found[1])), text)

    def decide(self, condition: str | None) -> bool:
        """Return whether an `if:` holds; where it names no status, it asks for success, too."""
        if condition is None:
            return self._functions["success"]()
        found = _TEMPLATE.fullmatch(condition.strip())
        value = _is_true(self.evaluate(found[1] if found else condition))
        names_status = any(f"{name}(" in condition for name in STATUS_FUNCTIONS)
        return value and (names_status or self._functions["success"]())

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression."""
        tokens = _split(expression)
        value = self._either(tokens)
        assert not tokens, f"{expression!r} has more than this evaluator knows: {tokens}"
        return value

    def _either(self, tokens: list[str]) -> Any:
        value = self._both(tokens)
        while tokens[:1] == ["||"]:
            tokens.pop(0)
            other = self._both(tokens)
            value = value if _is_true(value) else other
        return value

    def _both(self, tokens: list[str]) -> Any:
        value = self._compare(tokens)
        while tokens[:1] == ["&&"]:
            tokens.pop(0)
            other = self._compare(tokens)
            value = other if _is_true(value) else value
        return value

    def _compare(self, tokens: list[str]) -> Any:
        value = self._operand(tokens)
        if tokens[:1] in (["=="], ["!="]):
            operator, other = tokens.pop(0), self._operand(tokens)
            assert isinstance(value, str), "only texts are compared here"
            assert isinstance(other, str), "only texts are compared here"
            return (value.casefold() == other.casefold()) == (operator == "==")
        return value

    def _operand(self, tokens: list[str]) -> Any:
        first = tokens.pop(0)
        if first == "!":
            return not _is_true(self._operand(tokens))
        if first == "(":
            value = self._either(tokens)
            assert tokens.pop(0) == ")"
            return value
        if first.startswith("'"):
            return first[1:]
        if tokens[:2] == ["(", ")"]:
            del tokens[:2]
            return self._functions[first]()
        return self._look_up(first)

    def _look_up(self, path: str) -> Any:
        first, *others = path.split(".")
        value = self._contexts[first]
        for name in others:
            value = value.get(name, "") if first in _OPEN and value != "" else value and value[name]
        return value


def _split(expression: str) -> list[str]:
    tokens, position = [], 0
    while expression[position:].strip():
        found = _TOKEN.match(expression, position)
        assert found, f"{expression!r} has more than this evaluator knows"
        operator, text, name = found.groups()
        tokens.append(operator or name or "'" + text.replace("''", "'"))
        position = found.end()
    return tokens


def _is_true(value: Any) -> bool:
    return value not in (False, "", None, 0)


def _write(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
