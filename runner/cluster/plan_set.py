"""Plan sets: a plan as a folder, with a file of launches for each partition of each campaign.

`manifest.json` says what a saved plan says, and of every file how many launches it has and the digest of its
bytes: a set that was damaged, or of which a file is missing, is refused. The launches stand in Parquet: the
personal texts in the order of their slots, and what is the same for everybody once a file.

Nothing in the folder is believed: who can write there can make all of it fit. Before the first send the plan
is made anew from the campaign's own files, and what each file would send is compared with it, delivery by
delivery (`digest_part`). That plan's digest is the one that was reviewed.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runner.campaign.draft import Draft, digest_filled
from runner.campaign.payload import Payload
from runner.cluster.columns import LaunchFile, LaunchRow, LaunchSheet
from runner.cluster.folder import SharedFolder
from runner.errors import PlanChangedError, RunnerError
from runner.plan.digest import digest_json, plan_digest
from runner.plan.model import PlannedLaunch
from runner.plan.shard import DeliveryDigest, digest_terms, join_digests, partition_of
from runner.plan.texted import TextedPeople
from runner.source.schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign, Message
    from runner.plan.model import PlanOptions

MANIFEST = "manifest.json"
FORMAT_VERSION = "1.0"
_DIGEST_BYTES = 16
_CHECKSUM = "checksum"
_NEW_PLAN = "nothing was sent; make a new plan with `runner plan --cluster … --out DIR`, and review that"

Drafts = dict[tuple[str, str | None], Draft]
"""What the personal texts belong into, by message and arm."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """The file of one partition.

    Attributes:
        file: its name below the set's folder.
        rows: launches.
        recipients: of all of them.
        digest: of the file's bytes: BLAKE2b, 128 bits in hexadecimal.
    """

    file: str
    rows: int
    recipients: int
    digest: str


@dataclass(frozen=True, slots=True)
class PlanSet:
    """A plan set, as its manifest describes it. A value: it goes along with tasks.

    Attributes:
        url: its folder.
        campaigns: as a saved plan has them.
        only: the option `--only` that it was made with.
        limit: the option `--limit` that it was made with.
        now: the moment for which it was made.
        digest: of all that it says will be sent.
        parts: by the campaign's name, its files in the order of the partitions.
    """

    url: str
    campaigns: tuple[dict[str, Any], ...]
    only: str | None
    limit: int | None
    now: datetime
    digest: str
    parts: dict[str, tuple[PartFile, ...]] = field(repr=False)

    def partitions(self, campaign: str) -> int:
        """Return the number of partitions of a campaign.

        Args:
            campaign: its name.
        """
        return len(self.parts[campaign])


def write_partition(
    url: str, campaign: str, partition: int, launches: Iterable[PlannedLaunch], drafts: Drafts
) -> PartFile:
    """Write the launches of one partition; one that is there already is replaced.

    Args:
        url: the set's folder: a path, or the URL of an object store.
        campaign: the campaign's name.
        partition: its number, from 0.
        launches: what it sends.
        drafts: as `Planner.list_drafts` gives them.

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
    SharedFolder(url).write(name, content)
    return PartFile(name, rows, recipients, _digest(content))


def read_launches(plan_set: PlanSet, campaign: Campaign, partition: int) -> Iterator[PlannedLaunch]:
    """Yield the launches of one partition, as they were planned.

    Memory grows with the partition's file, not with what is in it.

    Args:
        plan_set: the set.
        campaign: the campaign: its messages are those that are sent.
        partition: its number, from 0.

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
        drafts: Drafts = {(message, arm): Draft.load(shape) for message, arm, shape in shapes}
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
    """Return whom a partition's launches text.

    Args:
        campaign: the campaign's name.
        url: the set's folder.
        part: the partition's file.

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
    """What the file of a partition sends, as a plan counts it. It can be pickled, and names nobody.

    Attributes:
        deliveries: digests of who gets what, by shard.
        terms: digests of who gets it in which arm and until when, by shard.
    """

    deliveries: dict[int, bytes]
    terms: dict[int, bytes]


