"""Export of this process's telemetry, as OpenTelemetry's own environment variables say (OTLP over HTTP).

It is for processes that are ours: commands and workers. Whether a collector is down or slow, the run goes on:
export happens in threads of its own, and at the end is waited for only briefly.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from runner.errors import write_install_hint
from runner.telemetry.recording import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.telemetry.otlp import OtlpExport

_PATIENCE_S = 2.0
"""Seconds to wait for the last export."""
_SIGNALS = ("traces", "metrics")
_PROTOCOL = "http/protobuf"
_turn = threading.Lock()
_opened: list[OtlpExport] = []
"""The export of this process: OpenTelemetry's providers are set once."""


@contextmanager
def exporting(environment: Mapping[str, str], tell: Callable[[str], None]) -> Iterator[None]:
    """Export telemetry while the block lasts, if the environment says where; `tell` gets one remark."""
    export = _open(environment, tell)
    try:
        yield
    finally:
        if export is not None:
            _close(export, tell)


@contextmanager
def joined_span(name: str, within: str | None, environment: Mapping[str, str]) -> Iterator[None]:
    """Record a worker's task as a span within one of its client's, from `carry`; None for no telemetry."""
    if within is None:
        yield
        return
    with exporting(environment, lambda _: None), span(name, within=within):
        yield


def _find_signals(environment: Mapping[str, str]) -> list[str]:
    """Return the signals that the environment wants exported."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    wanted = []
    for signal in _SIGNALS:
        exporter = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
        has_place = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or environment.get(
            "OTEL_EXPORTER_OTLP_ENDPOINT"
        )
        if exporter == "otlp" or (has_place and not exporter):
            wanted.append(signal)
    return wanted


def _open(environment: Mapping[str, str], tell: Callable[[str], None]) -> OtlpExport | None:
    signals = _find_signals(environment)
    if not signals:
        return None
    for signal in signals:
        names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = next(filter(None, map(environment.get, names)), _PROTOCOL)
        if protocol != _PROTOCOL:
            tell(f"No telemetry is exported: OTEL_EXPORTER_OTLP_PROTOCOL can only be {_PROTOCOL}.")
            return None
    with _turn:
        if not _opened:
            try:
                # Optional, and slow to import.
                from runner.telemetry.otlp import OtlpExport  # noqa: PLC0415
            except ImportError:
                tell(
                    "No telemetry is exported, although OTEL_* variables ask for it; "
                    f"{write_install_hint('telemetry')}."
                )
                return None
            _opened.append(OtlpExport(environment, signals))
        return _opened[0]


def _close(export: OtlpExport, tell: Callable[[str], None]) -> None:
    """Export what is left, for a short time at most."""
    done = threading.Event()

    def flush() -> None:
        export.flush()
        done.set()

    # No more patience with a collector that has failed before.
    if not export.has_failed and export.is_listening():
        # It must not keep the process from ending.
        threading.Thread(target=flush, name="telemetry", daemon=True).start()
        # An interrupt now ends the waiting; the command's work is done.
        with suppress(KeyboardInterrupt):
            done.wait(_PATIENCE_S)
    if not done.is_set() or export.has_failed:
        tell(f"Telemetry did not reach {export.where}, or not all of it; the run itself is not affected.")
