"""Record files as text: read, sealed, merged by git, united, and refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.errors import LockfileError, MissingKeyError, RunnerError, SuppressionsError
from runner.ledger.files.comparison import (
    Secrets,
    complete_file,
    unite_files,
)
from runner.ledger.files.lockfile import (
    CountedLaunches,
    dump_lockfile,
    dump_reservation,
    parse_lockfile,
    parse_reservation,
)
from runner.ledger.files.suppressions import HoldLine, OptOut, PauseLine, parse_book, seal_book, settle
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import LaunchRecord, ReservedLaunch, Run
from runner.ledger.results.runs import name_run
from runner.source.json_schema import load_validator
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.ledger.files.suppressions import Entry

KEY, PUBLIC = TargetKey.of("live", STATE_KEY), TargetKey.of("live", None)
OTHER = TargetKey.of("live", OTHER_STATE_KEY)
LOCK, BOOK = Path("campaigns/pulse.live.lock.json"), Path("campaigns/live.suppressions.json")
RUNS = (
    name_run(Run("", "2026-12-01T10:00:00.000000Z", "ab" * 16)),
    name_run(Run("", "2026-12-01T11:00:00.000000Z", "cd" * 16, "9d" * 20, dirty=True, triggered_by="ada")),
)
MOMENTS = st.integers(0, 3).map(lambda day: f"2026-12-0{day + 1}T10:00:00.000000Z")
PEOPLE = st.frozensets(st.integers(0, 5), max_size=3).map(
    lambda found: tuple(f"{one:020x}" for one in sorted(found))
)


def make_launch(number: int, people: tuple[str, ...], **notes: Any) -> LaunchRecord:
    """Make a launch; its message goes by the number, as a guid is of one message."""
    at = f"2026-12-01T10:00:0{number}.000000Z"
    message = "ask" if number % 2 else "nudge"
    return LaunchRecord(message, f"key-{number}", "tag é", "d1", people, f"guid-{number}", at, **notes)


LAUNCHES = st.builds(
    make_launch, st.integers(0, 5), PEOPLE, run=st.none() | st.sampled_from([one.id for one in RUNS]),
    arm=st.just("short"), asks=st.booleans(),
)  # fmt: skip
LINES = st.lists(
    LAUNCHES
    | st.sampled_from(RUNS)
    | st.sampled_from(["foreign-1", "foreign-2"])
    | st.integers(1, 9).map(lambda number: CountedLaunches(number, f"guid-{number}")),
    max_size=6,
)
"""What a lockfile has: launches, runs, the guids of dismissed launches, counts."""


def write_lock(lines: Iterable[Any], *former: str, key: TargetKey = KEY, name: str = "pulse") -> str:
    """Return a lockfile's text, as a ledger with all of this would write it."""
    said = list(lines)
    launches: dict[str, LaunchRecord] = {}
    for one in said:
        if isinstance(one, LaunchRecord):
            twin = launches.get(one.project_launch_guid, one)
            launches[one.project_launch_guid] = replace(
                one,
                recipients=tuple(sorted({*one.recipients, *twin.recipients})),
                run=min(filter(None, (one.run, twin.run)), default=None),
                asks=one.asks or twin.asks,
            )
    runs = sorted({one for one in said if one in RUNS}, key=lambda one: one.started_at)
    counts = sorted((one for one in said if isinstance(one, CountedLaunches)), key=lambda one: one.launches)
    contents = dump_lockfile(
        name, key, sorted(launches.values(), key=lambda one: (one.message, one.key)), counts[-1:],
        {one for one in said if isinstance(one, str)}, former, runs,
    )  # fmt: skip
    return "".join(contents)


def read_lock(text: str, key: TargetKey | None = KEY) -> tuple[Any, ...]:
    """Return what a lockfile says, without its seals."""
    found = parse_lockfile(LOCK, text, key).lockfile
    blocks = (found.launches, found.counts, found.dismissed, found.former_names, found.runs)
    return (found.campaign, *(frozenset(replace(one, seal="") for one in block) for block in blocks))


def opt_out(person: int, evidence: str, state: Any, at: str) -> OptOut:
    source: Any = evidence if evidence == "forgotten" else "reply"
    return OptOut(f"{person:020x}", evidence, source, state, at)


ENTRIES = st.lists(
    st.builds(
        opt_out, st.integers(0, 2), st.sampled_from(["r1", "r2", "forgotten"]),
        st.sampled_from(["confirmed", "doubtful", "dismissed"]), MOMENTS,
    )
    | st.builds(
        PauseLine, st.sampled_from(["pulse", "coffee"]), st.sampled_from(["", "why"]),
        st.sampled_from(["paused", "resumed"]), MOMENTS,
    )
    | st.builds(
        HoldLine, st.just("pulse"), st.sampled_from(["g1", "g2"]), st.just("ask"), st.just("tag"),
        PEOPLE, st.booleans(), MOMENTS,
    ),
    max_size=8,
)  # fmt: skip


