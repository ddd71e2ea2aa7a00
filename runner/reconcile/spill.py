"""Values kept by number, in memory while they are few and in a file beyond that."""

from __future__ import annotations

import pickle
import tempfile
from collections import defaultdict
from typing import IO, TYPE_CHECKING, Generic, TypeVar, cast

from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

_MOST = 20_000
"""Values kept in memory."""
_Value = TypeVar("_Value")


class Spill(Generic[_Value]):
    """Values by number, of which any number holds several; a context manager.

    The file has no name, so that the system removes it when the process ends, however that comes about.

    Args:
        find_folder: returns the folder for the file, once one is needed.
        most: values kept in memory.
    """

    def __init__(self, find_folder: Callable[[], Path], most: int = _MOST) -> None:
        self._find_folder = find_folder
        self._most = most
        self._file: IO[bytes] | None = None
        self._waiting: defaultdict[int, list[_Value]] = defaultdict(list)
        self._count = 0
        self._places: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, number: int, value: _Value) -> None:
        """Keep a value.

        Raises:
            RunnerError: the file cannot be written.
        """
        self._waiting[number].append(value)
        self._count += 1
        if self._count >= self._most:
            self._write()

    def read(self, number: int) -> Iterator[_Value]:
        """Yield the values of a number, in the order in which they came.

        Raises:
            RunnerError: the file cannot be read.
        """
        for place in self._places.get(number, ()):
            yield from self._read(place)
        yield from self._waiting.get(number, ())

    def _write(self) -> None:
        folder = self._find_folder()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed by `__exit__`
            self._file.seek(0, 2)
            for number, values in self._waiting.items():
                self._places[number].append(self._file.tell())
                pickle.dump(values, self._file, pickle.HIGHEST_PROTOCOL)
            self._file.flush()
        except OSError as error:
            raise _cannot_use(folder, error) from None
        self._waiting.clear()
        self._count = 0

    def _read(self, place: int) -> list[_Value]:
        if self._file is None:
            return []
        try:
            self._file.seek(place)
            # Only this process can have written it: the file has no name.
            return cast("list[_Value]", pickle.load(self._file))  # noqa: S301
        except OSError as error:
            raise _cannot_use(self._find_folder(), error) from None

    def __enter__(self) -> Spill[_Value]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                # A full disk takes no last bytes; nobody reads them.
                return


def _cannot_use(folder: Path, error: OSError) -> RunnerError:
    return RunnerError(
        f"the counts of launches cannot be kept in {folder} while they are compared: {error.strerror}",
        hint="make room on the disk, then run the same command again: results read so far are in the ledger",
    )
