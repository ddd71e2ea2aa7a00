"""The recipes for platform teams: manifests fit Kubernetes' schemas, and what they start works as it stands there."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from runner.cluster.address import LEDGER
from runner.service.target import STATE_KEY
from tests.cluster.schedulers import free_port
from tests.docs.test_pages import DOCS, read_blocks, run_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANIFESTS = sorted((DOCS / "kubernetes").glob("*.yaml"))
PAGE = DOCS / "how-to" / "cluster-operations.md"
SCHEMA = json.loads((Path(__file__).parent / "kubernetes.schema.json").read_text(encoding="utf-8"))
DASK = Path(sys.executable).parent / "dask"
_PATIENCE_S = 60.0


def read_objects() -> dict[str, dict[str, Any]]:
    """Return the objects of all manifests by kind and name."""
    documents = [
        document for file in MANIFESTS for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in documents}


OBJECTS = read_objects()


def find_pod(name: str) -> dict[str, Any]:
    pod: dict[str, Any] = OBJECTS[f"Deployment/{name}"]["spec"]["template"]["spec"]
    return pod


def find_container(name: str) -> dict[str, Any]:
    (container,) = find_pod(name)["containers"]
    return dict(container)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_fits_the_schema_of_kubernetes(name: str) -> None:
    """Unknown keys are refused as well."""
    kind = name.partition("/")[0]
    schema = {"$defs": SCHEMA["$defs"], **SCHEMA["kinds"][kind]}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(OBJECTS[name])] == []


def test_the_schema_refuses_a_typing_error() -> None:
    """What has been left out of it does not make it accept everything."""
    schema = {"$defs": SCHEMA["$defs"], **SCHEMA["kinds"]["Deployment"]}
    wrong = json.loads(json.dumps(OBJECTS["Deployment/campaign-workers"]))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 90
    assert list(Draft202012Validator(schema).iter_errors(wrong))


def test_objects_belong_together() -> None:
    """Selectors select the pods, the autoscaler its deployment, and policies name ports that are listened at."""
    labels = {
        name: OBJECTS[f"Deployment/{name}"]["spec"]["template"]["metadata"]["labels"]
        for name in ("dask-scheduler", "campaign-workers")
    }
    for name, own in labels.items():
        assert OBJECTS[f"Deployment/{name}"]["spec"]["selector"]["matchLabels"] == own
        policy = OBJECTS[f"NetworkPolicy/{name}"]["spec"]
        assert policy["podSelector"]["matchLabels"] == own
        (dask,) = [port for port in find_container(name)["ports"] if port["name"] == "dask"]
        assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": dask["containerPort"]}]
        assert any(f"{dask['containerPort']}" in each for each in find_container(name)["args"])
    assert OBJECTS["Service/dask-scheduler"]["spec"]["selector"] == labels["dask-scheduler"]
    budget = OBJECTS["PodDisruptionBudget/campaign-workers"]["spec"]
    assert budget["selector"]["matchLabels"] == labels["campaign-workers"]
    scaled = OBJECTS["HorizontalPodAutoscaler/campaign-workers"]["spec"]["scaleTargetRef"]
    assert f"{scaled['kind']}/{scaled['name']}" in OBJECTS


def test_workers_get_the_variables_that_the_program_reads() -> None:
    """Ledger and state key, from a secret, and nothing else of the program's: workers text nobody."""
    given = {one["name"]: one for one in find_container("campaign-workers")["env"]}
    own = {name for name in given if name.startswith("RUNNER_")}
    assert own == {LEDGER, STATE_KEY}
    assert all("secretKeyRef" in given[name]["valueFrom"] for name in own)


