"""MACs of lockfiles' lines: what somebody writes without the state key is refused, line by line."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.lockfile.diff import unite_lockfiles
from runner.ledger.lockfile.format import load_data, parse_lockfile
from runner.ledger.lockfile.integrity import LineMacs
from runner.ledger.lockfile.lockfiles import list_told_guids
from runner.ledger.lockfile.writer import LockfileContents, dump_data, dump_lockfile, refresh_lockfile
from runner.ledger.model import LaunchRecord, Reservation
from runner.ledger.people.forgotten import mark_forgotten
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.reservations import dump_reservation, is_signed_reservation, parse_reservation
from runner.ledger.record.unexplained import dismiss_launches
from runner.ledger.results.runs import make_run
from runner.source.json_schema import load_validator
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.ledger.record.recorded import Identity

KEY = FingerprintKey.from_secret(STATE_KEY)
RUN = make_run("2026-11-20T12:00:00.000000Z", "d1" * 16)
RESTORE = "restore it with git; nothing is sent as long as it is unclear who was texted"
SIGN = (
    "restore it with git; if it is as it should be, since an older version of runner wrote it: `runner key "
    "rotate`, with RUNNER_OLD_STATE_KEY set to the same key, shows what has no MAC, asks, and signs it"
)


def launch(name: str, *phones: str, campaign: str = "pulse", message: str = "ask") -> LaunchRecord:
    """Return an accepted launch."""
    people = tuple(sorted(KEY.fingerprint(campaign, phone) for phone in phones))
    key = launch_key(campaign, message, name, people)
    return LaunchRecord(message, key, "tag", name, people, f"guid-{name}", RUN.started_at, run=RUN.id)


def write(
    *launches: LaunchRecord, campaign: str = "pulse", target: str = "live", macs: bool = True, **more: Any
) -> str:
    """Return the text of a lockfile that the key has signed."""
    signs = LineMacs(STATE_KEY, target, campaign) if macs else None
    return dump_lockfile(LockfileContents(campaign, target, KEY, launches, runs=[RUN], macs=signs, **more))


def edit(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """Return a lockfile's text with its data changed by hand."""
    data = json.loads(text)
    change(data)
    return dump_data(data)


ADA = launch("ada", "+14155550101")
BOB = launch("bob", "+14155550103")
FORGOTTEN = KEY.fingerprint("pulse", "+14155550109")
SIGNED = write(ADA, BOB, forgotten=[FORGOTTEN], dismissed=["guid-x"])


def refuse(file: Path, text: str, words: str, hint: str = RESTORE) -> None:
    """Check that a text is refused with the key, for this cause, and read without it."""
    with pytest.raises(LockfileError) as caught:
        parse_lockfile(file, text, state_key=STATE_KEY)
    assert caught.value.message == f"the lockfile {file} {words}"
    assert caught.value.hint == hint
    parse_lockfile(file, text)


def test_what_the_key_has_signed_is_read(tmp_path: Path) -> None:
    """All lines have MACs, and fit the schema."""
    lockfile = parse_lockfile(tmp_path, SIGNED, state_key=STATE_KEY)
    assert lockfile.launches == (ADA, BOB)
    assert (set(lockfile.forgotten), set(lockfile.dismissed)) == ({FORGOTTEN}, {"guid-x"})
    assert lockfile.is_signed
    assert list(load_validator("lockfile").iter_errors(json.loads(SIGNED))) == []


def test_a_lockfile_without_any_mac_is_refused(tmp_path: Path) -> None:
    """Whoever strips them is found out; what an older version wrote can be signed."""
    refuse(
        tmp_path,
        write(ADA, BOB, macs=False),
        "was written without the RUNNER_STATE_KEY: its head, the launch guid-ada, the launch guid-bob and 1 more "
        "have no MAC",
        SIGN,
    )


SWAPPED: list[dict[str, Any]] = json.loads(SIGNED)["launches"][::-1]


CHANGES: list[tuple[str, Callable[[dict[str, Any]], object], str, str]] = [
    (
        "a launch without its MAC",
        lambda data: data["launches"][0].pop("mac"),
        "was written without the RUNNER_STATE_KEY: the launch guid-ada has no MAC",
        SIGN,
    ),
    (
        "another time",
        lambda data: data["launches"][0].update(sent_at="2026-10-01T12:00:00.000000Z"),
        "was changed without the RUNNER_STATE_KEY: the launch guid-ada does not fit the MAC",
        RESTORE,
    ),
    (
        "another guid",
        lambda data: data["launches"][1].update(project_launch_guid="guid-z"),
        "was changed without the RUNNER_STATE_KEY: the launch guid-z does not fit the MAC",
        RESTORE,
    ),
    (
        "exchanged MACs",
        lambda data: [one.update(mac=two["mac"]) for one, two in zip(data["launches"], SWAPPED, strict=True)],
        "was changed without the RUNNER_STATE_KEY: the launch guid-ada, the launch guid-bob do not fit the MAC",
        RESTORE,
    ),
    (
        "a forgotten person",
        lambda data: data.update(forgotten=sorted([*data["forgotten"], "0" * 20])),
        f"was written without the RUNNER_STATE_KEY: the forgotten person {'0' * 20} has no MAC",
        SIGN,
    ),
    (
        "a dismissed launch",
        lambda data: data.update(dismissed=["guid-x", "guid-y"]),
        "was written without the RUNNER_STATE_KEY: the dismissed launch guid-y has no MAC",
        SIGN,
    ),
    (
        "another name",
        lambda data: data.update(campaign="pulse2", first_name="pulse"),
        "was changed without the RUNNER_STATE_KEY: its head does not fit the MAC",
        RESTORE,
    ),
    (
        "a salt",
        lambda data: data.update(salt="0" * 32),
        "was changed without the RUNNER_STATE_KEY: its head does not fit the MAC",
        RESTORE,
    ),
]


