"""`--cluster`: which one, what has to be there for it, and that nothing of it is loaded without it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

ADDRESS_HINT = (
    "  local:4 for four worker processes on this machine, or a Dask scheduler's, as in tls://10.0.0.5:8786; "
    "check --cluster and RUNNER_CLUSTER\n"
)
TARGETS = "version: 1\ntargets:\n  live: {{base_url: 'https://sms.example.com', cluster: {}}}\n"
OWN = {"RUNNER_USERNAME": "ada", "RUNNER_API_KEY": "k3y"}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--cluster", "local:1"], []])
@pytest.mark.parametrize("module", ["multiprocessing/__init__.py", "json.py"])
def test_no_process_imports_from_the_working_folder(folder: Path, module: str, arguments: list[str]) -> None:
    """Modules of a checkout run neither in `python -m runner` nor in the processes that it starts."""
    (folder / module).parent.mkdir(exist_ok=True)
    (folder / module).write_text("open('ran', 'w').close()\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "runner", "plan", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("library", ["distributed", "fsspec"])
def test_without_the_extra_it_says_what_to_install(folder: Path, library: str) -> None:
    """What clusters need is an extra of the package: without it the error names the command that installs it."""
    script = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from runner.cli.main import run; sys.exit(run(['plan', '--cluster', 'local:2']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: --cluster needs Dask and fsspec, which are not installed\n"
        "  install the extra `cluster`: in the clone, `pipx install --force '.[cluster]'`\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["validate"], ["plan"], ["apply", "--auto-approve"], ["reconcile"], ["report"]]
)
def test_without_a_cluster_nothing_of_it_is_imported(folder: Path, arguments: list[str]) -> None:
    """A command that works in one process loads none of a cluster's libraries."""
    script = (
        "import sys; from runner.cli.main import run\n"
        f"assert run({arguments!r}) == 0\n"
        "heavy = {'dask', 'distributed', 'fsspec', 'pyarrow', 'numpy', 'tornado', 'runner.cluster.dask_engine'}\n"
        "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_does_not_fit_a_cluster_is_refused(run: Run, folder: Path) -> None:
    """A limit, or what is no address."""
    address = (64, f"Error: 'local:0' is no address of a cluster\n{ADDRESS_HINT}")
    limit = (
        64,
        (
            "Error: --limit goes by the order of the whole audience, which a cluster does not know\n"
            "  leave out --limit, or plan in one process, without --cluster\n"
        ),
    )
    for words, found in (
        ("plan --cluster local:0", address),
        ("plan --cluster local:2 --limit 3", limit),
    ):
        done = run(*words.split(), cwd=folder)
        assert (done.returncode, done.stderr, done.stdout) == (*found, "")
    assert not (folder / ".runner").exists()


def test_the_option_beats_the_environment_and_that_the_file(run: Run, folder: Path) -> None:
    """`targets.yaml` names a target's cluster; RUNNER_CLUSTER comes before it, and --cluster before both."""
    (folder / "campaigns/targets.yaml").write_text(TARGETS.format("local:2"), encoding="utf-8")
    by_file = run("plan", "--target", "live", "--limit", "3", cwd=folder, env=OWN)
    assert by_file.stderr.startswith("Error: --limit goes by the order of the whole audience")
    one = {**OWN, "RUNNER_CLUSTER": "one"}
    assert run("plan", "--target", "live", cwd=folder, env=one).stderr.startswith("Error: 'one' is no")
    by_option = run("plan", "--target", "live", "--cluster", "two", cwd=folder, env=one)
    assert by_option.stderr.startswith("Error: 'two' is no address")


def test_a_scheduler_without_tls_on_another_machine_must_be_wanted(run: Run, folder: Path) -> None:
    """192.0.2.1 is nobody's, and is not asked before; if it is wanted, the next check comes."""
    words = ("plan", "--cluster", "tcp://192.0.2.1:8786")
    refused = run(*words, cwd=folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: the cluster tcp://192.0.2.1:8786 is on another machine and has ")
    wanted = run(*words, "--insecure-cluster", "--limit", "3", cwd=folder)
    assert wanted.stderr.startswith("Error: --limit goes by the order of the whole audience")


def test_a_file_chooses_processes_of_this_machine_alone(run: Run, folder: Path) -> None:
    """`targets.yaml` sends nobody's secrets to a scheduler: another `cluster` than `local:N` is an error there."""
    for address in ("everything", "tls://10.0.0.5:8786", "local:0"):
        (folder / "campaigns/targets.yaml").write_text(TARGETS.format(f"'{address}'"), encoding="utf-8")
        done = run("plan", "--target", "live", cwd=folder, env=OWN)
        assert done.returncode == 1
        assert "campaigns/targets.yaml:3:" in done.stderr
        assert (
            "targets.yaml chooses local:N alone for a cluster, as in local:4; a scheduler's address goes into "
            "--cluster or RUNNER_CLUSTER"
        ) in done.stderr
