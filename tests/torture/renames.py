"""A campaign and its file that get another name together, of which nobody says what it was before."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.torture.repository import Repository

_NAME = "beat"


@contextmanager
def renamed(repository: Repository) -> Iterator[None]:
    """Have the campaign look new, under the tag that it has, while the block lasts."""
    file = repository.folder / "campaigns/pulse.yaml"
    campaign = json.loads(file.read_text(encoding="utf-8"))
    campaign |= {"name": _NAME, "renamed_from": [], "tag": campaign.get("tag", campaign["name"])}
    file.unlink()
    other = file.with_name(f"{_NAME}.yaml")
    other.write_text(json.dumps(campaign), encoding="utf-8")
    try:
        yield
    finally:
        other.unlink()
        repository.write()
