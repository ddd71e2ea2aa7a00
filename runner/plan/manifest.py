"""Saved plans as JSON, for plans in one file and for plan sets.

A plan in one file has no launches: they are made anew from the campaign's files. A plan set lists the files
of each campaign's partitions.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runner.errors import RunnerError
from runner.plan.digest import digest_json, plan_digest
from runner.plan.model import PartFile
from runner.source.json_schema import load_validator
from runner.version import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.plan.model import PlanOptions

_CHECKSUM = "checksum"


@dataclass(frozen=True, slots=True)
class PlanSet:
    """A saved plan, as its manifest describes it. A value that can be sent to workers.

    Attributes:
        url: its file, or the folder of a plan with parts.
        campaigns: the plan's campaigns as JSON, without their parts.
        now: the moment of the plan.
        digest: of everything that it sends.
        parts: partition files by campaign name, in order; empty if there are none.
        earlier: reviewers' decisions before the attempt of a CI run that made the plan; None in a first one.
    """

    url: str
    campaigns: tuple[dict[str, Any], ...]
    only: str | None
    limit: int | None
    now: datetime
    digest: str
    parts: dict[str, tuple[PartFile, ...]] = field(repr=False)
    earlier: dict[str, Any] | None = None

    def partitions(self, campaign: str) -> int:
        """Return a campaign's number of partitions."""
        return len(self.parts[campaign])


def dump_manifest(
    document: Mapping[str, Any], options: PlanOptions, parts: Mapping[str, Sequence[PartFile]] | None = None
) -> str:
    """Return the JSON of a plan to be saved.

    `document` is from `plan_json`, without launches and differences; `parts` are partition files by campaign
    name, in order, None if there are none.
    """
    body = {
        "format_version": FORMAT_VERSION,
        **document,
        "options": {"only": options.only, "limit": options.limit},
    }
    if parts is not None:
        body["campaigns"] = [
            {**campaign, "partitions": [asdict(part) for part in parts[campaign["name"]]]}
            for campaign in document["campaigns"]
        ]
    return json.dumps({**body, _CHECKSUM: digest_json(body)}, ensure_ascii=False, indent=2) + "\n"


def parse_manifest(text: bytes, url: str, *, has_parts: bool) -> PlanSet:
    """Return the plan that a manifest at `url` describes; `has_parts` if its launches are in files beside it.

    Raises:
        RunnerError: the text is not a manifest, is incomplete, or has another version.
    """
    return _Parser(url, has_parts).parse(text)


def describe_renewal(*, has_parts: bool) -> str:
    """Return the hint on how to renew a plan that can no longer be sent."""
    how = "runner plan --cluster … --out DIR" if has_parts else "runner plan --out"
    return f"nothing was sent; make a new plan with `{how}`, and review that"


@dataclass(frozen=True, slots=True)
class _Parser:
    url: str
    has_parts: bool

    def parse(self, text: bytes) -> PlanSet:
        data = self._load(text)
        self._require_whole(data)
        try:
            now = datetime.fromisoformat(data["now"])
        except ValueError:
            raise self._refuse() from None
        if now.tzinfo is None:
            raise self._refuse()
        parts = {}
        if self.has_parts:
            for campaign in data["campaigns"]:
                parts[campaign["name"]] = tuple(PartFile(**part) for part in campaign.pop("partitions"))
        options, campaigns = data["options"], tuple(data["campaigns"])
        return PlanSet(
            self.url,
            campaigns,
            options["only"],
            options["limit"],
            now,
            data["plan_digest"],
            parts,
            data.get("earlier"),
        )

    def _load(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise self._fail(f"is damaged or cut off: it is not JSON ({where})") from None
        except (ValueError, RecursionError):
            raise self._refuse() from None

    def _require_whole(self, data: Any) -> None:
        if not isinstance(data, dict) or "options" not in data or "campaigns" not in data:
            raise self._refuse()
        version = data.get("format_version")
        if version != FORMAT_VERSION:
            raise self._fail(
                f"was saved by another version of runner: its format is {version}, and this one reads "
                f"{FORMAT_VERSION}"
            )
        if _CHECKSUM not in data:
            raise self._fail("has no checksum: an older version of runner saved it")
        body = {name: value for name, value in data.items() if name != _CHECKSUM}
        if data[_CHECKSUM] != digest_json(body):
            raise self._fail("was edited: it doesn't fit its checksum")
        validator = load_validator("plan-set" if self.has_parts else "plan")
        if next(validator.iter_errors(data), None) is not None:
            raise self._refuse()
        if data["plan_digest"] != plan_digest(data["campaigns"]):
            raise self._fail("was edited: it doesn't fit its plan digest")

    def _fail(self, words: str) -> RunnerError:
        noun = "plan set" if self.has_parts else "plan"
        return RunnerError(f"the {noun} {self.url} {words}", hint=describe_renewal(has_parts=self.has_parts))

    def _refuse(self) -> RunnerError:
        if self.has_parts:
            return RunnerError(
                f"{self.url} is no plan set", hint="make one with `runner plan --cluster … --out DIR`"
            )
        return RunnerError(f"{self.url} is not a saved plan", hint="make one with `runner plan --out FILE`")
