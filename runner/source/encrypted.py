"""Files encrypted with age (https://age-encryption.org/v1), decrypted as they are read.

The plain text passes through a pipe, in the memory of this machine: it is never written to a disk. pyrage is
optional, and loaded only for such files.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from runner.errors import write_install_hint
from runner.source.storage import open_binary

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import WriteableBuffer

ENDING = ".age"
VARIABLE = "RUNNER_AGE_IDENTITY"
STARTS = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
"""First bytes of age files, binary and in armor."""


class EncryptedFileError(OSError):
    """A file that cannot be decrypted, or not to its end; `code` is a stable slug, `hint` what to do."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(0, message)
        self.code = code
        self.message = message
        self.hint = hint


def is_encrypted(location: str) -> bool:
    """Return whether a path or URL is of a file encrypted with age, by its name."""
    return location.lower().endswith(ENDING)


def quote_cell(file: Path, shown: str) -> str:
    """Return a file's cell as messages show it: of an encrypted file nothing, since logs are plain."""
    return "…" if is_encrypted(str(file)) else shown


def open_plain(location: str, identity: str) -> BinaryIO:
    """Open a file for reading, decrypted if it is encrypted: by a key in `identity`, the text of VARIABLE.

    What was read before an error must not be acted on: only its end proves that a file is whole.

    Raises:
        EncryptedFileError: it cannot be decrypted; also while it is read.
        OSError: it cannot be opened or read.
    """
    if not is_encrypted(location):
        return open_binary(location)
    check_start(location)
    # A buffer reads and seeks like a file.
    return cast("BinaryIO", io.BufferedReader(_DecryptedFile(location, _read_identities(identity))))


def check_start(location: str) -> None:
    """Refuse a file that does not begin as age does: raises EncryptedFileError, or OSError."""
    with open_binary(location) as source:
        if not source.read(len(STARTS[1])).startswith(STARTS):
            words = "this file is not encrypted with age, as its name says"
            hint = "encrypt it with `age -r RECIPIENT -o FILE.csv.age FILE.csv`; from Git LFS, fetch it first"
            raise EncryptedFileError("audience-not-age", words, hint)


def _read_identities(identity: str) -> list[Any]:
    """Return the keys in a text; lines with `#` are remarks, as age-keygen writes them."""
    if find_spec("pyrage") is None:
        words = "this file is encrypted, and pyrage, which decrypts it, is not installed"
        raise EncryptedFileError("audience-library", words, write_install_hint("age"))
    from pyrage import IdentityError, x25519  # noqa: PLC0415  an extra, and most audiences are plain

    hint = f"set {VARIABLE} to what `age-keygen` writes: a line AGE-SECRET-KEY-1…"
    found: list[Any] = []
    for number, line in enumerate(map(str.strip, identity.splitlines()), start=1):
        if line and not line.startswith("#"):
            try:
                found.append(x25519.Identity.from_str(line))
            except IdentityError:  # its text may quote the key
                words = f"this file is encrypted, and line {number} of {VARIABLE} is no key of age"
                raise EncryptedFileError("audience-identity", words, hint) from None
    if not found:
        words = f"this file is encrypted, and {VARIABLE} has no key of age in it"
        raise EncryptedFileError("audience-identity", words, hint)
    return found


class _DecryptedFile(io.RawIOBase):
    """The plain text of a file, which a thread decrypts into a pipe while it is read.

    It can be read again from its start, for which it is decrypted again.
    """

    def __init__(self, location: str, identities: list[Any]) -> None:
        self._location = location
        self._identities = identities
        self._begin()

    def _begin(self) -> None:
        source = open_binary(self._location)
        reader, writer = os.pipe()
        self._pipe = os.fdopen(reader, "rb", buffering=0)
        self._position = 0
        self._fault: EncryptedFileError | None = None
        self._thread = Thread(target=self._decrypt, args=(source, os.fdopen(writer, "wb")), daemon=True)
        self._thread.start()

    def _decrypt(self, source: BinaryIO, plain: BinaryIO) -> None:
        from pyrage import DecryptError, decrypt_io  # noqa: PLC0415  as above

        # A reader that has enough closes the pipe, which ends this thread.
        with suppress(BrokenPipeError), source, plain:
            try:
                decrypt_io(source, plain, self._identities)
            except DecryptError:
                words = (
                    f"this file cannot be decrypted: it is for another key than {VARIABLE} has, or damaged"
                )
                hint = (
                    "set the key that belongs to one of the file's recipients, or encrypt it again for yours"
                )
                self._fault = EncryptedFileError("audience-not-opened", words, hint)
            except BrokenPipeError:
                raise
            except OSError:
                words = "this file is damaged, cut, or was changed: it cannot be decrypted to its end"
                hint = "bring it back from where it was encrypted; none of its rows are used"
                self._fault = EncryptedFileError("audience-damaged", words, hint)

    def _end(self) -> None:
        self._pipe.close()
        self._thread.join()

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return true: to its start."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read some bytes; 0 at the end. Raises EncryptedFileError."""
        count = self._pipe.readinto(buffer) or 0
        self._position += count
        if not count:
            self._thread.join()
            if self._fault is not None:
                raise self._fault
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to the start (0), or stay (0 from here)."""
        if offset or whence == os.SEEK_END:
            raise io.UnsupportedOperation("seek")
        if whence == os.SEEK_SET and self._position:
            self._end()
            self._begin()
        return self._position

    def close(self) -> None:
        """End the reading, wherever it is."""
        if not self.closed:
            self._end()
        super().close()
