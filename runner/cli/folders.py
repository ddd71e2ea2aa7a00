"""Where a run keeps what belongs to this machine alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePosixPath

from runner.errors import RunnerError
from runner.ledger.draft import drafting
from runner.repository.git import Git, GitError
from runner.repository.placing import make_slug
from runner.source.confine import repository_root


def state_folder() -> Path:
    """Return the `.runner` folder of the repository that the current folder is in; it may not exist yet.

    It holds the ledger and the sandbox's database.
    """
    return repository_root(Path.cwd()) / ".runner"


def refuse_committed_state() -> None:
    """Make sure that git did not bring the `.runner` folder here: its ledger is believed as it is.

    Raises:
        RunnerError: a file of it is in the repository.
    """
    folder = state_folder()
    if not folder.exists() and not folder.is_symlink():
        return
    listed = ""
    # Where git is not, or is not for this folder, it has brought nothing.
    with suppress(GitError):
        listed = Git(folder.parent).ask("ls-files", "-z", "--", folder.name).output
    if listed:
        raise RunnerError(
            f"{listed.split(chr(0))[0]} is in the git repository: who may change it there could say who was "
            "texted, and nothing signs it",
            hint="take it out: `git rm -r --cached .runner`, commit, and go on in a new clone; the record in "
            "git is the lockfiles",
        )


def make_state_folder() -> Path:
    """Return the `.runner` folder, made if it isn't there: for this user alone, and ignored by git.

    Raises:
        RunnerError: it cannot be made.
    """
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _ignore_all(folder / ".gitignore")
    except OSError as error:
        raise RunnerError(
            f"the folder {folder} cannot be made: {error.strerror}",
            hint="check that this user may write there, or name another place with --ledger",
        ) from None
    return folder


def _ignore_all(ignore: Path) -> None:
    """Keep git from a folder: texts and answers stand in there, and must not be committed by accident.

    A full disk may have left the file empty: then it ignores nothing. What a user has written into it stays.
    """
    if ignore.is_file() and ignore.stat().st_size:
        return
    with drafting(ignore) as (stream, draft):
        stream.write("*\n")
        stream.flush()
        draft.replace(ignore)


def name_folder() -> str | None:
    """Return a name for the current folder, unlike that of any other of its repository; None for its top.

    Jobs of several folders keep comments and issues of their own by it.
    """
    below = Path.cwd().relative_to(repository_root(Path.cwd()))
    return make_slug(PurePosixPath(below.as_posix())) or None


def sandbox_database() -> Path:
    """Return the file of the embedded sandbox's database; it may not exist yet."""
    return state_folder() / "sandbox" / "service.sqlite"


def make_sandbox_database() -> Path:
    """Return the file of the embedded sandbox's database, the folder above it made."""
    make_state_folder()
    return sandbox_database()
