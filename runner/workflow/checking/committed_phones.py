"""Phone numbers in what git keeps of campaigns, outside the audiences that these declare."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.encoding import choose_encoding
from runner.audience.phone_search import PHONE_COMMITTED, find_phones, list_regions
from runner.campaign.model import FileRecipients
from runner.git.command import Git, find_work_tree
from runner.source.diagnostic import Diagnostic
from runner.source.encrypted import STARTS
from runner.workflow.campaigns import DEFAULT_FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Severity

_DIGIT = re.compile(r"\d")
_SAMPLE = 1 << 16


def search_phones(paths: Sequence[Path], campaigns: Collection[Campaign]) -> Iterator[Diagnostic]:
    """Yield a problem for each phone number in files and their names; numbers are not shown.

    Searched is what git keeps below `paths`, by default below `campaigns/`; without git, all files. Audiences
    of `campaigns` are left out. In a campaign that silences it a number is a warning, unless a rule requires
    encrypted audiences.
    """
    sources = [source for one in campaigns for source in (*one.recipients, *one.exclude)]
    declared = {Path(one.location).resolve() for one in sources if isinstance(one, FileRecipients)}
    inline = {(one.position.file.resolve(), one.position.line) for one in sources}
    regions = list_regions(sources)
    silent = {
        one.file.resolve()
        for one in campaigns
        if any(each.code == PHONE_COMMITTED for each in one.ignore) and one.rules.find("audience") is None
    }
    for file in sorted({file for path in paths or (DEFAULT_FOLDER,) for file in _list_files(path)}):
        real = file.resolve()
        shown, hint = _hide(file, regions), "take it out, or move it to an encrypted audience"
        lines = [] if real in declared else _read_lines(file)
        found = [(1, 1, "this file's name", phone) for _, _, phone in find_phones(file.name, regions)]
        found += [
            (number, start + 1, "this line", phone)
            for number, line in enumerate(lines, start=1)
            if (real, number) not in inline
            for start, _, phone in find_phones(line, regions)
        ]
        for line, column, where, phone in found:
            words = f"there is a phone number in {where}: it ends in {phone[-2:]}"
            severity: Severity = "warning" if real in silent else "error"
            yield Diagnostic(severity, PHONE_COMMITTED, words, shown, line, column, hint)


def _hide(file: Path, regions: Collection[str]) -> Path:
    """Return a path without the phone numbers in its name."""
    name = file.name
    for start, end, _ in find_phones(name, regions):
        name = name[:start] + _DIGIT.sub("•", name[start:end]) + name[end:]
    return file.with_name(name)


def _list_files(path: Path) -> Iterator[Path]:
    folder = path if path.is_dir() else path.parent
    top = find_work_tree(folder)
    if top is None:
        yield from (file for file in path.rglob("*") if file.is_file())
        return
    # Beside the paths that git keeps are those that are to be committed.
    kept = Git(folder).ask("ls-files", "-z", "--cached", "--", str(path.absolute())).output
    yield from (file for name in kept.split("\0") if name and (file := folder / name).is_file())


def _read_lines(file: Path) -> list[str]:
    content = file.read_bytes()
    encoding = choose_encoding(content[:_SAMPLE], None)
    is_text = encoding.startswith("utf-16") or b"\0" not in content[:_SAMPLE]
    is_text = is_text and not content.startswith(STARTS)
    return content.decode(encoding, errors="replace").splitlines() if is_text else []