def test_the_image_is_made_of_the_clone() -> None:
    """No index has the package: it is installed from the folder that the build mounts, with extras that exist."""
    recipe = (DOCS / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
    ((folder, extras),) = re.findall(r"pip install .*'([^'\[]+)\[([a-z,]+)\]'", recipe)
    assert f"--mount=type=bind,target={folder} " in recipe
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cluster", "telemetry"} <= set(extras.split(",")) <= project["optional-dependencies"].keys()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Certificates made with the commands of the page."""
    (script,) = [block.content for block in read_blocks(PAGE) if "openssl" in block.content]
    run_script(script, tmp_path)
    return tmp_path


@pytest.fixture
def start(certificates: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a deployment's command with its variables, on free ports and with a role's certificate."""
    processes = []

    def start_it(name: str, role: str, replaced: dict[str, str]) -> subprocess.Popen[bytes]:
        container = find_container(name)
        replaced = {
            "/tls/ca.pem": str(certificates / "ca.pem"),
            "/tls/tls.crt": str(certificates / f"{role}.pem"),
            "/tls/tls.key": str(certificates / f"{role}.key"),
            "local-directory=/tmp": f"local-directory={tmp_path}",
            **replaced,
        }
        text = "\n".join(container["args"])
        for old, new in replaced.items():
            text = text.replace(old, new)
        command = [str(DASK), *container["command"][1:], *text.splitlines()]
        env = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        process = subprocess.Popen(command, env={**os.environ, **env}, stderr=subprocess.DEVNULL)
        processes.append(process)
        return process

    yield start_it
    for process in processes:
        process.kill()
        process.wait()


def wait_for_health(port: int) -> None:
    """Wait for the answer that the probes ask for."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=_PATIENCE_S) as answer:
                assert answer.read() == b"ok"
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.slow
def test_what_the_manifests_start_is_a_cluster(
    start: Callable[..., subprocess.Popen[bytes]], certificates: Path, tmp_path: Path
) -> None:
    """Scheduler and worker take each option, answer the probes, do the work over TLS, and go at SIGTERM."""
    ports = {name: free_port() for name in ("8786", "8787", "8788", "8790")}
    changed = {f":{name}": f":{port}" for name, port in ports.items()}
    changed |= {f"port={name}": f"port={port}" for name, port in ports.items()}
    scheduler = start("dask-scheduler", "scheduler", changed)
    wait_for_health(ports["8787"])
    worker = start("campaign-workers", "worker", {"//dask-scheduler:": "//127.0.0.1:", **changed})
    wait_for_health(ports["8790"])
    with pytest.raises(OSError, match=r"404|Not Found"):
        urllib.request.urlopen(
            f"http://127.0.0.1:{ports['8787']}/info/main/workers.html", timeout=_PATIENCE_S
        )
    (variables,) = [block.content for block in read_blocks(PAGE) if "COMM__TLS__CA_FILE" in block.content]
    named = dict(re.findall(r"(DASK_\w+)=(\S+)", variables))
    named = {name: value.replace("/tls", str(certificates)) for name, value in named.items()}
    address = f"tls://127.0.0.1:{ports['8786']}"
    code = (
        "from runner.cluster.address import Address\n"
        "from runner.cluster.dask_connection import open_cluster\n"
        f"with open_cluster(Address({address!r}), {{}}) as cluster:\n"
        "    print(*cluster.run(abs, [(-1,)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, **named},
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "(0, 1)\n", done.stderr
    with socket.create_connection(("127.0.0.1", ports["8786"]), timeout=_PATIENCE_S) as plain:
        plain.settimeout(2)
        with pytest.raises(TimeoutError):
            plain.recv(1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=_PATIENCE_S) == 0
    assert scheduler.poll() is None


def test_the_page_and_the_manifests_name_the_same() -> None:
    """Each file is linked, and the secrets that the page makes are those that pods mount or read."""
    page = PAGE.read_text(encoding="utf-8")
    assert {f"../kubernetes/{file.name}" for file in (DOCS / "kubernetes").iterdir()} <= set(
        re.findall(r"\]\(([^)]+)\)", page)
    )
    made = set(re.findall(r"kubectl create secret generic (\S+)", page))
    mounted = {
        volume["secret"]["secretName"]
        for name in ("dask-scheduler", "campaign-workers")
        for volume in find_pod(name)["volumes"]
        if "secret" in volume
    }
    read = {
        one["valueFrom"]["secretKeyRef"]["name"]
        for one in find_container("campaign-workers")["env"]
        if "valueFrom" in one
    }
    assert mounted | read <= made
