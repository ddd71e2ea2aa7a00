"""OpenTelemetry's SDK, set up to export over HTTP."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SERVICE = "sms-campaign-runner"
_CONNECT_S = 1.0


class _SpanExporter(OTLPSpanExporter):
    """An exporter that tells whether the last export succeeded."""

    def __init__(self, note: Callable[[bool], None]) -> None:
        super().__init__()
        self._note = note

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        result = super().export(spans)
        self._note(result is SpanExportResult.SUCCESS)
        return result


class _MetricExporter(OTLPMetricExporter):
    """An exporter that tells whether the last export succeeded."""

    def __init__(self, note: Callable[[bool], None]) -> None:
        super().__init__()
        self._note = note

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **options: Any
    ) -> MetricExportResult:
        """Export metrics."""
        result = super().export(metrics_data, timeout_millis, **options)
        self._note(result is MetricExportResult.SUCCESS)
        return result


class OtlpExport:
    """The providers of this process, which export until it ends.

    The SDK reads its variables from the process's environment itself; `environment` is the same.

    Attributes:
        where: the collector's address, for messages.
        has_failed: whether the last export failed.
    """

    def __init__(self, environment: Mapping[str, str], signals: Sequence[str]) -> None:
        # Its words would stand between those of the command; failures are told once, at the end.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        self.has_failed = False
        self.where = _find_place(environment)
        resource = _describe_process(environment)
        self._flushes: list[Callable[[], object]] = []
        if "traces" in signals:
            traces = TracerProvider(resource=resource, shutdown_on_exit=False)
            traces.add_span_processor(BatchSpanProcessor(_SpanExporter(self._note)))
            trace.set_tracer_provider(traces)
            self._flushes.append(traces.force_flush)
        if "metrics" in signals:
            reader = PeriodicExportingMetricReader(_MetricExporter(self._note))
            meters = MeterProvider([reader], resource, shutdown_on_exit=False)
            metrics.set_meter_provider(meters)
            self._flushes.append(meters.force_flush)

    def is_listening(self) -> bool:
        """Return whether somebody listens at the collector's address, which takes no time to find out."""
        url = urlsplit(self.where)
        if url.scheme in getproxies():
            return True
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            socket.create_connection((url.hostname or "", port), timeout=_CONNECT_S).close()
        except OSError:
            self.has_failed = True
        return not self.has_failed

    def flush(self) -> None:
        """Export what has been recorded up to now."""
        for flush in self._flushes:
            if not self.has_failed:
                flush()

    def _note(self, is_exported: bool) -> None:  # noqa: FBT001  a callback
        self.has_failed = not is_exported


def _describe_process(environment: Mapping[str, str]) -> Resource:
    """Return the resource that all telemetry of this process has."""
    own: dict[str, str | int] = {
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    described = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not environment.get("OTEL_SERVICE_NAME") and "service.name=" not in described:
        own["service.name"] = _SERVICE
    found = Resource.create()
    # Detectors that the environment can add tell arguments, which may hold a phone or a ledger's password.
    kept = {name: value for name, value in found.attributes.items() if not name.startswith("process.command")}
    return Resource({**kept, **own}, found.schema_url)


def _find_place(environment: Mapping[str, str]) -> str:
    """Return the collector's address without the credentials that it may hold."""
    names = (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    )
    url = urlsplit(next(filter(None, map(environment.get, names)), "http://localhost:4318"))
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
