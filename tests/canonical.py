"""An independent digest of a definition, to be compared with the program's."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest_definition(definition: dict[str, Any]) -> str:
    """Return 128 bits of BLAKE2b of a definition's canonical JSON, in hexadecimal."""
    written = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()