def write_entries(entries: Iterable[Entry], key: TargetKey = KEY) -> str:
    return "".join(seal_book(key, settle(entries)))


def unite(file: Path, *texts: str) -> str:
    united = texts[0]
    for text in texts[1:]:
        united = unite_files(file, united, text, lambda: Secrets(STATE_KEY))
    return united


def lacks(file: Path, before: str, after: str) -> bool:
    return complete_file(file, after, before, lambda: Secrets(STATE_KEY)) != after


@given(LINES, ENTRIES, st.sampled_from([KEY, PUBLIC]))
def test_files_that_are_written_fit_their_schemas_and_are_read(
    lines: list[Any], entries: list[Entry], key: TargetKey
) -> None:
    """Keys are sorted, a thing is a line, and what is read is what was written; `asks` and others only if so."""
    for name, text in (
        ("lockfile", write_lock(lines, "beat", key=key)),
        ("suppressions", write_entries(entries, key)),
    ):
        data = json.loads(text)
        load_validator(name).validate(data)
        items = [item for block in data.values() if isinstance(block, list) for item in block]
        written = [json.loads(line.strip(" ,")) for line in text.splitlines() if line.startswith("    {")]
        assert [list(each) for each in (data, *written)] == [sorted(each) for each in (data, *items)]
        assert all(len(item["seal"]) == 32 for item in items)
        assert text.endswith("}\n")
    said = read_lock(write_lock(lines, "beat", key=key), key)
    assert said[0] == "pulse"
    assert write_lock(
        [*said[1], *said[2], *(one.project_launch_guid for one in said[3]), *said[5]], "beat"
    ) == (write_lock(lines, "beat"))
    assert [replace(one, seal="") for one in parse_book(BOOK, text, key).entries] == settle(entries)


@given(LINES, LINES, LINES)
def test_versions_of_a_lockfile_unite_in_any_order(one: list[Any], two: list[Any], three: list[Any]) -> None:
    """The union has what any of them has, lacks nothing of them, and needs no key; united with itself a file stays."""
    texts = [write_lock(lines) for lines in (one, two, three)]
    united = unite(LOCK, *texts)
    assert read_lock(united) == read_lock(write_lock([*one, *two, *three]))
    assert read_lock(unite(LOCK, *texts[::-1])) == read_lock(united)
    assert unite(LOCK, united, united) == united
    for text, lines in zip(texts, (one, two, three), strict=True):
        assert not lacks(LOCK, text, united)
        assert lacks(LOCK, text, write_lock([])) == any(line not in RUNS for line in lines)


@given(ENTRIES, ENTRIES, ENTRIES)
def test_versions_of_suppressions_unite_in_any_order(
    one: list[Entry], two: list[Entry], three: list[Entry]
) -> None:
    """The union is, byte for byte, what had been written had all been decided in one place; it lacks nothing."""
    texts = [write_entries(entries) for entries in (one, two, three)]
    united = unite(BOOK, *texts)
    assert united == unite(BOOK, texts[2], unite(BOOK, texts[1], texts[0]))
    assert united == write_entries([*one, *two, *three])
    assert not any(lacks(BOOK, text, united) for text in texts)
    assert lacks(BOOK, texts[0], write_entries([])) == any(
        not isinstance(line, HoldLine) for line in settle(one)
    )


def merge(folder: Path, texts: list[str], style: str, end: str) -> str:
    """Return what git makes of two versions and their ancestor."""
    for name, text in zip(("base", "ours", "theirs"), texts, strict=True):
        (folder / name).write_bytes(text.replace("\n", end).encode())
    command = ["git", "merge-file", "-p", *filter(None, [style]), "ours", "base", "theirs"]
    found = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert not found.stderr
    return found.stdout.decode()


STYLES = st.tuples(st.sampled_from(["", "--diff3", "--zdiff3"]), st.sampled_from(["\n", "\r\n"]))


