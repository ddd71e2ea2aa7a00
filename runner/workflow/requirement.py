"""The runner that CI installs, named by its content.

It is named by its commit or hash, as in PEP 610's `direct_url.json`: anybody may register a bare name on a
package index.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from runner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


NAME = "sms-campaign-runner"
FOLDER = ".github/runner"
"""The folder for a copy of the file that the program was installed from."""
_COMMIT = r"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._,-]+\])? @ "
    rf"(?:git\+(?P<git>(?:https|ssh)://[^\s#]+)@{_COMMIT}(?:#subdirectory=[^\s#&]+)?"
    r"|(?P<file>https://[^\s#]+) --hash=sha256:[0-9a-f]{64})"
)

PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Pin:
    """A requirement that names this program by its content.

    Attributes:
        line: the requirement in pip's syntax.
        files: contents of files that it names, by path from the repository's top.
    """

    line: str
    files: Mapping[str, bytes] = field(default_factory=dict)


class UnknownOriginError(Exception):
    """The program's origin is unknown or of no use to CI; the text gives the reason."""


def parse_requirement(text: str) -> Pin:
    """Return a requirement that a person has written.

    Raises:
        UsageError: somebody else could supply the package, or the requirement contains a password.
    """
    found = _REQUIREMENT.fullmatch(" ".join(text.split()))
    if found is None:
        raise UsageError(
            "--requirement does not name runner by its content: anybody may own a name, and branches and "
            "tags can be moved",
            hint=f"'{NAME} @ git+https://HOST/PATH@COMMIT' with the whole commit, or "
            f"'{NAME} @ https://HOST/FILE.whl --hash=sha256:DIGEST'",
        )
    parts = urlsplit(found["git"] or found["file"])
    if parts.password is not None or (parts.username and parts.scheme == "https"):
        raise UsageError(
            "the address in --requirement has a password in it, which would be committed",
            hint="take it out; CI can get it from git's own settings",
        )
    return Pin(found[0])


def find_pin() -> Pin:
    """Return the requirement that installs the running program in CI.

    Raises:
        UnknownOriginError: there is none.
    """
    try:
        installed = distribution(NAME)
        origin = json.loads(installed.read_text("direct_url.json") or "")
        parts = urlsplit(origin["url"])
    except (PackageNotFoundError, ValueError, LookupError, TypeError):
        raise UnknownOriginError("no installer has noted where runner came from") from None
    commit = origin.get("vcs_info", {}).get("commit_id")
    digest = origin.get("archive_info", {}).get("hashes", {}).get("sha256", "")
    is_running = Path(str(installed.locate_file(PACKAGE.name))).resolve() == PACKAGE
    if (commit or digest) and not is_running:
        raise UnknownOriginError("another copy of runner runs than the one that is installed")
    if parts.scheme == "https":
        # Without credentials.
        address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        within = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
        if commit:
            return Pin(f"{NAME} @ git+{address}@{commit}{within}")
        if digest:
            return Pin(f"{NAME} @ {address} --hash=sha256:{digest}")
    if parts.scheme == "file" and digest:
        return _pin_file(Path(unquote(parts.path)), digest)
    raise UnknownOriginError("runner was not installed from a commit or a file that CI can get")


def _pin_file(file: Path, digest: str) -> Pin:
    content = file.read_bytes() if file.is_file() else b""
    if sha256(content).hexdigest() != digest:
        raise UnknownOriginError(f"the file that runner was installed from is gone or changed: {file.name}")
    kept = f"{FOLDER}/{file.name}"
    return Pin(f"./{kept} --hash=sha256:{digest}", {kept: content})
