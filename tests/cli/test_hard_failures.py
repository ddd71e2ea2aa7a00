"""Full disks, read-only folders, broken records: a clear error, nothing sent unrecorded, nothing recorded lost."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import urllib.request
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Serve = Callable[..., Any]

PEOPLE = 600
CAMPAIGN = """\
version: 1
name: news
recipients:
  - csv: people.csv
messages:
  - id: ask
    text: "Hi {{ name }}, is it {{ name }}? {{ padding }}"
"""
LOCKFILE = Path("campaigns/news.live.lock.json")
LEDGER = Path(".runner/ledger.sqlite")
UNKNOWN = dict.fromkeys(
    (
        "planned",
        "deferred",
        "next_due",
        "queued",
        "active",
        "complete",
        "answered",
        "unresolved",
        "open_session",
        "no_rule",
        "rejected",
        "reconciled_at",
        "launches",
        "reconciled_launches",
        "differing_launches",
    )
) | {"partly_known": []}


def write_campaign(folder: Path, people: int) -> None:
    (folder / "campaigns").mkdir()
    (folder / "campaigns/news.yaml").write_text(CAMPAIGN, encoding="utf-8")
    rows = (f"Person {number},{'x' * 400},+1415{2_000_000 + number}\n" for number in range(people))
    (folder / "campaigns/people.csv").write_text("name,padding,phone\n" + "".join(rows), encoding="utf-8")


@pytest.fixture
def service(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A service with a disk of its own; yields the environment that names it."""
    folder = tmp_path_factory.mktemp("service")
    with serve(folder, "--db", str(folder / "service.sqlite")) as environment:
        yield {**environment, "RUNNER_SETTLE_WINDOW": "0.1s"}


@pytest.fixture
def sent(tmp_path: Path, run: Run, service: dict[str, str]) -> Path:
    """A folder whose campaign has been sent to three people; a fourth has come since."""
    write_campaign(tmp_path, 3)
    assert run("apply", "--auto-approve", cwd=tmp_path, env=service).returncode == 0
    with (tmp_path / "campaigns/people.csv").open("a", encoding="utf-8") as stream:
        stream.write("Late,x,+14152999999\n")
    return tmp_path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A disk of its own at `disk`; a function that mounts it again with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> None:
        subprocess.run(["mount", "-o", options, *kind, folder], check=True, capture_output=True)

    kind = ["-t", "tmpfs", "tmpfs"]
    try:
        mount("size=64m")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a disk")
    kind = []
    try:
        yield lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def count_accepted(service: Mapping[str, str]) -> Counter[str]:
    """Return how often the service was asked to text each phone."""
    phones: Counter[str] = Counter()
    credentials = f"username={service['RUNNER_USERNAME']}&api_key={service['RUNNER_API_KEY']}"
    while True:
        query = f"project_tag=news&limit=100&offset={sum(phones.values())}&{credentials}"
        with urllib.request.urlopen(f"{service['RUNNER_BASE_URL']}/api/stats/?{query}") as answer:  # noqa: S310  loopback
            objects = json.loads(answer.read())["objects"]
        if not objects:
            return phones
        phones.update(session["to"] for stat in objects for session in stat["sessions"])


def read_status(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(done.stdout)["campaigns"][0]["messages"][0]
    return row


@pytest.mark.slow
@pytest.mark.parametrize("room", [200, 700])
def test_a_disk_that_fills_up(
    tmp_path: Path, run_process: Run, service: dict[str, str], small_disk: Callable[[str], None], room: int
) -> None:
    """The run ends with a clear error; with room again the next one sends the rest: everyone once."""
    folder = tmp_path / "disk"
    write_campaign(folder, PEOPLE)
    used = sum(file.stat().st_blocks * 512 for file in folder.rglob("*"))
    small_disk(f"size={used // 1024 + room}k")
    full = run_process("apply", "--auto-approve", "--concurrency", "4", cwd=folder, env=service)
    assert full.returncode == 1, full.stderr
    assert "that the disk has room" in full.stderr or "some room on its disk" in full.stderr, full.stderr
    assert len(count_accepted(service)) < PEOPLE
    small_disk("size=64m")
    again = run_process("apply", "--auto-approve", "--concurrency", "4", cwd=folder, env=service)
    assert again.returncode == 0, again.stderr
    accepted = count_accepted(service)
    assert len(accepted) == PEOPLE
    assert set(accepted.values()) == {1}
    assert len(json.loads((folder / LOCKFILE).read_text(encoding="utf-8"))["launches"]) == PEOPLE


def test_a_read_only_folder_stops_before_the_first_send(
    tmp_path: Path, run: Run, service: dict[str, str], small_disk: Callable[[str], None]
) -> None:
    """Where the lockfile could not be written, nothing is sent, and the error says so."""
    folder = tmp_path / "disk"
    write_campaign(folder, 3)
    small_disk("ro")
    ledger = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    done = run("apply", "--auto-approve", "--ledger", ledger, cwd=folder, env=service)
    assert done.returncode == 1
    lockfile = folder / LOCKFILE
    assert f"the lockfile {lockfile} could not be written: Read-only file system. Nothing was sent" in (
        done.stderr.replace(f" {LOCKFILE} ", f" {lockfile} ")
    )
    assert not count_accepted(service)


def test_a_ledger_in_a_read_only_folder(
    tmp_path: Path, run: Run, service: dict[str, str], small_disk: Callable[[str], None]
) -> None:
    """It is an error; nothing is sent."""
    folder = tmp_path / "disk"
    write_campaign(folder, 3)
    assert run("apply", "--auto-approve", cwd=folder, env=service).returncode == 0
    small_disk("ro")
    status = run("status", "--format", "json", cwd=folder, env=service)
    assert (status.returncode, status.stdout) == (1, "")
    assert run("apply", "--auto-approve", cwd=folder, env=service).returncode == 1
    assert len(count_accepted(service)) == 3


def overwrite_with_garbage(ledger: Path) -> None:
    ledger.write_bytes(b"no database at all" * 1000)


def overwrite_the_middle(ledger: Path) -> None:
    with ledger.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * (ledger.stat().st_size - 4096))


