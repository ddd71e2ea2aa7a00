"""Plans saved by `plan --out`, which `apply --plan` compares with the present, and the digests of plans.

A plan has a digest of each input, and one over them all, made with the target's key. Without a
RUNNER_STATE_KEY that key is public: then recipients can be guessed from a digest, as from a lockfile.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from runner.atomic_write import write_private
from runner.errors import (
    PausedError,
    PlanChangedError,
    RunLockedError,
    RunnerError,
    UnusableListError,
    UsageError,
)
from runner.ledger.model import parse_moment
from runner.plan.digest import digest_json, plan_digest
from runner.plan.documents import SavedOptions
from runner.service.target import describe_destination, list_moves
from runner.source.json_schema import load_validator
from runner.version import FORMAT_VERSION
from runner.workflow.campaigns import show_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from runner.plan.documents import PlanDigests, PlanDocument
    from runner.plan.model import PlanOptions
    from runner.service.target import Target
    from runner.workflow.plans.planning import PlanResult


RENEWAL = "nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that"
"""The hint on how to renew a plan that can no longer be sent."""
_CHECKSUM = "checksum"


def name_key(item: PlanResult) -> str | None:
    """Return the fingerprint of the state key of a plan's digests; None without one."""
    return item.key.name if item.key.is_secret else None


def digests(item: PlanResult) -> PlanDigests:
    """Return digests of a plan's inputs: what the campaign file sends, the recipients, and the record."""
    key = item.key
    found: PlanDigests = {
        "campaign": key.seal("digest", item.campaign.digest.encode()),
        "deliveries": key.seal("digest", item.plan.digest.encode()),
        "record": item.record.digest,
    }
    if item.campaign.rules.digest:
        found["rules"] = key.seal("digest", item.campaign.rules.digest.encode())
    return found


def describe_campaign(item: PlanResult) -> dict[str, Any]:
    """Return the part of a campaign's plan that its digest covers, with the names of the JSON."""
    return {
        "name": item.plan.campaign.name,
        "target": item.plan.target,
        "destination": describe_destination(item.target),
        "digests": digests(item),
        "messages": [{"id": one.id, "to_send": one.to_send} for one in item.plan.messages],
    }


_CHANGES = {
    # First: a record brings its key, on which the other digests depend.
    "record": "something has been sent, or recorded, in the meantime",
    # Before the campaign, which changed defaults change, too.
    "rules": "the rules in targets.yaml have changed",
    "campaign": "the campaign file has changed",
    "deliveries": "audience, template, option or who may be texted changed: who gets what is not the same",
}
_OTHER_KEY = "it was planned with another RUNNER_STATE_KEY, or with none: set the same one for both"
_MOVED = (
    "nothing was sent, and nobody was asked; put RUNNER_BASE_URL and targets.yaml back, or make a new plan "
    "with `runner plan --out`, and review that"
)
_DIGEST = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A saved plan. It has no launches: these are made anew from the campaign's files.

    Attributes:
        file: as given on the command line.
        campaigns: the plan's campaigns as JSON.
        only: the one message that is planned; None for all.
        limit: the most recipients now; None for all.
        now: the moment of the plan.
        digest: of everything that it sends.
        earlier: reviewers' decisions before the attempt of a CI run that made the plan; None in a first one.
    """

    file: str
    campaigns: tuple[dict[str, Any], ...]
    only: str | None
    limit: int | None
    now: datetime
    digest: str
    earlier: dict[str, Any] | None = None

    @classmethod
    def parse(cls, text: bytes, where: str) -> Self:
        """Return the plan of a file's text, if its campaign files exist."""
        data = _read_whole(text, where)
        now = parse_moment(data["now"])
        if now is None:
            raise _fail(where, "is not one that `runner plan --out` has saved")
        only, limit = data["options"]["only"], data["options"]["limit"]
        digest, earlier = data["plan_digest"], data.get("earlier")
        made = cls(where, tuple(data["campaigns"]), only, limit, now, digest, earlier)
        gone = [str(file) for file in made.paths() if not file.is_file()]
        if gone:
            raise PlanChangedError(
                f"the plan {where} is about campaigns that are not there: {', '.join(gone)}",
                hint="run it from the folder in which the plan was made",
            )
        return made

    @property
    def sends(self) -> bool:
        """True if it sends anything."""
        return any(message["to_send"] for campaign in self.campaigns for message in campaign["messages"])

    def paths(self) -> list[Path]:
        """Return the plan's campaign files."""
        return [Path(campaign["file"]) for campaign in self.campaigns]

    def require_digest(self, expected: str) -> None:
        """Refuse the plan if its computed digest is not the expected (printed and reviewed) one.

        Raises:
            PlanChangedError: the digests differ.
            UsageError: the expected one is not a digest.
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
        """Return whether a campaign, by its file, was already paused when the plan was made."""
        entry = next((one for one in self.campaigns if one["file"] == show_path(file)), None)
        if entry is None or not entry["pause"]:
            return False
        # A broken guard pauses it only now.
        return entry["rollout"] is None or entry["rollout"]["state"] != "broken"

    def require_target(self, target: Target) -> None:
        """Refuse the plan if its target is another, or has changed since.

        Raises:
            PlanChangedError: says how to name the plan's target, or what differs.
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

    def require_unchanged(self, planned: Sequence[PlanResult], errors: Mapping[Path, RunnerError]) -> None:
        """Refuse the plan if anything in it has changed, since it was approved as a whole.

        Campaigns that are locked by another run, paused, or without a usable list of launches have not
        changed: they are left out, and the rest is sent. `errors` has the left-out campaigns by file.

        Raises:
            PlanChangedError: says what has changed, for each campaign.
        """
        saved = {campaign["file"]: campaign for campaign in self.campaigns}
        found = [describe_campaign(item) for item in planned]
        changes = []
        for file, error in errors.items():
            entry = saved.get(show_path(file))
            if entry is not None and isinstance(error, (RunLockedError, UnusableListError, PausedError)):
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
                f"the plan {self.file} is out of date: {'; '.join(changes)}",
                hint=RENEWAL,
            )
        if plan_digest(found) != self.digest:
            raise PlanChangedError(
                f"the plan {self.file} was edited: it says other numbers than are to be sent",
                hint=RENEWAL,
            )


