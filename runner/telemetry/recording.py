"""Spans and metrics of a run, through OpenTelemetry's API.

They go to the providers of the host program: the command line and workers set up their own (`export`), other
programs may have theirs. Without any this does nothing, and OpenTelemetry need not be installed.

Attributes are those of `Attributes`: names, counts and outcomes. There is no place for a phone, text, answer
or guid, and errors are told by their class alone, since their words may hold any of these. Nothing that goes
wrong in here, or in the host's providers, reaches the caller: a launch must not get lost for its telemetry.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import count
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack
from urllib.parse import urlsplit

from runner.errors import RunnerError
from runner.version import __version__
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    EndLaunch = Callable[[str, int | None], object]
    """A function that takes a launch's outcome, and the status of the last answer."""


class Attributes(TypedDict, total=False):
    """The attributes of spans and metrics; each is called `sms_campaign.` and its name."""

    arm: str | None
    campaign: str
    command: str
    exit_code: int
    message: str
    outcome: str
    recipients: int
    round: int
    target: str


class Instrument(NamedTuple):
    """A metric: its kind as OpenTelemetry's API calls it, unit and meaning."""

    kind: str
    unit: str
    meaning: str


REQUEST_DURATION = "http.client.request.duration"
INSTRUMENTS = {
    REQUEST_DURATION: Instrument("histogram", "s", "Duration of the HTTP requests that send launches."),
    "sms_campaign.launch.outcomes": Instrument("counter", "{launch}", "Launches by recorded outcome."),
    "sms_campaign.launch.in_flight": Instrument(
        "up_down_counter", "{launch}", "Launches that threads are sending, or waiting to send."
    ),
    "sms_campaign.recipient.outcomes": Instrument(
        "counter", "{recipient}", "Recipients of launches, by the launch's recorded outcome."
    ),
    "sms_campaign.recipient.queued": Instrument(
        "gauge", "{recipient}", "Recipients that the run has yet to send to."
    ),
    "sms_campaign.recipient.unresolved": Instrument(
        "gauge", "{recipient}", "Recipients whose outcome is unknown after the run."
    ),
    "sms_campaign.result.read": Instrument(
        "counter", "{result}", "Results that were read from the service for the first time."
    ),
    "sms_campaign.command.runs": Instrument("counter", "{run}", "Finished commands, by exit code."),
}
_SCOPE = "sms-campaign-runner"
_PREFIX = "sms_campaign."
# Those of the semantic conventions for this metric.
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_FIRST = 100
"""Accepted launches of a part with a span; of those behind them one in as many has one."""
_MOST_FAILED = 1000
"""Launches of a part with a span because they were not accepted."""


_commands: list[str] = []
"""The span of the last command, which its error is told after."""
_mask = lru_cache(hide_phones)


def _find_api() -> Any:
    """Return OpenTelemetry's API for traces, or None.

    A program that receives telemetry has imported it; nobody else has to wait for the import.
    """
    return sys.modules.get("opentelemetry.trace") if "opentelemetry.metrics" in sys.modules else None


