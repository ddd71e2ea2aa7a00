"""A person who knows what was sent, and settles with `runner resolve` what the program holds."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tests.torture.reference import ReferenceTorture
from tests.torture.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.torture.launcher import Ended
    from tests.torture.launches import CountingService, Launch
    from tests.torture.repository import Audience

    Run = Callable[..., Ended]
    Found = dict[str, Any]

_TRIES = 60
"""Commands that a person has the patience for."""
_LOCKED = 6
_LEASE_S = 1.5
"""How long a run that died on another machine keeps a person waiting."""


class Person:
    """Knows what the service has accepted, and says so.

    Args:
        service: has accepted.
        audience: of the campaign, whose form knows the ids of its messages.
        run: runs a command in the repository.

    Attributes:
        problem: what kept the last call from settling everything, in words.
    """

    def __init__(self, service: CountingService, audience: Audience, run: Run) -> None:
        self._service = service
        self._audience = audience
        self._run = run
        self.problem: str | None = None

    def resolve(self) -> int:
        """Settle everything that is held, and return how many texts that were."""
        self.problem = None
        texts = None
        for _ in range(_TRIES):
            ended = self._ask("resolve", "--format", "json")
            if ended.code not in (0, 4):
                self.problem = f"resolve: {ended.code} {ended.err.strip()}"
                break
            found = json.loads(ended.out)
            if texts is None:
                texts = sum(one["recipients"] for one in (*found["launches"], *found["unexplained"]))
            words = self._decide(found)
            if words is None:
                break
            said = self._ask("resolve", *words)
            if said.code not in (0, 4):
                self.problem = f"{words}: {said.code} {said.err.strip()}"
                break
        return texts or 0

    def _ask(self, *arguments: str) -> Ended:
        ended = self._run(*arguments)
        if ended.code == _LOCKED:
            time.sleep(_LEASE_S)
            ended = self._run(*arguments)
        return ended

    def _decide(self, found: Found) -> tuple[str, ...] | None:
        """Return the next words; None if there are none to say."""
        known = {launch.guid.lower(): launch for launch in self._service.launches}
        words = list(self._judge(found, known))
        if not words:
            return None
        if None in words:
            # Not even a person can tell from these lists: somebody mends the service, and `apply` sees.
            assert isinstance(self._service, ReferenceTorture | Service)
            self._service.mend()
            return None
        return self._find_group_word(found, known) or words[0]

    def _judge(self, found: Found, known: dict[str, Launch]) -> Iterator[tuple[str, ...] | None]:
        """Yield a word on each launch; None for one that nobody can know."""
        for held in found["launches"]:
            yield self._judge_unknown(held, known)
        for group in found["unexplained"]:
            for listed in group["launches"]:
                guid = listed["project_launch_guid"]
                message = self._audience.form.name_of(known[guid.lower()].message)
                if self._hides_people:
                    yield None
                elif not self._is_of_now(known[guid.lower()]):
                    yield ("--launch", guid, "--not-sent")
                elif message in group["messages"]:
                    yield ("--adopt", guid, "--message", message)
                # Else another launch holds its people, for either message: it does when that one is settled.

    def _judge_unknown(self, held: Found, known: dict[str, Launch]) -> tuple[str, ...] | None:
        message = self._audience.form.message_of(held["message"])
        theirs = [
            one for one in held["candidates"] if known[one["project_launch_guid"].lower()].message == message
        ]
        if theirs and self._hides_people:
            return None
        theirs = [one for one in theirs if one["recipients_in_common"]]
        if len(theirs) != 1:
            return ("--launch", held["key"], "--not-sent")
        guid = theirs[0]["project_launch_guid"]
        if len(known[guid.lower()].phones) < held["recipients"]:
            # Another launch, to some of the same people: the rest would be recorded as reached.
            return ("--launch", held["key"], "--not-sent")
        return ("--launch", held["key"], "--adopt", guid)

    def _find_group_word(self, found: Found, known: dict[str, Launch]) -> tuple[str, ...] | None:
        """Return a word on all of one message, or on all, if it is the same."""
        if found["launches"]:
            return None
        guids = [
            one["project_launch_guid"].lower() for group in found["unexplained"] for one in group["launches"]
        ]
        messages = {known[guid].message if self._is_of_now(known[guid]) else "" for guid in guids}
        if messages == {""}:
            return ("--not-sent-all", "--auto-approve")
        if len(messages) > 1:
            return None
        name = self._audience.form.name_of(messages.pop())
        if all(name in group["messages"] for group in found["unexplained"]):
            return ("--adopt-all", "--message", name, "--auto-approve")
        return None

    def _is_of_now(self, launch: Launch) -> bool:
        """Whether the campaign has sent a launch, in the present wave if it has waves."""
        wave = self._audience.form.rules.wave
        return launch.is_ours and (not wave or launch.occasion == wave)

    @property
    def _hides_people(self) -> bool:
        """Whether the service's lists do not say whom launches have reached."""
        return isinstance(self._service, ReferenceTorture | Service) and not self._service.lists_sessions
