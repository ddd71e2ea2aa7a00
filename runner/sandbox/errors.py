"""What can go wrong in the sandbox, by who can mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SandboxError(Exception):
    """Something that the person who starts the sandbox caused and can mend; the message says what."""


class BusyError(SandboxError):
    """Another process holds the database, and has not let go of it in time."""


class RefusalError(Exception):
    """A request that the service answers with an error document (section 7 shows none: our own decision).

    Attributes:
        status: the HTTP status.
        code: a stable slug for programs.
        message: one sentence for people; it never repeats a phone number, a text or a credential.
        problems: every single problem, where there are several.
    """

    def __init__(self, status: int, code: str, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.problems = tuple(problems)
