"""Saved plans as JSON. They have no launches: these are made anew from the campaign's files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runner.errors import RunnerError
from runner.plan.digest import digest_json, plan_digest
from runner.plan.documents import SavedOptions
from runner.source.json_schema import load_validator
from runner.version import FORMAT_VERSION

if TYPE_CHECKING:
    from runner.plan.documents import PlanDocument
    from runner.plan.model import PlanOptions

_CHECKSUM = "checksum"
RENEWAL = "nothing was sent; make a new plan with `runner plan --out`, and review that"
"""The hint on how to renew a plan that can no longer be sent."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A saved plan.

    Attributes:
        campaigns: the plan's campaigns as JSON.
        now: the moment of the plan.
        digest: of everything that it sends.
        earlier: reviewers' decisions before the attempt of a CI run that made the plan; None in a first one.
    """

    campaigns: tuple[dict[str, Any], ...]
    only: str | None
    limit: int | None
    now: datetime
    digest: str
    earlier: dict[str, Any] | None = None


def dump_manifest(document: PlanDocument, options: PlanOptions) -> str:
    """Return the JSON of a plan to be saved, given without launches and differences."""
    whole = document.replace(options=SavedOptions(options.only, options.limit))
    return whole.replace(checksum=digest_json(whole.to_dict())).write() + "\n"


def parse_manifest(text: bytes, where: str) -> Manifest:
    """Return the plan that a manifest at `where` describes.

    Raises:
        RunnerError: the text is not a manifest, is incomplete, or has another version.
    """
    data = _load(text, where)
    _require_whole(data, where)
    try:
        now = datetime.fromisoformat(data["now"])
    except ValueError:
        raise _refuse(where) from None
    if now.tzinfo is None:
        raise _refuse(where)
    options = data["options"]
    return Manifest(
        tuple(data["campaigns"]),
        options["only"],
        options["limit"],
        now,
        data["plan_digest"],
        data.get("earlier"),
    )


def _load(text: bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _fail(where, f"is damaged or cut off: it is not JSON ({place})") from None
    except (ValueError, RecursionError):
        raise _refuse(where) from None


def _require_whole(data: Any, where: str) -> None:
    if not isinstance(data, dict) or "options" not in data or "campaigns" not in data:
        raise _refuse(where)
    version = data.get("format_version")
    if version != FORMAT_VERSION:
        raise _fail(
            where,
            f"was saved by another version of runner: its format is {version}, and this one reads "
            f"{FORMAT_VERSION}",
        )
    if _CHECKSUM not in data:
        raise _fail(where, "has no checksum: it was edited")
    body = {name: value for name, value in data.items() if name != _CHECKSUM}
    if data[_CHECKSUM] != digest_json(body):
        raise _fail(where, "was edited: it doesn't fit its checksum")
    if next(load_validator("plan").iter_errors(data), None) is not None:
        raise _refuse(where)
    if data["plan_digest"] != plan_digest(data["campaigns"]):
        raise _fail(where, "was edited: it doesn't fit its plan digest")


def _fail(where: str, words: str) -> RunnerError:
    return RunnerError(f"the plan {where} {words}", hint=RENEWAL)


def _refuse(where: str) -> RunnerError:
    return RunnerError(f"{where} is not a saved plan", hint="make one with `runner plan --out FILE`")
