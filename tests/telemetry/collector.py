"""An OTLP collector that keeps what it receives over HTTP."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = Path(__file__).with_name("patience")


@dataclass(frozen=True)
class ReceivedSpan:
    """A span, with the attributes of its process in `resource`."""

    name: str
    trace: str
    id: str
    parent: str
    is_error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class Collector:
    """What a collector has received.

    Attributes:
        url: its own.
        bodies: of all requests, as they came.
        spans: of all processes.
        points: metrics by name, then by process: attributes and value (of a histogram: its count).
    """

    url: str
    bodies: list[bytes] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    points: dict[str, dict[tuple[str, frozenset[tuple[str, Any]]], float]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a process exports to it, and waits until it has done so."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "100",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_PATIENCE), os.environ.get("PYTHONPATH")))),
        }

    def find(self, name: str) -> list[ReceivedSpan]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    def add_up(self, metric: str, **attributes: Any) -> float:
        """Return the sum over all processes of a metric's points that have some attributes."""
        wanted = {(f"sms_campaign.{name}", value) for name, value in attributes.items()}
        points = self.points.get(metric, {})
        return sum(value for (_, own), value in points.items() if wanted <= own)

    def take_traces(self, body: bytes) -> bytes:
        """Keep the spans of a request, and return the answer's body."""
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _read(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [
                    ReceivedSpan(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.status.code == span.status.STATUS_CODE_ERROR,
                        _read(span.attributes),
                        resource,
                    )
                    for span in scope.spans
                ]
        answer: bytes = ExportTraceServiceResponse().SerializeToString()
        return answer

    def take_metrics(self, body: bytes) -> bytes:
        """Keep the latest points of a request, and return the answer's body."""
        for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            process = _read(group.resource.attributes)["service.instance.id"]
            for metric in (metric for scope in group.scope_metrics for metric in scope.metrics):
                kind = metric.WhichOneof("data")
                assert kind is not None
                points = self.points.setdefault(metric.name, {})
                for point in getattr(metric, kind).data_points:
                    value = point.count if kind == "histogram" else getattr(point, point.WhichOneof("value"))
                    points[process, frozenset(_read(point.attributes).items())] = value
        answer: bytes = ExportMetricsServiceResponse().SerializeToString()
        return answer


def _read(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def running_collector(gate: threading.Event | None = None) -> Iterator[Collector]:
    """Run a collector; with a gate it answers nothing until that is set."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if gate is not None:
                gate.wait()
            collector.bodies.append(body)
            take = {"/v1/traces": collector.take_traces, "/v1/metrics": collector.take_metrics}[self.path]
            with turn:
                answer = take(body)
            # A command that has no patience left is gone by now.
            with suppress(ConnectionError):
                self.answer(answer)

        def answer(self, answer: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    turn = threading.Lock()
    server = PatientServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield collector
    finally:
        if gate is not None:
            gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