@settings(max_examples=40)
@given(LINES, LINES, LINES, STYLES, st.booleans())
def test_what_git_makes_of_lockfiles_is_their_union(
    tmp_path_factory: pytest.TempPathFactory,
    base: list[Any],
    ours: list[Any],
    theirs: list[Any],
    style: tuple[str, str],
    is_renamed: bool,  # noqa: FBT001
) -> None:
    """With conflict markers of any kind, in blocks that came or are there twice, under a new name on one side."""
    name = "heartbeat" if is_renamed else "pulse"
    former = ["pulse"] if is_renamed else []
    texts = [write_lock(base), write_lock([*base, *ours], *former, name=name), write_lock([*base, *theirs])]
    merged = merge(tmp_path_factory.mktemp("merge"), texts, *style)
    assert read_lock(merged) == read_lock(write_lock([*base, *ours, *theirs], *former, name=name))
    clean = unite(LOCK, merged, merged)
    assert read_lock(clean) == read_lock(merged) == read_lock(unite(LOCK, *texts))
    assert not parse_lockfile(LOCK, clean).is_merged


@settings(max_examples=40)
@given(ENTRIES, ENTRIES, ENTRIES, STYLES)
def test_what_git_makes_of_suppressions_is_their_union(
    tmp_path_factory: pytest.TempPathFactory,
    base: list[Entry],
    ours: list[Entry],
    theirs: list[Entry],
    style: tuple[str, str],
) -> None:
    """Nothing that either side decided later is lost, and nothing that both have replaced counts."""
    texts = [write_entries(base), write_entries([*base, *ours]), write_entries([*base, *theirs])]
    merged = merge(tmp_path_factory.mktemp("merge"), texts, *style)
    united = unite(BOOK, texts[1], texts[2])
    # A hold that ended on one side comes back: only a record ends it.
    assert not lacks(BOOK, united, unite(BOOK, merged, merged))
    decided = [one for one in parse_book(BOOK, merged, KEY).entries if not isinstance(one, HoldLine)]
    assert decided == [one for one in parse_book(BOOK, united).entries if not isinstance(one, HoldLine)]


LAUNCH = make_launch(1, ("a" * 20, "b" * 20), run=RUNS[1].id)
LOCK_LINES = [LAUNCH, make_launch(3, ("c" * 20,)), *RUNS, "foreign-1", CountedLaunches(2, "guid-3")]
BOOK_LINES: list[Entry] = [
    opt_out(1, "r1", "confirmed", "2026-12-01T10:00:00.000000Z"),
    PauseLine("pulse", "why", "paused", "2026-12-01T10:00:00.000000Z"),
    HoldLine("pulse", "g1", "ask", "tag", ("a" * 20,), True, "2026-12-01T10:00:00.000000Z"),  # noqa: FBT003
]
RESERVED = ReservedLaunch("ask", "key", "tag", "d1", ("a" * 20,), "t3xt", "2026-12-01T10:00:00.000000Z")
HOME = Path("refs/runner/live")
FILES: dict[str, tuple[Callable[[TargetKey], str], Callable[[str, TargetKey], Any]]] = {
    "the lockfile campaigns/pulse.live.lock.json": (
        lambda key: write_lock(LOCK_LINES, "beat", key=key),
        lambda text, key: parse_lockfile(LOCK, text, key),
    ),
    "campaigns/live.suppressions.json": (
        lambda key: write_entries(BOOK_LINES, key),
        lambda text, key: parse_book(BOOK, text, key),
    ),
    "the lockfile refs/runner/live": (
        lambda key: dump_reservation(key, "pulse", [RESERVED], RUNS),
        lambda text, key: parse_reservation(HOME, text, "pulse", key),
    ),
}


