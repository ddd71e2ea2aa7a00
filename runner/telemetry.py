"""Spans and metrics of a run, through OpenTelemetry's API, and their export.

They go to the providers of the host program: the command line sets up its own (`exporting`), other programs
may have theirs. Without any this does nothing, and OpenTelemetry need not be installed.

Attributes are names, counts and outcomes: never a phone, text, answer or guid. Errors are told by their class
alone, since their words may hold any of these. Nothing that goes wrong in here, or in the host's providers,
reaches the caller: a launch must not get lost for its telemetry.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from runner.errors import RunnerError, write_install_hint
from runner.version import __version__
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Label = str | int | None


class Instrument(NamedTuple):
    """A metric: its kind as OpenTelemetry's API calls it, unit and meaning."""

    kind: str
    unit: str
    meaning: str


INSTRUMENTS = {
    "http.client.request.duration": Instrument(
        "histogram", "s", "Duration of the HTTP requests that send launches."
    ),
    "sms_campaign.launch.outcomes": Instrument("counter", "{launch}", "Launches by recorded outcome."),
    "sms_campaign.recipient.outcomes": Instrument(
        "counter", "{recipient}", "Recipients of launches, by the launch's recorded outcome."
    ),
    "sms_campaign.recipient.unresolved": Instrument(
        "gauge", "{recipient}", "Recipients whose outcome is unknown after the run."
    ),
    "sms_campaign.result.read": Instrument(
        "counter", "{result}", "Results that were read from the service for the first time."
    ),
    "sms_campaign.command.runs": Instrument("counter", "{run}", "Finished commands, by exit code."),
}
_SERVICE = "sms-campaign-runner"
# Those of the semantic conventions for this metric.
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP{part}_ENDPOINT" for part in ("", "_TRACES", "_METRICS"))
_PATIENCE_S = 2.0
"""Seconds to wait for the last export."""
_mask = lru_cache(hide_phones)


def _find_api() -> Any:
    """Return OpenTelemetry's API for traces, or None.

    A program that receives telemetry has imported it; nobody else has to wait for the import.
    """
    return sys.modules.get("opentelemetry.trace") if "opentelemetry.metrics" in sys.modules else None


def _name(labels: Mapping[str, Label]) -> dict[str, str | int]:
    """Return attributes by their full names: those with a dot have one."""
    return {
        name if "." in name else f"sms_campaign.{name}": _mask(value) if isinstance(value, str) else value
        for name, value in labels.items()
        if value is not None
    }


@contextmanager
def span(name: str, *, within: str | None = None, **labels: Label) -> Iterator[Callable[..., None]]:
    """Record the block as a span; yield a function that adds attributes to it.

    `within` is the span of another process that it belongs to (a W3C `traceparent`).
    """
    api: Any = _find_api()
    opening: Any = None
    current: Any = None
    with suppress(Exception):
        if api is not None:
            from opentelemetry import propagate  # noqa: PLC0415  optional

            context = propagate.extract({"traceparent": within}) if within else None
            # Both options would take the error's own words.
            opening = api.get_tracer(_SERVICE, __version__).start_as_current_span(
                name, context, record_exception=False, set_status_on_exception=False
            )
            current = opening.__enter__()

    def add(**more: Label) -> None:
        with suppress(Exception):
            if current is not None:
                current.set_attributes(_name(more))

    add(**labels)
    try:
        yield add
    except BaseException as error:
        add(**{"error.type": type(error).__name__})
        with suppress(Exception):
            if current is not None:
                current.set_status(api.StatusCode.ERROR)
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
            try:
                yield codes.append
            except RunnerError as error:
                codes.append(error.exit_code)
                raise
            finally:
                add(exit_code=codes[-1])
    finally:
        measure("sms_campaign.command.runs", 1, command=command, exit_code=codes[-1])