def digest_part(plan_set: PlanSet, campaign: Campaign, partition: int, count: int) -> PartDigests:
    """Return what a partition's file would send, from what it would send: nothing that it says of itself.

    Args:
        plan_set: the set; of the campaign's files it needs this one alone.
        campaign: the campaign.
        partition: its number, from 0.
        count: how many partitions the campaign has.

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
    # A person in two files could hide in one of them behind what the other one says.
    if any(partition_of(int(phone), count) != partition for phone in launch.phones):
        raise ValueError(partition)


def require_planned(
    url: str, campaign: str, found: Sequence[PartDigests], deliveries: str, terms: str
) -> None:
    """Refuse the files of a campaign if they send anything else than its plan.

    Args:
        url: the set's folder.
        campaign: the campaign's name.
        found: of all of its files.
        deliveries: the plan's digest of who gets what.
        terms: its digest of who gets it in which arm and until when.

    Raises:
        PlanChangedError: they do.
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
    """Write what makes a folder of partitions a plan set; to be called last.

    Args:
        url: the set's folder.
        document: as `plan_json` gives it, without launches and differences.
        options: that the plan was made with.
        parts: by the campaign's name, its files in the order of the partitions.

    Raises:
        RunnerError: it cannot be written.
    """
    campaigns = [
        {**campaign, "partitions": [asdict(part) for part in parts[campaign["name"]]]}
        for campaign in document["campaigns"]
    ]
    body = {
        "format_version": FORMAT_VERSION,
        **document,
        "campaigns": campaigns,
        "options": {"only": options.only, "limit": options.limit},
    }
    text = json.dumps({**body, _CHECKSUM: digest_json(body)}, ensure_ascii=False, indent=2)
    SharedFolder(url).write(MANIFEST, f"{text}\n".encode())


def read_plan_set(url: str) -> PlanSet:
    """Read the manifest of a plan set.

    Args:
        url: its folder.

    Raises:
        RunnerError: there is none, or it is not whole, or of another version.
    """
    try:
        data = json.loads(SharedFolder(url).read(MANIFEST))
    except FileNotFoundError:
        raise _not_a_set(url) from None
    except (ValueError, RecursionError):
        raise RunnerError(f"the plan set {url} is damaged or cut off", hint=_NEW_PLAN) from None
    _require_whole(url, data)
    parts = {
        campaign["name"]: tuple(PartFile(**part) for part in campaign.pop("partitions"))
        for campaign in data["campaigns"]
    }
    try:
        now = datetime.fromisoformat(data["now"])
    except ValueError:
        raise _not_a_set(url) from None
    options = data["options"]
    campaigns = tuple(data["campaigns"])
    return PlanSet(url, campaigns, options["only"], options["limit"], now, data["plan_digest"], parts)


def _require_whole(url: str, data: Any) -> None:
    if not isinstance(data, dict) or "format_version" not in data:
        raise _not_a_set(url)
    if data["format_version"] != FORMAT_VERSION:
        raise RunnerError(
            f"the plan set {url} was written by another version of runner: its format is "
            f"{data['format_version']}, and this one reads {FORMAT_VERSION}",
            hint=_NEW_PLAN,
        )
    body = {name: value for name, value in data.items() if name != _CHECKSUM}
    if data.get(_CHECKSUM) != digest_json(body):
        raise RunnerError(f"the plan set {url} was edited: it doesn't fit its checksum", hint=_NEW_PLAN)
    if next(load_validator("plan-set").iter_errors(data), None) is not None:
        raise _not_a_set(url)
    if data["plan_digest"] != plan_digest(data["campaigns"]):
        raise RunnerError(f"the plan set {url} was edited: it doesn't fit its plan digest", hint=_NEW_PLAN)


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _changed(url: str, file: str, words: str) -> PlanChangedError:
    return PlanChangedError(f"the plan set {url} has changed: {file} {words}", hint=_NEW_PLAN)


def _not_a_set(url: str) -> RunnerError:
    return RunnerError(f"{url} is no plan set", hint="make one with `runner plan --cluster … --out DIR`")
