"""Names that change between runs, undeclared: what looks new is held, by the service's own count of texts."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.deliver.conftest import Applied, FaultyService, Repository

PEOPLE = 5
_LINE = re.compile(r"add `(renamed_from: \[[^\]]+\])`")


def send(repository: Repository, *, name: str = "name: pulse\n", tag: str = "tag: pulse-2026\n") -> None:
    """Write the campaign and send it to everybody."""
    repository.write_campaign(PEOPLE)
    change(repository.campaign, "name: pulse\ntag: pulse-2026\n", name + tag)
    assert repository.apply().code == 0


def change(file: Path, old: str, new: str) -> None:
    """Replace a part of a file."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def move(repository: Repository, stem: str = "beat") -> Path:
    """Rename the campaign file alone."""
    return repository.campaign.rename(repository.campaign.with_name(f"{stem}.yaml"))


def declare(file: Path, line: str) -> None:
    """Add a line to a campaign."""
    change(file, "version: 1\n", f"version: 1\n{line}\n")


def rename_all(repository: Repository) -> Path:
    """Rename campaign and file together, as the issue has it."""
    file = move(repository)
    change(file, "name: pulse\n", "name: beat\n")
    return file


def assert_held(applied: Applied, faulty: FaultyService) -> str:
    """Hold the service to one text each; return the line that the hint says."""
    assert applied.code == 4, applied.err
    assert faulty.accepted.total() == PEOPLE
    found = _LINE.search(applied.err)
    assert found is not None, applied.err
    assert "or `renamed_from: none` if it is a new" in applied.err
    return found[1]


def test_a_renamed_campaign_is_held_until_it_says_what_it_was(
    repository: Repository, faulty: FaultyService
) -> None:
    """Name and file renamed together: plan and apply name people, old name and line; with it nobody is texted."""
    send(repository)
    file = rename_all(repository)
    planned = repository.run("plan")
    assert planned.code == 4
    applied = repository.apply()
    assert applied.err == planned.err
    assert applied.err == (
        "Error: beat has no record, and 'pulse', which no file has any more, texted 5 people under the tag "
        "'pulse-2026': if it was renamed, they would be texted again. Nothing of it is sent\n"
        "  add `renamed_from: [pulse]` to campaigns/beat.yaml if it is that campaign under a new name, or "
        "`renamed_from: none` if it is a new one\n"
    )
    declare(file, assert_held(applied, faulty))
    again = repository.apply()
    assert (again.code, again.out) == (0, "beat: nothing sent.\n"), again.err
    assert faulty.accepted.total() == PEOPLE


@pytest.mark.slow
def test_a_new_campaign_under_an_old_tag_says_so(repository: Repository, faulty: FaultyService) -> None:
    """A campaign that is `renamed_from: none` is new: everybody gets its texts, once."""
    send(repository)
    file = rename_all(repository)
    change(file, "how are you", "how are you now")
    assert_held(repository.apply(), faulty)
    declare(file, "renamed_from: none")
    for _ in range(2):
        assert repository.apply().code == 0
        assert set(faulty.accepted.values()) == {2}


def test_other_campaigns_are_sent_beside_a_held_one(repository: Repository, faulty: FaultyService) -> None:
    """What may be renamed is left out; the others are texted, and the exit code is the gravest."""
    send(repository)
    other = rename_all(repository).with_name("other.yaml")
    other.write_text(
        'version: 1\nname: other\nrecipients: [{phone: "+14155559999"}]\nmessages: [{id: ask, text: Hi}]\n',
        encoding="utf-8",
    )
    applied = repository.apply()
    assert applied.code == 4
    assert "add `renamed_from: [pulse]` to campaigns/beat.yaml" in applied.err
    assert faulty.accepted["+14155559999"] == 1
    assert set(faulty.accepted.values()) == {1}


def lose_ledger(repository: Repository) -> None:
    """Leave the lockfile alone on record."""
    shutil.rmtree(repository.ledger.parent)


def lose_lockfile(repository: Repository) -> None:
    """Leave the ledger alone on record."""
    repository.lockfile.unlink()


def name_path(repository: Repository) -> None:
    """Change nothing: the campaign's path is given below."""
    del repository


@pytest.mark.parametrize(
    ("spoil", "arguments"),
    [(lose_ledger, ()), (lose_lockfile, ()), (name_path, ("campaigns/beat.yaml",))],
    ids=["ledger lost", "lockfile lost", "path given"],
)
def test_one_record_of_the_old_name_is_enough(
    repository: Repository,
    faulty: FaultyService,
    spoil: Callable[[Repository], None],
    arguments: tuple[str, ...],
) -> None:
    """Whichever record is left, and however the campaign is named on the command line: held, and then known."""
    send(repository)
    file = rename_all(repository)
    spoil(repository)
    declare(file, assert_held(repository.apply(*arguments), faulty))
    assert repository.apply(*arguments).code == 0
    assert faulty.accepted.total() == PEOPLE


def test_a_lockfile_that_is_renamed_along_stops(repository: Repository, faulty: FaultyService) -> None:
    """A lockfile of another name beside the file is an error, which says the line to add."""
    send(repository)
    file = rename_all(repository)
    repository.lockfile.rename(repository.lockfile.with_name("beat.live.lock.json"))
    applied = repository.apply()
    assert applied.code == 1
    assert "add `renamed_from: [pulse]` to it" in applied.err
    declare(file, "renamed_from: [pulse]")
    assert repository.apply().code == 0
    assert faulty.accepted.total() == PEOPLE


