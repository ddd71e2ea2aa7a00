"""Documents of the sandbox, which itself shares no types with the rest."""

from __future__ import annotations

from runner.document import Count, Document, Moment


class SandboxDocument(Document, frozen=True):
    """The document that the commands of `runner sandbox` write with `--format json`."""


class Simulation(SandboxDocument, frozen=True):
    """The document that `runner sandbox simulate` writes.

    Attributes:
        participants: those who were being asked something at its start.
        answered: of them, those who gave at least one valid answer now.
        silent: of them, those who wrote nothing now.
        invalid_answers: texts that were no valid answer.
        results: answers that were recorded.
        sessions_completed: sessions that came to their end.
        opted_out: participants who wrote STOP or its kin.
        started: the service's time at the start.
        ended: virtual time of the last text, or the start where nobody wrote.
    """

    participants: Count
    answered: Count
    silent: Count
    invalid_answers: Count
    results: Count
    sessions_completed: Count
    opted_out: Count
    started: Moment
    ended: Moment


class ShownClock(SandboxDocument, frozen=True):
    """The document that `runner sandbox clock` writes.

    Attributes:
        time: the service's time.
        clock_offset_s: seconds that it is ahead of this machine.
    """

    time: Moment
    clock_offset_s: float
