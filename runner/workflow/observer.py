"""The observer of a use case, which receives notes, warnings, problems and progress.

The command line prints them to standard error; programs that use the Python API choose for themselves. Each
context has one observer, so that functions need not pass it on.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from runner.errors import RunnerError
    from runner.source.diagnostic import Problems


class Progress(Protocol):
    """The progress of long work."""

    def advance(self, steps: int) -> None:
        """Add finished steps."""


class _Silence:
    """Progress that is not shown."""

    def advance(self, steps: int) -> None:
        """Show nothing."""


class Observer:
    """A receiver of a use case's messages. This one does nothing: override the methods you need.

    One that `is_quiet` gets no notes, no progress, and no problems that are warnings alone.
    """

    is_quiet = False

    def note(self, text: str) -> None:
        """Receive a remark of one or more sentences."""

    def warn(self, text: str) -> None:
        """Receive a warning that a person should look at."""

    def hand_over(self, text: str) -> None:
        """Receive Markdown that could not be written to its destination."""

    def show_problems(self, problems: Problems) -> None:
        """Receive problems of campaign files."""

    def leave_out(self, words: str, error: RunnerError) -> None:
        """Receive the error of a campaign that is left out; `words` have the reason and its name."""

    def show_progress(self, title: str, total: int | None) -> AbstractContextManager[Progress]:
        """Return a context that shows the progress of work, with `total` steps (None if unknown)."""
        del title, total
        return nullcontext(_Silence())

    def watch_for_stop(self, stop: threading.Event) -> AbstractContextManager[None]:
        """Return a context in which an interrupt sets `stop`."""
        del stop
        return nullcontext()


_hearing: ContextVar[Observer] = ContextVar("hearing")
_everywhere = [Observer()]
"""The observer of threads without their own."""
_is_hushed: ContextVar[bool] = ContextVar("is_hushed", default=False)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Use an observer within this context."""
    token = _hearing.set(observer)
    try:
        yield
    finally:
        _hearing.reset(token)


def observe_everywhere(observer: Observer) -> None:
    """Use an observer in all threads of this process that have no other."""
    _everywhere[0] = observer


@contextmanager
def hushing() -> Iterator[None]:
    """Have the observer be quiet within this context."""
    token = _is_hushed.set(True)
    try:
        yield
    finally:
        _is_hushed.reset(token)


def _find_observer() -> Observer:
    return _hearing.get(_everywhere[0])


def is_quiet() -> bool:
    """Return whether the observer gets only warnings and errors."""
    return _is_hushed.get() or _find_observer().is_quiet


def note(text: str) -> None:
    """Pass a remark to the observer, unless it is quiet."""
    if not is_quiet():
        _find_observer().note(text)


def warn(text: str, remedy: str | None = None) -> None:
    """Pass a warning to the observer, and the remedy, if there is one, as a remark on it."""
    _find_observer().warn(text)
    if remedy:
        _find_observer().note(f"  {remedy}")


def hand_over(text: str) -> None:
    """Pass Markdown that could not be written to its destination to the observer."""
    _find_observer().hand_over(text)


def show_problems(problems: Problems) -> None:
    """Pass problems of campaign files to the observer; to a quiet one if there are errors."""
    if problems.error_count or not is_quiet():
        _find_observer().show_problems(problems)


def tell_left_out(words: str, error: RunnerError) -> None:
    """Pass the error of a left-out campaign to the observer."""
    _find_observer().leave_out(words, error)


def show_progress(title: str, total: int | None) -> AbstractContextManager[Progress]:
    """Return a context that passes progress to the observer, unless it is quiet."""
    return nullcontext(_Silence()) if is_quiet() else _find_observer().show_progress(title, total)


def stop_on_interrupt(stop: threading.Event) -> AbstractContextManager[None]:
    """Return a context in which an interrupt sets `stop`, if the observer supports it."""
    return _find_observer().watch_for_stop(stop)
