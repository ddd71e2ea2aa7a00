"""Finds the campaign files that a command line means, and loads them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.load import load_campaign, read_names
from runner.cli.console import count_words, note
from runner.errors import CampaignError, RunnerError
from runner.ledger.suppression_file import SUFFIX
from runner.repository.placing import list_folders
from runner.source.confine import repository_root
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign

DEFAULT_FOLDER = Path("campaigns")
TARGETS_FILE = "targets.yaml"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
"""How a path begins that was made of a URL: without one of its slashes."""
_ENDINGS = {".yaml", ".yml"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Campaign files that were read.

    Attributes:
        files: all of them.
        campaigns: those without errors.
        faults: by file, why a campaign must not be gone on with, while others may.
        claimed: the names of all of them, with those that they had before.
        where: what was searched, in words.
    """

    files: tuple[Path, ...]
    campaigns: tuple[Campaign, ...]
    faults: Mapping[Path, CampaignError]
    claimed: frozenset[str]
    where: str

    def say_if_none(self, *, quiet: bool) -> None:
        """Say so if there is no campaign."""
        if not self.files and not quiet:
            note(f"There is no campaign in {self.where}: nothing to do.")


def find_campaign_files(paths: Sequence[Path]) -> list[Path]:
    """Return the campaign files at `paths`, or below `campaigns/` if there are none given.

    There may be none in a folder of campaigns, once the last one was deleted.

    Raises:
        RunnerError: there are none, and nothing says that campaigns belong there.
    """
    given = list(paths) or [DEFAULT_FOLDER]
    found: dict[Path, None] = {}
    for path in given:
        if path.is_dir():
            found.update(dict.fromkeys(file for file in sorted(path.rglob("*")) if _is_campaign(file, path)))
        elif path.exists() and not path.name.endswith(SUFFIX):
            found[path] = None
    if not found and not all(map(_is_home, given)):
        where = ", ".join(map(str, given))
        raise RunnerError(
            f"there is no campaign in {where}",
            hint="write one: `runner schema campaign` prints the format, `runner demo` shows it at work",
        )
    return list(found)


def _is_home(path: Path) -> bool:
    """Return whether campaigns belong into a folder, were it empty; or whether a file belongs to them."""
    if not path.is_dir():
        return path.name.endswith(SUFFIX)
    if path.resolve().name == DEFAULT_FOLDER.name or (path / TARGETS_FILE).is_file():
        return True
    return any(True for ending in (SUFFIX, ".lock.json") for _ in path.rglob(f"*{ending}"))


def find_targets_file(paths: Sequence[Path]) -> Path:
    """Return the `targets.yaml` that counts for campaigns: the first beside them, else the default folder's.

    Args:
        paths: files and folders; empty for the default folder.
    """
    folders = [path if path.is_dir() else path.parent for path in paths]
    candidates = [folder / TARGETS_FILE for folder in (*folders, DEFAULT_FOLDER)]
    return next((file for file in candidates if file.is_file()), candidates[-1])


