"""A repository of campaigns, a service, and 2,000 people, from the first text to the last report."""

from __future__ import annotations

import csv
import json
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from tests.cli.inside import run_inside
from tests.reference_service.service import API_KEY, USERNAME
from tests.second_hand.campaigns import build_campaigns
from tests.second_hand.lives import Facts, LivedService
from tests.second_hand.tables import Situation, Within

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = 2000
_LATER = 200
"""People who join the audience after the first texts."""
_CITIES = ("Köln", "Rome", "Wien", "Bonn", "Lyon")
_ZONES = (
    "Pacific/Honolulu",
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Atlantic/Azores",
    "Europe/Berlin",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Bangkok",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Pacific/Auckland",
)
_RENDERS_MAX = 40_000
_PRICE = "1234.50"
_JOB = {
    "GITHUB_SERVER_URL": "https://example.org",
    "GITHUB_REPOSITORY": "ada/pulse",
    "GITHUB_RUN_ID": "77",
    "GITHUB_ACTOR": "ada",
}


@dataclass
class Person:
    """A row of the audience."""

    phone: str
    city: str
    zone: str


@dataclass
class World:
    """Everything that a seed makes.

    Args:
        folder: of the repository.
        seed: of all that is made up.
    """

    folder: Path
    seed: int
    people: list[Person] = field(init=False)
    service: LivedService = field(init=False)
    applied: list[dict[str, Any]] = field(default_factory=list)
    audiences: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    reconciled: Within | None = None
    sent_to: dict[str, list[Person]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the repository, and start the service."""
        self.random = Random(self.seed)  # noqa: S311  a made-up population
        self.zones = _find_zone(12), _find_zone(0)
        analysis_day = (datetime.now(UTC) - timedelta(days=15)).date().isoformat()
        self.campaigns = build_campaigns(self.zones[0], analysis_day)
        tags = {
            message.get("tag", campaign["tag"]): (name, message["id"])
            for name, campaign in self.campaigns.items()
            for message in campaign["messages"]
        }
        self.service = LivedService(self.random, self.campaigns, tags)
        self.service.switch(times="offsets", renders_max=10**9, price_usd=_PRICE)
        self.people = [self._make_person(number) for number in range(PEOPLE)]
        self.excluded = {person.phone for person in self.random.sample(self.people, 40)}
        self._write()

    def _make_person(self, number: int) -> Person:
        city = self.random.choice(_CITIES)
        if self.random.random() < 0.006:
            city = self.random.choice(("Pau", "Ulm", "Hof"))
        zone = self.zones[self.random.random() < 0.03]
        return Person(f"+1212{2000000 + number * 37}", city, zone)

    def _write(self) -> None:
        place = self.folder / "campaigns"
        place.mkdir()
        for name, campaign in self.campaigns.items():
            (place / f"{name}.yaml").write_text(json.dumps(campaign), encoding="utf-8")
        target = {"base_url": self.service.url, "limits": {"recipients_per_send": 60}}
        (place / "targets.yaml").write_text(json.dumps({"version": 1, "targets": {"live": target}}))
        (self.folder / ".gitignore").write_text(".runner/\nreports/\npages/\n")
        self.write_people(self.people[: PEOPLE - _LATER])
        with (place / "excluded.csv").open("w") as file:
            file.write("\n".join(["phone", *sorted(self.excluded)]) + "\n")
        self._git("init", "-q")
        self._commit()

    def write_people(self, people: list[Person]) -> None:
        """Write the audience: some people stand in it twice."""
        self.listed = people
        with (self.folder / "campaigns/people.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("phone", "city", "zone"))
            rows.writerows((one.phone, one.city, one.zone) for one in [*people, *people[:7]])

    def _git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        command = ("git", "-C", str(self.folder), *who, *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def _commit(self) -> None:
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "People")

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command, and return what it wrote."""
        environment = {
            "RUNNER_USERNAME": USERNAME,
            "RUNNER_API_KEY": API_KEY,
            "RUNNER_TARGET": "live",
            "RUNNER_SETTLE_WINDOW": "100ms",
            **_JOB,
        }
        ended = run_inside(*arguments, cwd=self.folder, env=environment)
        assert ended.returncode in codes, ended.stdout + ended.stderr
        return ended.stdout

    def apply(self, *names: str, days: int, codes: tuple[int, ...] = (0,)) -> None:
        """Send campaigns, and note when, of which plan and commit."""
        self._commit_if_changed()
        self.service.run += 1
        paths = [f"campaigns/{name}.yaml" for name in names]
        known = _look_back(self.service.facts)
        digest = json.loads(self.run("plan", "--format", "json", *paths))["plan_digest"]
        first = datetime.now(UTC)
        self.run("apply", "--auto-approve", "--concurrency", "1", *paths, codes=codes)
        at = Within(first - timedelta(seconds=1), datetime.now(UTC))
        self.applied.append(
            {
                "at": at,
                "digest": digest,
                "commit": self._git("rev-parse", "HEAD"),
                "dirty": False,
                "run_url": "https://example.org/ada/pulse/actions/runs/77",
                "triggered_by": "ada",
            }
        )
        self.service.switch(lists="prompt", delay_s=0.0)
        for name in names:
            self._expect_audience(self.campaigns[name], known, at)
            self.sent_to[name] = self.listed
        self.service.date_back(days)

    def _commit_if_changed(self) -> None:
        if self._git("status", "--porcelain"):
            self._commit()

    def reconcile(self, *options: str, codes: tuple[int, ...] = (0,)) -> None:
        """Read what came back."""
        # The service says a whole plan of its own, and refuses nothing because of it here.
        self.service.switch(renders_max=_RENDERS_MAX)
        first = datetime.now(UTC) - timedelta(seconds=1)
        self.run("reconcile", *options, codes=codes)
        self.reconciled = Within(first, datetime.now(UTC))
        self.service.switch(renders_max=10**9)
        self.service.facts.see()
        for sending in self.service.facts.sendings:
            sending.is_read |= sending.state == "sent"

    def decide(self) -> None:
        """Confirm some doubtful replies, dismiss others, and leave the rest."""
        waiting = [one for one in self.service.facts.replies if one.kind == "doubtful" and not one.decision]
        for decision, command in (("confirmed", "confirm"), ("dismissed", "dismiss")):
            chosen = [one for one in waiting if not one.decision][: len(waiting) // 3]
            for reply in chosen:
                reply.decision = decision
            if chosen:
                self.run("optouts", command, *(reply.result for reply in chosen))

    def report(self) -> dict[str, Any]:
        """Return the report of each campaign."""
        self.run("report", "--format", "json", "--by", "city", "--comments", "--out", "reports")
        return {
            name: json.loads((self.folder / f"reports/{name}.json").read_bytes()) for name in self.campaigns
        }

    def describe(self) -> Situation:
        """Return what is known beside the lives."""
        return Situation(
            target="live",
            facts=self.service.facts,
            groups={person.phone: person.city for person in self.listed},
            applied=self.applied,
            audiences=self.audiences,
            changed={name for name, people in self.sent_to.items() if people != self.listed},
            reconciled=self.reconciled,
            renders_max=_RENDERS_MAX if self.reconciled else None,
            price=float(_PRICE),
        )

    def _expect_audience(self, campaign: dict[str, Any], known: Known, at: Within) -> None:
        """Note what this `apply` was to find of each message's audience."""
        tried = {
            message["id"]: {
                phone
                for one in self.service.facts.sendings
                if (one.campaign, one.message) == (campaign["name"], message["id"])
                for phone in one.phones
            }
            for message in campaign["messages"]
        }
        for message in campaign["messages"]:
            found = Counter(self._find_reason(campaign, message, one, known, tried) for one in self.listed)
            del found[""]
            ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
            self.audiences[campaign["name"], message["id"]] = {
                "planned_at": at,
                "recipients": len(self.listed),
                "control_group": found["control_group"],
                "reserved": [{"disposition": name, "recipients": count} for name, count in ordered],
            }

    def _find_reason(
        self,
        campaign: dict[str, Any],
        message: dict[str, Any],
        person: Person,
        known: Known,
        tried: dict[str, set[str]],
    ) -> str:
        """Return why a person was not to be texted; empty for somebody who was, or had been."""
        phone = person.phone
        first = message.get("after", {}).get("message", message["id"])
        guid = known.sent.get((campaign["name"], first, phone))
        is_meant = ((guid, phone) in known.answered) == (message.get("to") == "answered")
        reasons = {
            "excluded": "exclude" in campaign and phone in self.excluded,
            "": phone in tried[message["id"]],
            "opted_out": phone in known.stopped,
            "opt_out_doubtful": phone in known.doubtful,
            "control_group": "holdout" in campaign.get("variants", {}) and phone not in tried[first],
            "awaiting": "after" in message and guid is None,
            "not_qualified": "after" in message and not is_meant,
            "deferred": "schedule" in campaign and person.zone == self.zones[1],
            "open_session": campaign["policy"]["open_session"] == "wait" and phone in known.busy,
            "no reason": True,
        }
        return next(reason for reason, holds in reasons.items() if holds)


@dataclass(frozen=True)
class Known:
    """What had been read before something was sent.

    Attributes:
        stopped: who had opted out.
        doubtful: who perhaps had.
        busy: who had an open survey.
        answered: launches and who had answered them.
        sent: the launch that each person got each message by.
    """

    stopped: set[str]
    doubtful: set[str]
    busy: set[str]
    answered: set[tuple[str, str]]
    sent: dict[tuple[str, str, str], str]


def _look_back(facts: Facts) -> Known:
    read = {one.guid for one in facts.sendings if one.is_read}
    replies = [one for one in facts.replies if one.guid in read]
    sessions = [one for one in facts.conversations.values() if one.guid in read]
    return Known(
        facts.stopped,
        doubtful={one.phone for one in replies if one.kind == "doubtful" and not one.decision},
        busy={one.phone for one in sessions if one.status != "COMPLETE"},
        answered={(one.guid, one.phone) for one in replies},
        sent={
            (one.campaign, one.message, phone): one.guid
            for one in facts.sendings
            if one.state == "sent"
            for phone in one.phones
        },
    )


def _find_zone(hour: int) -> str:
    """Return the time zone where the clocks are nearest to an hour now."""
    now = datetime.now(UTC)

    def measure(zone: str) -> float:
        local = now.astimezone(ZoneInfo(zone))
        ahead = (local.hour + local.minute / 60 - hour) % 24
        return min(ahead, 24 - ahead)

    return min(_ZONES, key=measure)
