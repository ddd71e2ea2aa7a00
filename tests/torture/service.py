"""A service on a real socket that counts what it accepts, and goes wrong by a seeded schedule.

It keeps the one promise that delivery rests on: what it accepts it lists, at the latest
`ACCEPTS_LATE_S` and `Temper.lists_late_s` after the request came. A machine that stands still does not
excuse it: what it has not come to by then it does not accept.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.torture.door import Door
from tests.torture.launches import Launch, count_texts
from tests.torture.schedule import make_random

if TYPE_CHECKING:
    import random

    from tests.torture.door import Answer
    from tests.torture.gauge import Meter

READ_TIMEOUT_S = 0.3
"""How long the runner waits for an answer; slow answers take longer."""
ACCEPTS_LATE_S = 0.08
"""How long after it has broken a connection the service may still accept what came over it."""
_SLACK_S = 0.08
"""How late timers and threads may be for what they do."""

SEND_FAULTS = (
    "accepted, then dropped",
    "accepted, then reset",
    "accepted after the connection broke",
    "accepted, answered 500",
    "accepted, answered 400",
    "accepted, answered 404",
    "accepted, answered 422",
    "accepted, answered 402",
    "accepted, answered 408",
    "accepted, answered 409",
    "accepted, answered 425",
    "accepted, answered 429",
    "accepted, answered 499",
    "accepted, answered 503",
    "accepted, answered too late",
    "accepted, half a body",
    "accepted, no guid in the body",
    "accepted, body is no JSON",
    "dropped unaccepted",
    "answered 500 unaccepted",
    "answered 429",
    "answered 503 with Retry-After",
    "answered 400",
    "answered 403",
)
_STATUSES = ("400", "402", "404", "422", "408", "409", "425", "429", "499", "500", "503")
ODD_LISTS = (
    "sessions left out",
    "phones without country code",
    "phones with zeros",
    "no tag",
    "no tag at all",
)
"""What a list may lack, or write otherwise, of some launches; none of it is there for good."""
LIST_FAULTS = ("list: dropped", "list: 500", "list: half a body", "list: too late", "list: order changed")


@dataclass(frozen=True, slots=True)
class Temper:
    """How a service misbehaves.

    Attributes:
        seed: of the schedule.
        send_faults: the share of sends that meet a fault, from 0 to 1.
        list_faults: the share of lists that meet one.
        lists_late_s: the most seconds between accepting a launch and listing it.
        page_size: the most records on a page.
        skew_s: how far its clock is ahead of ours.
        odd_lists: the share of launches that lists show otherwise, each in one way of `ODD_LISTS`.
        takes_s: the most seconds that it takes to accept a launch, and again to answer.
    """

    seed: int
    send_faults: float
    list_faults: float
    lists_late_s: float
    page_size: int
    skew_s: float
    odd_lists: float = 0.0
    takes_s: float = 0.0


class Service:
    """The service.

    Args:
        temper: how it misbehaves.
        meter: is told of each request to send; None for nobody.

    Attributes:
        launches: what it has accepted.
        faults: how often each fault was met by a request.
        door: where requests come in.
        is_ahead: whether its clock is ahead of ours.
    """

    def __init__(self, temper: Temper, meter: Meter | None = None) -> None:
        self.is_ahead = temper.skew_s > 0
        self.launches: list[Launch] = []
        self.faults: Counter[str] = Counter()
        self._temper = temper
        self._is_calm = False
        self._due: list[str] = []
        self._lock = threading.Lock()
        self._sends = self._lists = 0
        self._order = 0
        self._hidden: set[str] = set()
        self._late: list[threading.Timer] = []
        self._odd: dict[str, str] = {}
        self.door = Door(self, meter)
        self.door.open()

    def calm(self) -> None:
        """Behave from now on; what is accepted is still listed late, and what is listed otherwise stays so."""
        self._is_calm = True
        self._due.clear()

    def mend(self) -> None:
        """List everything as it is."""
        with self._lock:
            self._odd.clear()

    @property
    def lists_sessions(self) -> bool:
        """Whether its lists say of all launches whom they have reached, and as what."""
        return not self._odd

    def list_hidden(self) -> set[str]:
        """Return the guids of launches that nobody could recognise who has no record of them."""
        return {
            guid for guid, odd in self._odd.items() if odd.startswith("no tag") or _hides_counts(guid, odd)
        }

    def plan_faults(self, faults: list[str]) -> None:
        """Meet the next sends with these faults of `SEND_FAULTS`, whatever the schedule says."""
        self._due += faults

    def come_to_rest(self) -> None:
        """Wait until everything that was accepted, or will be, is listed."""
        for timer in self._late:
            timer.join()
        last = max((launch.listed_at for launch in self.launches), default=0.0)
        time.sleep(max(0.0, last - time.monotonic()))

    def count_texts(self) -> Counter[tuple[str, str, str]]:
        """Return how often each phone was texted each message."""
        with self._lock:
            return count_texts(self.launches)

    def accept(self, body: dict[str, Any]) -> str:
        """Text the phones, and return the launch's guid."""
        with self._lock:
            return self._enter(body, time.monotonic())

    def _accept_in_time(self, body: dict[str, Any], came_at: float) -> str | None:
        """Text the phones, and return the launch's guid; None if it is too late to keep the promise."""
        # Who lists waits for the lock, and finds what was accepted at this moment.
        with self._lock:
            now = time.monotonic()
            is_late = now - came_at > ACCEPTS_LATE_S + self._temper.takes_s + _SLACK_S
            return None if is_late else self._enter(body, now)

    def _enter(self, body: dict[str, Any], now: float) -> str:
        number = len(self.launches)
        rng = make_random(self._temper.seed, "launch", number)
        launch = Launch(
            guid=str(UUID(int=rng.getrandbits(128), version=4)),
            definition={name: body[name] for name in sorted(body, reverse=True) if name != "phone"},
            phones=tuple(body["phone"]),
            started=_write_moment(self._temper.skew_s),
            listed_at=now + rng.uniform(0, self._temper.lists_late_s),
        )
        self.launches.append(launch)
        if not self._is_calm and rng.random() < self._temper.odd_lists:
            odd = rng.choice(ODD_LISTS)
            self._odd[launch.guid] = odd
            self.faults[odd] += 1
        return launch.guid

    def _accept_later(self, body: dict[str, Any], came_at: float) -> None:
        timer = threading.Timer(ACCEPTS_LATE_S, self._accept_in_time, [body, came_at])
        self._late.append(timer)
        timer.start()

    def take_send(self, body: dict[str, Any], came_at: float) -> Answer | str:
        """Meet one POST: return the answer, or how the connection ends without one."""
        with self._lock:
            self._sends += 1
            rng = make_random(self._temper.seed, "send", self._sends)
            fault = self._take_due() or self._choose(rng, self._temper.send_faults, SEND_FAULTS)
        time.sleep(rng.uniform(0, self._temper.takes_s))
        if fault is None:
            guid = self._accept_in_time(body, came_at)
            time.sleep(rng.uniform(0, self._temper.takes_s))
            return "drop" if guid is None else _answer(201, {"project_launch_guid": guid})
        if fault == "accepted after the connection broke":
            self._accept_later(body, came_at)
            return "reset"
        if fault.startswith("accepted"):
            guid = self._accept_in_time(body, came_at)
            return (
                "drop" if guid is None else _spoil(fault, json.dumps({"project_launch_guid": guid}).encode())
            )
        if fault == "dropped unaccepted":
            return "drop"
        status = int(re.findall(r"\d+", fault)[0])
        waits = {"Retry-After": rng.choice(("0", "0", "1"))} if status in (429, 503) else {}
        return status, waits, b'{"error": "no"}'

    def take_list(self, query: dict[str, str]) -> Answer | str:
        """Meet one GET of the stats."""
        with self._lock:
            self._lists += 1
            rng = make_random(self._temper.seed, "list", self._lists)
            fault = self._choose(rng, self._temper.list_faults, LIST_FAULTS)
            if fault == "list: order changed":
                self._order += 1
            page = self._make_page(query)
        if fault in (None, "list: order changed"):
            return _answer(200, page)
        return _spoil(fault, json.dumps(page).encode())

    def find_stat(self, guid: str) -> Answer:
        """Meet one GET of one launch."""
        with self._lock:
            found = [launch for launch in self._listed() if launch.guid == guid]
            return _answer(200, self._show(found[0])) if found else (404, {}, b"{}")

    def _show(self, launch: Launch) -> dict[str, Any]:
        """Return a launch as it is listed now."""
        stat, odd = _make_stat(launch), self._odd.get(launch.guid)
        if odd == "sessions left out":
            stat["sessions"] = stat["sessions"][: len(launch.phones) // 2]
            if _hides_counts(launch.guid, odd):
                stat["num_complete_sessions"] = 0
        if odd in ("no tag", "no tag at all"):
            stat["project_tag"] = ""
        if odd == "no tag at all":
            stat["project_definition"] = {k: v for k, v in launch.definition.items() if k != "tag"}
        for session in stat["sessions"]:
            if odd == "phones without country code":
                session["to"] = session["to"][2:]
            if odd == "phones with zeros":
                session["to"] = "00" + session["to"][1:]
        return stat

    def _choose(self, rng: random.Random, share: float, faults: tuple[str, ...]) -> str | None:
        if self._is_calm or rng.random() >= share:
            return None
        fault = rng.choice(faults)
        self.faults[fault] += 1
        return fault

    def _take_due(self) -> str | None:
        if not self._due:
            return None
        fault = self._due.pop(0)
        self.faults[fault] += 1
        return fault

    def _listed(self) -> list[Launch]:
        now = time.monotonic()
        hidden = {launch.guid for launch in self.launches if launch.listed_at > now}
        self.faults["listed late"] += len(hidden - self._hidden)
        self._hidden |= hidden
        return [launch for launch in self.launches if launch.guid not in hidden]

    def _make_page(self, query: dict[str, str]) -> dict[str, Any]:
        tag = query.get("project_tag")
        listed = [
            launch
            for launch in self._listed()
            if tag is None
            or (tag == launch.definition["tag"] and not self._odd.get(launch.guid, "").startswith("no tag"))
        ]
        make_random(self._temper.seed, "order", self._order).shuffle(listed)
        limit = min(int(query.get("limit", "20")), self._temper.page_size)
        offset = int(query.get("offset", "0"))
        usage = {"name": "torture", "price_usd": "0.00", "renders": {"max": 10**6, "used": len(listed)}}
        return {
            "meta": {
                "limit": limit,
                "offset": offset,
                "total_count": len(listed),
                "next": "",
                "previous": None,
                "plan": usage,
            },
            "objects": [self._show(launch) for launch in listed[offset : offset + limit]],
        }


def _hides_counts(guid: str, odd: str) -> bool:
    """Return whether a launch with sessions that are left out has counts that do not show it: every second one."""
    return odd == "sessions left out" and int(guid[0], 16) % 2 == 1


def _spoil(fault: str, content: bytes) -> Answer | str:
    """Return what becomes of the answer to a request that was accepted."""
    if fault.endswith("too late"):
        time.sleep(READ_TIMEOUT_S * 1.5)
    half = {"Content-Length": str(len(content))}, content[: len(content) // 2]
    endings: dict[str, Answer | str] = {
        "dropped": "drop",
        "reset": "reset",
        **{status: (int(status), {"Retry-After": "0"}, b"oops") for status in _STATUSES},
        "half a body": (201, *half),
        "no guid in the body": (200, {}, b"{}"),
        "body is no JSON": (200, {}, b"<html>thank you</html>"),
        "too late": (201, {}, content),
    }
    return next(answer for ending, answer in endings.items() if fault.endswith(ending))


def _answer(status: int, data: dict[str, Any]) -> Answer:
    return status, {}, json.dumps(data).encode()


def _write_moment(skew_s: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=skew_s)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds")


def _make_stat(launch: Launch) -> dict[str, Any]:
    counts = ("active_sessions", "messages", "questions", "queued_sessions", "results")
    session = {"created": launch.started, "from": "+14155550000", "method": "SMS", "status": "COMPLETE"}
    return {
        **{f"num_{name}": 0 for name in counts},
        "num_complete_sessions": len(launch.phones),
        "num_renders": len(launch.phones),
        "project_definition": launch.definition,
        "project_launch_guid": launch.guid,
        "project_launch_start": launch.started,
        "project_tag": launch.definition["tag"],
        "sessions": [{**session, "to": phone, "sub_status": None} for phone in reversed(launch.phones)],
    }