@pytest.mark.slow
def test_a_shared_ledger_holds_too(
    repository: Repository,
    faulty: FaultyService,
    postgres_ledger: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On PostgreSQL, without a lockfile: held by the same tag, and by the same texts under another."""
    monkeypatch.setenv("RUNNER_LEDGER", postgres_ledger)
    send(repository)
    file = rename_all(repository)
    repository.lockfile.unlink()
    assert_held(repository.apply(), faulty)
    change(file, "tag: pulse-2026", "tag: other")
    declare(file, assert_held(repository.apply(), faulty))
    assert repository.apply().code == 0
    assert faulty.accepted.total() == PEOPLE


@pytest.mark.parametrize("arguments", [(), ("--limit", "1")], ids=["all", "one at a time"])
def test_a_renamed_file_without_a_name_is_held(
    repository: Repository, faulty: FaultyService, arguments: tuple[str, ...]
) -> None:
    """Name and tag come from the file: with another one, the same texts to the same people hold it.

    They do so where others would be texted first.
    """
    send(repository, name="", tag="")
    file = move(repository)
    change(file, "recipients:\n", 'recipients:\n  - phone: "+14155559999"\n')
    declare(file, assert_held(repository.apply(*arguments), faulty))
    assert repository.apply().code == 0
    assert set(faulty.accepted.values()) == {1}


@pytest.mark.parametrize("is_ledger_lost", [False, True])
def test_a_campaign_that_is_moved_renamed_and_edited_is_held(
    repository: Repository, faulty: FaultyService, *, is_ledger_lost: bool
) -> None:
    """Name, folder, tag and text are others: the record that nobody claims has its messages' ids and people."""
    send(repository, name="", tag="")
    (repository.campaign.parent / "team").mkdir()
    file = repository.campaign.rename(repository.campaign.parent / "team/beat.yaml")
    change(file, "how are you", "how is it")
    if is_ledger_lost:
        lose_ledger(repository)
    applied = repository.apply()
    assert (
        "'pulse', which no file has any more, sent messages of the same ids to 5 people of beat"
        in applied.err
    )
    declare(file, assert_held(applied, faulty))
    assert repository.apply().code == 0
    assert faulty.accepted.total() == PEOPLE


def test_a_new_campaign_to_the_people_of_one_that_is_gone_is_sent(
    repository: Repository, faulty: FaultyService
) -> None:
    """After a campaign's file was deleted, another one, of messages with other ids, texts the same people."""
    send(repository, name="", tag="")
    file = move(repository)
    change(file, "how are you", "how is it")
    change(file, "id: ask\n", "id: winter\n")
    assert repository.apply().code == 0
    assert set(faulty.accepted.values()) == {2}


def test_a_link_to_a_campaign_is_that_campaign(repository: Repository, faulty: FaultyService) -> None:
    """A link beside a file without a name is no second campaign: refused in its folder, known by its path."""
    send(repository, name="", tag="")
    link = repository.campaign.with_name("beat.yaml")
    link.symlink_to(repository.campaign.name)
    together, alone = repository.apply(), repository.apply("campaigns/beat.yaml")
    assert together.code == 1
    assert "pulse" in together.err
    assert "nothing sent" in alone.out or alone.code == 1, (alone.out, alone.err)
    assert faulty.accepted.total() == PEOPLE


@pytest.mark.slow
def test_two_campaigns_may_share_a_tag(repository: Repository, faulty: FaultyService) -> None:
    """A campaign whose file is there claims its record: another with its tag is sent."""
    send(repository)
    second = repository.campaign.with_name("beat.yaml")
    second.write_bytes(repository.campaign.read_bytes())
    change(second, "name: pulse\n", "name: beat\n")
    change(second, "how are you", "how is it")
    for arguments in (("campaigns/beat.yaml",), ()):
        assert repository.apply(*arguments).code == 0
        assert set(faulty.accepted.values()) == {2}


@pytest.mark.slow
def test_what_was_found_is_no_record_of_its_own(repository: Repository, faulty: FaultyService) -> None:
    """Launches that a machine adopts under the new name do not hide that it had another one."""
    send(repository)
    kept = repository.lockfile.read_bytes()
    change(repository.campaign, "recipients:\n", 'recipients:\n  - phone: "+14155559999"\n')
    assert repository.apply().code == 0
    file = rename_all(repository)
    lose_ledger(repository)
    repository.lockfile.write_bytes(kept)
    repository.run("reconcile")
    repository.run("apply", "--settle-only")
    assert repository.apply().code == 4
    declare(file, "renamed_from: [pulse]")
    repository.apply()
    assert set(faulty.accepted.values()) == {1}


def test_a_renamed_message_is_held(repository: Repository, faulty: FaultyService) -> None:
    """A message without a record beside a record without a message: held until it says which it is."""
    send(repository)
    change(repository.campaign, "id: ask\n", "id: opener\n")
    applied = repository.apply()
    line = assert_held(applied, faulty)
    assert "pulse: `ask`, which it has no more, texted 5 people, and `opener` has no record" in applied.err
    change(repository.campaign, "id: opener\n", f"id: opener\n    {line}\n")
    assert repository.apply().code == 0
    assert faulty.accepted.total() == PEOPLE


def test_a_new_message_in_the_place_of_an_old_one_says_so(
    repository: Repository, faulty: FaultyService
) -> None:
    """A message that is `renamed_from: none` is new: everybody gets it, once."""
    send(repository)
    change(repository.campaign, "id: ask\n", "id: opener\n    renamed_from: none\n")
    change(repository.campaign, "how are you", "how is it")
    for _ in range(2):
        assert repository.apply().code == 0
        assert set(faulty.accepted.values()) == {2}
