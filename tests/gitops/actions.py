"""Runs workflow files as GitHub Actions does: triggers, jobs in order, conditions, environments, concurrency.

Jobs run one after the other here. A job that GitHub would have wait for a group that is held is an error, unless it
cancels the one that holds it. https://docs.github.com/actions/reference/workflow-syntax-for-github-actions
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml

from tests.gitops.expression import Evaluator
from tests.gitops.forge import Environment, Job, Run, Waiting, list_needs
from tests.gitops.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.gitops.forge import Event, Forge


def is_triggered(workflow: Mapping[Any, Any], event: Event) -> bool:
    """Return whether an event starts a workflow."""
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
    file: Path,
    event: Event,
    forge: Forge,
    during: Mapping[str, Callable[[int], None]] | None = None,
    review: Callable[[Waiting], None] | None = None,
    rerun: tuple[int, int] | None = None,
) -> dict[str, Job] | None:
    """Run a workflow; None if the event doesn't start it.

    Args:
        file: the workflow, as it is in the commit that it is run for.
        event: what has happened.
        forge: the repository.
        during: what happens while a step, by its name, runs: called with the process's number.
        review: what the reviewers of an environment do while a job waits for them; nobody may be asked if
            it is left out.
        rerun: the number of the run whose jobs are all run again, and of the attempt; None for a new run.

    Raises:
        MachineLostError: what happened was that.
    """
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not is_triggered(workflow, event):
        return None
    number, attempt = rerun or (next(forge.runs), 1)
    shutil.rmtree(forge.folder.parent / "artifacts" / str(number), ignore_errors=True)
    run = Run(number, file, workflow, event, forge, during or {}, attempt=attempt)
    with _group(run, workflow, None, Evaluator(run.contexts({}), {})):
        for name in workflow["jobs"]:
            run.jobs[name] = _run_job(run, name, review)
    return run.jobs


def _run_job(run: Run, name: str, review: Callable[[Waiting], None] | None) -> Job:
    """Run a job, once its environment's reviewers let it, on a machine of its own."""
    definition = run.workflow["jobs"][name]
    before = _list_jobs_before(run.workflow, definition)
    is_well = all(run.jobs[name].result == "success" for name in before)
    functions = {"always": lambda: True, "success": lambda: is_well, "cancelled": lambda: False}
    evaluator = Evaluator(run.contexts(definition), functions)
    if not evaluator.decide(definition.get("if")):
        return Job()
    assert definition["timeout-minutes"]
    assert "permissions" in definition
    place = definition.get("environment")
    environment = run.forge.environments.get(place, Environment())
    assert environment.branch in (None, run.event.ref.removeprefix("refs/heads/"))
    waiting = (
        Waiting(run.number, evaluator.fill(definition["name"]), place) if environment.has_reviewers else None
    )
    # What a job of another run does meanwhile cannot be told from what this one does.
    is_alone = None not in run.forge.held.values()
    with _group(run, definition, waiting, evaluator):
        if waiting is not None:
            assert review is not None, f"nobody was to be asked, and is: {waiting.name}"
            review(waiting)
            if waiting.is_cancelled:
                return Job("cancelled")
            if waiting.decision != "approved":
                return Job("failure" if waiting.decision else "cancelled")
        refs, asked = run.forge.list_refs(), len(run.forge.requests)
        job = Machine(run, name, environment.secrets).run()
    if not is_alone:
        return job
    rights = definition["permissions"]
    assert run.forge.list_refs() == refs or rights.get("contents") == "write"
    for method, path in run.forge.requests[asked:]:
        _require_right(rights, method, path)
    return job


def _list_jobs_before(workflow: Mapping[Any, Any], definition: Mapping[str, Any]) -> set[str]:
    """Return the jobs that a job comes after, and all that those come after."""
    direct = list_needs(definition)
    return {*direct}.union(*(_list_jobs_before(workflow, workflow["jobs"][name]) for name in direct))


@contextmanager
def _group(
    run: Run, definition: Mapping[Any, Any], waiting: Waiting | None, evaluator: Evaluator
) -> Iterator[None]:
    """Hold a concurrency group, also while reviewers are waited for: a newer job that may cancels the older."""
    rules = definition.get("concurrency")
    if rules is None:
        yield
        return
    held, group = run.forge.held, evaluator.fill(rules["group"])
    assert set(rules) <= {"group", "cancel-in-progress", "queue"}
    assert rules.get("queue") != "max" or not rules.get("cancel-in-progress")
    if group in held:
        older = held[group]
        assert rules.get("cancel-in-progress"), f"a job would wait for the group {group}"
        assert older, "a job that runs is cut short"
        older.is_cancelled = True
    held[group] = waiting
    try:
        yield
    finally:
        if held.get(group) is waiting:
            del held[group]


_RIGHTS = (
    (r"/graphql", ()),
    (r"/repos/[^/]+/[^/]+/(actions|environments)/", ("actions",)),
    (r"/repos/[^/]+/[^/]+/(pulls|commits/[^/]+/pulls)", ("pull-requests",)),
    (r"/repos/[^/]+/[^/]+/commits", ("contents",)),
    (r"/repos/[^/]+/[^/]+/collaborators/[^/]+/permission", ()),
    (r"/repos/[^/]+/[^/]+/issues/(comments|\d+/comments)", ("issues", "pull-requests")),
    (r"/repos/[^/]+/[^/]+/issues", ("issues",)),
)


def _require_right(permissions: Mapping[str, str], method: str, path: str) -> None:
    """Refuse a request to the REST API that the token of a job is not good for."""
    scopes = next(scopes for pattern, scopes in _RIGHTS if re.match(pattern, path))
    enough = {"write"} if method != "GET" else {"read", "write"}
    assert not scopes or any(permissions.get(scope) in enough for scope in scopes), (
        f"{method} {path} takes one of {scopes}, and the job has {permissions}"
    )