@cache
def _find_instrument(name: str) -> Callable[[float, dict[str, Any]], None]:
    """Return the function that takes a value of a metric and its attributes."""
    from opentelemetry import metrics  # noqa: PLC0415  optional

    kind, unit, meaning = INSTRUMENTS[name]
    bounds = {"explicit_bucket_boundaries_advisory": _BUCKETS_S} if kind == "histogram" else {}
    create = getattr(metrics.get_meter(_SERVICE, __version__), f"create_{kind}")
    method = {"histogram": "record", "gauge": "set"}.get(kind, "add")
    take: Callable[[float, dict[str, Any]], None] = getattr(create(name, unit, meaning, **bounds), method)
    return take


def measure(name: str, value: float, **labels: Label) -> None:
    """Add to one of the `INSTRUMENTS`; a gauge is set."""
    with suppress(Exception):
        if _find_api() is not None:
            _find_instrument(name)(value, _name(labels))


def measure_request(seconds: float, status: int | None, **labels: Label) -> None:
    """Record one request, and the status of its answer, if one came."""
    end = ("error.type", "no_answer") if status is None else ("http.response.status_code", status)
    labels |= dict([("http.request.method", "POST"), end])
    measure("http.client.request.duration", seconds, **labels)


@contextmanager
def exporting(environment: Mapping[str, str], tell: Callable[[str], None]) -> Iterator[None]:
    """Export telemetry while the block lasts, if the environment says where; `tell` gets one remark.

    OpenTelemetry's own variables say where (OTLP over HTTP). Whether a collector is down or slow, the run
    goes on: export happens in threads of its own, and at the end is waited for only briefly.
    """
    place = next(filter(None, map(environment.get, _ENDPOINTS)), "")
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    finish = None
    try:
        finish = _open_export() if place and not is_off else None
    except ImportError:
        hint = write_install_hint("telemetry")
        tell(f"No telemetry is exported, although OTEL_* variables ask for it; {hint}.")
    try:
        yield
    finally:
        if finish is not None and not finish():
            url = urlsplit(place)
            where = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"  # without the credentials it may hold
            tell(f"Telemetry did not reach {where}, or not all of it; the run itself is not affected.")


@cache
def _open_export() -> Callable[[], bool]:
    """Set OpenTelemetry's providers, once a process; return a function that exports what is left.

    It waits a short time at most, and returns whether all was exported.
    """
    # Optional, and slow to import.
    from opentelemetry import metrics, trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    # Its words would stand between those of the command; failures are told once, at the end.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    exporters: list[Any] = [trace_exporter.OTLPSpanExporter(), metric_exporter.OTLPMetricExporter()]
    succeeded = dict.fromkeys(range(len(exporters)), True)
    for number, exporter in enumerate(exporters):

        def call(*args: Any, _export: Any = exporter.export, _number: int = number, **options: Any) -> Any:
            result = _export(*args, **options)
            succeeded[_number] = result.name == "SUCCESS"
            return result

        exporter.export = call
    resource = _describe_process()
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    traces.add_span_processor(BatchSpanProcessor(exporters[0]))
    meters = MeterProvider([PeriodicExportingMetricReader(exporters[1])], resource, shutdown_on_exit=False)
    trace.set_tracer_provider(traces)
    metrics.set_meter_provider(meters)

    def finish() -> bool:
        done = threading.Event()
        flushes = (traces.force_flush, meters.force_flush, done.set)
        # It must not keep the process from ending; an interrupt now ends only the waiting.
        threading.Thread(target=lambda: [each() for each in flushes], name="telemetry", daemon=True).start()
        with suppress(KeyboardInterrupt):
            done.wait(_PATIENCE_S)
        return done.is_set() and all(succeeded.values())

    return finish


def _describe_process() -> Any:
    """Return the resource that all telemetry of this process has; the environment adds to it."""
    import socket  # noqa: PLC0415
    import uuid  # noqa: PLC0415

    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415  optional

    own: dict[str, str | int] = {
        "service.name": _SERVICE,
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    # No other detectors: they tell arguments, which may hold a phone or a ledger's password.
    return Resource(own).merge(OTELResourceDetector().detect())