def _name(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{_PREFIX}{name}": _mask(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


@contextmanager
def span(
    name: str, *, within: str | None = None, **attributes: Unpack[Attributes]
) -> Iterator[Callable[..., None]]:
    """Record the block as a span; yield a function that adds attributes to it.

    `within` is the span of another process that it belongs to, from `carry`.
    """
    api: Any = _find_api()
    opening: Any = None
    current: Any = None
    with suppress(Exception):
        if api is not None:
            opening = api.get_tracer(_SCOPE, __version__).start_as_current_span(
                name,
                context=_read_context(within),
                attributes=_name(attributes),
                # Both would take the error's own words.
                record_exception=False,
                set_status_on_exception=False,
            )
            current = opening.__enter__()

    def add(**more: Unpack[Attributes]) -> None:
        with suppress(Exception):
            if current is not None:
                current.set_attributes(_name(more))

    try:
        yield add
    except BaseException as error:
        with suppress(Exception):
            if current is not None:
                current.set_status(api.StatusCode.ERROR)
                current.set_attribute("error.type", type(error).__name__)
        raise
    finally:
        with suppress(Exception):
            if current is not None:
                opening.__exit__(None, None, None)


@contextmanager
def command_span(command: str, *, within: str | None = None) -> Iterator[Callable[[int], None]]:
    """Record the block as a span of a command, and count it; yield a function that takes its exit code."""
    codes = [1]
    try:
        with span(f"runner {command}", within=within, command=command) as add:
            _commands[:] = filter(None, [carry()])
            try:
                yield codes.append
            except RunnerError as error:
                codes.append(error.exit_code)
                raise
            finally:
                add(exit_code=codes[-1])
    finally:
        measure("sms_campaign.command.runs", 1, command=command, exit_code=codes[-1])


def carry() -> str | None:
    """Return the current span for another process (a W3C `traceparent`); None if nobody receives it."""
    carrier: dict[str, str] = {}
    with suppress(Exception):
        if _find_api() is not None:
            _find_propagator().inject(carrier)
    return carrier.get("traceparent")


def describe_current() -> dict[str, str]:
    """Return `trace_id` and `span_id` of the current span, else of the last command's, if there is any."""
    traceparent = carry() or next(iter(_commands), None)
    return (
        {}
        if traceparent is None
        else dict(zip(("trace_id", "span_id"), traceparent.split("-")[1:3], strict=True))
    )


def _read_context(within: str | None) -> Any:
    return None if within is None else _find_propagator().extract({"traceparent": within})


def _find_propagator() -> Any:
    from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415  optional

    return tracecontext.TraceContextTextMapPropagator()


@cache
def _find_instrument(name: str) -> Callable[[float, dict[str, Any]], None]:
    """Return the function that takes a value of a metric and its attributes."""
    from opentelemetry import metrics  # noqa: PLC0415  optional

    kind, unit, meaning = INSTRUMENTS[name]
    bounds = {"explicit_bucket_boundaries_advisory": _BUCKETS_S} if kind == "histogram" else {}
    create = getattr(metrics.get_meter(_SCOPE, __version__), f"create_{kind}")
    instrument = create(name, unit, meaning, **bounds)
    method = {"histogram": "record", "gauge": "set"}.get(kind, "add")
    take: Callable[[float, dict[str, Any]], None] = getattr(instrument, method)
    return take


def measure(name: str, value: float, **attributes: Unpack[Attributes]) -> None:
    """Add to one of the `INSTRUMENTS`; a gauge is set."""
    _record(name, value, attributes, {})


def _record(name: str, value: float, attributes: Attributes, others: dict[str, Any]) -> None:
    with suppress(Exception):
        if _find_api() is not None:
            _find_instrument(name)(value, {**others, **_name(attributes)})


class Queue:
    """The recipients that are left to a campaign's run: counted down as `advance` tells of those done."""

    def __init__(self, campaign: str, target: str, left: int, advance: Callable[[int], None]) -> None:
        self._campaign, self._target = campaign, target
        self._left = left
        self._advance = advance
        self.advance(0)

    def advance(self, done: int) -> None:
        """Take recipients off."""
        self._left -= done
        left = max(0, self._left)
        measure("sms_campaign.recipient.queued", left, campaign=self._campaign, target=self._target)
        if done:
            self._advance(done)


class SendMeter:
    """The telemetry of one part of a campaign's sends, from any number of threads.

    Metrics count every launch. Spans are made of the first launches, of some of those behind them, and of
    those that were not accepted.

    Args:
        campaign: its name.
        target: its name.
        base_url: the service's; only host and port are told.
    """

    def __init__(self, campaign: str, target: str, base_url: str | None) -> None:
        url = urlsplit(base_url or "")
        port = url.port or (443 if url.scheme == "https" else 80)
        self._server = {"server.address": url.hostname or "", "server.port": port}
        self._common: Attributes = {"campaign": campaign, "target": target}
        self._accepted, self._failed = count(), count()
        # The threads that send have a context of their own.
        self._context = None if _find_api() is None else sys.modules["opentelemetry.context"].get_current()

    @contextmanager
    def sending(self, message: str, arm: str | None, recipients: int) -> Iterator[EndLaunch]:
        """Follow the sending of one launch; yield a function that takes how it ended."""
        ended: list[tuple[str, int | None]] = []
        began = time_ns()
        measure("sms_campaign.launch.in_flight", 1, **self._common)
        try:
            yield lambda outcome, status: ended.append((outcome, status))
        finally:
            measure("sms_campaign.launch.in_flight", -1, **self._common)
            for outcome, status in ended:
                own: Attributes = {
                    "message": message,
                    "arm": arm,
                    "recipients": recipients,
                    "outcome": outcome,
                }
                with suppress(Exception):
                    self._add_span({**self._common, **own}, status, began)

    def _add_span(self, attributes: Attributes, status: int | None, began: int) -> None:
        api, is_sent = _find_api(), attributes["outcome"] == "sent"
        number = next(self._accepted if is_sent else self._failed)
        is_chosen = (number < _FIRST or number % _FIRST == 0) if is_sent else number < _MOST_FAILED
        if api is None or not is_chosen:
            return
        answer = {} if status is None else {"http.response.status_code": status}
        told = {**self._server, **answer, **_name(attributes)}
        tracer = api.get_tracer(_SCOPE, __version__)
        launch = tracer.start_span("send launch", self._context, api.SpanKind.CLIENT, told, start_time=began)
        if not is_sent:
            launch.set_status(api.StatusCode.ERROR)
        launch.end()

    def observe_request(self, seconds: float, status: int | None) -> None:
        """Record one request, and the status of its answer, if one came."""
        end = {"error.type": "no_answer"} if status is None else {"http.response.status_code": status}
        request = {"http.request.method": "POST", **self._server, **end}
        _record(REQUEST_DURATION, seconds, self._common, request)

    def observe_outcome(self, outcome: str, message: str, arm: str | None, recipients: int) -> None:
        """Count a launch whose outcome is on record."""
        own: Attributes = {**self._common, "message": message, "arm": arm, "outcome": outcome}
        measure("sms_campaign.launch.outcomes", 1, **own)
        measure("sms_campaign.recipient.outcomes", recipients, **own)
