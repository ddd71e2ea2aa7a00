"""Campaigns that the cluster's processes work on."""

from __future__ import annotations

from tests.plan.conftest import campaign

__all__ = ["campaign"]
