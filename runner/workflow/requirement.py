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
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from runner.errors import UsageError
from runner.git.command import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution


NAME = "sms-campaign-runner"
FOLDER = ".github/runner"
"""The folder for a copy of the file that the program was installed from."""
_COMMIT = r"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._,-]+\])? @ "
    rf"(?:git\+(?P<git>(?:https|ssh)://[^\s#]+)@{_COMMIT}(?:#subdirectory=[^\s#&]+)?"
    r"|(?P<file>https://[^\s#]+) --hash=sha256:[0-9a-f]{64})"
)
_SHORT_FORM = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>(?!//)[^\s]+)")
"""As in `git@example.com:acme/runner.git`."""
_LOST = "another copy of runner runs than the one that is installed"

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
    except PackageNotFoundError:
        raise UnknownOriginError("runner is not installed here, but runs from a folder") from None
    text = installed.read_text("direct_url.json")
    if text is None:
        _require_running(installed)
        raise UnknownOriginError("runner was installed by its name alone, which anybody may own on an index")
    try:
        origin = json.loads(text)
        url = str(origin["url"])
    except (ValueError, LookupError, TypeError):
        raise UnknownOriginError("direct_url.json of the installed runner cannot be read") from None
    if origin.get("dir_info", {}).get("editable"):
        return _pin_checkout(Path(_find_path(url)))
    _require_running(installed)
    if "vcs_info" in origin:
        commit = str(origin["vcs_info"].get("commit_id"))
        return _pin_commit(url, commit, origin.get("subdirectory"))
    if "archive_info" in origin:
        return _pin_file(url, origin["archive_info"])
    raise UnknownOriginError("runner was installed from a folder, which may have changed since")


def _require_running(installed: Distribution) -> None:
    if Path(str(installed.locate_file(PACKAGE.name))).resolve() != PACKAGE:
        raise UnknownOriginError(_LOST)


def _pin_commit(url: str, commit: str, subdirectory: str | None = None) -> Pin:
    address = _find_public_address(url)
    if address is None:
        raise UnknownOriginError("runner came from a git repository on this machine, which CI cannot reach")
    within = f"#subdirectory={subdirectory}" if subdirectory else ""
    return Pin(f"{NAME} @ git+{address}@{commit}{within}")


def _find_public_address(url: str) -> str | None:
    """Return an address that other machines can use, without credentials; None if there is none."""
    if (short := _SHORT_FORM.fullmatch(url)) is not None:
        # Forges serve both, and a job has no key for ssh.
        return f"https://{short['host']}/{short['path']}"
    parts = urlsplit(url)
    if parts.scheme not in {"https", "ssh"} or not parts.hostname:
        return None
    host = parts.netloc.rpartition("@")[2]
    # ssh needs a user, who is no secret.
    user = f"{parts.username}@" if parts.scheme == "ssh" and parts.username else ""
    return urlunsplit((parts.scheme, user + host, parts.path, "", ""))


def _pin_file(url: str, info: Mapping[str, Any]) -> Pin:
    digest = info.get("hashes", {}).get("sha256") or str(info.get("hash", "")).removeprefix("sha256=")
    parts = urlsplit(url)
    if parts.scheme == "https" and re.fullmatch(r"[0-9a-f]{64}", digest):
        address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        return Pin(f"{NAME} @ {address} --hash=sha256:{digest}")
    file = Path(_find_path(url))
    if not digest:
        # pip notes none before its version 23.1.
        raise UnknownOriginError(
            "the installer noted no hash of the file that runner was installed from: update pip, and install "
            f"{file.name} again with `--force-reinstall`"
        )
    try:
        content = file.read_bytes()
    except OSError:
        raise UnknownOriginError(f"the file that runner was installed from is gone: {file.name}") from None
    if sha256(content).hexdigest() != digest:
        raise UnknownOriginError(f"the file that runner was installed from has changed since: {file.name}")
    kept = f"{FOLDER}/{file.name}"
    return Pin(f"./{kept} --hash=sha256:{digest}", {kept: content})


def _pin_checkout(checkout: Path) -> Pin:
    if PACKAGE.parent != checkout.resolve():
        raise UnknownOriginError(_LOST)
    git = Git(checkout)
    try:
        if git.run("status", "--porcelain"):
            raise UnknownOriginError("the checkout that runner runs from has changes that are not committed")
        remotes = git.run("remote").splitlines()
        remote = "origin" if "origin" in remotes else next(iter(remotes), None)
        if remote is None:
            raise UnknownOriginError("the checkout that runner runs from has no remote")
        commit = git.run("rev-parse", "HEAD")
        if not git.run("branch", "--remotes", "--list", f"{remote}/*", "--contains", commit):
            raise UnknownOriginError("the checkout that runner runs from has commits that are not pushed")
        # As written: git's substitutions on this machine hold only here.
        url = git.run("config", "--get", f"remote.{remote}.url")
        within = git.run("rev-parse", "--show-prefix").rstrip("/")
    except GitError:
        raise UnknownOriginError("git does not say what the checkout is that runner runs from") from None
    return _pin_commit(url, commit, within)


def _find_path(url: str) -> str:
    return unquote(urlsplit(url).path)
