"""A folder that every process of a cluster reaches: files are put there and read whole."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from runner.errors import RunnerError
from runner.source.storage import reach


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder at a path or at the URL of an object store. A value: it goes along with tasks.

    Attributes:
        url: where it is.
    """

    url: str

    def read(self, name: str) -> bytes:
        """Return what is in a file.

        Raises:
            FileNotFoundError: there is none.
            RunnerError: it cannot be read.
        """
        try:
            with reach(self.url) as (system, root):
                content: bytes = system.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RunnerError(f"{self.url}/{name} cannot be read: {error.strerror or error}") from None
        return content

    def open(self, name: str) -> BinaryIO:
        """Open a file, of which only a part will be read.

        Raises:
            RunnerError: it cannot be opened.
        """
        try:
            with reach(self.url) as (system, root):
                stream: BinaryIO = system.open(f"{root}/{name}", "rb")
        except OSError as error:
            raise RunnerError(f"{self.url}/{name} cannot be read: {error.strerror or error}") from None
        return stream

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Put a file there, whole or not at all, in the place of the one that has the name.

        Raises:
            RunnerError: it cannot be written.
        """
        try:
            with reach(self.url) as (system, root):
                if "file" in system.protocol:
                    _write_locally(root, name, content)
                else:
                    system.pipe_file(f"{root}/{name}", bytes(content))
        except OSError as error:
            raise RunnerError(f"{self.url}/{name} cannot be written: {error.strerror or error}") from None

    def remove(self) -> None:
        """Remove the folder with all that is in it; one that is not there is no error."""
        try:
            with reach(self.url) as (system, root):
                system.rm(root, recursive=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunnerError(f"{self.url} cannot be removed: {error.strerror or error}") from None


def _write_locally(root: str, name: str, content: bytes | memoryview) -> None:
    # For its owner alone: there are phones in it. A task that is run twice at once writes two files.
    file = Path(root, name)
    Path(root).parent.mkdir(parents=True, exist_ok=True)
    for folder in reversed(Path(name).parents):
        Path(root, folder).mkdir(mode=0o700, exist_ok=True)
    waiting = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(content)
        waiting.replace(file)
    except OSError:
        # A full disk leaves half a file, with phones in it, that nobody would look for.
        waiting.unlink(missing_ok=True)
        raise
