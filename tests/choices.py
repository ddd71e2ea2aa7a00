"""How choices are shown: one table, to which the client's preview and the sandbox are held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHOWN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("choices.json").read_text("utf-8"))
"""Rows of `responses`, and how the question "Well?" is `shown` with them."""
