"""What campaigns plan and leave on record, computed by the command line with a fixed key and at a fixed time.

`python -m tests.earlier.recording` writes it anew, which is only right when a campaign below this folder or a
case was changed on purpose: that what is recorded changes with the program is what the test is there to see.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import freezegun

from tests.cli.inside import run_inside
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
NOW = "2026-10-20T15:00:00Z"
"""A Tuesday on which people in the Americas and in Europe may be texted."""
_VARYING = re.compile(r'"(project_launch_guid|run|id|seal|sent_at|started_at)":"[^"]*"')
"""What the service, the run and the clock give to a lockfile."""
_SINCE = re.compile(r'"audience":\{[^{}]*\},')
"""What lockfiles have had since the campaigns were recorded: figures of the audience of each run."""


def list_repositories() -> dict[str, Path]:
    """Return the folders that are planned, by name: the examples as they were, and the valid cases."""
    cases = sorted((HERE.parent / "cases/valid").iterdir())
    return {
        "campaigns": HERE / "campaigns",
        **{f"valid/{case.name}": case for case in cases if case.is_dir()},
    }


def copy_repository(source: Path, folder: Path) -> Path:
    """Copy a repository as the cases' own test does, and return the copy."""
    copy = shutil.copytree(source, folder / "repository", symlinks=True)
    (folder / "outside.csv").write_text("phone,name\n+14155550101,Ada\n", encoding="utf-8")
    links = copy / "links.txt"
    for line in links.read_text(encoding="utf-8").splitlines() if links.exists() else ():
        link, _, target = line.partition(" -> ")
        (copy / link).parent.mkdir(parents=True, exist_ok=True)
        (copy / link).symlink_to(target)
    return copy


def record_plan(repository: Path) -> dict[str, Any]:
    """Return a plan's digests and launches, or its exit code if there is none."""
    ended = run_inside("plan", "--launches", "--format", "json", "--now", NOW, ".", cwd=repository, env=_ENV)
    if not ended.stdout:
        return {"exit_code": ended.returncode, "said": ended.stderr}
    document = json.loads(ended.stdout)
    return {
        "exit_code": ended.returncode,
        "plan_digest": document["plan_digest"],
        "campaigns": {one["name"]: _describe(one) for one in document["campaigns"]},
    }


def record_lockfiles(repository: Path) -> dict[str, Any]:
    """Return the exit code of `apply`, and a digest of each lockfile's bytes less what time and service give."""
    with freezegun.freeze_time(NOW, tick=True):
        ended = run_inside("apply", "--auto-approve", ".", cwd=repository, env=_ENV)
    found = {}
    for path in sorted(repository.rglob("*.lock.json")):
        content = _VARYING.sub(r'"\1":"…"', _SINCE.sub("", path.read_text(encoding="utf-8")))
        found[str(path.relative_to(repository))] = _digest([content])
    return {"exit_code": ended.returncode, "lockfiles": found}


_ENV = {"RUNNER_STATE_KEY": STATE_KEY, "RUNNER_TARGET": "sandbox"}


def _describe(campaign: dict[str, Any]) -> dict[str, Any]:
    return {
        "digests": campaign["digests"],
        "reviewed": campaign["approval"].get("request", {}).get("reviewed"),
        "people": campaign["people"],
        "to_send": {message["id"]: message["to_send"] for message in campaign["messages"]},
        "launches": _digest(json.dumps(launch, sort_keys=True) for launch in campaign["launches"]),
    }


def _digest(texts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def main() -> None:
    """Write the recording."""
    found = {}
    for name, source in list_repositories().items():
        with tempfile.TemporaryDirectory() as scratch:
            copy = copy_repository(source, Path(scratch))
            found[name] = {"plan": record_plan(copy), "apply": record_lockfiles(copy)}
        sys.stderr.write(f"{name}\n")
    RECORDED.write_text(
        json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
