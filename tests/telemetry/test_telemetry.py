"""Traces and metrics of real commands, as a collector receives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from runner.telemetry import INSTRUMENTS
from tests.cli.conftest import folder
from tests.deliver.conftest import API_KEY, FaultyService, faulty
from tests.telemetry.collector import running_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.telemetry.collector import Collector

    Run = Callable[..., subprocess.CompletedProcess[str]]

__all__ = ["faulty", "folder"]

STATE_KEY = "a-state-key-of-thirty-two-letters"
SECRETS = (STATE_KEY, API_KEY, "555010", "Ada", "O'Neil", "a word about", "Acme", "secret-of-the-collector")
"""Parts of what the commands know: keys, phones, names and texts."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that answers at once."""
    with running_collector() as collector:
        yield collector


def refuse_secrets(collector: Collector, *said: str) -> None:
    """Fail if anything that left a command holds a person's data or a key."""
    assert collector.bodies
    for body in (*collector.bodies, *(text.encode() for text in said)):
        found = [secret for secret in SECRETS if secret.encode() in body]
        assert not found, found


def make_environment(collector: Collector, service: FaultyService) -> dict[str, str]:
    """Return the variables of a command that sends to a service and tells a collector."""
    return {
        **collector.environment,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret-of-the-collector",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "otel,process",
        "RUNNER_BASE_URL": service.url,
        "RUNNER_USERNAME": "acme",
        "RUNNER_API_KEY": API_KEY,
        "RUNNER_STATE_KEY": STATE_KEY,
        "RUNNER_SETTLE_WINDOW": "0s",
    }


@pytest.mark.slow
def test_a_run_is_one_trace(run: Run, folder: Path, collector: Collector, faulty: FaultyService) -> None:
    """A command, its campaign and its rounds are one trace, each within the one before."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    environment = {**make_environment(collector, faulty), "TRACEPARENT": parent}
    done = run("apply", "--auto-approve", cwd=folder, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    (command,), (campaign,), (first,) = map(collector.find, ("runner apply", "deliver", "send round"))
    assert (command.trace, command.parent) == (parent[3:35], parent[36:52])
    assert (campaign.parent, first.parent) == (command.id, campaign.id)
    assert first.attributes["sms_campaign.recipients"] == 4
    assert {span.trace for span in collector.spans} == {command.trace}
    assert command.attributes == {"sms_campaign.command": "apply", "sms_campaign.exit_code": 0}
    assert command.resource["service.name"] == "sms-campaign-runner"
    assert command.resource["deployment.environment.name"] == "test"
    refuse_secrets(collector)


@pytest.mark.slow
def test_metrics_count_every_outcome(
    run: Run, folder: Path, collector: Collector, faulty: FaultyService
) -> None:
    """Launches and recipients are counted by outcome, also those refused; time is told."""
    faulty.decide = lambda number, _request: {"status": 422} if number == 1 else {}
    done = run("apply", "--auto-approve", cwd=folder, env=make_environment(collector, faulty))
    assert done.returncode == 3
    for metric in ("sms_campaign.launch.outcomes", "sms_campaign.recipient.outcomes"):
        assert collector.add_up(metric, outcome="sent", campaign="pulse", message="ask") == 3
        assert collector.add_up(metric, outcome="rejected", target="live") == 1
    assert collector.add_up("http.client.request.duration", campaign="pulse") == 4
    assert collector.add_up("sms_campaign.recipient.unresolved") == 0
    assert collector.add_up("sms_campaign.command.runs", command="apply", exit_code=3) == 1
    assert collector.points.keys() <= INSTRUMENTS.keys()
    refuse_secrets(collector)


@pytest.mark.slow
def test_errors_are_told_by_their_class(run: Run, folder: Path, collector: Collector) -> None:
    """A failed command's span has the error's class and the exit code, and none of its words."""
    done = run("apply", "--only", "Ada", cwd=folder, env=collector.environment)
    assert done.returncode == 64
    (command,) = collector.find("runner apply")
    assert command.is_error
    assert command.attributes["error.type"] == "UsageError"
    assert command.attributes["sms_campaign.exit_code"] == 64
    refuse_secrets(collector)


@pytest.mark.slow
def test_new_results_are_counted(run: Run, folder: Path, collector: Collector) -> None:
    """What participants answered is counted when it is read for the first time, and not again."""
    for arguments in (("apply", "--auto-approve"), ("sandbox", "simulate", "--seed", "3")):
        assert run(*arguments, cwd=folder).returncode == 0
    found = [
        json.loads(run("reconcile", "--format", "json", cwd=folder, env=collector.environment).stdout)
        for _ in range(2)
    ]
    first, again = (document["campaigns"][0]["new_results"] for document in found)
    assert (first > 0, again) == (True, 0)
    assert collector.add_up("sms_campaign.result.read", campaign="pulse", target="sandbox") == first
    assert len(collector.find("reconcile")) == 2
    refuse_secrets(collector)


@pytest.mark.parametrize("is_slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_collector_that_is_away_costs_nothing(run: Run, folder: Path, *, is_slow: bool) -> None:
    """Whether nobody listens or nobody answers, everyone is texted, and one remark says what was lost."""
    gate = threading.Event()
    with running_collector(gate) as collector:
        there = collector.url if is_slow else "http://127.0.0.1:9"
        place = there.replace("http://", "http://user:secret-of-the-collector@")
        done = run("apply", "--auto-approve", cwd=folder, env={"OTEL_EXPORTER_OTLP_ENDPOINT": place})
    assert (done.returncode, done.stdout) == (0, "pulse: 4 people texted.\n")
    assert done.stderr == (
        f"Telemetry did not reach {there}, or not all of it; the run itself is not affected.\n"
    )


def run_script(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run a script that may run commands by `run`."""
    code = "import os, sys; from runner.cli.main import run\n" + "\n".join(lines)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_nothing_is_imported_unless_asked_for(folder: Path) -> None:
    """Without telemetry in the environment, or with it switched off, OpenTelemetry is not even imported."""
    done = run_script(
        folder,
        "run(['plan'])",
        "os.environ.update(OTEL_SDK_DISABLED='true', OTEL_TRACES_EXPORTER='otlp')",
        "run(['plan'])",
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))",
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_what_cannot_be_exported_is_one_remark(folder: Path) -> None:
    """Without OpenTelemetry the command does its work, and says what is missing."""
    done = run_script(
        folder,
        "os.environ.update(OTEL_EXPORTER_OTLP_ENDPOINT='http://127.0.0.1:9')",
        "sys.modules['opentelemetry'] = None",
        "sys.exit(run(['plan']))",
    )
    assert done.returncode == 0
    assert done.stderr == (
        "No telemetry is exported, although OTEL_* variables ask for it; "
        "install the extra `telemetry`: in the clone, `pipx install --force '.[telemetry]'`.\n"
    )


