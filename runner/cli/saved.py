"""Saved plans: what `plan --out` wrote and `apply --plan` holds the present to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.campaigns import show_path
from runner.cli.console import FORMAT_VERSION, note
from runner.cli.plan_digest import describe_campaigns, name_key
from runner.errors import (
    OnHoldError,
    PlanChangedError,
    RunLockedError,
    RunnerError,
    UnusableListError,
    UsageError,
)
from runner.ledger.draft import write_private
from runner.plan.digest import digest_json, plan_digest
from runner.service.destination import describe_destination, list_moves
from runner.source.schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.cli.planning import PlannedHead
    from runner.cluster.plan_set import PlanSet
    from runner.plan.model import PlanOptions
    from runner.service.target import Target

_CHANGES = {
    # First: with a record comes its key, and the other digests are not made with the same one.
    "record": "something has been sent, or recorded, in the meantime",
    "campaign": "the campaign file has changed",
    "deliveries": "audience, template, option or who may be texted changed: who gets what is not the same",
}
_OTHER_KEY = "it was planned with another RUNNER_STATE_KEY, or with none: set the same one for both"
_NEW_PLAN = "nothing was sent; make a new plan with `runner plan --out`, and review that"
_MOVED = (
    "nothing was sent, and nobody was asked; put RUNNER_BASE_URL and targets.yaml back, or make a new plan "
    "with `runner plan --out`, and review that"
)
_HOW_TO_SAVE = "make one with `runner plan --out FILE`"
_CHECKSUM = "checksum"
_DIGEST = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A saved plan.

    Attributes:
        file: where it stands.
        campaigns: the plan's campaigns, as JSON.
        only: the option `--only` that it was made with.
        limit: the option `--limit` that it was made with.
        now: the moment for which it was made.
        digest: of all that it says will be sent.
        plan_set: its launches, if it was made on a cluster.
    """

    file: Path | str
    campaigns: tuple[dict[str, Any], ...]
    only: str | None
    limit: int | None
    now: datetime
    digest: str
    plan_set: PlanSet | None = None

    def paths(self) -> list[Path]:
        """Return the campaign files that the plan is about."""
        return [Path(campaign["file"]) for campaign in self.campaigns]

    def require_digest(self, expected: str) -> None:
        """Refuse the plan if it is not the one that is expected, whatever it says of itself.

        Args:
            expected: the digest that was printed when the plan was made, and reviewed.

        Raises:
            PlanChangedError: it is another one.
            UsageError: that is no digest.
        """
        if not _DIGEST.fullmatch(expected):
            raise UsageError(
                "--expect-digest takes a plan's digest: 32 digits from 0 to 9 and from a to f",
                hint="`runner plan --out` prints it",
            )
        if self.digest != expected:
            raise PlanChangedError(
                f"the plan {self.file} is not the one that is expected: its digest is {self.digest}, and not "
                f"{expected}",
                hint="nothing was sent; get the plan that was approved, or have this one approved",
            )

    def knows_pause(self, file: Path) -> bool:
        """Return whether a campaign, by its file, was paused already when the plan was made."""
        return any(one["file"] == show_path(file) and one["pause"] for one in self.campaigns)

    def require_target(self, target: Target) -> None:
        """Refuse the plan on another target than its own, and where its own leads elsewhere by now.

        Args:
            target: where this run would send; nothing was asked of it yet.

        Raises:
            PlanChangedError: says how to name the plan's, or what differs.
        """
        others = sorted({campaign["target"] for campaign in self.campaigns} - {target.name})
        if others:
            raise PlanChangedError(
                f"the plan {self.file} is for the target {others[0]!r}, and this run for {target.name!r}",
                hint=f"nothing was sent; name the target: --target {others[0]}",
            )
        now = describe_destination(target)
        moves = next(filter(None, (list_moves(one["destination"], now) for one in self.campaigns)), None)
        if moves:
            raise PlanChangedError(
                f"the plan {self.file} is out of date: the target {target.name!r} leads elsewhere: "
                f"{', '.join(moves)}",
                hint=_MOVED,
            )

    def require_unchanged(self, planned: Sequence[PlannedHead], errors: Mapping[Path, RunnerError]) -> None:
        """Refuse the plan if anything that it describes has changed: what was approved is the whole.

        A campaign that another run holds, that a person has paused, or of which the service's list proves
        nothing, has not changed: it is not sent now, and the rest of the plan is.

        Args:
            planned: the campaigns as they are now.
            errors: why others of the plan are left out, by file.

        Raises:
            PlanChangedError: says what, for each campaign.
        """
        saved = {campaign["file"]: campaign for campaign in self.campaigns}
        found = describe_campaigns(planned)
        changes = []
        for file, error in errors.items():
            entry = saved.get(show_path(file))
            if entry is not None and isinstance(error, (RunLockedError, UnusableListError, OnHoldError)):
                found.append(entry)
            else:
                changes.append(error.message)
        for item, now in zip(planned, found[: len(planned)], strict=True):
            entry = saved.get(show_path(item.campaign.file))
            cause = "the plan has nothing of it" if entry is None else _find_change(entry, item, now)
            if cause:
                changes.append(f"{item.campaign.name}: {cause}")
        if changes:
            raise PlanChangedError(
                f"the plan {self.file} is out of date: {'; '.join(changes)}", hint=_NEW_PLAN
            )
        if plan_digest(found) != self.digest:
            raise PlanChangedError(
                f"the plan {self.file} was edited: it says other numbers than are to be sent", hint=_NEW_PLAN
            )


