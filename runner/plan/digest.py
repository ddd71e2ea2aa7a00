"""Digests of plans, and of the files that people review.

Deliveries are digested by shard of the audience, whatever the number of partitions and processes. The digests
of reviewed files depend on file contents alone, exclusion lists included; not on line ends, the record, the
time, or opt-outs, which change by themselves.
"""

from __future__ import annotations

import hashlib
import json
from struct import Struct
from typing import TYPE_CHECKING, Any

from runner.campaign.model import FileRecipients
from runner.errors import CampaignError
from runner.plan.approval import write_canonical
from runner.source.diagnostic import Problems
from runner.source.storage import iterate_content
from runner.text.include import include_folder
from runner.text.payload import compile_messages
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import TargetKey


SHARDS = 1 << 9
"""The most partitions of a plan: each consists of equally many neighbouring shards."""
PRIME = 65_521
"""The largest prime below 2¹⁶: numbers at any constant step are spread over all shards."""
SHIFT = 16 - 9
_DIGEST_BYTES = 16
_ENTRY = Struct(">I16sQ")
"""A delivery: message, digest, phone."""
_pack = _ENTRY.pack


def shard_of(number: int) -> int:
    """Return the shard of a phone, E.164 as a number."""
    return number % PRIME >> SHIFT


def partition_of(number: int, count: int) -> int:
    """Return the partition of a phone, E.164 as a number; `count` is a power of two, at most `SHARDS`."""
    return shard_of(number) * count // SHARDS


class DeliveryDigest:
    """A digest of deliveries in any order: they are sorted in each shard.

    So a plan in partitions, a plan of one process, and the files of a plan have the same digest.
    """

    def __init__(self) -> None:
        entries = [bytearray() for _ in range(SHARDS)]
        self._entries = entries
        self._extend = [one.extend for one in entries]

    def add(self, phone: str, message: int, digest: str, occasion: str = "") -> None:
        """Add a delivery to a phone (E.164), of a message by its place, with the hexadecimal digest."""
        number, content = int(phone), bytes.fromhex(digest)
        if occasion:
            content = hashlib.blake2b(content + occasion.encode(), digest_size=_DIGEST_BYTES).digest()
        self._extend[number % PRIME >> SHIFT](_pack(message, content, number))

    def finish(self) -> dict[int, bytes]:
        """Return the digests of the shards that have deliveries."""
        return {shard: _digest_sorted(entries) for shard, entries in enumerate(self._entries) if entries}


def _digest_sorted(entries: bytearray) -> bytes:
    # Entries of one length cannot be confused with each other.
    whole = bytes(entries)
    ordered = sorted([whole[start : start + _ENTRY.size] for start in range(0, len(whole), _ENTRY.size)])
    return hashlib.blake2b(b"".join(ordered), digest_size=_DIGEST_BYTES).digest()


def join_digests(parts: Iterable[Mapping[int, bytes]]) -> str:
    """Return the digest of all shards, 128 bits in hexadecimal; no shard is in several parts."""
    found = {shard: digest for part in parts for shard, digest in part.items()}
    whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for shard in sorted(found):
        whole.update(shard.to_bytes(2) + found[shard])
    return whole.hexdigest()


def plan_digest(campaigns: Iterable[Mapping[str, Any]]) -> str:
    """Return the digest of a whole plan.

    Plans that send the same to the same place, from the same files and record, have the same digest. Order,
    creation time and remarks make no difference. Each campaign needs at least `name`, `target`,
    `destination`, `digests`, and of `messages` the `id` and `to_send`, as in a saved plan.
    """
    said = sorted(
        (
            [
                *(one[name] for name in ("name", "target", "destination", "digests")),
                [[message["id"], message["to_send"]] for message in one["messages"]],
            ]
            for one in campaigns
        ),
        key=lambda each: str(each[0]),
    )
    return digest_json(said)


def digest_json(value: Any) -> str:
    """Return a digest of a JSON value, however it is laid out: 128 bits."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def digest_reviewed(campaign: Campaign, key: TargetKey) -> dict[str, str]:
    """Return the digests of a campaign's reviewed files, by name (`ApprovalRequest`).

    They are made with the state key: digests are public, and phones can be guessed.
    """
    sources = [("recipients", one) for one in campaign.recipients]
    sources += [("exclude", one) for one in campaign.exclude]
    audience = [
        (role, _digest_file(campaign, source.location))
        for role, source in sources
        if isinstance(source, FileRecipients)
    ]
    said: dict[str, Any] = {
        "campaign": campaign.digest,
        "included": sorted(_read_included(campaign).items()),
        "audience": audience,
    }
    if campaign.rules.digest:
        said["rules"] = campaign.rules.digest
    return {
        name: key.seal("reviewed", write_canonical([name, value]).encode()) for name, value in said.items()
    }


def _read_included(campaign: Campaign) -> dict[str, str | None]:
    """Return the included texts of a campaign, by name; None for a missing one."""
    # Compiling texts takes longer than all the rest, and few include anything.
    if "include" not in repr((campaign.messages, campaign.variants)):
        return {}
    compiler = TextCompiler(include_folder(campaign))
    for _ in compile_messages(campaign, compiler, Problems()):
        pass  # compiled to see what they include
    return compiler.included


def _digest_file(campaign: Campaign, location: str) -> str:
    try:
        digest = hashlib.sha256()
        for block in iterate_content(location):
            digest.update(block)
        return digest.hexdigest()
    except OSError:
        raise CampaignError(
            f"the files of {campaign.name} have changed while it was planned",
            hint="run the same command again",
        ) from None
