"""Checks of what a machine has and reaches, for a first look and for reports of bugs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Literal

from runner.document import Document, Part
from runner.errors import RunnerError
from runner.git.command import Git, GitError
from runner.ledger.database import Ledger, show_url
from runner.service.target import SANDBOX
from runner.source.diagnostic import Problems
from runner.source.storage import repository_root
from runner.version import describe_version
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, load_campaigns
from runner.workflow.workspace.folders import state_folder
from runner.workflow.workspace.workspace import Workspace, default_ledger_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.service.target import Target
    from runner.workflow.scope import Scope

FAR_S = 5.0
"""Clocks that differ by more than this are warned of: hours and waits are kept by this machine's."""

State = Literal["ok", "warning", "error"]


class Check(Part, frozen=True):
    """One thing that was looked at.

    Attributes:
        name: what was looked at, such as `ledger`.
        state: `ok`, `warning` (it works, but look at it), or `error` (it does not work).
        found: what was found, in words.
        hint: what to do about it; null if there is nothing to say.
    """

    name: str
    state: State
    found: str
    hint: str | None = None


class Examination(Document, frozen=True):
    """The document that `runner doctor --format json` writes.

    No secret, no phone and no path outside of the project stands in it.

    Attributes:
        versions: the versions of the program, of Python and of the main packages, a line each.
        checks: one entry for each thing that was looked at.
    """

    versions: tuple[str, ...]
    checks: tuple[Check, ...]

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    @property
    def has_failed(self) -> bool:
        """True if something does not work."""
        return any(check.state == "error" for check in self.checks)


def examine(scope: Scope) -> Examination:
    """Look at campaigns, git, target, keys, ledger and service; change nothing, send nothing.

    What cannot be looked at is a check that failed, with the reason.
    """
    checks = [*_try("campaigns", lambda: _check_campaigns(scope)), *_try("git", _check_git)]
    try:
        workspace = Workspace.open(scope)
    except RunnerError as error:
        checks.append(_fail("target", error))
    else:
        checks += [
            _check_target(workspace.target),
            _check_key(workspace.target),
            *_try("ledger", lambda: _check_ledger(workspace)),
            *_try("service", lambda: _check_service(workspace)),
        ]
    return Examination(tuple(describe_version().splitlines()), tuple(checks))


def _try(name: str, check: Callable[[], list[Check]]) -> list[Check]:
    try:
        return check()
    except RunnerError as error:
        return [_fail(name, error)]


def _fail(name: str, error: RunnerError) -> Check:
    return Check(name, "error", error.message, error.hint or None)


def _check_campaigns(scope: Scope) -> list[Check]:
    problems = Problems()
    loaded = load_campaigns(scope, problems)
    errors = sum(problem.severity == "error" for problem in problems)
    said = f"{count_words(len(loaded.files), 'file')} in {loaded.where or DEFAULT_FOLDER}"
    if not errors:
        return [Check("campaigns", "ok", said)]
    found = f"{said}, {count_words(errors, 'error')}"
    return [Check("campaigns", "error", found, "`runner validate` lists them")]


def _check_git() -> list[Check]:
    try:
        version = Git(repository_root(state_folder().parent)).ask("version").output.strip()
    except GitError as error:
        return [Check("git", "warning", error.message, "records in git, and `runner ci record`, need it")]
    return [Check("git", "ok", version.removeprefix("git version "))]


def _check_target(target: Target) -> Check:
    if target.base_url is None:
        return Check("target", "ok", f"{target.name}, built in: nobody is texted")
    lacks = [name for name in (target.username_env, target.api_key_env) if target.credentials is None]
    if lacks:
        found = f"{target.name}, {target.base_url}; without credentials"
        return Check("target", "warning", found, f"set {' and '.join(lacks)}")
    return Check("target", "ok", f"{target.name}, {target.base_url}; credentials are set")


def _check_key(target: Target) -> Check:
    if target.state_key is None:
        hint = "`runner key new` prints one: without it phones can be guessed from lockfiles"
        return Check("state key", "ok" if target.base_url is None else "warning", "not set", hint)
    return Check("state key", "ok", "set")


def _check_ledger(workspace: Workspace) -> list[Check]:
    # The path of the default ledger would show where somebody's home is.
    is_default = workspace.ledger_url == default_ledger_url()
    place = ".runner/ledger.sqlite" if is_default else show_url(workspace.ledger_url)
    folder = state_folder()
    if is_default and not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        return [Check("ledger", "error", f"{place} cannot be written", "this user needs to write there")]
    if not Ledger.exists(workspace.ledger_url):
        return [Check("ledger", "ok", f"{place}, made on first use")]
    with workspace.open_ledger_if_present() as present:
        if present is None:
            return [Check("ledger", "ok", f"{place}, empty")]
    # By a new connection, as a run makes it: one that has read before no longer has the server's defaults.
    with Ledger(workspace.ledger_url) as ledger:
        ledger.check_writable()
    return [Check("ledger", "ok", f"{place}, readable and writable")]


def _check_service(workspace: Workspace) -> list[Check]:
    if workspace.target.base_url is not None and workspace.target.credentials is None:
        return [Check("service", "warning", "not asked, without credentials")]
    if not workspace.may_know_launches:
        return [Check("service", "ok", "the sandbox, started on first use")]
    with workspace.open_service() as (service, _):
        started = time.monotonic()
        apart_s = service.measure_clock()
        elapsed_s = time.monotonic() - started
    answers = Check("service", "ok", f"answers in {elapsed_s * 1000:.0f} ms, and takes the credentials")
    if workspace.target.name == SANDBOX or apart_s is None:
        return [answers]
    if apart_s <= FAR_S:
        return [answers, Check("clock", "ok", f"agrees with the service's to {FAR_S:.0f} s")]
    hint = "set this machine's clock: hours and waits are kept by it"
    return [answers, Check("clock", "warning", f"{apart_s:.0f} s apart from the service's", hint)]
