"""State keys for tests: good enough to be accepted, and obviously not real."""

from __future__ import annotations

STATE_KEY = "a-state-key-for-tests-Xq3v9LrT0bWc"
OTHER_STATE_KEY = "another-key-for-tests-Zp7k2MsY5dUe"
