"""The settings: settings.json has each once, with every way to give it.

The options of the command line, the keywords of `runner.open`, the table of docs/reference/settings.md and
the checks of `runner doctor` come from here. An option beats the environment, which beats `targets.yaml`.

A pull request can change a file in a repository, so a setting has a key there only if a stranger's value does
no harm: not the ledger, whose URL may hold a password; not a scheduler or a folder for intermediate files,
which would get secrets or phones; not further folders to read from; and nothing that would keep a run from
reading pauses and opt-outs of other machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runner.errors import UsageError
from runner.source.quantity import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

_YES = {"1", "true", "t", "yes", "y", "on"}
_NO = {"", "0", "false", "f", "no", "n", "off"}
DURATION_HINT = "write for example 500ms, 10s or 2m"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting.

    Attributes:
        meaning: what it is, in a sentence.
        name: the keyword in Python; empty if it has no option.
        variable: the environment variable; empty if there is none.
        option: the option of the command line; empty if there is none.
        command: the command that has the option; empty for all commands.
        key: the key in `targets.yaml`; empty if there is none.
        default: the value if it is not set, in words.
        kind: how its text is read: `list` has commas between its parts.
        metavar: what stands for its value in help pages.
    """

    meaning: str
    name: str = ""
    variable: str = ""
    option: str = ""
    command: str = ""
    key: str = ""
    default: str = ""
    kind: Literal["text", "list", "switch", "duration"] = "text"
    metavar: str | None = None

    def read(self, environ: Mapping[str, str]) -> Any:
        """Return the value in an environment; None, False or an empty list if it has none.

        Raises:
            UsageError: the variable's text is no such value.
        """
        text = environ.get(self.variable, "")
        if self.kind == "list":
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.kind == "switch":
            if text.lower() not in _YES | _NO:
                raise UsageError(
                    f"{self.variable}: {text!r} is neither yes nor no", hint="write true or false"
                )
            return text.lower() in _YES
        if self.kind == "duration" and text:
            try:
                return parse_duration(text).total_seconds()
            except ValueError:
                raise UsageError(f"{self.variable}: {text!r} is not a duration", hint=DURATION_HINT) from None
        return text or None

    def describe(self) -> str:
        """Return its meaning and default for a help page."""
        return f"{self.meaning} Default: {self.default}." if self.default else self.meaning


SETTINGS = tuple(
    Setting(**one) for one in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
)
"""All settings, in the order of the docs."""
_NAMED = {one.name: one for one in SETTINGS}
TARGET = _NAMED["target"]
REQUIRE_APPROVAL = _NAMED["require_approval"]
SETTLE_WINDOW = _NAMED["settle_window_s"]
SHOW_REPLIES = _NAMED["show_replies"]
COMMON = tuple(one for one in SETTINGS if one.option and not one.command and one is not TARGET)
"""Settings that all commands take, and `runner.open`; with TARGET they are read into a scope."""


def read_settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of TARGET and the `COMMON` settings by name: given ones, or else the environment's.

    Raises:
        UsageError: the text of a variable cannot be read.
    """
    return {
        one.name: value if (value := given.get(one.name)) not in (None, ()) else one.read(environ)
        for one in (TARGET, *COMMON)
    }
