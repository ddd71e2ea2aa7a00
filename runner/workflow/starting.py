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
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from runner.errors import RunnerError, UsageError
from runner.git.command import Git, GitError, find_work_tree
from runner.github.workflows import make_slug, name_workflow, place_workflow
from runner.service.target import LIVE, require_safe_url
from runner.source.storage import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
_STARTER = PACKAGE / "starter"
"""The folder with the files of a new repository."""
_RENAMED = {name: f".{name}" for name in ("gitattributes", "gitignore")}
_DEPENDABOT = "dependabot.yml"
"""Files shipped under another name, since their own would take effect in this repository."""
EXAMPLE = "campaigns/first-order.yaml"
_TESTS = "campaigns/tests/first-order.yaml"
TARGETS = "campaigns/targets.yaml"
_REQUIREMENTS, _LOCK, _OWNERS = ".github/requirements.txt", ".github/requirements.lock", ".github/CODEOWNERS"
_OWNER = re.compile(r"@[\w.-]+(?:/[\w.-]+)?|[^\s@#\\]+@[^\s@#\\]+")
_ASK_FOR_REQUIREMENT = f"runner init --requirement '{NAME} @ git+https://HOST/PATH@COMMIT'"
_REQUIREMENT_WORDS = "# The runner that CI installs, named so that nobody else can supply it.\n"
_OWNER_WORDS = "# Who has to agree to what CI runs, where texts go, and the rules of all campaigns.\n"

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
        written: the new files, from the repository's top.
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
    root = None
    try:
        root = find_work_tree(nearest)
    except GitError as error:
        if "not installed" not in error.message:
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
    found = [name for name, content in contents.items() if not _is_free(top, name, content)]
    if found:
        listed = "".join(f"\n    {name}" for name in found)
        raise RunnerError(
            f"nothing was written to {top}: these are there already, and say something else",
            hint=f"keep them and choose another folder, or move them away:{listed}",
        )
    written = [name for name in contents if not (top / name).is_file()]
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


def _is_free(top: Path, name: str, content: bytes) -> bool:
    file = top / name
    if file.is_symlink() or file.exists():
        return file.is_file() and file.read_bytes() == content
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


@dataclass(slots=True)
class _Files:
    """Files to write, by paths from the repository's top.

    Attributes:
        contents: of the files.
        missing: values that a person must add, as phrases about the next steps.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
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
    return place, _start_repository(place, files), files.missing


def _iterate_files(place: StarterPlace, base_url: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a new repository, with their paths."""
    for file in sorted(_STARTER.rglob("*")):
        if file.is_file():
            name = file.relative_to(_STARTER).as_posix()
            content = _read_shipped(file)
            if name == _DEPENDABOT:
                # One that is there is its owner's: it may have more in it.
                if not (place.top / ".github" / name).exists():
                    yield f".github/{name}", content
                continue
            if name in (EXAMPLE, _TESTS) and not place.is_top:
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
    yield _LOCK, _read_shipped(shipped_folder(".github") / Path(_LOCK).name)
    if base_url is not None:
        yield str(place.below / TARGETS), _write_targets(base_url).encode()


def _add_requirement(files: _Files, place: StarterPlace, requirement: str | None) -> None:
    """Add the requirement for CI; keep an existing one unless another is requested."""
    if requirement is None and (place.top / _REQUIREMENTS).is_file():
        return
    try:
        pin = find_pin() if requirement is None else parse_requirement(requirement)
    except UnknownOriginError as error:
        files.missing.append(
            f"say which runner CI installs: `{_ASK_FOR_REQUIREMENT}`, from your own repository, or "
            f"`'{NAME} @ https://HOST/FILE.whl --hash=sha256:DIGEST'`, from your own index; until then its "
            f"jobs fail ({error})"
        )
        return
    files.contents |= {_REQUIREMENTS: f"{_REQUIREMENT_WORDS}{pin.line}\n".encode(), **pin.files}


def _add_owners(files: _Files, place: StarterPlace, owners: Sequence[str]) -> None:
    """Add owners; leave an existing file to its owner, since its last line wins."""
    folder = "" if place.is_top else f"{place.below}/".replace(" ", "\\ ")
    patterns = ("/.github/", f"/{folder}**/targets.yaml")
    named = [f"{pattern} {' '.join(owners or ('@ORG/TEAM',))}" for pattern in patterns]
    # GitHub only reads the first of these.
    places = (_OWNERS, "CODEOWNERS", "docs/CODEOWNERS")
    name = next((name for name in places if (place.top / name).is_file()), None)
    if name is not None:
        found = (place.top / name).read_text(encoding="utf-8", errors="replace")
        known = {line.split("@")[0].rstrip() for line in found.splitlines()}
        new = [line for line, pattern in zip(named, patterns, strict=True) if pattern not in known]
        if new:
            files.missing.append(f"add to {name}, which is there already: {'; '.join(new)}")
    elif owners:
        files.contents[_OWNERS] = "".join((_OWNER_WORDS, *(f"{line}\n" for line in named))).encode()
    else:
        files.missing.append(
            "say who has to agree to changes of workflows and targets: `runner init --owner @ORG/TEAM`"
        )


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
