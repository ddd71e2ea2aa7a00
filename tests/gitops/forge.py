"""A repository on its forge, what happens to it, and the runs and jobs that this starts."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


class MachineLostError(Exception):
    """The machine of a job has vanished: none of its steps runs any more, whatever its condition."""


@dataclass(frozen=True, slots=True)
class Event:
    """What has happened.

    Attributes:
        name: `push`, `pull_request`, `merge_group`, `schedule` or `workflow_dispatch`.
        ref: as in `refs/heads/main`.
        sha: the commit that it happened to.
        paths: the files that a push has changed.
        payload: what GITHUB_EVENT_PATH holds.
        inputs: what somebody has filled in.
    """

    name: str
    ref: str
    sha: str
    paths: tuple[str, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment of the repository.

    Attributes:
        secrets: of its jobs alone.
        has_reviewers: whether one of them must approve each job.
        branch: the only one whose runs may use it; None if all may.
    """

    secrets: Mapping[str, str] = field(default_factory=dict)
    has_reviewers: bool = False
    branch: str | None = None


@dataclass(slots=True)
class Waiting:
    """A job that waits for its environment's reviewers.

    Attributes:
        run: the number of its run.
        name: as it is shown to them.
        environment: the environment's name.
        decision: `approved` or `rejected`; None as long as nobody has decided.
        is_cancelled: whether another job has taken its place in its concurrency group.
    """

    run: int
    name: str
    environment: str
    decision: str | None = None
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Forge:
    """What a repository is on its forge.

    Attributes:
        remote: a bare repository.
        folder: where machines are made.
        environments: by name.
        variables: of the repository.
        environment: variables that differ from GitHub's own, such as GITHUB_API_URL.
        requests: method and path of those that came to the REST API.
        held: the concurrency groups that a job holds, each with what waits for reviewers in it.
        runs: numbers the runs.
    """

    remote: Path
    folder: Path
    environments: Mapping[str, Environment] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    requests: Sequence[tuple[str, str]] = ()
    held: dict[str, Waiting | None] = field(default_factory=dict)
    runs: Iterator[int] = field(default_factory=lambda: count(1))

    def list_refs(self) -> str:
        """Return the repository's refs, each with its commit."""
        return subprocess.run(
            ["git", "for-each-ref"], cwd=self.remote, check=True, capture_output=True, text=True
        ).stdout


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
    """A job that was run, or not.

    Attributes:
        result: `success`, `failure`, `cancelled` or `skipped`.
        outputs: what later jobs know of it.
        steps: those that were run, or skipped.
        summary: in Markdown.
        artifacts: the files of each.
    """

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


@dataclass(frozen=True, slots=True)
class Run:
    """A workflow that runs.

    Attributes:
        number: the run's.
        file: the workflow's.
        workflow: the file, as it was read.
        event: what has started it.
        forge: the repository.
        during: what happens while a step, by its name, runs: called with the process's number.
        jobs: those that have ended.
        attempt: its number; later ones run all jobs again.
    """

    number: int
    file: Path
    workflow: Mapping[Any, Any]
    event: Event
    forge: Forge
    during: Mapping[str, Callable[[int], None]]
    jobs: dict[str, Job] = field(default_factory=dict)
    attempt: int = 1

    def contexts(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Return what expressions of a job can look up, beside what is on its machine."""
        needs = {name: self.jobs[name] for name in list_needs(definition)}
        return {
            "github": {
                "event_name": self.event.name,
                "ref": self.event.ref,
                "repository": "acme/campaigns",
                "run_id": str(self.number),
                "server_url": "https://github.example",
                "token": "ghs_token-of-the-job",
            },
            "inputs": self.fill_in(),
            "vars": self.forge.variables,
            "needs": {name: {"outputs": job.outputs, "result": job.result} for name, job in needs.items()},
        }

    def fill_in(self) -> dict[str, str]:
        """Return what somebody has filled in, with the defaults."""
        if self.event.name != "workflow_dispatch":
            return {}
        # YAML 1.1 reads the key `on` as true.
        asked = self.workflow[True]["workflow_dispatch"]["inputs"]
        assert set(self.event.inputs) <= set(asked)
        given = {name: self.event.inputs.get(name, rule.get("default", "")) for name, rule in asked.items()}
        for name, rule in asked.items():
            assert rule["type"] == "string" or given[name] in rule["options"]
        return given


def list_needs(definition: Mapping[str, Any]) -> list[str]:
    """Return the jobs that a job comes after."""
    needs = definition.get("needs", [])
    return [needs] if isinstance(needs, str) else needs
