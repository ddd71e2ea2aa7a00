"""The new machine that one job runs on: every `run:` in a real bash.

The steps that use actions do here what those actions do, as far as we ask it of them; one that is not known
is an error.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.gitops.expression import Evaluator
from tests.gitops.forge import Job, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.gitops.forge import Run

SHELL = ["bash", "-e"]
"""What GitHub runs scripts with that name no shell."""
_PATIENCE_S = 250
PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


class Machine:
    """The new machine that one job is run on."""

    def __init__(self, run: Run, name: str, secrets: Mapping[str, str]) -> None:
        definition = run.workflow["jobs"][name]
        self._run, self._forge, self._name, self._definition = run, run.forge, name, definition
        self._working_directory = definition.get("defaults", {}).get("run", {}).get("working-directory", ".")
        self._job = Job()
        self._is_well = True
        self._folder = run.forge.folder / f"machine-{len(list(run.forge.folder.iterdir()))}"
        self._steps: dict[str, Any] = {}
        self._variables: dict[str, str] = {}
        self._state = {"status": "success"}
        self._evaluator = Evaluator(
            {
                **run.contexts(definition),
                "job": self._state,
                "secrets": secrets,
                "steps": self._steps,
                "runner": {"temp": str(self._folder / "temp")},
            },
            {"always": lambda: True, "success": lambda: self._is_well, "cancelled": lambda: False},
        )

    def run(self) -> Job:
        """Run the job's steps, and return what came of them."""
        for name in ("temp", "home", "work"):
            (self._folder / name).mkdir(parents=True)
        event_file = self._folder / "event.json"
        event = {**self._run.event.payload, "inputs": self._run.fill_in()}
        event_file.write_text(json.dumps(event), encoding="utf-8")
        for definition in self._definition["steps"]:
            self._run_step(definition)
        self._job.result = self._state["status"]
        for name, value in self._definition.get("outputs", {}).items():
            self._job.outputs[name] = self._evaluator.fill(value)
        return self._job

    def _run_step(self, definition: Mapping[str, Any]) -> None:
        action = definition.get("uses", "").split("@")[0]
        step = Step(definition.get("name") or action)
        self._job.steps.append(step)
        if self._evaluator.decide(definition.get("if")):
            if action:
                given = {
                    name: self._evaluator.fill(value) if isinstance(value, str) else value
                    for name, value in definition.get("with", {}).items()
                }
                _ACTIONS[action](self, step, given)
                step.outcome = "success"
            elif step.name == "Install":
                step.outcome = self._install()
            else:
                self._run_script(step, definition)
            if step.outcome != "success" and not definition.get("continue-on-error"):
                self._is_well, self._state["status"] = False, "failure"
        if "id" in definition:
            self._steps[definition["id"]] = {"outputs": step.outputs, "outcome": step.outcome}

    def _install(self) -> str:
        """Take everything for installed, as it is: all machines here have the same Python.

        The step itself is run in tests/gitops/test_installing.py.
        """
        kept = self._folder / "work/.github"
        is_there = all((kept / f"requirements.{end}").is_file() for end in ("lock", "txt"))
        return "success" if is_there else "failure"

    def _run_script(self, step: Step, definition: Mapping[str, Any]) -> None:
        assert "${{" not in definition["run"], "what is put into a script may be another script"
        script = self._folder / "temp" / "script.sh"
        script.write_text(definition["run"], encoding="utf-8")
        output, variables = self._folder / "output", self._folder / "variables"
        output.touch()
        with subprocess.Popen(
            [*SHELL, str(script)],
            cwd=self._folder / "work" / self._working_directory,
            env=self._environment(definition.get("env", {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                if step.name in self._run.during:
                    self._run.during[step.name](process.pid)
                step.log, _ = process.communicate(timeout=_PATIENCE_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        step.outcome = "failure" if process.returncode else "success"
        step.outputs |= _read_values(output)
        output.unlink()
        self._variables |= _read_values(variables)
        summary = self._folder / "summary.md"
        self._job.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""

    def _environment(self, own: Mapping[str, str]) -> dict[str, str]:
        place = self._folder
        return {
            "PATH": PATH,
            "HOME": str(place / "home"),
            "LANG": "C.UTF-8",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTOR": "ada",
            "GITHUB_ENV": str(place / "variables"),
            "GITHUB_EVENT_NAME": self._run.event.name,
            "GITHUB_EVENT_PATH": str(place / "event.json"),
            "GITHUB_OUTPUT": str(place / "output"),
            "GITHUB_JOB": self._name,
            "GITHUB_REF": self._run.event.ref,
            "GITHUB_REF_NAME": self._run.event.ref.rpartition("/")[2],
            "GITHUB_REF_TYPE": "branch",
            "GITHUB_REPOSITORY": "acme/campaigns",
            "GITHUB_RUN_ATTEMPT": str(self._run.attempt),
            "GITHUB_RUN_ID": str(self._run.number),
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_SHA": self._run.event.sha,
            "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
            "GITHUB_WORKFLOW_REF": f"acme/campaigns/.github/workflows/{self._run.file.name}@{self._run.event.ref}",
            "GITHUB_WORKSPACE": str(place / "work"),
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": str(place / "temp"),
            **self._forge.environment,
            **self._variables,
            **{
                name: self._evaluator.fill(text)
                for given in (self._run.workflow.get("env", {}), self._definition.get("env", {}), own)
                for name, text in given.items()
            },
        }

    def checkout(self, _step: Step, given: Mapping[str, Any]) -> None:
        """Do what actions/checkout does: the tip of `ref`, or else the event's own commit; no history."""
        assert given["persist-credentials"] is False
        ref = f"refs/heads/{given['ref']}" if "ref" in given else self._run.event.ref
        branch = ref.removeprefix("refs/heads/")
        wanted = ref if "ref" in given else self._run.event.sha
        work = self._folder / "work"
        tip = f"refs/remotes/origin/{branch}"
        place = ["-B", branch] if ref.startswith("refs/heads/") else ["--detach"]
        for words in (
            ("init", "--quiet", "-b", "unborn"),
            ("remote", "add", "origin", f"file://{self._forge.remote}"),
            ("fetch", "--quiet", "--no-tags", "--depth=1", "origin", f"+{wanted}:{tip}"),
            ("checkout", "--quiet", *place, tip),
        ):
            subprocess.run(["git", *words], cwd=work, env=self._environment({}), check=True)

    def setup_python(self, _step: Step, given: Mapping[str, Any]) -> None:
        """Python is there already."""
        assert given["python-version"]

    def upload(self, step: Step, given: Mapping[str, Any]) -> None:
        """Keep files beyond the machine, for later jobs of the run."""
        folder, kept = Path(given["path"]), self._artifact(given.get("name", "github-pages"))
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        assert files or given.get("if-no-files-found") == "ignore"
        if not files:
            return
        if kept.exists():
            assert given.get("overwrite"), f"the run has an artifact {kept.name}"
            shutil.rmtree(kept)
        shutil.copytree(folder, kept)
        self._job.artifacts[kept.name] = [file.relative_to(folder).as_posix() for file in files]
        step.outputs["artifact_id"] = "1"

    def download(self, _step: Step, given: Mapping[str, Any]) -> None:
        """Bring files of an earlier job of the run."""
        shutil.copytree(self._artifact(given["name"]), given["path"], dirs_exist_ok=True)

    def _artifact(self, name: str) -> Path:
        return self._forge.folder.parent / "artifacts" / str(self._run.number) / name

    def deploy_pages(self, _step: Step, _given: Mapping[str, Any]) -> None:
        """Publish; the job has the rights for it."""
        assert self._definition["permissions"] == {"pages": "write", "id-token": "write"}


def _read_values(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


_ACTIONS: dict[str, Callable[[Machine, Step, Mapping[str, Any]], None]] = {
    "actions/checkout": Machine.checkout,
    "actions/setup-python": Machine.setup_python,
    "actions/download-artifact": Machine.download,
    "actions/upload-artifact": Machine.upload,
    "actions/upload-pages-artifact": Machine.upload,
    "actions/deploy-pages": Machine.deploy_pages,
}
