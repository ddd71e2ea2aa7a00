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
from runner.source.diagnostic import ProblemError
from runner.source.json_schema import find_problems
from runner.source.targets_file import TARGETS_FILE
from runner.source.yaml import read_yaml
from runner.wording import count_words, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.git.clone import FileChange


_LONGEST = 200
_RULES = "defaults.", "require."
_NOT_SET = "not set"
_UNREADABLE = "cannot be read as one: what it changes is **not known**"


def list_target_changes(file: Path, former: str | None, text: str | None) -> list[tuple[bool, str]]:
    """Return the differences of two versions of `targets.yaml`: whether of a rule, and a line of Markdown.

    `file` is named in errors; a text is None if that version does not exist.
    """
    before, after = _read(file, former), _read(file, text)
    if before is None or after is None:
        return [(False, f"the {'former' if before is None else 'new'} version {_UNREADABLE}")]
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    shown = [escape_markdown(name.removeprefix("targets.")) for name in changed]
    return [
        (name.startswith(_RULES), f"**{words}**: {_show(before.get(name))} → {_show(after.get(name))}")
        for name, words in zip(changed, shown, strict=True)
    ]


def _read(file: Path, text: str | None) -> dict[str, str] | None:
    """Return a file's settings by their names; None if it is invalid, since it may then hold secrets."""
    if text is None:
        return {}
    try:
        document = read_yaml(text.removeprefix("\ufeff"), file)
    except ProblemError:
        return None
    if document.problems or next(iter(find_problems(document, "targets")), None) is not None:
        return None
    return dict(_flatten(document.data))


def _flatten(settings: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{start}{key}.")
        else:
            yield f"{start}{key}", str(value).lower() if isinstance(value, bool) else str(value)


def _show(value: str | None) -> str:
    return _NOT_SET if value is None else f"**{escape_markdown(hide_credentials(value)[:_LONGEST])}**"


_MOST_LINES = 20
_ANY_PULL_REQUEST = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")


def describe_changes(remote: str, environment: Mapping[str, str]) -> str:
    """Return Markdown about a pull request's changes beside the plan; empty if there are none.

    git may send the environment's token to GitHub only.
    """
    if not any(map(environment.get, _ANY_PULL_REQUEST)):
        return ""
    root = find_work_tree(Path.cwd())
    if root is None:
        raise RunnerError("the current folder is not in a git repository")
    clone = Clone(Git(root, settings=find_git_settings(environment)), root)
    base = find_base(clone, remote, environment)
    return "" if base is None else _Sections(clone, base, list_changes(clone, base)).write()


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
        found = list(self._list_targets())
        rules, targets = ([line for is_rule, line in found if is_rule is kind] for kind in (True, False))
        # Former rules first, so that many new ones cannot hide that they are gone.
        rules.sort(key=lambda line: f": {_NOT_SET} → " in line)
        records = list(self._list_records())
        text = _write_section(
            "Look here: this pull request changes the rules of all campaigns",
            rules,
            "`defaults` and `require` in targets.yaml",
        )
        text += _write_section(
            "Look here: this pull request changes where texts go, or how",
            targets,
            "targets.yaml is changed",
        )
        text += _write_section(
            "Look here: this pull request changes records, which jobs write and people don't",
            records,
            "with another record other people are texted, or nobody",
        )
        unchanged = [word for word, lines in (("Targets", found), ("records", records)) if not lines]
        if unchanged:
            text += f"\n{' and '.join(unchanged).capitalize()} stay as they are.\n"
        return text

    def _list_targets(self) -> Iterator[tuple[bool, str]]:
        for change in self.changes:
            if TARGETS_FILE in {_name(change.former), _name(change.path)}:
                file = self.clone.root / (change.path or change.former or "")
                texts = self._read_former(change), self._read(change)
                for is_rule, line in list_target_changes(file, *texts):
                    yield is_rule, f"{self._show(change)}: {line}"

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
                _count_texts(self.clone.root, text)
                for text in (self._read_former(change), self._read(change))
            )
        except LockfileError:
            return f"{how}, and it **cannot be read**: who got texts by it is not known"
        lost = count_words(sum(before[name] for name in before.keys() - after.keys()), "text")
        added = count_words(sum(after[name] for name in after.keys() - before.keys()), "text")
        words = f"{how}, with {added} more"
        return f"{words} and **{lost} less**" if before.keys() - after.keys() else words

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


def _count_texts(root: Path, text: str | None) -> dict[str, int]:
    """Return the number of texts of each launch in a lockfile."""
    lockfile = None if text is None else parse_lockfile(root, text).lockfile
    listed = lockfile.launches if lockfile else ()
    return {launch.project_launch_guid: len(launch.recipients) for launch in listed}


def _name(path: str | None) -> str:
    return "" if path is None else PurePosixPath(path).name
