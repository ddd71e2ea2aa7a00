"""A new campaign repository: its files, the runner that its CI installs, and the values still missing.

The runner is named by its commit or hash, as in PEP 610's `direct_url.json`: anybody may register a bare name
on a package index.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from runner.errors import RunnerError, UsageError
from runner.git.command import Git, GitError, find_work_tree
from runner.github.workflows import make_slug, name_workflow, place_workflow
from runner.service.target import LIVE, require_safe_url
from runner.source.json_schema import schema_text
from runner.source.storage import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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

_PACKAGE = Path(__file__).resolve().parent.parent
_STARTER = _PACKAGE / "starter"
"""The folder with the files of a new repository."""
_RENAMED = {name: f".{name}" for name in ("gitattributes", "gitignore")}
"""Files shipped under another name, since their own would take effect in this repository."""
EXAMPLE = "campaigns/first-order.yaml"
_SCHEMA = "campaigns/campaign.schema.json"
"""What the first line of the example names, for editors."""
TARGETS = "campaigns/targets.yaml"
_REQUIREMENTS, _LOCK, _OWNERS = ".github/requirements.txt", ".github/requirements.lock", ".github/CODEOWNERS"
_OWNER = re.compile(r"@[\w.-]+(?:/[\w.-]+)?|[^\s@#\\]+@[^\s@#\\]+")
_ASK_FOR_REQUIREMENT = f"runner init --requirement '{NAME} @ git+https://HOST/PATH@COMMIT'"
_NO_REQUIREMENT = f"""\
# The runner that CI installs, named so that nobody else can supply it: put it in the place of the last line,
# by a commit or by a file with its hash, or have it written: {_ASK_FOR_REQUIREMENT}
Fill in {_REQUIREMENTS}: it does not name the runner yet
"""


_REQUIREMENT_WORDS = "# The runner that CI installs, named so that nobody else can supply it.\n"
_OWNER_WORDS = "# Who has to agree to what CI runs, and to where texts go.\n"
_NO_OWNER_WORDS = (
    f"{_OWNER_WORDS}# Nobody yet: name them here, or have it written: runner init --owner @ORG/TEAM\n"
)

BRANCH = "main"
"""The branch that the workflows send from."""
_TOP = PurePosixPath()
_PART = re.compile(r"\w(?:[\w .-]*[\w.-])?")
"""Folder names that are safe in workflow filters, shells and CODEOWNERS."""


@dataclass(frozen=True, slots=True)
class StarterPlace:
    """A place for campaigns.

    Attributes:
        top: the top of the repository, or of the future one.
        below: the campaigns' folder, from there; `.` for the top itself.
        has_repository: whether there is a repository already.
    """

    top: Path
    below: PurePosixPath = _TOP
    has_repository: bool = False

    @property
    def is_top(self) -> bool:
        """True if the campaigns' folder is the top."""
        return self.below == _TOP


@dataclass(frozen=True, slots=True)
class Started:
    """The changes of a start.

    Attributes:
        written: the new files and replaced drafts, from the repository's top.
        has_repository: whether the folder is in a git repository now.
        is_new_repository: whether that repository is new.
        branch: the branch of its work tree; None if it is on none.
    """

    written: tuple[str, ...]
    has_repository: bool
    is_new_repository: bool
    branch: str | None


def _find_place(folder: Path) -> StarterPlace:
    """Return the place of a folder, which need not exist yet.

    Raises:
        UsageError: its name is not allowed for a folder of campaigns.
        GitError: git doesn't tell which repository it is in.
    """
    nearest = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
    try:
        root = find_work_tree(nearest)
    except GitError as error:
        if "not installed" in error.message:
            return StarterPlace(folder)
        raise
    if root is None:
        return StarterPlace(folder)
    real = folder.resolve()
    if real == root:
        return StarterPlace(folder, has_repository=True)
    below = PurePosixPath(real.relative_to(root).as_posix())
    if not all(map(_PART.fullmatch, below.parts)):
        raise UsageError(
            f"{str(below)!r} is no name for a folder of campaigns in a repository",
            hint="letters, digits and `_`, inside also blanks, `-` and `.`: filters and shells read others "
            "as something else",
        )
    return StarterPlace(root, below, has_repository=True)


