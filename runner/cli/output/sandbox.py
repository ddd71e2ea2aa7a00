"""Documents of the sandbox, which itself shares no types with the rest."""

from __future__ import annotations

from runner.document import Count, Document, Moment, Part


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


class ListedNumber(Part, frozen=True):
    """A phone that does the same on every sandbox.

    Attributes:
        phone: E.164; nobody has it.
        name: what it is called.
        does: what it does.
    """

    phone: str
    name: str
    does: str


class ListedNumbers(SandboxDocument, frozen=True):
    """The document that `runner sandbox numbers` writes.

    Attributes:
        numbers: phones that do the same on every sandbox.
    """

    numbers: tuple[ListedNumber, ...]


class SavedSnapshot(SandboxDocument, frozen=True):
    """The document that `runner sandbox snapshot` writes.

    Attributes:
        name: what it goes by.
        bytes: its size.
    """

    name: str
    bytes: Count


class Reset(SandboxDocument, frozen=True):
    """The document that `runner sandbox reset` writes.

    Attributes:
        reset_to: the snapshot that it went back to; None for an empty sandbox.
    """

    reset_to: str | None


class ShownClock(SandboxDocument, frozen=True):
    """The document that `runner sandbox clock` writes.

    Attributes:
        time: the service's time.
        clock_offset_s: seconds that it is ahead of this machine.
    """

    time: Moment
    clock_offset_s: float
