"""Pages of the inbox: templates that escape every value, and headers that restrict browsers."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse

from runner.sandbox.clock import format_duration, parse_time
from runner.sandbox.web.refusals import add_retry, explain

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment
    from starlette.responses import Response

STATIC_PATH = "/_sandbox/inbox/static"
_BAR_UNITS = 1000
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


def render_page(template: str, **values: Any) -> str:
    """Render a template, named without its ending."""
    return _build_environment().get_template(f"{template}.html.j2").render(values)


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
    environment.globals.update(static=STATIC_PATH)
    environment.filters.update(
        count="{:,}".format,
        when=_write_moment,
        ahead=_write_ahead,
        iso=_write_machine_time,
        bar=_measure_bar,
        plural=_write_plural,
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


def _answer_problem(status: int, title: str, message: str) -> Response:
    return answer_html(render_page("problem", title=title, message=message), status)