def raise_version(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute("update ledger_info set value = '99'")
    connection.close()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (overwrite_with_garbage, "file is not a database"),
        (overwrite_the_middle, "database disk image is malformed"),
        (raise_version, "was written by another version of runner"),
    ],
)
def test_a_ledger_that_cannot_be_read(
    sent: Path, run: Run, service: dict[str, str], damage: Callable[[Path], None], words: str
) -> None:
    """Nothing is sent, and status says why; moved away, the ledger is filled from the lockfile."""
    for file in (sent / LEDGER).parent.glob(f"{LEDGER.name}-*"):
        file.unlink()
    damage(sent / LEDGER)
    applied = run("apply", "--auto-approve", cwd=sent, env=service)
    assert applied.returncode == 1
    assert words in applied.stderr
    assert "Traceback" not in applied.stderr
    assert len(count_accepted(service)) == 3
    status = run("status", "--format", "json", cwd=sent, env=service)
    assert (status.returncode, status.stdout) == (1, "")
    assert words in status.stderr
    (sent / LEDGER).rename(sent / "broken")
    assert run("apply", "--auto-approve", cwd=sent, env=service).returncode == 0
    assert len(count_accepted(service)) == 4
    assert set(count_accepted(service).values()) == {1}


@pytest.mark.parametrize(
    ("cut", "put", "words"),
    [
        ('"recipients"', '"people"', "is damaged at launches[0]"),
        ('"launches"', "launches", "is not JSON, or was edited by hand (line 4)"),
        ('"lockfile_version": 2', '"lockfile_version": 3', "was written by a newer version of runner"),
        ('"campaign": "news"', '"campaign": "olds"', "it does not fit its seal"),
    ],
)
def test_a_lockfile_edited_by_hand(
    sent: Path, run: Run, service: dict[str, str], cut: str, put: str, words: str
) -> None:
    """Nothing is sent; status shows all as not known, never as zero, also where there is no ledger."""
    text = (sent / LOCKFILE).read_text(encoding="utf-8")
    assert cut in text
    (sent / LOCKFILE).write_text(text.replace(cut, put, 1), encoding="utf-8")
    applied = run("apply", "--auto-approve", cwd=sent, env=service)
    assert applied.returncode == 1
    assert words in applied.stderr
    assert len(count_accepted(service)) == 3
    status = run("status", "--format", "json", cwd=sent, env=service)
    assert status.returncode == 1
    assert words in status.stderr
    assert read_status(status) == {"id": "ask", "tag": "news", "sent": None, **UNKNOWN}
    (sent / LEDGER).unlink()
    assert read_status(run("status", "--format", "json", cwd=sent, env=service))["sent"] is None


def test_a_lockfile_with_both_sides_of_a_conflict(sent: Path, run: Run, service: dict[str, str]) -> None:
    """It is read as the union, with a warning said once, and the run writes it clean."""
    text = (sent / LOCKFILE).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    conflict = [*lines[:4], "<<<<<<< ours\n", lines[4], "=======\n", lines[5], ">>>>>>> theirs\n", *lines[6:]]
    (sent / LOCKFILE).write_text("".join(conflict), encoding="utf-8")
    status = run("status", "--format", "json", cwd=sent, env=service)
    assert status.returncode == 0
    assert read_status(status)["sent"] == 3
    done = run("apply", "--auto-approve", cwd=sent, env=service)
    assert done.returncode == 0
    assert status.stderr.count("was merged by git: the launches of both sides count as sent") == 1
    assert "merged" not in done.stderr
    assert len(count_accepted(service)) == 4
    clean = json.loads((sent / LOCKFILE).read_text(encoding="utf-8"))
    assert len(clean["launches"]) == 4


def test_a_campaign_that_cannot_be_planned(sent: Path, run: Run, service: dict[str, str]) -> None:
    """Counts are shown all the same; what is planned is not known, and the exit code says so."""
    with (sent / "campaigns/people.csv").open("a", encoding="utf-8") as stream:
        stream.write("Broken,x,12\n")
    status = run("status", "--format", "json", cwd=sent, env=service)
    shown = read_status(status)
    assert (shown["planned"], shown["sent"], shown["unresolved"]) == (None, 3, 0)
    assert "campaigns/people.csv:" in status.stderr
    assert status.stderr.endswith("Left out: campaigns/news.yaml: 1 error\n")
    assert status.returncode == 1


def test_a_campaign_that_cannot_be_read_hides_no_other(sent: Path, run: Run, service: dict[str, str]) -> None:
    """Status shows the campaigns that can be read, says what is wrong with the others, and exits with 3."""
    (sent / "campaigns/broken.yaml").write_text("version: 1\n", encoding="utf-8")
    status = run("status", "--format", "json", cwd=sent, env=service)
    assert status.returncode == 3
    assert run("who", "+14155550101", cwd=sent, env=service).returncode == 3
    assert read_status(status)["sent"] == 3
    assert "broken.yaml" in status.stderr