HOST = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import runner
spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
with trace.get_tracer("host").start_as_current_span("job"):
    project = runner.open()
    project.apply(project.plan())
finished = spans.get_finished_spans()
print(*sorted({span.name for span in finished}), len({span.context.trace_id for span in finished}), sep=", ")
(group,) = reader.get_metrics_data().resource_metrics
(scope,) = group.scope_metrics
print(scope.scope.name, *sorted(metric.name for metric in scope.metrics), sep=", ")
"""


@pytest.mark.slow
def test_a_program_gets_telemetry_by_its_own_providers(folder: Path) -> None:
    """A program that calls the Python API finds the run within its own trace, by its global providers."""
    done = subprocess.run(
        [sys.executable, "-c", HOST],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    spans, metrics = done.stdout.splitlines()
    assert spans == "deliver, job, plan, send round, 1"
    assert metrics.startswith("sms-campaign-runner, http.client.request.duration, sms_campaign.launch")


FAILING_HOST = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
import runner
class Failing(SpanProcessor):
    def on_start(self, span, parent_context=None):
        if span.name != "send round":
            raise ZeroDivisionError
    def on_end(self, span):
        raise ZeroDivisionError
class Meters(metrics.NoOpMeterProvider):
    def get_meter(self, *args, **options):
        raise ZeroDivisionError
provider = TracerProvider()
provider.add_span_processor(Failing())
trace.set_tracer_provider(provider)
metrics.set_meter_provider(Meters())
project = runner.open()
(campaign,) = project.apply(project.plan())
print(campaign.sent, campaign.recipients_sent)
"""


@pytest.mark.slow
def test_providers_that_fail_do_not_touch_a_run(folder: Path) -> None:
    """Whatever a host's providers raise, at a span's begin or end or by a metric, everyone is texted."""
    done = subprocess.run(
        [sys.executable, "-c", FAILING_HOST],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("4 4\n", "")