def _is_campaign(file: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix in _ENDINGS and file.name != TARGETS_FILE and not is_hidden and file.is_file()


def load_campaigns(paths: Sequence[Path], allowed: Sequence[Path | str], problems: Problems) -> Loaded:
    """Load campaign files.

    Args:
        paths: files and folders; empty for the default folder.
        allowed: further folders, and URLs, that campaigns may read from.
        problems: receives what is wrong.

    Raises:
        RunnerError: there is no campaign at all, and nothing says that campaigns belong there.
    """
    files = find_campaign_files(paths)
    known: dict[str, Path] = {}
    campaigns = []
    faults: dict[Path, CampaignError] = {}
    claims: dict[Path, tuple[str, ...]] = {}
    for file in files:
        campaign, found = load_campaign(file, current=Path.cwd(), allowed=tuple(allowed))
        problems.extend(found)
        if campaign is None:
            claims[file] = read_names(file, current=Path.cwd(), allowed=tuple(allowed))
            errors = sum(problem.severity == "error" for problem in found)
            faults[file] = describe_errors(file, errors)
            continue
        claims[file] = (campaign.name, *campaign.renamed_from)
        if campaign.name in known:
            problems.add(_repeated_name(campaign, known[campaign.name]))
            continue
        known[campaign.name] = file
        campaigns.append(campaign)
    elsewhere = _read_elsewhere(files)
    for campaign in campaigns:
        for file, claimed in elsewhere.items():
            if campaign.name in claimed:
                problems.add(_repeated_name(campaign, file))
    problems.extend(_find_claims(campaigns, known))
    rivals = _find_rivals({**claims, **elsewhere})
    return Loaded(
        tuple(files),
        tuple(campaigns),
        {**{file: rivals[file] for file in files if file in rivals}, **faults},
        frozenset(name for names in claims.values() for name in names),
        ", ".join(map(str, paths or (DEFAULT_FOLDER,))),
    )


def _read_elsewhere(files: Sequence[Path]) -> dict[Path, tuple[str, ...]]:
    """Return the names that campaigns in other folders of the repository claim: their record is shared."""
    folders = list_folders(repository_root(Path.cwd()))
    if len(folders) < 2:  # noqa: PLR2004  a single one has no other
        return {}
    own = {file.resolve() for file in files}
    homes = [folder / DEFAULT_FOLDER for folder in folders]
    others = [home for home in homes if not any(file.is_relative_to(home.resolve()) for file in own)]
    found = (file for home in others for file in sorted(home.rglob("*")) if _is_campaign(file, home))
    return {file: read_names(file, current=Path.cwd()) for file in found}


def find_campaign_file(lockfile: Path, target: str) -> Path | None:
    """Return the campaign file beside which a lockfile stands; None if it is gone."""
    stem = lockfile.name.removesuffix(f".{target}.lock.json")
    files = (lockfile.with_name(f"{stem}{ending}") for ending in sorted(_ENDINGS))
    return next((file for file in files if file.is_file()), None)


def describe_errors(file: Path, count: int) -> CampaignError:
    """Return why a campaign is left out that has errors, which are shown on their own."""
    return CampaignError(f"{show_path(file)}: {count_words(count, 'error')}")


def _find_rivals(claims: Mapping[Path, Sequence[str]]) -> dict[Path, CampaignError]:
    """Return the campaigns that share a record with others: whose it is, only a person can say."""
    claimants: dict[str, list[Path]] = {}
    for file, names in claims.items():
        for name in dict.fromkeys(names):
            claimants.setdefault(name, []).append(file)
    return {
        file: CampaignError(
            f"{show_path(file)}: the name or record {name!r} is claimed by {show_path(other)}, too",
            hint="deliveries are known by the campaign's name: only one campaign can go on with them",
        )
        for name, files in claimants.items()
        for file in files
        for other in [one for one in files if one != file][:1]
    }


def _find_claims(campaigns: Sequence[Campaign], names: Mapping[str, Path]) -> Iterator[Diagnostic]:
    """Find records that two campaigns go by: each would hold the other's lock, and one get the record."""
    claims: dict[str, Path] = {}
    for campaign in campaigns:
        for name in dict.fromkeys(campaign.renamed_from):
            if name == campaign.name:
                continue
            if name in names:
                words = f"which is the name of {show_path(names[name])}"
                yield _name_in_use(
                    campaign, name, words, "take it out, or remove the file of the campaign that was renamed"
                )
            elif name in claims:
                words = f"which {show_path(claims[name])} claims, too"
                yield _name_in_use(campaign, name, words, "only one campaign can go on with it: take it out")
            claims.setdefault(name, campaign.file)


def _name_in_use(campaign: Campaign, name: str, words: str, hint: str) -> Diagnostic:
    message = f"`renamed_from` claims the record of {name!r}, {words}"
    place = campaign.position
    return Diagnostic("error", "campaign-name-in-use", message, place.file, place.line, place.column, hint)


def _repeated_name(campaign: Campaign, first: Path) -> Diagnostic:
    message = f"the name {campaign.name!r} is taken by {show_path(first)}"
    hint = "deliveries are known by the campaign's name: give each its own"
    place = campaign.position
    return Diagnostic("error", "campaign-name-repeated", message, place.file, place.line, place.column, hint)


def show_path(file: Path) -> str:
    """Return a path as people write it: relative to the current folder if it is below it. A URL is one."""
    if (url := _URL.match(str(file))) is not None:
        return f"{url[1]}://{str(file)[url.end() :]}"
    absolute = Path(os.path.normpath(file.absolute()))
    current = Path.cwd()
    return str(absolute.relative_to(current)) if absolute.is_relative_to(current) else str(absolute)
