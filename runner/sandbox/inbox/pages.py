"""The pages as HTML: our own templates, in which every value is escaped."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.sandbox.durations import format_duration
from runner.sandbox.inbox.model import UNREAD_MAX, Launch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jinja2 import Environment
    from markupsafe import Markup

    from runner.sandbox.inbox.model import Phone

STATIC = {"inbox.css": "text/css", "inbox.js": "text/javascript", "icon.svg": "image/svg+xml"}
STATIC_PATH = "/_sandbox/inbox/static"
_BAR_UNITS = 1000
_FOLDER = Path(__file__).with_name("static")


def render_page(template: str, **values: Any) -> str:
    """Render one of the templates.

    Args:
        template: its name without the ending.
        values: what it shows.
    """
    return _build_environment().get_template(f"{template}.html.j2").render(values)


@cache
def read_static(name: str) -> bytes:
    """Give one of the files of `STATIC`."""
    return (_FOLDER / name).read_bytes()


def write_request(launch: Launch, phones: Sequence[str]) -> str:
    """Write the body of the send that made a launch, with these of its phones."""
    return json.dumps({"phone": phones, **json.loads(launch.document)}, indent=2, ensure_ascii=False)


def mark_found(text: str, wanted: str, length: int) -> Markup:
    """Write a text as HTML that marks each place that a search found, cut to what is around the first.

    Args:
        text: any text; it is escaped.
        wanted: what was searched for; the case of ASCII letters does not matter, as in SQLite's LIKE.
        length: characters that are shown at most.
    """
    from markupsafe import Markup, escape  # noqa: PLC0415  comes with the templates, and as late

    pattern = re.compile(f"({re.escape(wanted)})", re.IGNORECASE | re.ASCII)
    first = pattern.search(text)
    begin = max(0, min(first.start() - length // 4, len(text) - length)) if first else 0
    # The pieces between the matches and the matches take turns.
    pieces = enumerate(pattern.split(text[begin : begin + length]))
    found = Markup().join(
        Markup("<mark>{}</mark>").format(piece) if odd % 2 else escape(piece) for odd, piece in pieces
    )
    return Markup("{}{}{}").format("…" if begin else "", found, "…" if begin + length < len(text) else "")


@cache
def _link_static(name: str) -> str:
    """Give the address of a static file; it changes with the file, so that it can be kept for ever."""
    digest = hashlib.blake2b(read_static(name), digest_size=6).hexdigest()
    return f"{STATIC_PATH}/{name}?{digest}"


@cache
def _build_environment() -> Environment:
    # Late, since commands that start a sandbox inside themselves show no page.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  it takes 40 ms

    environment = Environment(
        loader=PackageLoader("runner.sandbox.inbox"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(static=_link_static, write_unread=_write_unread)
    environment.filters.update(
        count="{:,}".format,
        when=_write_moment,
        duration=format_duration,
        bar=_measure_bar,
        plural=_write_plural,
        request=write_request,
        mark=mark_found,
    )
    return environment


def _write_moment(moment: datetime, now: datetime | None = None) -> str:
    """Write a moment in UTC: the time alone if it is on the day of `now`."""
    if now is not None and moment.date() == now.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b %H:%M}" if now else f"{moment.day} {moment:%b %Y, %H:%M}"


def _measure_bar(part: int, whole: int) -> int:
    """Give how long a part of a bar is; what is there at all can be seen."""
    return max(round(part / whole * _BAR_UNITS), 6) if part and whole else 0


def _write_plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _write_unread(phone: Phone) -> str:
    return f"{UNREAD_MAX}+" if phone.unread > UNREAD_MAX else str(phone.unread)