@pytest.mark.parametrize(("change", "words", "hint"), [pytest.param(*row[1:], id=row[0]) for row in CHANGES])
def test_what_is_changed_by_hand_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str, hint: str
) -> None:
    """Each line is what was written with the key, or nothing is sent."""
    refuse(tmp_path, edit(SIGNED, change), words, hint)


def test_a_run_that_was_made_up_is_refused(tmp_path: Path) -> None:
    """A run's own id can be computed by anybody; its MAC cannot."""
    other = {"id": "", "plan_digest": "d2" * 16, "started_at": RUN.started_at}
    other["id"] = make_run(other["started_at"], other["plan_digest"]).id
    refuse(
        tmp_path,
        edit(SIGNED, lambda data: data["runs"].append({**other, "mac": "0" * 32})),
        f"was changed without the RUNNER_STATE_KEY: the run {other['id']} does not fit the MAC",
    )


@pytest.mark.parametrize("place", [{"campaign": "news"}, {"target": "test"}])
def test_lines_of_another_record_are_refused(tmp_path: Path, place: dict[str, Any]) -> None:
    """A line that was signed for one campaign, or on one target, is nothing to another."""
    foreign = json.loads(write(launch("eve", "+14155550103", campaign="pulse"), forgotten=["1" * 20]))
    theirs = json.loads(write(launch("eve", "+14155550103", campaign="pulse"), **place, forgotten=["1" * 20]))
    text = edit(SIGNED, lambda data: data["launches"].append(theirs["launches"][0]))
    refuse(
        tmp_path,
        text,
        "was changed without the RUNNER_STATE_KEY: the launch guid-eve does not fit the MAC",
    )

    def add_forgotten(data: dict[str, Any]) -> None:
        data["forgotten"] = sorted({*data["forgotten"], "1" * 20})
        data["macs"] = sorted({*data["macs"], *theirs["macs"]})

    refuse(
        tmp_path,
        edit(SIGNED, add_forgotten),
        f"was written without the RUNNER_STATE_KEY: the forgotten person {'1' * 20} has no MAC",
        SIGN,
    )
    # The same lines, signed for this record, are read.
    both = edit(SIGNED, lambda data: data["launches"].append(foreign["launches"][0]))
    assert len(parse_lockfile(tmp_path, both, state_key=STATE_KEY).launches) == 3


def test_another_key_is_said(tmp_path: Path) -> None:
    """What another key has signed was not changed: the key is the wrong one."""
    with pytest.raises(LockfileError) as caught:
        parse_lockfile(tmp_path, SIGNED, state_key=OTHER_STATE_KEY)
    assert caught.value.message == (
        f"the lockfile {tmp_path} cannot be read: it was written with another RUNNER_STATE_KEY"
    )


def test_a_digest_of_a_campaign_file_is_no_mac(tmp_path: Path) -> None:
    """Plans show what the key makes of files of one's own choosing: none of it is good for a lockfile."""
    line = {name: value for name, value in SWAPPED[0].items() if name != "mac"} | {
        "sent_at": "2026-01-01T00:00:00Z"
    }
    asked = json.dumps(["live", "pulse", "launches", line], sort_keys=True).encode()
    forged = edit(SIGNED, lambda data: data["launches"][1].update(line, mac=KEY.seal(asked)))
    refuse(
        tmp_path, forged, "was changed without the RUNNER_STATE_KEY: the launch guid-bob does not fit the MAC"
    )


def test_half_surrogate_pairs_are_refused(tmp_path: Path) -> None:
    """JSON can hold what no text can: it is an edited line like any other."""
    words = "was changed without the RUNNER_STATE_KEY: the launch guid-ada does not fit the MAC"
    refuse(tmp_path, SIGNED.replace('"tag": "tag"', '"tag": "\\ud800"', 1), words)
    refuse(tmp_path, edit(SIGNED, lambda data: data["launches"][0].update(mac="\ud800")), words)


