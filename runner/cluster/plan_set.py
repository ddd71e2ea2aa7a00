"""Plan sets: folders with a manifest, and a file of launches for each partition of each campaign.

`manifest.json` is the saved plan, with the number of launches and the digest of each file: damaged or
incomplete sets are refused. The launches are Parquet, with personal texts by slot and shared parts once a
file.

The folder is not trusted, since a writer could make all of it fit. Before the first send the plan is made
anew from the campaign's files, and each delivery in the files is compared with it (`digest_part`). That
plan's digest is the reviewed one.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.cluster.columns import LaunchFile, LaunchRow, LaunchSheet
from runner.cluster.folder import SharedFolder
from runner.errors import PlanChangedError, RunnerError
from runner.plan.digest import DeliveryDigest, digest_terms, join_digests, partition_of
from runner.plan.manifest import PlanSet, describe_renewal, dump_manifest, parse_manifest
from runner.plan.model import PartFile, PlannedLaunch
from runner.plan.plan_context import TextedPeople
from runner.text.outgoing import PayloadTemplate, digest_filled
from runner.text.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign, Message
    from runner.plan.model import PlanOptions

MANIFEST = "manifest.json"
_INCOMPLETE = b"null"
"""The manifest of a plan set while its files are written."""
_DIGEST_BYTES = 16

Drafts = dict[tuple[str, str | None], PayloadTemplate]
"""The definitions that personal texts belong into, by message and arm."""


def write_partition(
    folder: SharedFolder,
    campaign: str,
    partition: int,
    launches: Iterable[PlannedLaunch],
    drafts: Drafts,
) -> PartFile:
    """Write or replace the file of one partition's launches, from 0; `drafts` are from `Planner.list_drafts`.

    Raises:
        RunnerError: the file cannot be written.
    """
    shapes = [[message, arm, draft.dump()] for (message, arm), draft in drafts.items()]
    sheet = LaunchSheet(json.dumps(shapes, ensure_ascii=False))
    rows = recipients = 0
    for launch in launches:
        phones = [int(phone[1:]) for phone in launch.phones]
        texts = drafts[launch.message.id, launch.arm].read_texts(launch.payload.definition)
        digest = bytes.fromhex(launch.payload.digest)
        sheet.add(LaunchRow(launch.message.id, launch.arm, launch.until, texts, digest, phones))
        rows += 1
        recipients += len(phones)
    content = sheet.finish()
    name = f"{campaign}/part-{partition:05}.parquet"
    folder.write(name, content)
    return PartFile(name, rows, recipients, _digest(content))


def read_launches(plan_set: PlanSet, campaign: Campaign, partition: int) -> Iterator[PlannedLaunch]:
    """Yield the planned launches of one partition, from 0; memory grows with the file's size only.

    Raises:
        PlanChangedError: the file is missing, or is not the one that was planned.
        RunnerError: it cannot be read.
    """
    part = plan_set.parts[campaign.name][partition]
    content = _read_part(plan_set.url, part)
    messages = _list_messages(campaign)
    try:
        file = LaunchFile(content)
        shapes = json.loads(file.shapes)
        drafts: Drafts = {(message, arm): PayloadTemplate.load(shape) for message, arm, shape in shapes}
    except (ValueError, TypeError, AttributeError):
        raise _changed(plan_set.url, part.file, "is no file of launches") from None
    for row in file:
        known = row.message, row.arm
        if known not in messages or known not in drafts:
            raise _changed(plan_set.url, part.file, f"sends {row.message!r}, which the campaign has not")
        payload = Payload(drafts[known].fill(row.texts), row.payload_digest.hex(), 0, None)
        phones = tuple([f"+{number}" for number in row.phones])
        yield PlannedLaunch(messages[known], payload, phones, row.arm, row.until)


def read_texted(campaign: str, url: str, part: PartFile) -> TextedPeople:
    """Return the people texted by a partition's launches.

    Raises:
        PlanChangedError: the file is missing, or is not the one that was planned.
    """
    file = LaunchFile(_read_part(url, part))
    asking = {(message, arm) for message, arm, shape in json.loads(file.shapes) if "questions" in shape}
    texted, asked = array("Q"), array("Q")
    for row in file:
        texted.extend(row.phones)
        if (row.message, row.arm) in asking:
            asked.extend(row.phones)
    return TextedPeople(campaign, texted, asked)


@dataclass(frozen=True, slots=True)
class PartDigests:
    """The digests of a partition's file, as a plan counts them. They can be pickled, and name nobody.

    Attributes:
        deliveries: digests of contents, by shard.
        terms: digests of arms and end times, by shard.
    """

    deliveries: dict[int, bytes]
    terms: dict[int, bytes]


def digest_part(plan_set: PlanSet, campaign: Campaign, partition: int, count: int) -> PartDigests:
    """Return the digests of a partition's file, from 0, by its deliveries alone.

    `plan_set` may have this file of the campaign alone; `count` is the number of all partitions.

    Raises:
        PlanChangedError: the file is missing, or is not one that a plan can have.
        RunnerError: it cannot be read.
    """
    part = plan_set.parts[campaign.name][0]
    only = plan_set.only
    places = {one.id: i for i, one in enumerate(m for m in campaign.messages if only in (None, m.id))}
    deliveries, terms = DeliveryDigest(), DeliveryDigest()
    try:
        for launch in read_launches(plan_set, campaign, 0):
            _require_possible(launch, partition, count)
            place, how = places[launch.message.id], digest_terms(launch.arm, launch.until)
            for phone in launch.phones:
                deliveries.add(phone, place, launch.payload.digest)
                terms.add(phone, place, how)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        raise _changed(plan_set.url, part.file, "sends what no plan has in it") from None
    return PartDigests(deliveries.finish(), terms.finish())


def _require_possible(launch: PlannedLaunch, partition: int, count: int) -> None:
    """Raise ValueError if a plan's file cannot have a launch."""
    if digest_filled(launch.payload.definition) != launch.payload.digest or not launch.phones:
        raise ValueError(partition)
    # Otherwise one file could hide deliveries of another from the joined digest.
    if any(partition_of(int(phone), count) != partition for phone in launch.phones):
        raise ValueError(partition)