def _find_change(entry: Mapping[str, Any], item: PlanResult, now: Mapping[str, Any]) -> str | None:
    """Return the changes, without those that follow from other changes."""
    then, current = entry["digests"], now["digests"]
    if entry.get("key_fingerprint") != name_key(item) and then["record"] == current["record"]:
        return _OTHER_KEY
    return next((words for name, words in _CHANGES.items() if then.get(name) != current.get(name)), None)


def dump_plan(document: PlanDocument, options: PlanOptions) -> str:
    """Return the JSON of a plan to be saved, given without launches and differences."""
    whole = document.replace(options=SavedOptions(options.only, options.limit))
    return whole.replace(checksum=digest_json(whole.to_dict())).write() + "\n"


def save_plan(manifest: str, file: str) -> None:
    """Save a plan, from `dump_plan`, for `apply --plan`, readable by this user alone."""
    try:
        write_private(Path(file), [manifest])
    except OSError as error:
        raise RunnerError(f"the plan cannot be saved to {file}: {error.strerror}") from None


def read_saved_plan(path: str) -> SavedPlan:
    """Read a saved plan."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise RunnerError(f"the plan {path} cannot be read: {error.strerror}") from None
    return SavedPlan.parse(text, path)


def _read_whole(text: bytes, where: str) -> dict[str, Any]:
    """Return the JSON of a saved plan that nobody has edited."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _fail(where, "is damaged or cut off: it is not JSON") from None
    if not isinstance(data, dict) or "options" not in data:
        raise _fail(where, "is not one that `runner plan --out` has saved")
    if (version := data.get("format_version")) != FORMAT_VERSION:
        raise _fail(
            where, f"has the format {version} of another version of runner; this one reads {FORMAT_VERSION}"
        )
    if data.pop(_CHECKSUM, None) != digest_json(data):
        raise _fail(where, "was edited: it doesn't fit its checksum")
    if next(load_validator("plan").iter_errors(data), None) is not None:
        raise _fail(where, "is not one that `runner plan --out` has saved")
    if data["plan_digest"] != plan_digest(data["campaigns"]):
        raise _fail(where, "was edited: it doesn't fit its plan digest")
    return data


def _fail(where: str, words: str) -> RunnerError:
    return RunnerError(f"the plan {where} {words}", hint=RENEWAL)
