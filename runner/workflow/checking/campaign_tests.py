"""Files of campaign tests (`campaigns/tests/*.yaml`), read with the place of each value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.campaign.load import read_text
from runner.source.diagnostic import ProblemError
from runner.source.json_schema import find_problems
from runner.source.storage import reading_root
from runner.source.yaml import read_yaml
from runner.workflow.campaigns import DEFAULT_FOLDER, TESTS, find_tests_folder, is_campaign_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.source.diagnostic import Diagnostic, Position
    from runner.source.yaml import Key, YamlDocument


@dataclass(frozen=True, slots=True)
class CampaignTest:
    """One test, as it is written; `path` leads to it in its document."""

    document: YamlDocument
    path: tuple[Key, ...]
    written: dict[str, Any]

    @property
    def name(self) -> str:
        """The test's name: what the campaign does, in words."""
        return str(self.written["name"])

    @property
    def campaign(self) -> str:
        """The campaign's name or file, as it is written."""
        return str(self.document.data["campaign"])

    @property
    def folder(self) -> Path:
        """The folder of the campaigns."""
        folder = find_tests_folder(self.document.file)
        return (folder or self.document.file.parent).parent

    def is_about(self, file: Path) -> bool:
        """Return whether the test names a campaign by its file."""
        return (self.document.file.parent / self.campaign).resolve() == file.resolve()

    def read(self, *keys: Key) -> Any:
        """Return a value of the test."""
        written: Any = self.written
        return reduce(getitem, keys, written)

    def place(self, *keys: Key, at_key: bool = False) -> Position:
        """Return the place of a value of the test, or of its key."""
        return self.document.position([*self.path, *keys], at_key=at_key)


def find_test_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of tests at `paths`, in the folders `tests` there and beside campaigns.

    Beside a campaign file are all tests of its folder; `read_tests` takes those of the campaign.
    """
    found: dict[Path, None] = {}
    for path in paths or [DEFAULT_FOLDER]:
        if path.is_file() and (path.absolute().parent.name == TESTS or find_tests_folder(path)):
            found[path] = None
            continue
        folder = path if path.is_dir() else path.parent
        is_one = find_tests_folder(folder) is not None
        for file in sorted(folder.rglob("*")):
            if is_campaign_like(file, folder) and (is_one or find_tests_folder(file, folder) is not None):
                found[file] = None
    return list(found)


def read_tests(file: Path) -> tuple[list[CampaignTest], list[Diagnostic]]:
    """Return the tests of a file, none if it is invalid, and its problems."""
    try:
        text = read_text(file, (reading_root(file, current=Path.cwd()),), "file of tests")
        document = read_yaml(text, file)
    except ProblemError as error:
        return [], [*error.diagnostics]
    problems = [*document.problems, *find_problems(document, "tests")]
    if problems:
        return [], problems
    tests = enumerate(document.data["tests"])
    return [CampaignTest(document, ("tests", index), one) for index, one in tests], []
