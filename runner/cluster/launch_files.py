"""Files of planned launches, one for each partition of each campaign, in a run's scratch folder.

Workers write them, and the process that sends reads them one after the other. They are Parquet, with personal
texts by slot and shared parts once a file. They hold phones and texts, and go with the scratch folder.
"""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING

from runner.cluster.columns import LaunchFile, LaunchRow, LaunchSheet
from runner.cluster.folder import SharedFolder
from runner.errors import StorageError
from runner.plan.model import PartFile, PlannedLaunch
from runner.plan.plan_context import TextedPeople
from runner.text.outgoing import PayloadTemplate
from runner.text.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.campaign.model import Campaign, Message

Drafts = dict[tuple[str, str | None], PayloadTemplate]
"""The definitions that personal texts belong into, by message and arm."""


def write_partition(
    folder: SharedFolder,
    campaign: str,
    partition: int,
    launches: Iterable[PlannedLaunch],
    drafts: Drafts,
) -> PartFile:
    """Write or replace the file of one partition's launches, from 0; `drafts` are from `list_drafts`.

    Raises:
        RunnerError: the file cannot be written.
    """
    shapes = [[message, arm, draft.dump()] for (message, arm), draft in drafts.items()]
    sheet = LaunchSheet(json.dumps(shapes, ensure_ascii=False))
    for launch in launches:
        phones = [int(phone[1:]) for phone in launch.phones]
        texts = drafts[launch.message.id, launch.arm].read_texts(launch.payload.definition)
        digest = bytes.fromhex(launch.payload.digest)
        sheet.add(LaunchRow(launch.message.id, launch.arm, launch.until, texts, digest, phones))
    name = f"{campaign}/part-{partition:05}.parquet"
    folder.write(name, sheet.finish())
    return PartFile(folder.url, name)


def read_launches(campaign: Campaign, parts: Iterable[PartFile]) -> Iterator[PlannedLaunch]:
    """Yield the planned launches of a campaign's partitions; memory grows with the largest file only.

    Raises:
        RunnerError: a file is missing, or cannot be read.
    """
    messages = _list_messages(campaign)
    for part in parts:
        file = _open_part(part)
        drafts = {
            (message, arm): PayloadTemplate.load(shape) for message, arm, shape in json.loads(file.shapes)
        }
        for row in file:
            known = row.message, row.arm
            payload = Payload(drafts[known].fill(row.texts), row.payload_digest.hex(), 0, None)
            phones = tuple([f"+{number}" for number in row.phones])
            yield PlannedLaunch(messages[known], payload, phones, row.arm, row.until)


def read_texted(campaign: str, part: PartFile) -> TextedPeople:
    """Return the people texted by a partition's launches.

    Raises:
        RunnerError: the file is missing, or cannot be read.
    """
    file = _open_part(part)
    asking = {(message, arm) for message, arm, shape in json.loads(file.shapes) if "questions" in shape}
    texted, asked = array("Q"), array("Q")
    for row in file:
        texted.extend(row.phones)
        if (row.message, row.arm) in asking:
            asked.extend(row.phones)
    return TextedPeople(campaign, texted, asked)


def _open_part(part: PartFile) -> LaunchFile:
    try:
        return LaunchFile(SharedFolder(part.folder).read(part.file))
    except FileNotFoundError:
        raise StorageError(
            f"{part.folder}/{part.file} is missing: it was removed while the plan was in use",
            hint="everything that was sent is recorded; run the same command again",
        ) from None


def _list_messages(campaign: Campaign) -> dict[tuple[str, str | None], Message]:
    """Return the messages as they are sent, by id and arm."""
    found: dict[tuple[str, str | None], Message] = {}
    for message in campaign.messages:
        arms = campaign.list_arms(message.id)
        found.update({(message.id, arm): varied for arm, varied in arms.items()})
        if not arms:
            found[message.id, None] = message
    return found
