"""Spans and metrics of a run, through OpenTelemetry's API.

They go to the providers of the host program: the command line and workers set up their own (`export`), other
programs may have theirs. Without any this does nothing, and OpenTelemetry need not be installed.

Attributes are those of `Attributes`: names, counts and outcomes. There is no place for a phone, text, answer
or guid, and errors are told by their class alone, since their words may hold any of these. Nothing that goes
wrong in here, or in the host's providers, reaches the caller: a launch must not get lost for its telemetry.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, lru_cache, partial, wraps
from itertools import count
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypedDict, Unpack
from urllib.parse import urlsplit

from runner.errors import RunnerError
from runner.version import __version__
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

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
_Arguments = ParamSpec("_Arguments")


def _harmless(function: Callable[_Arguments, object]) -> Callable[_Arguments, None]:
    """Return a function that keeps its errors to itself."""

    @wraps(function)
    def call(*args: _Arguments.args, **options: _Arguments.kwargs) -> None:
        with suppress(Exception):
            function(*args, **options)

    return call


def _is_received() -> bool:
    # A program that receives telemetry has imported this; nobody else has to wait for the import.
    return "opentelemetry.trace" in sys.modules and "opentelemetry.metrics" in sys.modules


def _find_tracer() -> Tracer:
    from opentelemetry import trace  # noqa: PLC0415  optional

    return trace.get_tracer(_SCOPE, __version__)


def _name(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{_PREFIX}{name}": _mask(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def _ignore(**_attributes: Unpack[Attributes]) -> None:
    """Add nothing to a span that nobody receives."""


@contextmanager
def span(
    name: str, *, within: str | None = None, **attributes: Unpack[Attributes]
) -> Iterator[Callable[..., None]]:
    """Record the block as a span; yield a function that adds attributes to it.

    `within` is the span of another process that it belongs to, from `carry`.
    """
    if not _is_received():
        yield _ignore
        return
    with ExitStack() as stack:
        current: Span | None = None
        with suppress(Exception):
            opening = _find_tracer().start_as_current_span(
                name,
                context=_read_context(within),
                attributes=_name(attributes),
                # Both would take the error's own words.
                record_exception=False,
                set_status_on_exception=False,
            )
            current = opening.__enter__()
            stack.callback(_harmless(opening.__exit__), None, None, None)
        try:
            yield _ignore if current is None else partial(_add, current)
        except BaseException as error:
            if current is not None:
                _mark(current, error)
            raise


@_harmless
def _add(current: Span, **attributes: Unpack[Attributes]) -> None:
    current.set_attributes(_name(attributes))


@_harmless
def _mark(current: Span, error: BaseException) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415  optional

    current.set_status(StatusCode.ERROR)
    current.set_attribute("error.type", type(error).__name__)


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
    if not _is_received():
        return None
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  optional
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    with suppress(Exception):
        TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def describe_current() -> dict[str, str]:
    """Return `trace_id` and `span_id` of the current span, else of the last command's, if there is any."""
    traceparent = carry() or next(iter(_commands), None)
    if traceparent is None:
        return {}
    _, trace_id, span_id, _ = traceparent.split("-")
    return {"trace_id": trace_id, "span_id": span_id}


def _read_context(within: str | None) -> Context | None:
    if within is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  optional
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator().extract({"traceparent": within})


@cache
def _find_instrument(name: str) -> Callable[[float, dict[str, Any]], None]:
    """Return the function that takes a value of a metric and its attributes."""
    from opentelemetry import metrics  # noqa: PLC0415  optional

    kind, unit, meaning = INSTRUMENTS[name]
    meter = metrics.get_meter(_SCOPE, __version__)
    if kind == "histogram":
        return meter.create_histogram(
            name, unit, meaning, explicit_bucket_boundaries_advisory=_BUCKETS_S
        ).record
    if kind == "gauge":
        return meter.create_gauge(name, unit, meaning).set
    if kind == "up_down_counter":
        return meter.create_up_down_counter(name, unit, meaning).add
    return meter.create_counter(name, unit, meaning).add


@_harmless
def measure(name: str, value: float, **attributes: Unpack[Attributes]) -> None:
    """Add to one of the `INSTRUMENTS`; a gauge is set."""
    if _is_received():
        _find_instrument(name)(value, _name(attributes))


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
        measure(
            "sms_campaign.recipient.queued",
            max(0, self._left),
            campaign=self._campaign,
            target=self._target,
        )
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
        self._is_on = _is_received()
        if not self._is_on:
            return
        from opentelemetry.context import get_current  # noqa: PLC0415  optional

        url = urlsplit(base_url or "")
        port = url.port or (443 if url.scheme == "https" else 80)
        self._server = {"server.address": url.hostname or "", "server.port": port}
        self._common = _name({"campaign": campaign, "target": target})
        # The threads that send have a context of their own.
        self._context = get_current()
        self._accepted, self._failed = count(), count()

    def sending(self, message: str, arm: str | None, recipients: int) -> AbstractContextManager[EndLaunch]:
        """Return a context for the sending of one launch, with a function for how it ended."""
        if not self._is_on:
            return nullcontext(_forget)
        return self._follow(_name({"message": message, "arm": arm, "recipients": recipients}))

    @contextmanager
    def _follow(self, own: dict[str, Any]) -> Iterator[EndLaunch]:
        ended: list[tuple[str, int | None]] = []
        began = time_ns()
        self._count_in_flight(1)
        try:
            yield lambda outcome, status: ended.append((outcome, status))
        finally:
            self._count_in_flight(-1)
            for outcome, status in ended:
                self._add_span(own, outcome, status, began)

    @_harmless
    def _count_in_flight(self, change: int) -> None:
        _find_instrument("sms_campaign.launch.in_flight")(change, self._common)

    @_harmless
    def _add_span(self, own: dict[str, Any], outcome: str, status: int | None, began: int) -> None:
        if outcome == "sent":
            number = next(self._accepted)
            is_chosen = number < _FIRST or number % _FIRST == 0
        else:
            is_chosen = next(self._failed) < _MOST_FAILED
        if not is_chosen:
            return
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415  optional

        attributes = {**self._common, **self._server, **own, f"{_PREFIX}outcome": outcome}
        if status is not None:
            attributes["http.response.status_code"] = status
        launch = _find_tracer().start_span(
            "send launch", self._context, SpanKind.CLIENT, attributes, start_time=began
        )
        if outcome != "sent":
            launch.set_status(StatusCode.ERROR)
        launch.end()

    @_harmless
    def observe_request(self, seconds: float, status: int | None) -> None:
        """Record one request, and the status of its answer, if one came."""
        if self._is_on:
            end = {"error.type": "no_answer"} if status is None else {"http.response.status_code": status}
            _find_instrument(REQUEST_DURATION)(
                seconds, {"http.request.method": "POST", **self._server, **end, **self._common}
            )

    @_harmless
    def observe_outcome(self, outcome: str, message: str, arm: str | None, recipients: int) -> None:
        """Count a launch whose outcome is on record."""
        if self._is_on:
            own = {**self._common, **_name({"message": message, "arm": arm, "outcome": outcome})}
            _find_instrument("sms_campaign.launch.outcomes")(1, own)
            _find_instrument("sms_campaign.recipient.outcomes")(recipients, own)


def _forget(_outcome: str, _status: int | None) -> None:
    """Take the end of a launch that nobody follows."""
