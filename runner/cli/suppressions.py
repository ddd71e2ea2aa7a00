"""The files of suppressions of a command's target: where they stand, and when they are read and written."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.campaigns import DEFAULT_FOLDER, show_path
from runner.errors import SuppressionsError
from runner.ledger.suppression_file import SUFFIX, BookText
from runner.ledger.suppressions import Told, absorb_book, is_absorbed, read_told, write_suppressions
from runner.ledger.target_key import KeySource
from runner.repository.placing import list_folders
from runner.source.confine import repository_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from runner.ledger.database import Ledger

_RESTORE = "restore it with git"


@dataclass(frozen=True, slots=True)
class SuppressionFiles:
    """What a target's opt-outs, and its paused campaigns, are kept in beside the ledger.

    Attributes:
        target: the target's name.
        state_key: the user's secret; None if there is none.
        places: where files may stand, the one that is written to first.
    """

    target: str
    state_key: str | None = field(repr=False)
    places: tuple[Path, ...]

    @classmethod
    def find(cls, paths: Iterable[Path], target: str, state_key: str | None) -> SuppressionFiles:
        """Return the files of a target for the campaigns of a command.

        Args:
            paths: files and folders; empty for the default folder.
            target: the target's name.
            state_key: the user's secret; None if there is none.
        """
        folders = list_homes(paths)
        places = [Path(show_path(folder / f"{target}{SUFFIX}")) for folder in folders]
        # One that is there already is gone on with.
        return cls(target, state_key, tuple(sorted(places, key=lambda place: not place.exists())))

    def read(self, ledger: Ledger | None, waiting: Mapping[Path, str] | None = None) -> Told:
        """Return who is not to be texted, and what is paused, as ledger and files say together.

        Args:
            ledger: None if there is none yet.
            waiting: texts of files of the record that are not merged yet, by where they would stand; those of
                other kinds and targets are passed over.

        Raises:
            LedgerError: the ledger cannot be read, or its key is not at hand.
            SuppressionsError: a file cannot be read, or proves nothing.
        """
        name = f"{self.target}{SUFFIX}"
        texts = list(self._read_texts())
        texts += [BookText(file, text) for file, text in (waiting or {}).items() if file.name == name]
        if ledger is None:
            return read_told(None, texts, self.target, self.state_key)
        with ledger.reading() as connection:
            return read_told(connection, texts, self.target, self.state_key)

    def are_absorbed(self, ledger: Ledger | None) -> bool:
        """Return whether the ledger has all that the files say."""
        texts = list(self._read_texts())
        if ledger is None or not texts:
            return not texts
        return all(self._is_absorbed(ledger, text) for text in texts)

    def _is_absorbed(self, ledger: Ledger, text: BookText) -> bool:
        with ledger.reading() as connection:
            return is_absorbed(connection, self.target, text)

    def absorb(self, ledger: Ledger) -> None:
        """Enter what the files say and the ledger doesn't.

        Raises:
            LedgerError: the ledger cannot be written, or its key is not at hand.
            SuppressionsError: a file cannot be read, or proves nothing.
        """
        for text in self._read_texts():
            with ledger.writing() as connection:
                absorb_book(connection, text, self.target, self.state_key)

    def write(self, ledger: Ledger) -> None:
        """Write what the ledger knows, if that is anything.

        Raises:
            LedgerError: as for `absorb`.
            SuppressionsError: the file has become one that cannot be read, or cannot be written.
        """
        home = self.places[0]
        with ledger.writing() as connection:
            # In the transaction: of two processes that write it, the second one has what the first one wrote.
            people = KeySource(self.target, self.state_key, secrets.token_hex(16))
            write_suppressions(connection, home, people, _read_text(home))

    def absorb_old(self, ledger: Ledger, old_key: str | None, ask: Callable[[Path], object]) -> None:
        """Enter what files under an older key say, or under none, before the ledger is moved to this one.

        Args:
            ledger: open for writing.
            old_key: the secret before this one; None if there was none.
            ask: is told of a file that nobody has signed; may raise to give up.

        Raises:
            RunnerError: as for `absorb`.
        """
        for text in self._read_texts():
            book = text.parse()
            if book.is_written_with(self.target, self.state_key) or self._is_absorbed(ledger, text):
                continue
            secret = old_key
            if book.salt is not None and book.seal is None:
                ask(text.file)
                secret = None
            with ledger.writing() as connection:
                absorb_book(connection, text, self.target, secret)

    def replace(self, ledger: Ledger) -> list[Path]:
        """Write all files under the target's key, as the ledger is by now; return those that have changed.

        Raises:
            RunnerError: as for `write`.
        """
        for text in self._read_texts():
            if text.parse().is_written_with(self.target, self.state_key):
                with ledger.writing() as connection:
                    absorb_book(connection, text, self.target, self.state_key)
        changed = []
        for file in [place for place in self.places if place.exists()] or self.places[:1]:
            with ledger.writing() as connection:
                people = KeySource(self.target, self.state_key, secrets.token_hex(16))
                if write_suppressions(connection, file, people, None):
                    changed.append(file)
        return changed

    def _read_texts(self) -> Iterator[BookText]:
        yield from filter(None, map(_read_text, self.places))


def list_homes(paths: Iterable[Path]) -> list[Path]:
    """Return the folders that files of suppressions may stand in: `campaigns` above paths, else their own.

    Args:
        paths: files and folders of campaigns; empty for the default folder.
    """
    root = repository_root(Path.cwd())
    folders = [path if path.is_dir() else path.parent for path in paths]
    homes = [_find_home(folder.absolute(), root) for folder in folders]
    # Who opts out of texts of one folder's campaigns wants none of another's, either.
    others = [folder / DEFAULT_FOLDER for folder in list_folders(root)]
    return list(dict.fromkeys([*homes, DEFAULT_FOLDER.absolute(), *others]))


def _find_home(folder: Path, root: Path) -> Path:
    for above in (folder, *folder.parents):
        if above.name == DEFAULT_FOLDER.name and above.is_relative_to(root):
            return above
    return folder


def _read_text(file: Path) -> BookText | None:
    try:
        return BookText(file, file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SuppressionsError(f"{file} cannot be read: {error.strerror}", hint=_RESTORE) from None
    except UnicodeDecodeError:
        raise SuppressionsError(f"{file} is not UTF-8", hint=_RESTORE) from None
