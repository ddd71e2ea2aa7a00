"""The service of the reference, in a process of its own, as the service that goes wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.reference_service.control import ReferenceProcess
from tests.reference_service.service import API_KEY, USERNAME
from tests.reference_service.switches import FAULTS
from tests.reference_service.test_loop import HELD, RECOGNISED, RECOGNISED_IN_OTHER_WORDS
from tests.torture.launches import Launch, count_texts

if TYPE_CHECKING:
    import random

CREDENTIALS = (USERNAME, API_KEY)
_PLANNED = 200
"""Sends whose fate is settled beforehand: more than a scenario has."""
_LATE = ("lists=late", "lists=empty", "sessions=late")
_LITERAL = ("definitions=as-sent", "texts=as-sent", "sessions=all", "total=right")
"""Switches of a service that somebody has mended: all that is listed can be recognised."""


class ReferenceTorture:
    """A service by the letter of the reference, with switches for what that leaves open.

    Args:
        rng: chooses the switches, and what goes wrong.
        hangs_s: seconds for which a request that hangs is left without an answer.
        lists_late_s: the most seconds for which lists lack what was accepted.

    Attributes:
        switches: those that are not the default, as `name=value`.
        is_literal: whether all that it lists can be recognised.
        lists_sessions: whether its lists say whom a launch has reached.
        is_ahead: whether its clock is ahead of ours.
    """

    def __init__(self, rng: random.Random, *, hangs_s: float, lists_late_s: float) -> None:
        self._rng = rng
        self._lists_late_s = lists_late_s
        self.is_literal = rng.random() < 0.7
        self.switches = self._choose_switches()
        self.lists_sessions = not {"sessions=none", "sessions=part"} & set(self.switches)
        self.is_ahead = "times=ahead" in self.switches
        self._process = ReferenceProcess(*self.switches, f"hangs_s={hangs_s}")
        self.door = ReferenceDoor(self._process)
        self._share = rng.choice((0.0, 0.3, 0.3, 0.5))
        self._process.tell("plan_faults", names=[self._choose_fault() for _ in range(_PLANNED)])

    @property
    def launches(self) -> list[Launch]:
        """What it has accepted."""
        return [
            Launch(sent["guid"], sent["definition"], tuple(sent["phones"]), sent["at"], sent["monotonic"])
            for sent in self._process.tell("accepted")
        ]

    @property
    def faults(self) -> Counter[str]:
        """How often each fault was met by a request."""
        return Counter({f"reference: {name}": n for name, n in self._process.tell("faults").items()})

    def accept(self, body: dict[str, Any]) -> str:
        """Text the phones, whoever asks for it, and return the launch's guid."""
        return str(self._process.tell("accept", body=body))

    def answer(self, phone: str, text: str) -> bool:
        """Have a participant answer, and return whether they were asked anything, and it was valid."""
        try:
            return self._process.tell("answer", phone=phone, text=text) is not None
        except ValueError:
            return False

    def list_replies(self) -> list[tuple[str, str, str, str]]:
        """Return the answers: phone, launch, tag of the question, and response."""
        return [tuple(row) for row in self._process.tell("replies")]

    def list_completed(self) -> list[str]:
        """Return the phones of people who have completed a survey."""
        return list(self._process.tell("completed"))

    def edit_answer(self, guid: str, phone: str, response: str) -> None:
        """Change somebody's first answer to a launch."""
        self._process.tell("edit_answer", guid=guid, phone=phone, response=response)

    def hide(self) -> None:
        """Answer lists with nothing in them, well-formed, until `show`."""
        self._process.tell("switch", values=["lists=empty", "delay_s=3600"])

    def show(self) -> None:
        """List as before."""
        late = [switch for switch in self.switches if switch.startswith(("lists=", "delay_s="))]
        self._process.tell("switch", values=late or ["lists=prompt", "delay_s=0"])

    def mend(self) -> None:
        """List everything so that it can be recognised."""
        self._process.tell("switch", values=list(_LITERAL))
        self.is_literal = self.lists_sessions = True

    def calm(self) -> None:
        """Behave from now on, within the switches."""
        self._process.tell("calm")

    def come_to_rest(self) -> None:
        """Wait until everything that was accepted, or will be, is listed."""
        self._process.tell("come_to_rest")

    def count_texts(self) -> Counter[tuple[str, str, str]]:
        """Return how often the campaign has texted each phone each message."""
        return count_texts(self.launches)

    def _choose_fault(self) -> str:
        return self._rng.choice(tuple(FAULTS)) if self._rng.random() < self._share else ""

    def _choose_switches(self) -> list[str]:
        rng = self._rng
        chosen: dict[str, str] = {}
        lots = rng.sample((*RECOGNISED, *RECOGNISED_IN_OTHER_WORDS), rng.randint(1, 4))
        if not self.is_literal:
            lots.append(rng.choice(HELD)[0])
        if rng.random() < 0.4:
            lots.append(f"{rng.choice(_LATE)} delay_s={self._lists_late_s}")
        for assignment in " ".join(lots).split():
            name, _, value = assignment.partition("=")
            chosen[name] = value
        self.is_literal = not {"definitions=text-alone", "texts=smart-quotes", "texts=cut"} & {
            f"{name}={value}" for name, value in chosen.items()
        }
        return [f"{name}={value}" for name, value in chosen.items()]


class ReferenceDoor:
    """Where the service is reached: ends with it."""

    def __init__(self, process: ReferenceProcess) -> None:
        self._process = process
        self.url = process.url

    def open(self) -> None:
        """Listen, if it doesn't yet."""
        self._process.tell("open")

    def shut(self) -> None:
        """Refuse connections."""
        self._process.tell("shut")

    def close(self) -> None:
        """End the process."""
        self._process.__exit__()
