"""Pages of the inbox: templates that escape every value, and headers that restrict browsers.

Segments of a text, which carriers charge for, are counted by the standards, independently of the runner's
count; a test compares the two.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse

from runner.sandbox.clock import format_duration, parse_time
from runner.sandbox.inbox.views import HITS_SHOWN, UNREAD_MAX
from runner.sandbox.web.refusals import add_retry, explain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jinja2 import Environment
    from markupsafe import Markup
    from starlette.requests import Request
    from starlette.responses import Response

    from runner.sandbox.inbox.views import View

STATIC = {"inbox.css": "text/css", "inbox.js": "text/javascript", "icon.svg": "image/svg+xml"}
STATIC_PATH = "/_sandbox/inbox/static"
_BAR_UNITS = 1000
_FOLDER = Path(__file__).with_name("static")
HEADERS = {
    # No foreign content, no inline content, and no framing.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TITLES = {500: "The sandbox failed", 503: "The sandbox cannot do that now"}
# 3GPP TS 23.038: the default alphabet (6.2.1), and the extension table (6.2.1.1), reached by an escape.
_ALPHABET = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = frozenset("\f^{}\\[~]|€")
# 3GPP TS 23.040, 9.2.3.24: the header that joins segments takes 7 septets, or 3 units, of each.
_SEPTETS = (160, 153)
_UNITS = (70, 67)


@dataclass(frozen=True, slots=True)
class BubbleSegments:
    """Encoding ("GSM-7", or "UCS-2" where needed) and number of segments of a text, at least 1."""

    encoding: str
    segments: int


@lru_cache(maxsize=4096)  # a launch renders the same texts for everybody
def measure_text(text: str) -> BubbleSegments:
    """Count a text's segments; escape sequences and surrogate pairs are not split."""
    if _ALPHABET.union(_EXTENSION).issuperset(text):
        return BubbleSegments(
            "GSM-7", _fill([1 + (character in _EXTENSION) for character in text], *_SEPTETS)
        )
    units = [len(character.encode("utf-16-be")) // 2 for character in text]
    return BubbleSegments("UCS-2", _fill(units, *_UNITS))


def _fill(widths: list[int], single: int, joined: int) -> int:
    if sum(widths) <= single:
        return 1
    segments, used = 1, 0
    for width in widths:
        if used + width > joined:
            segments, used = segments + 1, 0
        used += width
    return segments


def render_page(template: str, **values: Any) -> str:
    """Render a template, named without its ending."""
    return _build_environment().get_template(f"{template}.html.j2").render(values)


@cache
def read_static(name: str) -> bytes:
    """Return a file of `STATIC`."""
    return (_FOLDER / name).read_bytes()


def write_request(launch: View, phones: Sequence[str]) -> str:
    """Return the body of the send that made a launch, with these of its phones."""
    return json.dumps(
        {"phone": phones, **json.loads(launch["definition"].document)}, indent=2, ensure_ascii=False
    )


def mark_found(text: str, wanted: str, length: int) -> Markup:
    """Return escaped HTML of a text, cut to `length` characters around its first match; all are marked."""
    from markupsafe import Markup, escape  # noqa: PLC0415  comes with the templates, and as late

    found = re.compile(re.escape(wanted), re.IGNORECASE | re.ASCII)
    first = found.search(text)
    begin = max(0, min(first.start() - length // 4, len(text) - length)) if first and wanted else 0
    shown = text[begin : begin + length]
    pieces, place = [escape("…" if begin else "")], 0
    for match in found.finditer(shown) if wanted else ():
        pieces += [escape(shown[place : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
        place = match.end()
    end = "…" if begin + length < len(text) else ""
    return Markup().join([*pieces, escape(shown[place:]), end])


@cache
def _link_static(name: str) -> str:
    """Return the address of a static file; it changes with the file, so that it can be cached for ever."""
    digest = hashlib.blake2b(read_static(name), digest_size=6).hexdigest()
    return f"{STATIC_PATH}/{name}?{digest}"


@cache
def _build_environment() -> Environment:
    # Late: commands with an embedded sandbox show no page.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  it takes 40 ms

    environment = Environment(
        loader=PackageLoader("runner.sandbox.inbox"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(static=_link_static, unread_max=UNREAD_MAX, hits_shown=HITS_SHOWN)
    environment.filters.update(
        count="{:,}".format,
        when=_write_moment,
        ahead=_write_ahead,
        iso=_write_machine_time,
        bar=_measure_bar,
        plural=_write_plural,
        request=write_request,
        mark=mark_found,
        airtime=measure_text,
        document=partial(json.dumps, indent=2, ensure_ascii=False),
    )
    return environment


def _write_moment(stored: datetime | str, now: datetime | None = None) -> str:
    """Return a moment in UTC: the time alone if it is on the day of `now`."""
    moment = parse_time(stored) if isinstance(stored, str) else stored
    if now is not None and moment.date() == now.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b %H:%M}" if now else f"{moment.day} {moment:%b %Y, %H:%M}"


def _write_machine_time(stored: datetime | str) -> str:
    """Return a moment as HTML's `datetime` has it: at most milliseconds (HTML, section 2.3.5)."""
    moment = parse_time(stored) if isinstance(stored, str) else stored
    return moment.isoformat(timespec="milliseconds")


def _write_ahead(length: timedelta) -> str:
    return format_duration(timedelta(minutes=round(length.total_seconds() / 60)))


def _measure_bar(part: int, whole: int) -> int:
    """Return the length of a part of a bar; parts above zero stay visible."""
    return max(round(part / whole * _BAR_UNITS), 6) if part and whole else 0


def _write_plural(number: int, noun: str, several: str = "") -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {several or f'{noun}s'}"


def answer_html(page: str, status: int = HTTPStatus.OK) -> Response:
    """Answer with a page that is not cached."""
    return HTMLResponse(page, status_code=status, headers={**HEADERS, "Cache-Control": "no-store"})


def redirect(path: str) -> Response:
    """Redirect the browser to another page of the inbox, with GET."""
    return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER, headers=HEADERS)


def answer_failure(error: Exception) -> Response:
    """Answer a refusal or an error with a page for people."""
    refusal = explain(error)
    said = " ".join((refusal.message, *refusal.problems))
    title = _TITLES.get(refusal.status, "That was not done")
    return add_retry(_answer_problem(refusal.status, title, said))


def wants_page(request: Request) -> bool:
    """Return whether a person's browser asks, outside of the paths for programs."""
    is_program = request.url.path.startswith(("/api/", "/_sandbox/"))
    return (
        request.method in {"GET", "HEAD"}
        and not is_program
        and "text/html" in request.headers.get("accept", "")
    )


def answer_unknown() -> Response:
    """Answer a browser that asks for a page that is not here."""
    message = "There is no page at this address; check how it is written."
    return _answer_problem(HTTPStatus.NOT_FOUND, "There is no such page", message)


def _answer_problem(status: int, title: str, message: str) -> Response:
    return answer_html(render_page("problem", title=title, message=message), status)
