"""Workflows for campaigns in a folder below the top, where GitHub finds no workflows."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath

_FOLDER = ".github/workflows"
_JOB = re.compile(r"^  [\w-]+:\n(?:(?:    .*)?\n)+", re.MULTILINE)
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_WORKING_DIRECTORY = re.compile(r'^        working-directory: ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_RUNS_ON = re.compile(r"^    runs-on: .*\n", re.MULTILINE)


def name_workflow(kind: str, below: PurePosixPath) -> str:
    """Return the path of a folder's workflow (`review` or `send`); the folder `.` is the top."""
    return f"{_FOLDER}/campaigns-{'-'.join(filter(None, [kind, make_slug(below)]))}.yml"


def place_workflow(text: str, below: PurePosixPath) -> str:
    """Return a workflow of the top, adapted to a folder below it.

    Its jobs work in that folder and start on changes there. The concurrency group `campaigns` stays common to
    all folders, which share a record; other groups become the folder's own.
    """
    for pattern, write in (
        (r"^name: (.+)$", lambda found: f"name: {_quote(f'{found[1]} ({below})')}"),
        # A check that branch rules require by its name.
        (r"^    name: Review$", lambda _: f"    name: {_quote(f'Review ({below})')}"),
        (
            r'^      - "(!?)(campaigns/.+)"$',
            lambda found: f"      - {_quote(f'{found[1]}{below}/{found[2]}')}",
        ),
        (
            rf"^      - {_FOLDER}/campaigns-(\w+)\.yml$",
            lambda found: f"      - {_quote(name_workflow(found[1], below))}",
        ),
        (r"^(.*\bgroup: \"?campaigns)-", lambda found: f"{found[1]}-{make_slug(below)}-"),
    ):
        text = re.sub(pattern, write, text, flags=re.MULTILINE)
    before, mark, jobs = text.partition("\njobs:\n")
    return before + mark + _JOB.sub(lambda job: _place_job(job[0], below), jobs)


def list_folders(top: Path) -> list[Path]:
    """Return the folders of campaigns that a repository's workflows send from; the top may be one of them."""
    found = []
    for file in sorted((top / _FOLDER).glob("campaigns-send*.yml")):
        text = file.read_text(encoding="utf-8", errors="replace")
        written = _WORKING_DIRECTORY.search(text)
        found.append(top / json.loads(written[1]) if written else top)
    return found


def _place_job(job: str, below: PurePosixPath) -> str:
    # The other workflows have no such folder.
    if "checkout" not in job:
        return job
    defaults = f"    defaults:\n      run:\n        working-directory: {_quote(str(below))}\n"
    return _RUNS_ON.sub(lambda line: line[0] + defaults, job, count=1)


def make_slug(below: PurePosixPath) -> str:
    """Return a folder as an ASCII part of a name; empty for the top."""
    joined = "--".join(below.parts)
    plain = _ODD.sub("_", joined)
    # So that folders that differ only in other characters get different names.
    return plain if plain == joined else f"{plain}-{sha256(joined.encode()).hexdigest()[:6]}"


def _quote(text: str) -> str:
    """Return a text quoted for YAML."""
    return json.dumps(text, ensure_ascii=False)
