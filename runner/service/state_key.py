"""State keys: the secrets that fingerprints are made and records are signed with.

A record is public as often as not, and phone numbers are few: who guesses the key can name everybody in it.
So a key has to have at least 16 random bytes. Randomness cannot be seen in a text; what can be seen is how
many texts of its length and its kind of characters there are:

- digits alone: at least 39 of them;
- hexadecimal digits alone: at least 32, which are 16 bytes;
- small letters and digits, or capital ones and digits: at least 25;
- any other text: at least 22 characters, which are 16 bytes in base64;

and at least 8 different characters, so that nobody passes by repeating one. `runner key new` prints a key of
32 random bytes.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from runner.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_KEY = "RUNNER_STATE_KEY"
"""The environment variable with the key of targets that name none of their own."""
OLD_STATE_KEY = "RUNNER_OLD_STATE_KEY"
"""The environment variable with the key from which records are moved: it may be a weak one."""

_BYTES = 32
_LENGTHS = (
    (re.compile(r"[0-9]*"), 39),
    (re.compile(r"[0-9a-fA-F]*"), 32),
    (re.compile(r"[0-9a-z]*|[0-9A-Z]*"), 25),
    (re.compile(r".*", re.DOTALL), 22),
)
"""Characters, and how many of them are as hard to guess as 128 random bits."""
_DIFFERENT = 8


def make_state_key() -> str:
    """Return a new key: 32 random bytes in base64, for URLs and files."""
    return secrets.token_urlsafe(_BYTES)


def read_state_key(environment: Mapping[str, str], variable: str) -> str | None:
    """Return the key that an environment variable has; None if it has none.

    Args:
        environment: the process's environment variables.
        variable: which of them.

    Raises:
        ConfigurationError: the key could be guessed.
    """
    value = environment.get(variable)
    if not value:
        return None
    needed = next(length for allowed, length in _LENGTHS if allowed.fullmatch(value))
    if len(value) >= needed and len(set(value)) >= _DIFFERENT and _is_text(value):
        return value
    raise ConfigurationError(
        f"the key in {variable} can be guessed: it has less than 16 random bytes",
        hint="`runner key new` prints a good one. If something was sent with this one, `runner key rotate` "
        f"moves the records, with the new key in {variable} and the old one in RUNNER_OLD_STATE_KEY",
    )


def read_old_state_key(environment: Mapping[str, str]) -> str | None:
    """Return the key from which records are moved, however weak; None if there is none.

    Raises:
        ConfigurationError: it is no text.
    """
    value = environment.get(OLD_STATE_KEY)
    if value and not _is_text(value):
        raise ConfigurationError(
            f"the key in {OLD_STATE_KEY} is no text in UTF-8", hint="no record can have been made with it"
        )
    return value or None


def _is_text(value: str) -> bool:
    # Bytes that are no UTF-8 come as half surrogate pairs, and no digest can be made of them.
    return not any("\ud800" <= character <= "\udfff" for character in value)
