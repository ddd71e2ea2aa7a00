"""Files with secrets: who can read them besides this process."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import stat_result


def find_readers(status: stat_result) -> str | None:
    """Return who else can read a file of this status; None if nobody.

    The rule is PostgreSQL's for keys: 0600 for a user's file, and 0640 for one of root, which is how
    secrets are mounted for processes of a group.
    """
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IRWXO:
        return "everybody on the machine"
    is_shared = mode & (stat.S_IRWXG if status.st_uid else stat.S_IWGRP | stat.S_IXGRP)
    return "its group" if is_shared else None
