"""Startup code of processes that wait for their last export for as long as a collector may take."""

from runner import telemetry

telemetry._PATIENCE_S = 100.0  # noqa: SLF001  of users, who need their commands to end sooner
