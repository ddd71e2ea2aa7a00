"""The message of a commit of the record: what is new in it, by which run, and who approved it.

Launches are new if no lockfile on the branch has them, not even one of the campaign's former name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from runner.github.pull_requests import RECORD_TRAILER
from runner.ledger.files.comparison import Secrets, name_target
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX, parse_lockfile
from runner.ledger.files.suppressions import read_approvals
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import APPROVALS_SUFFIX
from runner.plan.approval import find_latest
from runner.service.target import (
    find_key_variable,
    read_old_state_key,
    read_state_key,
    read_targets,
)
from runner.source.diagnostic import ProblemError
from runner.source.normalize import normalize_guid
from runner.wording import count_words
from runner.workflow.campaigns import find_targets_file
from runner.workflow.delivery.campaign_run import find_actor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.git.clone import Clone
    from runner.ledger.files.suppressions import Approval

_NAMED = 2
"""The most campaigns named in a subject; more are counted."""
_GUID = re.compile(r'"project_launch_guid":("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file that a commit changes.

    Attributes:
        path: from the repository's top, with slashes.
        here: its text in the work tree.
        before: its text on the branch; None if it is not there.
        after: its text in the commit.
    """

    path: str
    here: str
    before: str | None
    after: str


class _Gain(NamedTuple):
    """Launches of a lockfile that the branch lacks: texts by message."""

    campaign: str
    target: str
    texts: Counter[str]


def describe_changes(
    clone: Clone,
    environment: Mapping[str, str],
    files: Collection[Path],
    tip: str,
    changes: Sequence[RecordedFile],
) -> str:
    """Return the message of a commit of changes that comes after `tip`; `files` are those on record."""
    before = (clone.read(tip, file.relative_to(clone.root).as_posix()) for file in files)
    known = {normalize_guid(json.loads(guid)) for text in before for guid in _GUID.findall(text or "")}
    lockfiles = [one for one in changes if one.path.endswith(LOCKFILE_SUFFIX)]
    gains = [_find_gain(clone.root / one.path, one.after, known) for one in lockfiles]
    approvals = _list_approvals(clone, environment, files, changes, gains)
    trailers = [
        *_list_trailers(clone.read_head(), environment),
        *_list_approvers(approvals, environment),
    ]
    return "\n".join([_write_subject(changes, gains, approvals), "", *trailers, ""])


def _find_gain(file: Path, text: str, known: set[str]) -> _Gain:
    """Return what a lockfile adds to `known` launches, and add them there."""
    lockfile = parse_lockfile(file, text).lockfile
    gain = _Gain(lockfile.campaign, lockfile.target, Counter())
    for launch in lockfile.launches:
        if normalize_guid(launch.project_launch_guid) not in known:
            gain.texts[launch.message] += len(launch.recipients)
    # A moved campaign may have two lockfiles in one commit.
    known.update(normalize_guid(launch.project_launch_guid) for launch in lockfile.launches)
    return gain


def _list_approvals(
    clone: Clone,
    environment: Mapping[str, str],
    files: Collection[Path],
    changes: Sequence[RecordedFile],
    gains: Sequence[_Gain],
) -> list[Approval]:
    """Return the approvals of what was sent, and those that are new.

    Only those sealed with the state key count, since anybody can write a name into a file.
    """
    found: dict[tuple[str, ...], Approval] = {}
    before = {clone.root / one.path: one.before or "" for one in changes}
    for file in (file for file in files if file.name.endswith(APPROVALS_SUFFIX)):
        secret = secrets_of(file, environment)().present
        if secret is None:
            continue
        key = TargetKey.of(name_target(file), secret)
        approvals = read_approvals(file, file.read_text(encoding="utf-8", errors="replace"), key)[0]
        if file in before:
            known = {one.identity for one in read_approvals(file, before[file], key)[0]}
            found |= {one.identity: one for one in approvals if one.identity not in known}
        for gain in (one for one in gains if one.target == key.target):
            latest = find_latest(gain.campaign, gain.target, approvals)
            found |= {latest[name].identity: latest[name] for name in gain.texts if name in latest}
    return list(found.values())


def _write_subject(
    changes: Sequence[RecordedFile], gains: Sequence[_Gain], approvals: Sequence[Approval]
) -> str:
    texts = sum(gain.texts.total() for gain in gains)
    if gains:
        told = [gain for gain in gains if gain.texts] or gains
        place = _name_place((gain.campaign, gain.target) for gain in told)
        # Without texts: after a request to be forgotten, or when a file merged by git is repaired.
        said = f"Record {count_words(texts, 'text')} of {place}"
        return said if texts else f"Bring the record of {place} up to date"
    if approvals:
        what = "denial" if all(one.denied_by for one in approvals) else "approval"
        place = _name_place((one.request.campaign, one.request.target) for one in approvals)
        return f"Record the {what} of {place}"
    targets = _join_names({name_target(PurePosixPath(one.path)) for one in changes}, "targets")
    return f"Record decisions on {targets}"


def _name_place(places: Iterable[tuple[str, str]]) -> str:
    campaigns, targets = map(set, zip(*places, strict=True))
    return f"{_join_names(map(_one_line, campaigns), 'campaigns')} on {_join_names(targets, 'targets')}"


def _list_trailers(commit: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers, which `git log --format='%(trailers:key=Run)'` finds."""
    yield f"{RECORD_TRAILER}: {commit}"
    url = find_run_url(environment)
    if url:
        yield f"Run: {_one_line(url)}"
    actor = find_actor(environment)
    if actor:
        yield f"Triggered-By: {_one_line(actor)}"


def _list_approvers(approvals: Sequence[Approval], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers that name the approvers, from approvals and from `runner ci approve` in this job."""
    given = environment.get("RUNNER_APPROVED_BY", "").split(",")
    people = set(filter(None, map(str.strip, given))).union(*(one.approved_by for one in approvals))
    deniers = {name for approval in approvals for name in approval.denied_by}
    yield from (f"Approved-By: {_one_line(name)}" for name in sorted(people))
    yield from (f"Denied-By: {_one_line(name)}" for name in sorted(deniers))


def _join_names(names: Iterable[str], many: str) -> str:
    ordered = sorted(names)
    return " and ".join(ordered) if len(ordered) <= _NAMED else f"{len(ordered)} {many}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def secrets_of(file: Path, environment: Mapping[str, str]) -> Callable[[], Secrets]:
    """Return a function that returns the state keys of a record file's target.

    Campaigns near the file have the `targets.yaml`.
    """

    def find() -> Secrets:
        try:
            targets = read_targets(find_targets_file((file,)), environment)
        except ProblemError:
            return Secrets(None)
        variable = find_key_variable(name_target(file), targets)
        return Secrets(read_state_key(environment, variable), read_old_state_key(environment))

    return find
