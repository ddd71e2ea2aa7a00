"""What plans are known by: one digest over all that a plan says, whoever made it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SIZE = 16


def plan_digest(campaigns: Iterable[Mapping[str, Any]]) -> str:
    """Return the digest of a whole plan.

    Plans that send the same to the same place, of the same files and record, share it. When it was made is
    not in it, nor in which order, nor what is only said of it.

    Args:
        campaigns: as a saved plan has them: at least `name`, `target`, `destination`, `digests`, and of
            `messages` the `id` and `to_send`.
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
    return hashlib.blake2b(text.encode(), digest_size=_SIZE).hexdigest()