def test_git_merges_signed_files(tmp_path: Path) -> None:
    """Both sides of a conflict keep their MACs, in any line."""
    ours = write(ADA, forgotten=[FORGOTTEN]).splitlines()
    theirs = write(BOB, forgotten=["1" * 20], dismissed=["guid-x"]).splitlines()
    text = "\n".join(["{", "<<<<<<< ours", *ours[1:-1], "=======", *theirs[1:-1], ">>>>>>> theirs", "}", ""])
    merged = parse_lockfile(tmp_path, text, state_key=STATE_KEY)
    assert merged.is_merged
    assert merged.launches == (ADA, BOB)
    assert (set(merged.forgotten), set(merged.dismissed)) == ({FORGOTTEN, "1" * 20}, {"guid-x"})
    assert parse_lockfile(tmp_path, unite_lockfiles(tmp_path, text, text), state_key=STATE_KEY).launches == (
        ADA,
        BOB,
    )


def test_signed_files_are_united_without_the_key(tmp_path: Path) -> None:
    """All lines stay as they are, also two of one launch that say different things."""
    fuller = replace(
        launch("ada", "+14155550101", "+14155550102"), project_launch_guid=ADA.project_launch_guid
    )
    ours, theirs = write(ADA, forgotten=[FORGOTTEN]), write(fuller, BOB, dismissed=["guid-x"])
    text = unite_lockfiles(tmp_path, ours, theirs)
    assert text == unite_lockfiles(tmp_path, theirs, ours)
    united = parse_lockfile(tmp_path, text, state_key=STATE_KEY)
    assert {one.project_launch_guid: set(one.recipients) for one in united.launches} == {
        "guid-ada": {*ADA.recipients, *fuller.recipients},
        "guid-bob": set(BOB.recipients),
    }
    data, _ = load_data(tmp_path, text)
    written = [json.loads(side)["launches"] for side in (ours, theirs)]
    assert {one["mac"] for one in data["launches"]} == {one["mac"] for side in written for one in side}


def test_of_two_equal_lines_the_signed_one_stays(tmp_path: Path) -> None:
    """Where one side was signed since, the other one brings back no line without a MAC."""
    signed, bare = write(ADA, BOB), write(ADA, BOB, macs=False)
    assert unite_lockfiles(tmp_path, bare, signed) == unite_lockfiles(tmp_path, signed, bare) == signed


def test_a_renamed_side_is_united(tmp_path: Path) -> None:
    """MACs are made with the first name: lines of both names stay good."""
    macs = LineMacs(STATE_KEY, "live", "pulse")
    renamed = dump_lockfile(
        LockfileContents("news", "live", replace(KEY, first_name="pulse"), [BOB], runs=[RUN], macs=macs)
    )
    united = parse_lockfile(tmp_path, unite_lockfiles(tmp_path, write(ADA), renamed), state_key=STATE_KEY)
    assert (united.campaign, united.first_name, united.launches) == ("news", "pulse", (ADA, BOB))


def test_a_lockfile_is_the_same_each_time(ledger: Ledger, identity: Identity) -> None:
    """The MACs are a function of the ledger and the key: nothing changes where nothing was sent."""
    keyed = replace(identity, state_key=STATE_KEY)
    keyed.lockfile.write_text(write(ADA, BOB), encoding="utf-8")
    campaign_id, _ = enter_record(ledger, keyed, "0" * 32).require_entered()
    with ledger.writing() as connection:
        mark_forgotten(connection, campaign_id, FORGOTTEN)
        dismiss_launches(connection, campaign_id, ["guid-x"])
    for is_changed in (True, False):
        record = enter_record(ledger, keyed, "0" * 32)
        with ledger.reading() as connection:
            assert refresh_lockfile(connection, keyed, record) is is_changed
    assert keyed.lockfile.read_text(encoding="utf-8") == SIGNED
    assert read_record(None, keyed).known.forgotten == {FORGOTTEN}


def test_guids_of_a_forged_lockfile_explain_nothing(tmp_path: Path) -> None:
    """Else whoever can push a file could have people texted twice."""
    file = tmp_path / "pulse.live.lock.json"
    file.write_text(SIGNED, encoding="utf-8")
    assert list_told_guids([file], {}, STATE_KEY) == {"guid-ada", "guid-bob"}
    file.write_text(write(ADA, macs=False), encoding="utf-8")
    assert list_told_guids([file], {}, STATE_KEY) == set()
    assert list_told_guids([file], {}, None) == {"guid-ada"}


def test_a_reservation_is_signed_for_its_campaign() -> None:
    """What was reserved for one campaign, or changed since, says nothing of another."""
    make = partial(LineMacs, STATE_KEY, "live")
    text = dump_reservation(Reservation("r1", (), (RUN,)), make("pulse"))
    assert parse_reservation(text) == Reservation("r1", (), (RUN,))
    assert is_signed_reservation(text, make("pulse"))
    assert not is_signed_reservation(text, make("news"))
    assert not is_signed_reservation(text.replace('"r1"', '"r2"'), make("pulse"))
    assert not is_signed_reservation(dump_reservation(Reservation("r1", ())), make("pulse"))
