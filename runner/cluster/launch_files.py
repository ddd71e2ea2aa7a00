"""Files of planned launches, one for each partition of each campaign, in a run's scratch folder.

Workers write them, and the process that sends reads them one after the other. They hold phones and texts, and
go with the scratch folder.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from typing import TYPE_CHECKING

from runner.cluster.folder import SharedFolder
from runner.errors import StorageError
from runner.plan.model import PartFile, PlannedLaunch
from runner.plan.plan_context import TextedPeople
from runner.text.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign, Message
    from runner.plan.decisions import Assigned
    from runner.text.payload import CompiledMessage

    _StoredLaunch = tuple[str, str | None, datetime | None, dict[str, object], str, tuple[str, ...]]
    """Message, arm, end of the time to send, definition, its digest, phones (E.164)."""
    _Alike = tuple[int, str | None, datetime | None, str]

_LEVEL = 1


class LaunchGroups:
    """People grouped by their content, in one pass and in memory."""

    def __init__(self) -> None:
        self._groups: dict[_Alike, tuple[Payload, list[str]]] = {}

    def watch(self, assigned: Iterable[Assigned]) -> Iterator[Assigned]:
        """Yield what a pass yields, and keep what is to be sent now."""
        groups = self._groups
        for pair in assigned:
            recipient, assignments = pair
            for assignment in assignments:
                payload = assignment.payload
                if payload is not None:
                    alike = assignment.message, assignment.arm, assignment.until, payload.digest
                    groups.setdefault(alike, (payload, []))[1].append(recipient.phone)
            yield pair

    def list_launches(self, compiled: Sequence[CompiledMessage], per_send: int) -> list[_StoredLaunch]:
        """Return the launches, message by message, in the order of their first recipients."""
        return [
            (
                compiled[index].message.id,
                arm,
                until,
                payload.definition,
                digest,
                tuple(phones[start : start + per_send]),
            )
            for (index, arm, until, digest), (payload, phones) in sorted(
                self._groups.items(), key=lambda group: group[0][0]
            )
            for start in range(0, len(phones), per_send)
        ]


def write_partition(
    folder: SharedFolder, campaign: str, partition: int, launches: Sequence[_StoredLaunch]
) -> PartFile:
    """Write or replace the file of one partition's launches.

    Raises:
        RunnerError: the file cannot be written.
    """
    name = f"{campaign}/part-{partition:05}.launches"
    folder.write(name, zlib.compress(pickle.dumps(launches, pickle.HIGHEST_PROTOCOL), _LEVEL))
    return PartFile(folder.url, name)


def read_launches(campaign: Campaign, parts: Iterable[PartFile]) -> Iterator[PlannedLaunch]:
    """Yield the planned launches of a campaign's partitions; memory grows with the largest file only.

    Raises:
        RunnerError: a file is missing, or cannot be read.
    """
    messages = _list_messages(campaign)
    for part in parts:
        for message, arm, until, definition, digest, phones in _read_part(part):
            payload = Payload(definition, digest, 0, None)
            yield PlannedLaunch(messages[message, arm], payload, phones, arm, until)


def read_texted(campaign: str, part: PartFile) -> TextedPeople:
    """Return the people texted by a partition's launches.

    Raises:
        RunnerError: the file is missing, or cannot be read.
    """
    texted, asked = array("Q"), array("Q")
    for _, _, _, definition, _, phones in _read_part(part):
        numbers = [int(phone[1:]) for phone in phones]
        texted.extend(numbers)
        if "questions" in definition:
            asked.extend(numbers)
    return TextedPeople(campaign, texted, asked)


def _read_part(part: PartFile) -> list[_StoredLaunch]:
    try:
        content = SharedFolder(part.folder).read(part.file)
    except FileNotFoundError:
        raise StorageError(
            f"{part.folder}/{part.file} is missing: it was removed while the plan was in use",
            hint="everything that was sent is recorded; run the same command again",
        ) from None
    # Write access to the folder equals access to the scheduler, which can call any function.
    launches: list[_StoredLaunch] = pickle.loads(zlib.decompress(content))  # noqa: S301
    return launches


def _list_messages(campaign: Campaign) -> dict[tuple[str, str | None], Message]:
    """Return the messages as they are sent, by id and arm."""
    found: dict[tuple[str, str | None], Message] = {}
    for message in campaign.messages:
        found[message.id, None] = message
        found |= {(message.id, arm): own for arm, own in campaign.list_arms(message.id).items()}
    return found
