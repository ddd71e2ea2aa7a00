"""The message of a commit of the record: what is new in it, by which run, and who approved it.

Launches are new if no lockfile on the branch has them, not even one of the campaign's former name or place.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from runner.ledger.files.comparison import Advance, find_suppression_gain
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.plan.approval import ENDING as APPROVALS_SUFFIX
from runner.plan.approval import find_latest, read_approvals
from runner.source.normalize import normalize_guid
from runner.wording import count_words
from runner.workflow.delivery.campaign_run import find_actor
from runner.workflow.workspace.record_union import find_secret, name_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.git.clone import Clone
    from runner.git.recording import RecordedFile
    from runner.ledger.files.comparison import LockfileDiff, SuppressionGain
    from runner.plan.approval import Approval

_NAMED = 2
"""The most campaigns named in a subject; more are counted."""
_GUID = re.compile(r'"project_launch_guid":("(?:[^"\\]|\\.)*")')


def describe_changes(
    clone: Clone,
    environment: Mapping[str, str],
    files: Iterable[Path],
    tip: str,
    changes: Sequence[RecordedFile],
) -> str:
    """Return the message of a commit of changes that comes after `tip`; `files` are those on record."""
    lockfiles = [one for one in changes if one.path.endswith(LOCKFILE_SUFFIX)]
    advances = [Advance.read(clone.root / one.path, one.before, one.after) for one in lockfiles]
    known = _find_recorded(clone, tip) if any(one.list_fresh() for one in advances) else set()
    gains = []
    for advance in advances:
        gains.append(advance.find_gain(known))
        # A moved campaign may have two lockfiles in one commit.
        known |= advance.list_fresh()
    suppressions = [
        find_suppression_gain(clone.root / one.path, one.before, one.after)
        for one in changes
        if one.path.endswith(SUPPRESSIONS_SUFFIX)
    ]
    approvals = _list_approvals(clone, files, changes, gains, environment)
    return _write_message(gains, suppressions, approvals, clone.read_head(), environment)


def _list_approvals(
    clone: Clone,
    files: Iterable[Path],
    changes: Sequence[RecordedFile],
    gains: Sequence[LockfileDiff],
    environment: Mapping[str, str],
) -> list[Approval]:
    """Return the approvals of what was sent, and those that are new.

    Only those sealed with the state key count, since anybody can write a name into a file.
    """
    found: dict[str, Approval] = {}
    before = {clone.root / one.path: one.before or "" for one in changes}
    for file in (file for file in files if file.name.endswith(APPROVALS_SUFFIX)):
        secret = find_secret(file, name_target(file), environment)
        if secret is None:
            continue
        key = TargetKey.of(name_target(file), secret)
        approvals = read_approvals(file.read_text(encoding="utf-8", errors="replace"), key).approvals
        if file in before:
            known = set(map(repr, read_approvals(before[file], key).approvals))
            found |= {repr(one): one for one in approvals if repr(one) not in known}
        for gain in (one for one in gains if one.target == key.target):
            latest = find_latest(gain.campaign, gain.target, approvals)
            found |= {repr(latest[name]): latest[name] for name in gain.texts if name in latest}
    return list(found.values())


def _write_message(
    gains: Sequence[LockfileDiff],
    suppressions: Sequence[SuppressionGain],
    approvals: Sequence[Approval],
    commit: str,
    environment: Mapping[str, str],
) -> str:
    """Return the message of a commit: a subject, a line for each message, and trailers.

    `gains` and `suppressions` are the additions by file, `commit` is that of the campaigns sent, and
    `environment` has CI's variables.
    """
    body = [line for gain in gains for line in _list_messages(gain)]
    body += [line for gain in suppressions for line in _list_decisions(gain)]
    if gains:
        subject = _write_subject(gains)
    elif suppressions:
        subject = _write_suppression_subject(suppressions)
    else:
        subject = _write_approval_subject(approvals)
    trailers = [*_list_trailers(commit, environment), *_list_approvers(approvals, environment)]
    blocks = [[subject], body, trailers]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _write_subject(gains: Sequence[LockfileDiff]) -> str:
    texts = sum(sum(gain.texts.values()) for gain in gains)
    told = [gain for gain in gains if gain.texts] or gains
    campaigns = _join_names({_one_line(gain.campaign) for gain in told}, "campaigns")
    targets = _join_names({gain.target for gain in told}, "targets")
    if texts:
        return f"Record {count_words(texts, 'text')} of {campaigns} on {targets}"
    # Possible after a request to be forgotten, or when a file merged by git is repaired.
    return f"Bring the record of {campaigns} on {targets} up to date"


def _write_approval_subject(approvals: Sequence[Approval]) -> str:
    if not approvals:
        return "Record what was approved"
    campaigns = _join_names({_one_line(one.request.campaign) for one in approvals}, "campaigns")
    targets = _join_names({one.request.target for one in approvals}, "targets")
    is_denied = all(one.denied_by for one in approvals)
    return f"Record the {'denial' if is_denied else 'approval'} of {campaigns} on {targets}"


def _list_messages(gain: LockfileDiff) -> Iterator[str]:
    for message, texts in sorted(gain.texts.items()):
        launches = count_words(gain.launches[message], "launch", "launches")
        yield f"{_one_line(gain.campaign)}, {message}: {count_words(texts, 'text')} in {launches}"


def _write_suppression_subject(suppressions: Sequence[SuppressionGain]) -> str:
    targets = _join_names({gain.target for gain in suppressions}, "targets")
    people = sum(gain.opted_out for gain in suppressions)
    if people:
        return f"Record {count_words(people, 'person', 'people')} not to be texted on {targets}"
    return f"Record who is not to be texted on {targets}"


def _list_decisions(gain: SuppressionGain) -> Iterator[str]:
    if gain.opted_out:
        yield f"{gain.target}: {count_words(gain.opted_out, 'person', 'people')} not to be texted any more"
    if gain.let_in:
        yield f"{gain.target}: {count_words(gain.let_in, 'person', 'people')} may be texted again"
    for name in gain.paused:
        yield f"{gain.target}: {_one_line(name)} is paused"
    for name in gain.resumed:
        yield f"{gain.target}: {_one_line(name)} goes on"


def _list_trailers(commit: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers, which `git log --format='%(trailers:key=Run)'` finds."""
    yield f"Campaigns-Commit: {commit}"
    url = find_run_url(environment)
    if url:
        yield f"Run: {_one_line(url)}"
    actor = find_actor(environment)
    if actor:
        yield f"Triggered-By: {_one_line(actor)}"


def _list_approvers(approvals: Sequence[Approval], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers that name the approvers, from approvals and from `runner ci approve` in this job."""
    people = list_approving(environment).union(*(one.approved_by for one in approvals))
    deniers = {name for approval in approvals for name in approval.denied_by}
    yield from (f"Approved-By: {_one_line(name)}" for name in sorted(people))
    yield from (f"Denied-By: {_one_line(name)}" for name in sorted(deniers))


def list_approving(environment: Mapping[str, str]) -> set[str]:
    """Return the approvers that `runner ci approve` has passed on in this job."""
    names = environment.get("RUNNER_APPROVED_BY", "").split(",")
    return set(filter(None, (name.strip() for name in names)))


def _join_names(names: Iterable[str], many: str) -> str:
    ordered = sorted(names)
    return " and ".join(ordered) if len(ordered) <= _NAMED else f"{len(ordered)} {many}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _find_recorded(clone: Clone, tip: str) -> set[str]:
    """Return the guids of all launches in the lockfiles of a commit."""
    texts = (clone.objects.load(blob) or "" for blob in clone.list_files(tip, (LOCKFILE_SUFFIX,)).values())
    return {normalize_guid(json.loads(guid)) for text in texts for guid in _GUID.findall(text)}
