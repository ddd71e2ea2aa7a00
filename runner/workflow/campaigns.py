"""Campaign files of a command line, and their loading."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.load import load_campaign, read_names
from runner.errors import CampaignError, RunnerError
from runner.github.workflows import list_folders
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.source.diagnostic import Problems
from runner.source.storage import repository_root
from runner.source.targets_file import CAMPAIGNS_FOLDER, TARGETS_FILE
from runner.wording import count_words
from runner.workflow.observer import note, show_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic
    from runner.workflow.scope import Scope

DEFAULT_FOLDER = Path(CAMPAIGNS_FOLDER)
TESTS = "tests"
"""The folder, below one of campaigns, with tests of them."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
"""The beginning of a path made of a URL, which has lost one of its slashes."""
_RIVAL_HINT = (
    "deliveries are known by the campaign's name: let one campaign alone have it, as name or in renamed_from"
)
ENDINGS = {".yaml", ".yml"}
"""The endings of campaign files."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Loaded campaign files.

    Attributes:
        files: all of them.
        campaigns: those without errors.
        faults: errors that exclude single campaigns, by file.
        claimed: the names of all of them, also former ones.
        where: the places searched, in words.
    """

    files: tuple[Path, ...]
    campaigns: tuple[Campaign, ...]
    faults: Mapping[Path, CampaignError]
    claimed: frozenset[str]
    where: str

    def say_if_none(self) -> None:
        """Print a note if there is no campaign."""
        if not self.files:
            note(f"There is no campaign in {self.where}: nothing to do.")


def find_project(start: Path) -> Path | None:
    """Return the nearest folder with `campaigns/`, from `start` up to its git root; None if there is none."""
    top = repository_root(start)
    above = (folder for folder in (start, *start.parents) if folder.is_relative_to(top))
    return next((folder for folder in above if (folder / DEFAULT_FOLDER).is_dir()), None)


def find_campaign_files(paths: Sequence[Path]) -> list[Path]:
    """Return the campaign files at `paths`, by default below `campaigns/`.

    A folder for campaigns may be empty, after the last one was deleted.
    """
    given = list(paths) or [DEFAULT_FOLDER]
    found: dict[Path, None] = {}
    for path in given:
        if path.is_dir():
            found.update(dict.fromkeys(file for file in sorted(path.rglob("*")) if _is_campaign(file, path)))
        elif (
            path.exists() and not path.name.endswith(SUPPRESSIONS_SUFFIX) and find_tests_folder(path) is None
        ):
            found[path] = None
    if not found and not all(map(_is_home, given)):
        where = ", ".join(map(str, given))
        hint = "`runner init` makes a project with a first campaign; in another folder: `runner -C FOLDER …`"
        missing = f"campaign in {where}" if paths else f"folder {DEFAULT_FOLDER.absolute()}"
        raise RunnerError(f"there is no {missing}", hint=hint)
    return list(found)


def _is_home(path: Path) -> bool:
    """Return whether a folder is one for campaigns, even if empty, or a file belongs to one."""
    if find_tests_folder(path) is not None:
        return True
    if not path.is_dir():
        return path.name.endswith(SUPPRESSIONS_SUFFIX)
    if path.resolve().name == DEFAULT_FOLDER.name or (path / TARGETS_FILE).is_file():
        return True
    return any(True for ending in (SUPPRESSIONS_SUFFIX, ".lock.json") for _ in path.rglob(f"*{ending}"))


def find_targets_file(paths: Sequence[Path]) -> Path:
    """Return the `targets.yaml` of campaigns: the first beside them, else the default folder's."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    candidates = [folder / TARGETS_FILE for folder in (*folders, DEFAULT_FOLDER)]
    return next((file for file in candidates if file.is_file()), candidates[-1])


def find_tests_folder(path: Path, folder: Path | None = None) -> Path | None:
    """Return the folder of tests that a path is, or is in; None if it is a campaign's.

    Only folders below `folder` count, or else below the innermost `campaigns`.
    """
    parts = path.absolute().parts
    homes = [place for place, part in enumerate(parts) if part == DEFAULT_FOLDER.name]
    start = len(folder.absolute().parts) if folder else homes[-1] + 1 if homes else len(parts)
    return Path(*parts[: parts.index(TESTS, start) + 1]) if TESTS in parts[start:] else None


def _is_campaign(file: Path, folder: Path) -> bool:
    is_of_tests = find_tests_folder(file, folder) or find_tests_folder(folder)
    return is_campaign_like(file, folder) and not is_of_tests


def is_campaign_like(file: Path, folder: Path) -> bool:
    """Return whether a file in a folder is a campaign, or tests of one, by its name."""
    is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in ENDINGS and file.name != TARGETS_FILE and not is_hidden and file.is_file()


def _add_problems(problems: Problems, found: Iterable[Diagnostic]) -> None:
    """Add a campaign's problems; what is wrong with a targets.yaml is so for each campaign, and said once."""
    said = {_identify(one) for one in problems if one.file.name == TARGETS_FILE}
    problems.extend(one for one in found if one.file.name != TARGETS_FILE or _identify(one) not in said)


