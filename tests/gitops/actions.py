"""Runs workflow files as GitHub Actions does: triggers, jobs, conditions, and every `run:` in a real bash.

The steps that use actions do here what those actions do, as far as we ask it of them; one that is not known
is an error. https://docs.github.com/actions/reference/workflow-syntax-for-github-actions
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.gitops.expression import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}
_PATIENCE_S = 100
_PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


class MachineLostError(Exception):
    """The machine of a job has vanished: none of its steps runs any more, whatever its condition."""


@dataclass(frozen=True, slots=True)
class Event:
    """What has happened.

    Attributes:
        name: `push`, `pull_request`, `schedule` or `workflow_dispatch`.
        ref: as in `refs/heads/main`.
        sha: the commit that it happened to.
        paths: the files that a push has changed.
        payload: what GITHUB_EVENT_PATH holds.
    """

    name: str
    ref: str
    sha: str
    paths: tuple[str, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forge:
    """What a repository is on its forge.

    Attributes:
        remote: a bare repository.
        folder: where machines are made.
        secrets: of the environment `campaigns`; other jobs get none.
        variables: of the repository.
        environment: variables that differ from GitHub's own, such as GITHUB_API_URL.
    """

    remote: Path
    folder: Path
    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """A step that was run.

    Attributes:
        name: its name, its action, or what it runs.
        outcome: `success`, `failure` or `skipped`.
        outputs: what it has set.
        log: what it wrote.
    """

    name: str
    outcome: str = "skipped"
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""


@dataclass(slots=True)
class Job:
    """A job that was run, or skipped."""

    result: str = "skipped"
    outputs: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    summary: str = ""
    artifacts: dict[str, list[str]] = field(default_factory=dict)

    def log(self, step: str) -> str:
        """Return what a step wrote."""
        return next(one.log for one in self.steps if one.name == step)

    def show(self) -> str:
        """Return all that the steps wrote, for the message of a test that fails."""
        return "\n".join(f"== {step.name}: {step.outcome}\n{step.log}" for step in self.steps)

    def outcomes(self) -> dict[str, str]:
        """Return how each step ended."""
        return {step.name: step.outcome for step in self.steps}


def is_triggered(workflow: Mapping[Any, Any], event: Event) -> bool:
    """Return whether an event starts a workflow."""
    # YAML 1.1 reads the key `on` as true.
    triggers = workflow[True]
    if event.name not in triggers:
        return False
    rules = triggers[event.name] or {}
    if event.name != "push":
        return True
    return event.ref.removeprefix("refs/heads/") in rules["branches"] and any(
        _is_chosen(path, rules["paths"]) for path in event.paths
    )


def _is_chosen(path: str, patterns: Sequence[str]) -> bool:
    """Return whether the last pattern that fits a path is for it."""
    chosen = False
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        parts = re.split(r"(\*\*|\*)", bare)
        rule = "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
        if re.fullmatch(rule, path):
            chosen = bare == pattern
    return chosen


def run_workflow(
    file: Path, event: Event, forge: Forge, during: Mapping[str, Callable[[int], None]] | None = None
) -> dict[str, Job] | None:
    """Run a workflow; None if the event doesn't start it.

    Args:
        file: the workflow, as it is in the commit that it is run for.
        event: what has happened.
        forge: the repository.
        during: what happens while a step, by its name, runs: called with the process's number.

    Raises:
        MachineLostError: what happened was that.
    """
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not is_triggered(workflow, event):
        return None
    jobs: dict[str, Job] = {}
    for name, definition in workflow["jobs"].items():
        jobs[name] = _Machine(workflow, definition, event, forge, jobs, during or {}).run()
    return jobs


class _Machine:
    """The new machine that one job is run on."""

    def __init__(
        self,
        workflow: Mapping[Any, Any],
        definition: Mapping[str, Any],
        event: Event,
        forge: Forge,
        jobs: Mapping[str, Job],
        during: Mapping[str, Callable[[int], None]],
    ) -> None:
        self._definition = definition
        self._shell = workflow["defaults"]["run"]["shell"]
        self._working_directory = definition.get("defaults", {}).get("run", {}).get("working-directory", ".")
        self._event, self._forge, self._during = event, forge, during
        self._needs = {name: jobs[name] for name in [definition.get("needs")] if name}
        self._job = Job()
        self._is_well = True
        self._folder = forge.folder / f"machine-{len(list(forge.folder.iterdir()))}"
        self._steps: dict[str, Any] = {}
        secrets = forge.secrets if definition.get("environment") == "campaigns" else {}
        self._evaluator = Evaluator(
            {
                "github": {
                    "ref": event.ref,
                    "token": "ghs_token-of-the-job",
                    "server_url": "https://github.example",
                },
                "secrets": secrets,
                "vars": forge.variables,
                "steps": self._steps,
                "needs": {name: {"outputs": job.outputs} for name, job in self._needs.items()},
                "runner": {"temp": str(self._folder / "temp")},
            },
            {"always": lambda: True, "success": lambda: self._is_well},
        )

    def run(self) -> Job:
        self._is_well = all(job.result == "success" for job in self._needs.values())
        if not self._evaluator.decide(self._definition.get("if")):
            return self._job
        assert self._definition["timeout-minutes"]
        self._is_well = True
        for name in ("temp", "home", "work"):
            (self._folder / name).mkdir(parents=True)
        event_file = self._folder / "event.json"
        event_file.write_text(json.dumps(self._event.payload), encoding="utf-8")
        for definition in self._definition["steps"]:
            self._run_step(definition)
        self._job.result = "success" if self._is_well else "failure"
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
            self._is_well = self._is_well and step.outcome == "success"
        if "id" in definition:
            self._steps[definition["id"]] = {"outputs": step.outputs, "outcome": step.outcome}

    def _install(self) -> str:
        """Take everything for installed, as it is: all machines here have the same Python.

        The step itself is run in tests/gitops/test_installing.py.
        """
        kept = self._folder / "work/.github"
        return (
            "success"
            if all((kept / f"requirements.{end}").is_file() for end in ("lock", "txt"))
            else "failure"
        )

    def _run_script(self, step: Step, definition: Mapping[str, Any]) -> None:
        assert "${{" not in definition["run"], "what is put into a script may be another script"
        script = self._folder / "temp" / "script.sh"
        script.write_text(definition["run"], encoding="utf-8")
        output = self._folder / "output"
        output.touch()
        with subprocess.Popen(
            [*SHELLS[self._shell], str(script)],
            cwd=self._folder / "work" / self._working_directory,
            env=self._environment(definition.get("env", {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                if step.name in self._during:
                    self._during[step.name](process.pid)
                step.log, _ = process.communicate(timeout=_PATIENCE_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        step.outcome = "failure" if process.returncode else "success"
        for line in output.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            step.outputs[name] = value
        output.unlink()
        summary = self._folder / "summary.md"
        self._job.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""

    def _environment(self, own: Mapping[str, str]) -> dict[str, str]:
        place = self._folder
        return {
            "PATH": _PATH,
            "HOME": str(place / "home"),
            "LANG": "C.UTF-8",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTOR": "ada",
            "GITHUB_EVENT_NAME": self._event.name,
            "GITHUB_EVENT_PATH": str(place / "event.json"),
            "GITHUB_OUTPUT": str(place / "output"),
            "GITHUB_REF": self._event.ref,
            "GITHUB_REF_NAME": self._event.ref.rpartition("/")[2],
            "GITHUB_REF_TYPE": "branch",
            "GITHUB_REPOSITORY": "acme/campaigns",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": self._folder.name.removeprefix("machine-"),
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_SHA": self._event.sha,
            "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
            "GITHUB_WORKSPACE": str(place / "work"),
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": str(place / "temp"),
            **self._forge.environment,
            **{name: self._evaluator.fill(text) for name, text in self._definition.get("env", {}).items()},
            **{name: self._evaluator.fill(text) for name, text in own.items()},
        }

    def checkout(self, _step: Step, given: Mapping[str, Any]) -> None:
        """Do what actions/checkout does: the tip of `ref`, or else the event's own commit; no history."""
        assert given["persist-credentials"] is False
        ref = f"refs/heads/{given['ref']}" if "ref" in given else self._event.ref
        branch = ref.removeprefix("refs/heads/")
        wanted = ref if "ref" in given else self._event.sha
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
        """Keep files beyond the machine."""
        folder = Path(given["path"])
        name = given.get("name", "github-pages")
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        assert files or given.get("if-no-files-found") == "ignore"
        if not files:
            return
        self._job.artifacts[name] = [file.relative_to(folder).as_posix() for file in files]
        kept = self._forge.folder.parent / "artifacts" / name
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        step.outputs["artifact_id"] = "1"

    def deploy_pages(self, _step: Step, _given: Mapping[str, Any]) -> None:
        """Publish; the job has the rights for it."""
        assert self._definition["permissions"] == {"pages": "write", "id-token": "write"}


_ACTIONS: dict[str, Callable[[_Machine, Step, Mapping[str, Any]], None]] = {
    "actions/checkout": _Machine.checkout,
    "actions/setup-python": _Machine.setup_python,
    "actions/upload-artifact": _Machine.upload,
    "actions/upload-pages-artifact": _Machine.upload,
    "actions/deploy-pages": _Machine.deploy_pages,
}
