"""Printing on outputs that may be closed or not in UTF-8: plain characters or escapes."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.wording import disarm, disarm_commands

if TYPE_CHECKING:
    from typing import TextIO


def open_closed_streams() -> None:
    """Let standard output and error lead nowhere if they are closed (`>&-`): Python has None for them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The lowest free descriptor is mostly the closed one: no file of ours is taken for it.
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open while the process is
            setattr(sys, name, nowhere)


def replace_unencodable() -> None:
    """Let standard output and error write a question mark for each character that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_text(text: str = "", *, nl: bool = True, err: bool = False, **style: Any) -> None:
    """Write text, in which nothing that came from a file or the service can act (`disarm`)."""
    # Imported here: an interrupt of the start must find its handler before this is imported.
    import click

    click.echo(disarm(click.style(text, **style) if style else text), nl=nl, err=err)


def print_command(line: str) -> None:
    """Write one workflow command for GitHub; its values must be escaped."""
    import click

    # Names of files may contain bytes that are no text: these are shown as escapes.
    click.echo(line.encode("utf-8", "backslashreplace").decode())


def leads_to_file(stream: TextIO) -> bool:
    """Return whether a stream is redirected into a file, where nothing reads commands."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        # It is closed, or no stream of the operating system's.
        return False


def fit_json(text: str, stream: TextIO) -> str:
    """Return JSON as a stream can carry it: escapes for what UTF-8 or the stream lacks, or a CI job obeys."""
    # Imported here: few streams need it.
    import json

    # Names of files may contain bytes that are no text: UTF-8 cannot carry these either.
    # JSON's own escapes end at 0x1f.
    escaped = r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+"
    if not _is_utf_8(stream):
        escaped = r"[^\0-\x7e]+"
    return disarm_commands(re.sub(escaped, lambda run: json.dumps(run[0])[1:-1], text))


def fit_html(text: str, stream: TextIO) -> str:
    """Return HTML as a stream can carry it: references for what the stream lacks, or a CI job obeys."""
    text = disarm_commands(text, "&#{};")
    return text if _is_utf_8(stream) else text.encode("ascii", "xmlcharrefreplace").decode()


def _is_utf_8(stream: TextIO) -> bool:
    # A closed stream has no encoding.
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8"