def _start_repository(place: StarterPlace, files: _Files) -> Started:
    """Write files, and create a git repository around them if there is none.

    Identical files are left alone, so that a start can be repeated.

    Raises:
        RunnerError: other files are in the way, all of which are named; nothing was written.
    """
    top, contents = place.top, dict(sorted(files.contents.items()))
    found = [
        name
        for name, content in contents.items()
        if not _is_free(top, name, {content, files.drafts.get(name)})
    ]
    if found:
        listed = "".join(f"\n    {name}" for name in found)
        raise RunnerError(
            f"nothing was written to {top}: these are there already, and say something else",
            hint=f"keep them and choose another folder, or move them away:{listed}",
        )
    written = [name for name, content in contents.items() if _read_present(top / name) != content]
    try:
        for name in written:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(contents[name])
    except OSError as error:
        raise RunnerError(f"{error.filename} cannot be written: {error.strerror}") from None
    top.mkdir(parents=True, exist_ok=True)
    is_new = not place.has_repository and _make_repository(top)
    has_repository = is_new or place.has_repository
    branch = None
    if has_repository:
        branch = Git(top).ask("symbolic-ref", "--quiet", "--short", "HEAD").output.strip() or None
    return Started(tuple(written), has_repository, is_new, branch)


def _read_present(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _is_free(top: Path, name: str, allowed: set[bytes | None]) -> bool:
    file = top / name
    if file.is_symlink() or file.exists():
        return file.is_file() and file.read_bytes() in allowed
    parents = [parent for parent in file.parents if parent.is_relative_to(top)]
    return all(parent.is_dir() or not (parent.exists() or parent.is_symlink()) for parent in parents)


def _make_repository(folder: Path) -> bool:
    try:
        Git(folder).run("init", "--quiet", f"--initial-branch={BRANCH}")
    except GitError as error:
        if "not installed" in error.message:
            return False
        raise
    return True


@dataclass(frozen=True, slots=True)
class _Pin:
    """A requirement that names this program by its content.

    Attributes:
        line: the requirement in pip's syntax.
        files: contents of files that it names, by path from the repository's top.
    """

    line: str
    files: Mapping[str, bytes] = field(default_factory=dict)


class _UnknownOriginError(Exception):
    """The program's origin is unknown or of no use to CI; the text gives the reason."""


def _parse_requirement(text: str) -> _Pin:
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
    return _Pin(found[0])


def _find_pin() -> _Pin:
    """Return the requirement that installs the running program in CI.

    Raises:
        _UnknownOriginError: there is none.
    """
    try:
        installed = distribution(NAME)
    except PackageNotFoundError:
        raise _UnknownOriginError("runner is not installed here, but runs from a folder") from None
    text = installed.read_text("direct_url.json")
    if text is None:
        _require_running(installed)
        raise _UnknownOriginError("runner was installed by its name alone, which anybody may own on an index")
    try:
        origin = json.loads(text)
        url = str(origin["url"])
    except (ValueError, LookupError, TypeError):
        raise _UnknownOriginError("direct_url.json of the installed runner cannot be read") from None
    if origin.get("dir_info", {}).get("editable"):
        return _pin_checkout(Path(_find_path(url)))
    _require_running(installed)
    if "vcs_info" in origin:
        commit = str(origin["vcs_info"].get("commit_id"))
        return _pin_commit(url, commit, origin.get("subdirectory"))
    if "archive_info" in origin:
        return _pin_file(url, origin["archive_info"])
    raise _UnknownOriginError("runner was installed from a folder, which may have changed since")


def _require_running(installed: Distribution) -> None:
    if Path(str(installed.locate_file(_PACKAGE.name))).resolve() != _PACKAGE:
        raise _UnknownOriginError(_LOST)


def _pin_commit(url: str, commit: str, subdirectory: str | None = None) -> _Pin:
    address = _find_public_address(url)
    if address is None:
        raise _UnknownOriginError("runner came from a git repository on this machine, which CI cannot reach")
    within = f"#subdirectory={subdirectory}" if subdirectory else ""
    return _Pin(f"{NAME} @ git+{address}@{commit}{within}")


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


def _pin_file(url: str, info: Mapping[str, Any]) -> _Pin:
    digest = info.get("hashes", {}).get("sha256") or str(info.get("hash", "")).removeprefix("sha256=")
    parts = urlsplit(url)
    if parts.scheme == "https" and re.fullmatch(r"[0-9a-f]{64}", digest):
        address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        return _Pin(f"{NAME} @ {address} --hash=sha256:{digest}")
    file = Path(_find_path(url))
    if not digest:
        # pip notes none before its version 23.1.
        raise _UnknownOriginError(
            "the installer noted no hash of the file that runner was installed from: update pip, and install "
            f"{file.name} again with `--force-reinstall`"
        )
    try:
        content = file.read_bytes()
    except OSError:
        raise _UnknownOriginError(f"the file that runner was installed from is gone: {file.name}") from None
    if sha256(content).hexdigest() != digest:
        raise _UnknownOriginError(f"the file that runner was installed from has changed since: {file.name}")
    kept = f"{FOLDER}/{file.name}"
    return _Pin(f"./{kept} --hash=sha256:{digest}", {kept: content})


def _pin_checkout(checkout: Path) -> _Pin:
    if _PACKAGE.parent != checkout.resolve():
        raise _UnknownOriginError(_LOST)
    git = Git(checkout)
    try:
        if git.run("status", "--porcelain"):
            raise _UnknownOriginError("the checkout that runner runs from has changes that are not committed")
        remotes = git.run("remote").splitlines()
        remote = "origin" if "origin" in remotes else next(iter(remotes), None)
        if remote is None:
            raise _UnknownOriginError("the checkout that runner runs from has no remote")
        commit = git.run("rev-parse", "HEAD")
        if not git.run("branch", "--remotes", "--list", f"{remote}/*", "--contains", commit):
            raise _UnknownOriginError("the checkout that runner runs from has commits that are not pushed")
        # As written: git's substitutions on this machine hold only here.
        url = git.run("config", "--get", f"remote.{remote}.url")
        within = git.run("rev-parse", "--show-prefix").rstrip("/")
    except GitError:
        raise _UnknownOriginError("git does not say what the checkout is that runner runs from") from None
    return _pin_commit(url, commit, within)


def _find_path(url: str) -> str:
    return unquote(urlsplit(url).path)


@dataclass(slots=True)
class _Files:
    """Files to write, by paths from the repository's top.

    Attributes:
        contents: of the files.
        drafts: contents that may be replaced.
        missing: values that a person must add, as phrases about the next steps.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    drafts: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def write_starter(
    folder: Path, base_url: str | None, owners: Sequence[str], requirement: str | None
) -> tuple[StarterPlace, Started, Sequence[str]]:
    """Write a campaign repository; overwrite no existing file.

    Returns the place, the changes, and the values still missing.

    Args:
        folder: gets the campaigns.
        base_url: of the service; None to add it later.
        owners: required reviewers of changes of workflows, pins and targets.
        requirement: the runner that CI installs; None for this one.

    Raises:
        UsageError: an owner is invalid, or the URL is not safe.
        RunnerError: a file cannot be read or written, or exists with another content.
    """
    if base_url is not None:
        require_safe_url(base_url, insecure=False)
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            raise UsageError(
                f"{owner!r} is no owner", hint="@NAME, @ORG/TEAM or an address, as CODEOWNERS has them"
            )
    place = _find_place(folder)
    files = _Files(dict(_iterate_files(place, base_url)))
    _add_requirement(files, place, requirement)
    _add_owners(files, place, owners)
    _leave_attributes(files, place)
    return place, _start_repository(place, files), files.missing


def _iterate_files(place: StarterPlace, base_url: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a new repository, with their paths."""
    for file in sorted(_STARTER.rglob("*")):
        if file.is_file():
            name = file.relative_to(_STARTER).as_posix()
            content = _read_shipped(file)
            if name == EXAMPLE and not place.is_top:
                # Names of campaigns are unique in the repository.
                content = content.replace(
                    b": first-order", f": first-order-{make_slug(place.below)}".encode()
                )
            yield str(place.below / _RENAMED.get(name, name)), content
    # The workflows of this program's own repository, unchanged.
    for kind in ("review", "send"):
        text = _read_shipped(shipped_folder(".github/workflows") / f"campaigns-{kind}.yml")
        placed = text if place.is_top else place_workflow(text.decode(), place.below).encode()
        yield name_workflow(kind, place.below), placed
    if not (place.top / place.below / _SCHEMA).exists():
        # One that is there may be of another version, and is its owner's.
        yield str(place.below / _SCHEMA), schema_text("campaign").encode()
    yield _LOCK, _read_shipped(shipped_folder(".github") / Path(_LOCK).name)
    if base_url is not None:
        yield str(place.below / TARGETS), _write_targets(base_url).encode()


def _add_requirement(files: _Files, place: StarterPlace, requirement: str | None) -> None:
    """Add the requirement for CI; keep an existing one unless another is requested."""
    draft = _NO_REQUIREMENT.encode()
    file = place.top / _REQUIREMENTS
    if requirement is None and file.is_file() and file.read_bytes() != draft:
        return
    try:
        pin = _find_pin() if requirement is None else _parse_requirement(requirement)
    except _UnknownOriginError as error:
        files.contents[_REQUIREMENTS] = draft
        files.missing.append(
            f"say which runner CI installs: `{_ASK_FOR_REQUIREMENT}`, from your own repository, or "
            f"`'{NAME} @ https://HOST/FILE.whl --hash=sha256:DIGEST'`, from your own index; until then its "
            f"jobs fail ({error})"
        )
        return
    files.contents |= {_REQUIREMENTS: _write_requirement(pin), **pin.files}
    files.drafts[_REQUIREMENTS] = draft


def _write_requirement(pin: _Pin) -> bytes:
    return f"{_REQUIREMENT_WORDS}{pin.line}\n".encode()


def _add_owners(files: _Files, place: StarterPlace, owners: Sequence[str]) -> None:
    """Add owners; leave an existing file to its owner, since its last line wins."""
    folder = "" if place.is_top else f"{place.below}/".replace(" ", "\\ ")
    patterns = ("/.github/", f"/{folder}**/targets.yaml")
    named = [f"{pattern} {' '.join(owners or ('@ORG/TEAM',))}" for pattern in patterns]
    draft = _NO_OWNER_WORDS + "".join(f"# {line} @ORG/TEAM\n" for line in patterns)
    # GitHub only reads the first of these.
    places = (_OWNERS, "CODEOWNERS", "docs/CODEOWNERS")
    name = next((name for name in places if (place.top / name).is_file()), None)
    found = draft if name is None else (place.top / name).read_text(encoding="utf-8", errors="replace")
    if found != draft:
        known = {line.split("@")[0].rstrip() for line in found.splitlines()}
        new = [line for line, pattern in zip(named, patterns, strict=True) if pattern not in known]
        if new:
            files.missing.append(f"add to {name}, which is there already: {'; '.join(new)}")
        return
    files.drafts[_OWNERS] = draft.encode()
    if owners:
        files.contents[_OWNERS] = "".join((_OWNER_WORDS, *(f"{line}\n" for line in named))).encode()
    else:
        files.contents[_OWNERS] = draft.encode()
        files.missing.append(
            "say who has to agree to changes of workflows and targets: `runner init --owner @ORG/TEAM`"
        )


def _leave_attributes(files: _Files, place: StarterPlace) -> None:
    """Leave existing attributes to their owner, and say what they lack."""
    name = str(place.below / _RENAMED["gitattributes"])
    present = _read_present(place.top / name)
    if present is None:
        return
    wanted = files.contents.pop(name).decode().splitlines()[-1]
    if wanted not in present.decode(errors="replace").splitlines():
        files.missing.append(f"add to {name}, so that line ends are the same everywhere: `{wanted}`")


def _read_shipped(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise RunnerError(f"{file}, which comes with runner, cannot be read: {error.strerror}") from None


def _write_targets(base_url: str) -> str:
    return (
        "# Where campaigns are sent; `runner schema targets` has every key. Credentials never stand here:\n"
        "# CI has RUNNER_USERNAME and RUNNER_API_KEY as secrets.\n"
        f"version: 1\ntargets:\n  {LIVE}:\n    base_url: {json.dumps(base_url)}\n"
    )
