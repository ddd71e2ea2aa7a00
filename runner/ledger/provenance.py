"""Runs: which commit, which plan and which job sent a launch (design: contract, "The lockfile")."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from runner.ledger.model import Run

_BITS = 64
_OPTIONAL = ("commit", "dirty", "run_url", "triggered_by")


def make_run(
    started_at: str,
    plan_digest: str,
    commit: str | None = None,
    *,
    dirty: bool = False,
    run_url: str | None = None,
    triggered_by: str | None = None,
) -> Run:
    """Return a run with the id of its own fields, which are those of `Run`."""
    run = Run("", started_at, plan_digest, commit, dirty, run_url, triggered_by)
    return Run(_compute_id(run), started_at, plan_digest, commit, dirty, run_url, triggered_by)


def store_run(run: Run) -> dict[str, Any]:
    """Return a run as a lockfile holds it: without what is not known of it."""
    return {name: value for name, value in asdict(run).items() if value or name not in _OPTIONAL}


def is_unedited(run: Run) -> bool:
    """Return whether a run's id is that of its fields."""
    return run.id == _compute_id(run)


def _compute_id(run: Run) -> str:
    said = {name: value for name, value in store_run(run).items() if name != "id"}
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=_BITS // 8).hexdigest()