def require_planned(
    url: str, campaign: str, found: Sequence[PartDigests], deliveries: str, terms: str
) -> None:
    """Refuse the files of a campaign if their digests (`found`) differ from its plan's.

    Raises:
        PlanChangedError: they differ.
    """
    if join_digests([one.deliveries for one in found]) != deliveries:
        raise _changed(url, f"what the files of {campaign} send", "is not what was planned")
    if join_digests([one.terms for one in found]) != terms:
        raise _changed(url, f"when, or in which arm, the files of {campaign} send", "is not what was planned")


def _read_part(url: str, part: PartFile) -> bytes:
    try:
        content = SharedFolder(url).read(part.file)
    except FileNotFoundError:
        raise _changed(url, part.file, "is missing") from None
    if _digest(content) != part.digest:
        raise _changed(url, part.file, "was edited: it doesn't fit its digest")
    return content


def _list_messages(campaign: Campaign) -> dict[tuple[str, str | None], Message]:
    """Return the messages as they are sent, by id and arm."""
    found: dict[tuple[str, str | None], Message] = {}
    for message in campaign.messages:
        arms = campaign.list_arms(message.id)
        found.update({(message.id, arm): varied for arm, varied in arms.items()})
        if not arms:
            found[message.id, None] = message
    return found


def write_manifest(
    url: str,
    document: Mapping[str, Any],
    options: PlanOptions,
    parts: Mapping[str, Sequence[PartFile]],
) -> None:
    """Write the manifest, which completes a plan set; to be called last.

    The arguments are those of `dump_manifest`.

    Raises:
        RunnerError: it cannot be written.
    """
    SharedFolder(url).write(MANIFEST, dump_manifest(document, options, parts).encode())


def locate_plan_set(url: str) -> SharedFolder:
    """Return the folder of a plan set that `completing` makes: its manifest is its marker."""
    return SharedFolder(url, f"{url.rstrip('/')}/{MANIFEST}")


@contextmanager
def completing(url: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Remove a plan set that the block leaves incomplete: its files have phones, and nobody can send it.

    A folder that was there before may hold something else: then `warn` gets a sentence with its place.

    Raises:
        RunnerError: the folder has an incomplete plan already, or cannot be written.
    """
    folder = locate_plan_set(url)
    is_new = not _is_there(url)
    before = None if is_new else _find_manifest(folder)
    if before is None:
        SharedFolder(url).write(MANIFEST, _INCOMPLETE)
    elif before == _INCOMPLETE:
        raise RunnerError(
            f"{url} has an incomplete plan, of a run that was killed or still goes on",
            hint="if none does, remove it: it has phones in it; or name another folder",
        )
    try:
        yield
    finally:
        if _find_manifest(folder) in (None, _INCOMPLETE):
            with suppress(RunnerError):
                if is_new:
                    folder.remove()
                else:
                    folder.give_up()
            if _is_there(url):
                warn(f"{url} may have files of an incomplete plan, with phones in them: remove them")


def _find_manifest(folder: SharedFolder) -> bytes | None:
    """Return the manifest of a folder; None if there is none, or it cannot be read."""
    try:
        return folder.read(MANIFEST)
    except (FileNotFoundError, RunnerError):
        return None


def _is_there(url: str) -> bool:
    """Return whether a file or folder is there; True if that cannot be known."""
    try:
        return SharedFolder(url).exists()
    except RunnerError:
        return True


def read_plan_set(url: str) -> PlanSet:
    """Return the plan set in a folder.

    Raises:
        RunnerError: there is none, or it is incomplete, or has another version.
    """
    try:
        text = SharedFolder(url).read(MANIFEST)
    except FileNotFoundError:
        text = _INCOMPLETE
    return parse_manifest(text, url, has_parts=True)


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _changed(url: str, file: str, words: str) -> PlanChangedError:
    return PlanChangedError(
        f"the plan set {url} has changed: {file} {words}", hint=describe_renewal(has_parts=True)
    )