def load_campaigns(
    scope: Scope, problems: Problems, *, needs_audience: bool = True, keeps_rules: bool = True
) -> Loaded:
    """Load a scope's campaign files; problems go to `problems`.

    Unless `needs_audience`, a missing file of people is no error. Unless it `keeps_rules`, as where nothing
    is sent, bounds of `targets.yaml` are left out.
    """
    files = find_campaign_files(scope.paths)
    loaded: dict[Path, Campaign] = {}
    faults: dict[Path, CampaignError] = {}
    claims: dict[Path, tuple[str, ...]] = {}
    for file in files:
        campaign, found = load_campaign(
            file,
            current=Path.cwd(),
            allowed=scope.allowed,
            needs_audience=needs_audience,
            identity=scope.identity,
            keeps_rules=keeps_rules,
        )
        _add_problems(problems, found)
        if campaign is None:
            claims[file] = read_names(file, current=Path.cwd(), allowed=scope.allowed)
            faults[file] = describe_errors(file, sum(one.severity == "error" for one in found))
            continue
        claims[file] = (campaign.name, *campaign.renamed_from)
        loaded[file] = campaign
    for file, error in _refuse_rivals(claims, loaded, problems):
        faults.setdefault(file, error)
    named = {campaign.name: campaign for campaign in reversed(loaded.values())}
    return Loaded(
        tuple(files),
        tuple(campaign for campaign in loaded.values() if named[campaign.name] is campaign),
        faults,
        frozenset(name for names in claims.values() for name in names),
        ", ".join(map(str, scope.paths or (DEFAULT_FOLDER,))),
    )


def load_valid_campaigns(scope: Scope) -> tuple[Campaign, ...]:
    """Load a scope's campaigns; show problems of their files.

    Raises:
        InvalidCampaignError: there are errors, which have been shown.
        RunnerError: there is no campaign, and the folder is not one for campaigns.
    """
    problems = Problems()
    loaded = load_campaigns(scope, problems)
    loaded.say_if_none()
    refuse_errors(problems)
    return loaded.campaigns


def _refuse_rivals(
    claims: Mapping[Path, tuple[str, ...]], loaded: Mapping[Path, Campaign], problems: Problems
) -> Iterator[tuple[Path, CampaignError]]:
    """Yield the files whose names others claim, too, each with its error; `problems` has the places."""
    for file, name, other in _find_rivals({**claims, **_read_elsewhere(list(claims))}):
        words = f"the name or record {name!r} is claimed by {show_path(other)}, too"
        if file in loaded:
            code = "campaign-name-repeated" if name == loaded[file].name else "campaign-name-in-use"
            problems.add(loaded[file].position.problem(code, words, _RIVAL_HINT))
        if file in claims:
            yield file, CampaignError(f"{show_path(file)}: {words}", hint=_RIVAL_HINT)


def _identify(problem: Diagnostic) -> Diagnostic:
    """Return a problem with the one path of its file."""
    return replace(problem, file=Path(os.path.realpath(problem.file)))


def _read_elsewhere(files: Sequence[Path]) -> dict[Path, tuple[str, ...]]:
    """Return the names of campaigns in other folders of the repository, which share the record."""
    folders = list_folders(repository_root(Path.cwd()))
    if len(folders) < 2:  # noqa: PLR2004  a single one has no other
        return {}
    own = {file.resolve() for file in files}
    homes = [folder / DEFAULT_FOLDER for folder in folders]
    others = [home for home in homes if not any(file.is_relative_to(home.resolve()) for file in own)]
    found = (file for home in others for file in sorted(home.rglob("*")) if _is_campaign(file, home))
    return {file: read_names(file, current=Path.cwd()) for file in found}


def find_campaign_file(lockfile: Path, target: str) -> Path | None:
    """Return the campaign file beside a lockfile; None if it is gone."""
    stem = lockfile.name.removesuffix(f".{target}.lock.json")
    files = (lockfile.with_name(f"{stem}{ending}") for ending in sorted(ENDINGS))
    return next(filter(Path.is_file, files), None)


def find_named(folder: Path, name: str) -> Path | None:
    """Return the campaign file in a folder, not below it, that has a name; None if there is none."""
    files = (file for file in sorted(folder.iterdir()) if _is_campaign(file, folder))
    return next((file for file in files if read_names(file, current=Path.cwd())[:1] == (name,)), None)


def describe_errors(file: Path, count: int) -> CampaignError:
    """Return the error of a left-out campaign whose problems are shown separately."""
    return CampaignError(f"{show_path(file)}: {count_words(count, 'error')}")


def _find_rivals(claims: Mapping[Path, Sequence[str]]) -> Iterator[tuple[Path, str, Path]]:
    """Yield files that share a name or record, each with the name and the first other file that claims it."""
    claimants: dict[str, list[Path]] = {}
    for file, names in claims.items():
        for name in dict.fromkeys(names):
            claimants.setdefault(name, []).append(file)
    for name, files in claimants.items():
        for file in files:
            yield from ((file, name, other) for other in [one for one in files if one != file][:1])


def show_path(file: Path) -> str:
    """Return a path for messages: relative if below the current folder. URLs are unchanged."""
    if (url := _URL.match(str(file))) is not None:
        return f"{url[1]}://{str(file)[url.end() :]}"
    absolute = Path(os.path.normpath(file.absolute()))
    current = Path.cwd()
    return str(absolute.relative_to(current)) if absolute.is_relative_to(current) else str(absolute)


class InvalidCampaignError(CampaignError):
    """Campaigns have errors; they are in `problems`, and have been shown."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(f"{count_words(problems.error_count, 'error')}: nothing was done")
        self.problems = problems


def refuse_errors(problems: Problems) -> None:
    """Show problems on standard error, and stop if there are errors among them.

    Raises:
        InvalidCampaignError: there are errors.
    """
    show_problems(problems)
    if problems.error_count:
        raise InvalidCampaignError(problems)
