"""A table of shown choices, for the client's preview and the sandbox alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHOWN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("choices.json").read_text("utf-8"))
"""Rows of `responses`, and the question "Well?" as it is `shown` with them."""
