"""The message of a commit that records what was sent: git's log is to tell the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.console import count_words
from runner.cli.provenance import find_actor
from runner.ledger.lock import find_run_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.ledger.gain import Gain, SuppressionGain
    from runner.plan.approval import Approval

_NAMED = 2
"""So many campaigns are named in a subject; more are counted."""
_BOT = "github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com"
_NOBODY = "runner", "runner@localhost"


def write_message(
    gains: Sequence[Gain],
    suppressions: Sequence[SuppressionGain],
    approvals: Sequence[Approval],
    commit: str,
    environment: Mapping[str, str],
) -> str:
    """Return the message of a commit: a subject, a line a message, and where it comes from as trailers.

    Args:
        gains: what each lockfile of the commit has gained.
        suppressions: what was decided in each file of suppressions of the commit.
        commit: the commit of the campaigns that were sent.
        environment: of the process, for what CI says of itself.
        approvals: of what was sent, and those that are new.
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


def _write_subject(gains: Sequence[Gain]) -> str:
    texts = sum(sum(gain.texts.values()) for gain in gains)
    told = [gain for gain in gains if gain.texts] or gains
    campaigns = _join_names({_one_line(gain.campaign) for gain in told}, "campaigns")
    targets = _join_names({gain.target for gain in told}, "targets")
    if texts:
        return f"Record {count_words(texts, 'text')} of {campaigns} on {targets}"
    # Somebody was forgotten, or a file that git had merged is whole again.
    return f"Bring the record of {campaigns} on {targets} up to date"


def _write_approval_subject(approvals: Sequence[Approval]) -> str:
    if not approvals:
        return "Record what was approved"
    campaigns = _join_names({_one_line(one.request.campaign) for one in approvals}, "campaigns")
    targets = _join_names({one.request.target for one in approvals}, "targets")
    return f"Record the approval of {campaigns} on {targets}"


def _list_messages(gain: Gain) -> Iterator[str]:
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
        yield f"{gain.target}: {_one_line(name)} is on hold"
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


def _list_approvers(approvals: Iterable[Approval], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield trailers that say who approved: by the approvals, and by what `runner approve` told this job."""
    people = list_approving(environment)
    pages = _split(environment, "RUNNER_PULL_REQUEST")
    reviewers = _split(environment, "RUNNER_REVIEWED_BY")
    for approval in approvals:
        people.update(approval.approved_by)
        pages.update(filter(None, [approval.pull_request]))
        reviewers.update(approval.reviewed_by)
    for name, values in (("Approved-By", people), ("Pull-Request", pages), ("Reviewed-By", reviewers)):
        yield from (f"{name}: {_one_line(value)}" for value in sorted(values))


def list_approving(environment: Mapping[str, str]) -> set[str]:
    """Return who approved what this job sends, as `runner approve` has told it."""
    return _split(environment, "RUNNER_APPROVED_BY")


def _split(environment: Mapping[str, str], name: str) -> set[str]:
    return set(filter(None, (value.strip() for value in environment.get(name, "").split(","))))


def choose_author(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell git who commits, for a clone that names nobody."""
    name, email = _BOT if environment.get("GITHUB_ACTIONS") == "true" else _NOBODY
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def _join_names(names: Iterable[str], many: str) -> str:
    ordered = sorted(names)
    return " and ".join(ordered) if len(ordered) <= _NAMED else f"{len(ordered)} {many}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
