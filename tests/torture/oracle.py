"""What a campaign's rules promise, judged by what the service has accepted and been answered."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.torture.reference import ReferenceTorture
from tests.torture.repository import person_of, phone_of
from tests.torture.rules import DETRACTORS, HOLD_S, is_near, language_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.torture.launches import CountingService, Launch
    from tests.torture.repository import Audience

_CLOCK_S = 0.05
"""How exactly a hold is known here."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer at the service: of the launch with this guid, to the question with this tag."""

    phone: str
    guid: str
    tag: str
    response: str


class Oracle:
    """Knows what may be sent, and looks after each command at what was.

    Args:
        service: has accepted, and was answered.
        audience: of the campaign, whose form has the rules.

    Attributes:
        step: how many people the first step of a rollout has; None if it isn't known yet.
        violations: of limits, in words.
    """

    def __init__(self, service: CountingService, audience: Audience) -> None:
        self._service = service
        self._audience = audience
        self._rules = audience.form.rules
        self._edited: set[tuple[str, str]] = set()
        self._ever: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._is_open = False
        self._at_most: int | None = None
        self.step: int | None = None
        self.violations: list[str] = []

    def note_edit(self, guid: str, phone: str, response: str) -> None:
        """Know of an answer that is about to be another one."""
        self._edited.add((guid, phone))
        self._ever[guid, phone].add(response)

    def look(self, command: str, began: float) -> None:
        """Look at what was accepted after a command that began at this monotonic time has ended."""
        self._rules = self._audience.form.rules
        ours = self._list_ours()
        texted = {phone for launch in ours for phone in launch.phones}
        if self._rules.sizes and len(texted) > self._rules.sizes[-1]:
            self._say(f"beyond the sample: {len(texted)} of {self._rules.sizes[-1]}")
        if self.step is not None and not self._is_open and len(texted) > self.step:
            self._say(f"beyond the first step: {len(texted)} of {self.step}")
        if self._at_most is not None and len(ours) > self._at_most:
            self._say(f"after enough completes: {len(ours) - self._at_most} launches")
        if command == "reconcile":
            last = max((launch.listed_at for launch in ours), default=began)
            self._is_open |= len(texted) == self.step and began >= last + HOLD_S - _CLOCK_S
            if self._at_most is None and self.has_enough:
                self._at_most = len(ours)

    @property
    def has_enough(self) -> bool:
        """Whether so many people have completed as the campaign wants."""
        limit = self._rules.completes
        return (
            limit is not None
            and isinstance(self._service, ReferenceTorture)
            and len(self._service.list_completed()) >= limit
        )

    def list_due(self) -> list[tuple[str, str, str]]:
        """Return everybody who is to have been texted in the end, with message and occasion."""
        if self.has_enough:
            return []
        rules, found = self._audience.form.rules, []
        people = self._audience.people
        if rules.sizes:
            texted = {phone for launch in self._list_ours() for phone in launch.phones}
            people = [person for person in people if phone_of(person) in texted]
            if len(people) < min(rules.sizes[-1], len(self._audience.people)):
                self._say(f"less than the sample: {len(people)} of {rules.sizes[-1]}")
        replies = self._list_replies()
        for person in people:
            for message in self._audience.messages:
                if self._is_meant(person, message, replies):
                    dated = message == self._audience.form.dated
                    occasion = rules.cell_of(person) if dated else rules.wave
                    found.append((message, phone_of(person), occasion))
        return found

    def list_wrong(self) -> Iterator[str]:
        """Yield what was sent to people whom it was not for."""
        form = self._audience.form
        last = self._audience.messages[-1]
        first = self._audience.messages[0]
        asked = {launch.guid: launch for launch in self._list_ours() if launch.message == first}
        in_range: set[tuple[str, str]] = set()
        for reply in self._list_replies():
            said = {reply.response, *self._ever[reply.guid, reply.phone]}
            if reply.guid in asked and reply.tag == "nps" and said & set(DETRACTORS):
                in_range.add((reply.phone, asked[reply.guid].occasion))
        for launch in self._list_ours():
            for phone in launch.phones:
                if launch.language and launch.language != language_of(person_of(phone)):
                    yield f"{phone} got {launch.message} in {launch.language}"
                if launch.cell is not None and not is_near(launch.cell):
                    yield f"{phone} got {launch.message} for {launch.cell or 'no date'}"
                is_by_answer = form.follows == "detractors" and launch.message == last
                if is_by_answer and (phone, launch.occasion) not in in_range:
                    yield f"{phone} got {launch.message} without such an answer"

    def _is_meant(self, person: int, message: str, replies: list[Reply]) -> bool:
        form, phone = self._audience.form, phone_of(person)
        if message == form.dated:
            return form.rules.is_due(person)
        if message != self._audience.messages[-1] or form.follows in (None, "everyone"):
            return True
        own = {
            launch.guid
            for launch in self._list_ours()
            if launch.message == self._audience.messages[0] and launch.occasion == form.rules.wave
        }
        said = [reply for reply in replies if reply.guid in own and reply.phone == phone]
        if form.follows == "unanswered":
            return not said
        scores = [reply for reply in said if reply.tag == "nps"]
        # Whether somebody whose answer was edited is texted depends on when it was read.
        is_edited = any((reply.guid, phone) in self._edited for reply in scores)
        return bool(scores) and scores[-1].response in DETRACTORS and not is_edited

    def _list_ours(self) -> list[Launch]:
        return [launch for launch in self._service.launches if launch.is_ours]

    def _list_replies(self) -> list[Reply]:
        if not isinstance(self._service, ReferenceTorture):
            return []
        return [Reply(*row) for row in self._service.list_replies()]

    def _say(self, what: str) -> None:
        if what not in self.violations:
            self.violations.append(what)


def wait_for_hold() -> None:
    """Wait until the step of a rollout has been held for long enough."""
    time.sleep(HOLD_S + _CLOCK_S)