def _find_change(entry: Mapping[str, Any], item: PlannedHead, now: Mapping[str, Any]) -> str | None:
    """Return what has changed; what follows from another change isn't said on its own."""
    then, current = entry["digests"], now["digests"]
    if entry.get("key_fingerprint") != name_key(item) and then["record"] == current["record"]:
        return _OTHER_KEY
    return next((words for name, words in _CHANGES.items() if then[name] != current[name]), None)


def save_plan(document: Mapping[str, Any], file: Path, options: PlanOptions, *, quiet: bool) -> None:
    """Save a plan for `apply --plan`, for this user alone.

    Args:
        document: as `plan_json` gives it, without launches and differences.
        file: where to.
        options: that it was made with.
        quiet: say nothing of it.

    Raises:
        RunnerError: the file cannot be written.
    """
    body = {
        "format_version": FORMAT_VERSION,
        **document,
        "options": {"only": options.only, "limit": options.limit},
    }
    saved = {**body, _CHECKSUM: digest_json(body)}
    try:
        write_private(file, [json.dumps(saved, ensure_ascii=False, indent=2), "\n"])
    except OSError as error:
        raise RunnerError(f"the plan cannot be saved to {file}: {error.strerror}") from None
    if not quiet:
        note(f"Saved to {file}. Send exactly this with: runner apply --plan {file}")
        note(f"Plan digest: {document['plan_digest']}")


def check_plan_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return what `--plan` names: a file that is there, a folder, or the URL of one."""
    if value is None or _is_folder(value):
        return value
    return str(click.Path(exists=True, dir_okay=False).convert(value, param, ctx))


def _is_folder(path: str) -> bool:
    return "://" in path or Path(path).is_dir()


def read_saved_plan(path: str) -> SavedPlan:
    """Read a saved plan: a file, or a plan set.

    Raises:
        RunnerError: it is not one, not whole, of another version, or names a campaign that is gone.
    """
    plan = _read_set(path) if _is_folder(path) else _read_file(Path(path))
    gone = [str(file) for file in plan.paths() if not file.is_file()]
    if gone:
        raise PlanChangedError(
            f"the plan {plan.file} is about campaigns that are not there: {', '.join(gone)}",
            hint="run it from the folder in which the plan was made",
        )
    return plan


def _read_set(url: str) -> SavedPlan:
    # Imported here: only those who use a cluster have what it takes to read one.
    try:
        from runner.cluster.plan_set import read_plan_set
    except ImportError:
        raise RunnerError(
            f"{url} is a folder: to read it as a plan set needs PyArrow and fsspec, which are not installed",
            hint="pip install 'sms-campaign-runner[cluster]'",
        ) from None
    found = read_plan_set(url)
    if "://" not in url:
        # Workers may stand in another folder than this process.
        found = replace(found, url=str(Path(url).absolute()))
    return SavedPlan(url, found.campaigns, found.only, found.limit, found.now, found.digest, found)


def _read_file(file: Path) -> SavedPlan:
    data = _read_json(file)
    _require_whole(file, data)
    return SavedPlan(
        file,
        tuple(data["campaigns"]),
        data["options"]["only"],
        data["options"]["limit"],
        _read_moment(file, data["now"]),
        data["plan_digest"],
    )


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunnerError(f"the plan {file} cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RunnerError(
            f"the plan {file} is damaged or cut off: it is not JSON ({where})", hint=_NEW_PLAN
        ) from None
    except (ValueError, RecursionError):
        raise _not_saved(file) from None


def _require_whole(file: Path, data: Any) -> None:
    if not isinstance(data, dict) or "options" not in data or "campaigns" not in data:
        raise _not_saved(file)
    version = data.get("format_version")
    if version != FORMAT_VERSION:
        raise RunnerError(
            f"the plan {file} was saved by another version of runner: its format is {version}, "
            f"and this one reads {FORMAT_VERSION}",
            hint=_NEW_PLAN,
        )
    if _CHECKSUM not in data:
        raise RunnerError(
            f"the plan {file} has no checksum: an older version of runner saved it", hint=_NEW_PLAN
        )
    body = {name: value for name, value in data.items() if name != _CHECKSUM}
    if data[_CHECKSUM] != digest_json(body):
        raise RunnerError(f"the plan {file} was edited: it doesn't fit its checksum", hint=_NEW_PLAN)
    if next(load_validator("plan").iter_errors(data), None) is not None:
        raise _not_saved(file)
    if data["plan_digest"] != plan_digest(data["campaigns"]):
        raise RunnerError(f"the plan {file} was edited: it doesn't fit its plan digest", hint=_NEW_PLAN)


def _read_moment(file: Path, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _not_saved(file)
    return moment


def _not_saved(file: Path) -> RunnerError:
    return RunnerError(f"{file} is not a saved plan", hint=_HOW_TO_SAVE)
