"""A repository in which every audience is encrypted: no phone gets anywhere but to the service."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from pyrage import encrypt, x25519

from tests.gitops import test_story

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.gitops.forge import Job
    from tests.gitops.team import Team

pytestmark = pytest.mark.slow

CAMPAIGN = (
    test_story.CAMPAIGN.replace(
        "  - csv: audience/guests.csv\n",
        "  - {csv: audience/guests.csv.age, rows: 12}\nexclude:\n  - {csv: audience/never.csv.age, rows: 1}\n",
    )
    + "policy:\n  audience: encrypted\n"
)
GUESTS = [f"+14152010{number}" for number in range(711, 723)]
NEVER = GUESTS[-1]
_PHONE = re.compile(rb"\D{0,6}?".join(b"4 1 5 2 0 1 0 7 [12] \\d".split()))
"""The guests' numbers, in UTF-8 or UTF-16, with whatever stands between their digits."""
_BINARY = [
    number.to_bytes(size, order)
    for number in (int(phone) for phone in GUESTS)
    for size in (5, 8)
    for order in ("big", "little")
]


def list_phones(content: bytes) -> list[bytes]:
    """Return the guests' phones in bytes, in any usual writing."""
    return [one[0] for one in _PHONE.finditer(content)] + [one for one in _BINARY if one in content]


def read_objects(repository: Path) -> bytes:
    """Return all objects that git has, as they are when unpacked."""
    command = ["git", "cat-file", "--batch-all-objects", "--batch", "--unordered"]
    return subprocess.run(command, cwd=repository, check=True, capture_output=True).stdout


def list_leaks(team: Team, jobs: Sequence[Job]) -> Iterator[str]:
    """Yield where a phone is, of all that is not the service's own."""
    for file in team.folder.rglob("*"):
        # Sockets and the like have nothing in them.
        if file.is_file() and not file.name.startswith("service.sqlite") and list_phones(file.read_bytes()):
            yield str(file)
        if list_phones(str(file).encode()):
            yield f"the name {file}"
        if file.name in (".git", "remote.git") and list_phones(read_objects(file)):
            yield f"objects of {file}"
    said = json.dumps([[one.show(), one.summary, one.outputs] for one in jobs])
    if list_phones(said.encode()):
        yield "logs and summaries"
    kept = (team.github.comments, team.github.issues, team.github.requests)
    if list_phones(json.dumps(kept, default=str).encode()):
        yield "the forge"


@pytest.mark.timeout(900)
def test_no_phone_is_anywhere_but_at_the_service(team: Team) -> None:
    """A fork's review without keys, merge, send, reminder and report leave no phone in what they write."""
    identity = x25519.Identity.generate()
    team.start()
    environment = {**team.forge.environment, "TMPDIR": str(team.folder / "tmp")}
    (team.folder / "tmp").mkdir()
    campaigns = team.forge.environments["campaigns"]
    secrets = {**campaigns.secrets, "RUNNER_AGE_IDENTITY": f"# created: today\n{identity}\n"}
    environments = {**team.forge.environments, "campaigns": replace(campaigns, secrets=secrets)}
    team.forge = replace(team.forge, environment=environment, environments=environments)
    jobs = [_review(team, identity), *_send(team), *_remind(team)]
    assert team.texts("coffee") == Counter(GUESTS[:-1])
    assert team.texts("coffee-nudge") == Counter(GUESTS[4:-1])
    assert list(list_leaks(team, jobs)) == []
    # What was written last may still be in the log beside the file.
    assert list_phones(b"".join(file.read_bytes() for file in team.folder.glob("service.sqlite*")))
    assert list(team.folder.rglob("ledger.sqlite"))
    log = "".join(job.show() for job in jobs)
    assert str(identity) not in log
    assert not any(str(identity).encode() in one.read_bytes() for one in team.folder.rglob("*.sqlite"))


def _review(team: Team, identity: x25519.Identity) -> Job:
    """Without the key the comment says how many rows there are; the form and the texts are checked."""
    team.branch("coffee")
    folder = team.campaigns / "audience"
    folder.mkdir(exist_ok=True)
    rows = "".join(f"Guest,{phone}\n" for phone in GUESTS)
    for name, text in (("guests", f"name,phone\n{rows}"), ("never", f"phone\n{NEVER}\n")):
        content = encrypt(text.encode(), [identity.to_public()])
        (folder / f"{name}.csv.age").write_bytes(content)
    for file in folder.glob("*.csv"):
        file.unlink()
    team.write_campaign("coffee", CAMPAIGN)
    team.commit("Ask how the coffee was")
    job = team.review()
    assert job.result == "success", job.show()
    (comment,) = team.github.comments
    assert (
        "its audience is encrypted, and RUNNER\\_AGE\\_IDENTITY is not set; rows in it: 12" in comment["body"]
    )
    return job


def _send(team: Team) -> list[Job]:
    jobs = team.send(team.merge("coffee", "Merge pull request #7: ask how the coffee was"), team.approve)
    assert jobs["send"].result == "success", jobs["send"].show()
    return list(jobs.values())


def _remind(team: Team) -> list[Job]:
    """Some answer, two days go by, the others are reminded, and reports are published."""
    for phone in GUESTS[:4]:
        assert team.ask("/_sandbox/reply", {"phone": phone, "text": "Great"})["was_expected"]
    team.pass_time(timedelta(days=2, hours=1))
    team.forge = replace(team.forge, variables={"CAMPAIGNS_PAGE": "true"})
    jobs = team.send(team.hour())
    assert "7 people texted" in jobs["plan"].show() + jobs["send"].show(), jobs["plan"].show()
    return list(jobs.values())


@pytest.mark.parametrize(
    "writing",
    ["+14152010711", "14152010711", "(415) 201-0711", "415.201.0711", "+1 415 201 07 11", "4152010711"],
)
def test_the_search_finds_a_phone(writing: str) -> None:
    """What looks for phones here finds each usual writing, in two encodings."""
    assert list_phones(f"x{writing}y".encode())
    assert list_phones(writing.encode("utf-16"))
