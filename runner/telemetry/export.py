"""Export of this process's telemetry, as OpenTelemetry's own environment variables say (OTLP over HTTP).

It is for processes that are ours: commands and workers. Whether a collector is down or slow, the run goes on:
export happens in threads of its own, and at the end is waited for only briefly.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from runner.errors import write_install_hint
from runner.telemetry.recording import span
from runner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource

_PATIENCE_S = 2.0
"""Seconds to wait for the last export."""
_CONNECT_S = 1.0
_SERVICE = "sms-campaign-runner"
_PROTOCOL = "http/protobuf"
_ENDPOINT = "OTEL_EXPORTER_OTLP{}_ENDPOINT"
_turn = threading.Lock()
_opened: list[_Export] = []
"""The export of this process: OpenTelemetry's providers are set once."""


@contextmanager
def exporting(environment: Mapping[str, str], tell: Callable[[str], None]) -> Iterator[None]:
    """Export telemetry while the block lasts, if the environment says where; `tell` gets one remark."""
    export = _open(environment, tell)
    try:
        yield
    finally:
        if export is not None and not export.finish():
            tell(f"Telemetry did not reach {export.where}, or not all of it; the run itself is not affected.")


@contextmanager
def joined_span(name: str, within: str | None, environment: Mapping[str, str]) -> Iterator[None]:
    """Record a worker's task as a span within one of its client's, from `carry`; None for no telemetry."""
    if within is None:
        yield
        return
    with exporting(environment, lambda _: None), span(name, within=within):
        yield


def _list_signals(environment: Mapping[str, str]) -> list[str]:
    """Return the signals that the environment wants exported."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    wanted = []
    for signal in ("TRACES", "METRICS"):
        exporter = environment.get(f"OTEL_{signal}_EXPORTER", "").strip()
        has_place = any(map(environment.get, (_ENDPOINT.format(f"_{signal}"), _ENDPOINT.format(""))))
        wanted += [signal] if exporter == "otlp" or (has_place and not exporter) else []
    return wanted


def _open(environment: Mapping[str, str], tell: Callable[[str], None]) -> _Export | None:
    signals = _list_signals(environment)
    for signal in signals:
        names = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        if next(filter(None, map(environment.get, names)), _PROTOCOL) != _PROTOCOL:
            tell(f"No telemetry is exported: OTEL_EXPORTER_OTLP_PROTOCOL can only be {_PROTOCOL}.")
            return None
    with _turn:
        if signals and not _opened:
            try:
                _opened.append(_Export(environment, signals))
            except ImportError:
                hint = write_install_hint("telemetry")
                tell(f"No telemetry is exported, although OTEL_* variables ask for it; {hint}.")
                return None
        return _opened[0] if signals else None


class _Export:
    """The providers of this process, which export until it ends.

    The SDK reads its variables from the process's environment itself; `environment` is the same.

    Attributes:
        where: the collector's address, without the credentials that it may hold.
    """

    def __init__(self, environment: Mapping[str, str], signals: Sequence[str]) -> None:
        # Optional, and slow to import.
        from opentelemetry import metrics, trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        # Its words would stand between those of the command; failures are told once, at the end.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        named = map(environment.get, map(_ENDPOINT.format, ("", "_TRACES", "_METRICS")))
        url = urlsplit(next(filter(None, named), "http://localhost:4318"))
        self.where = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        self._has_failed = False
        self._flushes: list[Callable[[], object]] = []
        resource = _describe_process(environment)
        if "TRACES" in signals:
            traces = TracerProvider(resource=resource, shutdown_on_exit=False)
            traces.add_span_processor(BatchSpanProcessor(self._watch(trace_exporter.OTLPSpanExporter())))
            trace.set_tracer_provider(traces)
            self._flushes.append(traces.force_flush)
        if "METRICS" in signals:
            reader = PeriodicExportingMetricReader(self._watch(metric_exporter.OTLPMetricExporter()))
            meters = MeterProvider([reader], resource, shutdown_on_exit=False)
            metrics.set_meter_provider(meters)
            self._flushes.append(meters.force_flush)

    def _watch(self, exporter: Any) -> Any:
        """Note whether the last export succeeded."""
        export = exporter.export

        def call(*args: Any, **options: Any) -> Any:
            result = export(*args, **options)
            self._has_failed = result.name != "SUCCESS"
            return result

        exporter.export = call
        return exporter

    def finish(self) -> bool:
        """Export what is left, for a short time at most; return whether all was exported."""
        done = threading.Event()

        def flush() -> None:
            for each in self._flushes:
                if not self._has_failed:
                    each()
            done.set()

        # No more patience with a collector that has failed before.
        if not self._has_failed and self._is_listening():
            # It must not keep the process from ending.
            threading.Thread(target=flush, name="telemetry", daemon=True).start()
            # An interrupt now ends the waiting; the command's work is done.
            with suppress(KeyboardInterrupt):
                done.wait(_PATIENCE_S)
        return done.is_set() and not self._has_failed

    def _is_listening(self) -> bool:
        """Return whether somebody listens at the collector's address, which takes no time to find out."""
        # Imported here: most commands export nothing.
        import socket  # noqa: PLC0415
        from urllib.request import getproxies  # noqa: PLC0415

        url = urlsplit(self.where)
        port = url.port or (443 if url.scheme == "https" else 80)
        with suppress(OSError):
            if url.scheme not in getproxies():
                socket.create_connection((url.hostname or "", port), timeout=_CONNECT_S).close()
            return True
        self._has_failed = True
        return False


def _describe_process(environment: Mapping[str, str]) -> Resource:
    """Return the resource that all telemetry of this process has."""
    import socket  # noqa: PLC0415
    import uuid  # noqa: PLC0415

    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  optional

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