def change(value: Any) -> Any:
    """Return another value of the same form."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return value[:-1]
    if isinstance(value, int):
        return value + 1
    last = {"0": "1", "Z": "Z"}.get(value[-1], "0")
    return {"confirmed": "dismissed", "paused": "resumed", "reply": "import"}.get(
        value, value.replace("2026", "2027") if value.endswith("Z") else value[:-1] + last
    )


@pytest.mark.parametrize("key", [KEY, PUBLIC], ids=["secret", "public"])
@pytest.mark.parametrize("file", FILES)
def test_a_line_that_was_changed_is_refused(file: str, key: TargetKey) -> None:
    """Whatever in it was, and its seal, too: with its place; lines in another order say the same."""
    write, read = FILES[file]
    text = write(key)
    lines = text.splitlines()
    how = (
        "was written without this RUNNER_STATE_KEY" if key.is_secret else "was edited by hand, or is damaged"
    )
    places = [number for number, line in enumerate(lines) if line.startswith("    {")]
    assert len(places) >= 3
    for number in places:
        end = "," if lines[number].endswith(",") else ""
        said = json.loads(lines[number].rstrip(","))
        for name in said.keys() - {"kind"}:
            forged = [*lines]
            forged[number] = (
                "    " + json.dumps({**said, name: change(said[name])}, separators=(",", ":")) + end
            )
            with pytest.raises(RunnerError) as caught:
                read("\n".join([*forged, ""]), key)
            assert caught.value.message.startswith(f"{file}:{number + 1}: "), (name, caught.value.message)
            assert caught.value.message.endswith(f" {how}: it does not fit its seal")
            assert str(caught.value.hint).startswith("restore it with git")
        del said["seal"]
        with pytest.raises(RunnerError, match="does not fit its seal"):
            read("\n".join([*lines[:number], f"    {json.dumps(said)}{end}", *lines[number + 1 :], ""]), key)
    data = json.loads(text)
    turned = {name: value[::-1] if isinstance(value, list) else value for name, value in data.items()}
    read(json.dumps(turned), key)


def test_lines_of_another_place_are_refused() -> None:
    """A line counts for its campaign, target and kind only, and not for what a digest could say."""
    foreign = [
        (write_lock(LOCK_LINES, name="news"), "launches"),
        (write_lock(LOCK_LINES, key=TargetKey.of("test", STATE_KEY)), "launches"),
        (write_lock(LOCK_LINES, name="news"), "dismissed"),
        (write_lock(LOCK_LINES, name="news"), "runs"),
    ]
    own = json.loads(write_lock([]))
    for text, block in foreign:
        with pytest.raises(LockfileError, match="does not fit its seal"):
            parse_lockfile(LOCK, json.dumps({**own, block: json.loads(text)[block]}), KEY)
    # A dismissed launch has the fields of a campaign's former name but for one.
    (line,) = json.loads(write_lock(["foreign-1"]))["dismissed"]
    moved = {"name": line["project_launch_guid"], "seal": line["seal"]}
    with pytest.raises(LockfileError, match="the former name foreign-1 was written without"):
        parse_lockfile(LOCK, json.dumps({**own, "former_names": [moved]}), KEY)
    staging = json.loads(write_entries(BOOK_LINES, TargetKey.of("staging", STATE_KEY)))
    book = {**json.loads(write_entries([])), "entries": staging["entries"]}
    with pytest.raises(SuppressionsError, match="does not fit its seal"):
        parse_book(BOOK, json.dumps(book), KEY)
    reserved = dump_reservation(KEY, "pulse", [RESERVED], RUNS)
    for campaign, text in (("news", reserved), ("pulse", reserved.replace('"ask"', '"asks"'))):
        with pytest.raises(LockfileError, match="does not fit its seal"):
            parse_reservation(HOME, text, campaign, KEY)
    said = replace(LAUNCH, recipients=())
    line = {**json.loads(LAUNCH_JSON), "recipients": [], "seal": KEY.seal("plan", str(said).encode())}
    with pytest.raises(LockfileError, match="does not fit its seal"):
        parse_lockfile(LOCK, json.dumps({**own, "launches": [line]}), KEY)


LAUNCH_JSON = json.dumps(json.loads(write_lock([LAUNCH]))["launches"][0])


@pytest.mark.parametrize("file", FILES)
def test_another_key_is_named(file: str) -> None:
    """With another key everyone would look new, and nobody would have opted out; each hint says what to do."""
    write, read = FILES[file]
    cases: list[tuple[TargetKey, TargetKey, type[RunnerError], str, str]] = [
        (KEY, PUBLIC, MissingKeyError, "was written with a RUNNER_STATE_KEY, and none is set", "set RUNNER_STATE_KEY"),
        (KEY, OTHER, RunnerError, "cannot be read: it was written with another RUNNER_STATE_KEY", "set RUNNER_STATE"),
        (PUBLIC, KEY, RunnerError, "was written without a RUNNER_STATE_KEY, and now there is one", "`runner key ro"),
    ]  # fmt: skip
    for written, present, kind, words, hint in cases:
        with pytest.raises(kind) as caught:
            read(write(written), present)
        assert caught.value.message == f"{file} {words}"
        assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize(
    ("file", "text"), [(LOCK, write_lock(LOCK_LINES)), (BOOK, write_entries(BOOK_LINES))]
)
def test_a_file_under_two_keys(file: Path, text: str) -> None:
    """A version that was moved to the present key replaces the older one; other keys unite with nothing."""
    moved, foreign = text.replace(KEY.name, PUBLIC.name), text.replace(KEY.name, OTHER.name)
    assert not lacks(file, moved, text)
    assert unite(file, moved, text) == unite(file, text, moved) == text
    assert lacks(file, text, moved)
    with pytest.raises(RunnerError) as caught:
        unite(file, moved, foreign)
    assert caught.value.message == (
        f"{file} is there under two keys, and one version may have people that the other lacks"
    )
    lines = text.splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if "key_fingerprint" in line)
    conflict = [
        "<<<<<<< ours\n", lines[place], "=======\n", lines[place].replace(KEY.name, OTHER.name), ">>>>>>> them\n",
    ]  # fmt: skip
    merged = "".join([*lines[:place], *conflict, *lines[place + 1 :]])
    with pytest.raises(RunnerError) as caught:
        unite(file, merged, merged)
    assert caught.value.message.endswith(
        f"{file} was merged from two sides that were written with different keys"
    )
    assert f"git checkout --ours {file}" in str(caught.value.hint)


EMPTY = write_lock([])
DAMAGE = [
    ("", "is not JSON, or was edited by hand (line 1)"),
    ('{\n  "campaign": ', "is not JSON, or was edited by hand (line 2)"),
    ("[]", "is damaged at its top level"),
    ("{}", "is damaged at its top level"),
    (write_lock([LAUNCH]).replace('"message":', '"massage":'), "is damaged at launches[0]"),
    (write_lock([LAUNCH]).replace(f'"{"a" * 20}"', '"+14155550101"'), "is damaged at launches[0].recipients[0]"),
    (write_lock([LAUNCH]).replace('"tag é"', '"\\ud800"'), "is not JSON, or was edited by hand (line 5)"),
    (EMPTY.replace('"lockfile_version": 2', '"lockfile_version": 3'), "was written by a newer version of runner"),
    (EMPTY.replace('"lockfile_version": 2', '"lockfile_version": 1'), "was written by an older version of runner"),
    (EMPTY.replace('"launches": []', '"launches": {}'), "is damaged at launches"),
    (
        EMPTY.replace("{\n", "{\n<<<<<<< ours\n", 1),
        "has merge conflict markers in it, around lines that were edited by hand",
    ),
    (
        '{\n<<<<<<< ours\n  "campaign": "pulse",\n=======\n>>>>>>> theirs\n}',
        "has merge conflict markers in it, around lines that were edited by hand",
    ),
    (
        EMPTY.replace('"target": "live"', '"target": "live",\n  "target": "test"'),
        "was merged, and its sides don't agree on target",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), DAMAGE, ids=[words for _, words in DAMAGE])
def test_damage_is_never_taken_for_an_empty_record(text: str, words: str) -> None:
    """It stops, says where, and how to mend it."""
    with pytest.raises(LockfileError) as caught:
        parse_lockfile(LOCK, text, KEY)
    assert caught.value.message == f"the lockfile {LOCK} {words}"
    assert caught.value.hint == (
        "update runner"
        if "newer" in words
        else "restore it with git; nothing is sent as long as it is unclear who was texted"
    )


@given(st.data())
def test_a_file_that_was_cut_is_refused(data: st.DataObject) -> None:
    """Wherever it ends, it is not read as a shorter record; neither with lines in its middle cut."""
    for read, text in (
        (lambda text: parse_lockfile(LOCK, text, KEY), write_lock(LOCK_LINES)),
        (lambda text: parse_book(BOOK, text, KEY), write_entries(BOOK_LINES)),
    ):
        cut = data.draw(st.integers(0, len(text) - 2))
        with pytest.raises(RunnerError):
            read(text[:cut])


def test_a_renamed_message_is_merged() -> None:
    """A launch that one side has under the old id and the other under the new one is there under both."""
    renamed = replace(LAUNCH, message="opener")
    data = json.loads(write_lock([LAUNCH]))
    data["launches"] += json.loads(write_lock([renamed]))["launches"]
    found = parse_lockfile(LOCK, json.dumps(data), KEY).lockfile.launches
    assert {one.message for one in found} == {"ask", "opener"}


@pytest.mark.parametrize(
    ("ours", "theirs", "winner"),
    [
        (("confirmed", 1), ("dismissed", 2), "dismissed"),
        (("dismissed", 1), ("confirmed", 2), "confirmed"),
        (("confirmed", 1), ("dismissed", 1), "confirmed"),
        (("doubtful", 1), ("dismissed", 1), "doubtful"),
        (("doubtful", 1), ("confirmed", 1), "confirmed"),
    ],
)
def test_the_later_decision_counts(ours: tuple[str, int], theirs: tuple[str, int], winner: str) -> None:
    """Of two of the same moment, the more cautious one."""
    entries = [opt_out(1, "r", state, f"2026-12-0{day}T10:00:00.000000Z") for state, day in (ours, theirs)]
    for turned in (entries, entries[::-1]):
        (entry,) = settle(turned)
        assert isinstance(entry, OptOut)
        assert entry.state == winner
