"""How CI platforms read a job's log: their parsers, written down again from their sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# actions/runner, src/Runner.Worker/ActionCommandManager.cs: each `IActionCommandExtension`.
GITHUB_COMMANDS = frozenset(
    {
        "add-mask",
        "add-matcher",
        "add-path",
        "debug",
        "echo",
        "endgroup",
        "error",
        "group",
        "internal-set-repo-path",
        "notice",
        "remove-matcher",
        "save-state",
        "set-env",
        "set-output",
        "stop-commands",
        "warning",
    }
)
# .NET's Char.IsWhiteSpace, which TrimStart goes by.
_DOTNET_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_ESCAPES = {
    "data": [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")],
    "property": [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")],
    "old": [("%3B", ";"), ("%0D", "\r"), ("%0A", "\n"), ("%5D", "]"), ("%25", "%")],
}
# gitlab-org/gitlab, lib/gitlab/regex.rb, without the end that it asks for: a looser reader finds more.
_GITLAB_SECTION = re.compile(r"section_(start|end):")
# microsoft/azure-pipelines-agent, src/Agent.Sdk/CommandStringConvertor.cs
_AZURE_COMMAND = re.compile(r"##(vso)?\[")


@dataclass(frozen=True, slots=True)
class WorkflowCommand:
    """A command that the platform would carry out."""

    name: str
    properties: dict[str, str] = field(default_factory=dict)
    data: str = ""


def find_github_commands(
    log: bytes, registered: frozenset[str] | None = GITHUB_COMMANDS
) -> list[WorkflowCommand]:
    """Return the commands that actions/runner finds in what a step has written.

    Args:
        log: the bytes of one stream.
        registered: names of commands, in lower case; None for any name, such as the token that ends a
            `stop-commands`.
    """
    # StreamReader.ReadLine: a line ends at \n, \r or \r\n.
    lines = re.split(r"\r\n|\r|\n", log.decode("utf-8", "replace"))
    found = (_parse_v2(line, registered) or _parse_v1(line, registered) for line in lines)
    return [command for command in found if command is not None]


def find_other_commands(log: bytes) -> list[str]:
    """Return what GitLab and Azure Pipelines could take for a command."""
    text = log.decode("utf-8", "replace")
    return [found[0] for rule in (_GITLAB_SECTION, _AZURE_COMMAND) for found in rule.finditer(text)]


def _parse_v2(line: str, registered: frozenset[str] | None) -> WorkflowCommand | None:
    """Parse as ActionCommand.TryParseV2 does."""
    line = line.lstrip(_DOTNET_BLANKS)
    if not line.startswith("::"):
        return None
    end = line.find("::", 2)
    if end < 0:
        return None
    name, blank, written = line[2:end].partition(" ")
    if registered is not None and name.lower() not in registered:
        return None
    properties = _split(written.strip(_DOTNET_BLANKS), ",", "property") if blank else {}
    return WorkflowCommand(name, properties, _unescape(line[end + 2 :], "data"))


def _parse_v1(line: str, registered: frozenset[str] | None) -> WorkflowCommand | None:
    """Parse as ActionCommand.TryParse does."""
    start = line.find("##[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    name, blank, written = line[start + 3 : end].partition(" ")
    if registered is not None and name.lower() not in registered:
        return None
    properties = _split(written, ";", "old") if blank else {}
    return WorkflowCommand(name, properties, _unescape(line[end + 1 :], "old"))


def _split(written: str, separator: str, kind: str) -> dict[str, str]:
    pairs = (pair.split("=", 1) for pair in written.split(separator) if pair)
    return {pair[0]: _unescape(pair[1], kind) for pair in pairs if len(pair) > 1 and all(pair)}


def _unescape(text: str, kind: str) -> str:
    for escaped, character in _ESCAPES[kind]:
        text = text.replace(escaped, character)
    return text
