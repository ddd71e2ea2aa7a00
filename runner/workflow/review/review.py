"""The changes of a pull request beside the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError, RunnerError
from runner.git.clone import Clone, find_base, list_changes
from runner.git.command import Git, find_work_tree, hide_credentials
from runner.github.job import find_git_settings
from runner.ledger.files.comparison import RECORD_ENDINGS
from runner.ledger.files.lockfile import parse_lockfile
from runner.source.json_schema import find_problems
from runner.source.yaml import YamlProblemError, read_yaml
from runner.wording import count_words, escape_markdown
from runner.workflow.campaigns import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.git.clone import FileChange


_LONGEST = 200
_UNREADABLE = "cannot be read as one: what it changes is **not known**"


def list_target_changes(file: Path, former: str | None, text: str | None) -> list[str]:
    """Return the differences of two versions of `targets.yaml`, one line of Markdown each.

    `file` is named in errors; a text is None if that version does not exist.
    """
    before, after = _read(file, former), _read(file, text)
    if before is None or after is None:
        return [f"the {'former' if before is None else 'new'} version {_UNREADABLE}"]
    return [
        f"**{escape_markdown(name)}**: {_show(before.get(name))} → {_show(after.get(name))}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _read(file: Path, text: str | None) -> dict[str, str] | None:
    """Return a file's settings by their names; None if it is invalid, since it may then hold secrets."""
    if text is None:
        return {}
    try:
        document = read_yaml(text.removeprefix("\ufeff"), file)
    except YamlProblemError:
        return None
    if document.problems or next(iter(find_problems(document, "targets")), None) is not None:
        return None
    data: dict[str, Any] = document.data
    return {name.removeprefix("targets."): value for name, value in _flatten(data)}


def _flatten(settings: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{start}{key}.")
        else:
            yield f"{start}{key}", str(value).lower() if isinstance(value, bool) else str(value)


def _show(value: str | None) -> str:
    return "not set" if value is None else f"**{escape_markdown(hide_credentials(value)[:_LONGEST])}**"


_MOST_LINES = 20
_ANY_PULL_REQUEST = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")


@dataclass(frozen=True, slots=True)
class Review:
    """The clone in a pull request's job; `clone` is None outside of a repository."""

    clone: Clone | None
    remote: str
    environment: Mapping[str, str]

    @classmethod
    def open(cls, remote: str, environment: Mapping[str, str]) -> Review:
        """Return the clone of the current folder; git may send the environment's token to GitHub only.

        Raises:
            GitError: git is missing, or refuses.
        """
        root = find_work_tree(Path.cwd())
        git = None if root is None else Git(root, settings=find_git_settings(environment))
        return cls(None if git is None or root is None else Clone(git, root), remote, environment)

    def describe_changes(self) -> str:
        """Return Markdown about the pull request's changes beside the plan; empty if there are none.

        Raises:
            RunnerError: the changes cannot be read.
        """
        if not any(map(self.environment.get, _ANY_PULL_REQUEST)):
            return ""
        if self.clone is None:
            raise RunnerError("the current folder is not in a git repository")
        base = find_base(self.clone, self.remote, self.environment)
        if base is None:
            return ""
        changes = list_changes(self.clone, base)
        return _Sections(self.clone, base, changes).write()


def write_unknown(what: str, error: RunnerError) -> str:
    """Return Markdown about missing information (`what`, in Markdown) and its error."""
    reason = escape_markdown(error.message)
    hint = f" ({escape_markdown(error.hint)})" if error.hint else ""
    return f"> **Not known: {what}.** {reason[:1].upper()}{reason[1:]}{hint}.\n"


@dataclass(frozen=True, slots=True)
class _Sections:
    """Sections on the files of a pull request, compared with the commit `base`."""

    clone: Clone
    base: str
    changes: Sequence[FileChange]

    def write(self) -> str:
        targets = list(self._list_targets())
        records = list(self._list_records())
        text = _write_section(
            "Look here: this pull request changes where texts go, or how", targets, "targets.yaml is changed"
        )
        text += _write_section(
            "Look here: this pull request changes records, which jobs write and people don't",
            records,
            "with another record other people are texted, or nobody",
        )
        unchanged = [word for word, lines in (("Targets", targets), ("records", records)) if not lines]
        if unchanged:
            text += f"\n{' and '.join(unchanged).capitalize()} stay as they are.\n"
        return text

    def _list_targets(self) -> Iterator[str]:
        for change in self.changes:
            if TARGETS_FILE in {_name(change.former), _name(change.path)}:
                file = self.clone.root / (change.path or change.former or "")
                for line in list_target_changes(file, self._read_former(change), self._read(change)):
                    yield f"{self._show(change)}: {line}"

    def _list_records(self) -> Iterator[str]:
        for change in self.changes:
            if any(path and path.endswith(RECORD_ENDINGS) for path in (change.former, change.path)):
                yield f"{self._show(change)}: {self._describe_record(change)}"

    def _describe_record(self, change: FileChange) -> str:
        how = "new" if change.former is None else "deleted" if change.path is None else "changed"
        if not (change.path or change.former or "").endswith(RECORD_ENDINGS[0]):
            return how
        try:
            before, after = (
                _list_launches(self.clone.root, text)
                for text in (self._read_former(change), self._read(change))
            )
        except LockfileError:
            return f"{how}, and it **cannot be read**: which launches it has is not known"
        lost, added = len(before - after), len(after - before)
        words = f"{how}, with {count_words(added, 'launch', 'launches')} more"
        return f"{words} and **{count_words(lost, 'launch', 'launches')} less**" if lost else words

    def _read_former(self, change: FileChange) -> str | None:
        return None if change.former is None else self.clone.read(self.base, change.former)

    def _read(self, change: FileChange) -> str | None:
        return None if change.path is None else self.clone.read("HEAD", change.path)

    def _show(self, change: FileChange) -> str:
        below = Path.cwd().resolve().relative_to(self.clone.root.resolve()).as_posix()
        start = "" if below == "." else f"{below}/"
        # Paths in another folder of the repository start at its top.
        names = [path.removeprefix(start) for path in (change.former, change.path) if path]
        return " → ".join(escape_markdown(name) for name in dict.fromkeys(names))


def _write_section(title: str, lines: Sequence[str], why: str) -> str:
    if not lines:
        return ""
    shown = "".join(f"\n- {line}" for line in lines[:_MOST_LINES])
    more = len(lines) - _MOST_LINES
    rest = f"\n- … and {count_words(more, 'more change')} of this kind" if more > 0 else ""
    return f"\n#### {title} ({why})\n{shown}{rest}\n"


def _list_launches(root: Path, text: str | None) -> set[str]:
    lockfile = None if text is None else parse_lockfile(root, text).lockfile
    return {launch.project_launch_guid for launch in (lockfile.launches if lockfile else ())}


def _name(path: str | None) -> str:
    return "" if path is None else PurePosixPath(path).name
