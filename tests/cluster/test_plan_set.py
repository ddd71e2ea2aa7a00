"""Plan sets: what is written comes back as it was planned, and nothing else does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from runner.cluster.folder import SharedFolder
from runner.cluster.plan_set import (
    MANIFEST,
    PartDigests,
    completing,
    digest_part,
    locate_plan_set,
    read_launches,
    read_plan_set,
    require_planned,
    write_manifest,
    write_partition,
)
from runner.errors import PlanChangedError, RunnerError
from runner.ledger.model import RecordedDeliveries, format_moment
from runner.plan.digest import DeliveryDigest, digest_json, digest_terms, join_digests, plan_digest
from runner.plan.manifest import PlanSet
from runner.plan.model import PartFile, PlanOptions
from runner.plan.planner import Planner
from runner.service.target import Target, describe_destination
from runner.source.diagnostic import Problems
from runner.text.outgoing import PayloadTemplate, Slot
from tests.cli.inside import run_inside
from tests.plan.worlds import NOON, WORLDS, Person, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.campaign.model import Campaign
    from runner.plan.model import PlannedLaunch

SET = World(people=(Person(name="Ada"), Person(name="“Bo”\\ {}"), Person(asked=None)))
HINT = "nothing was sent; make a new plan with `runner plan --cluster … --out DIR`, and review that"


def describe(campaign: str) -> dict[str, Any]:
    digests = dict.fromkeys(("campaign", "deliveries", "record"), "0" * 32)
    counts = json.loads(Path("schemas/plan-set.schema.json").read_text(encoding="utf-8"))
    names = counts["$defs"]["message"]["required"]
    message = {**dict.fromkeys(names, 0), "id": "ask", "tag": "ask"}
    entry = {"name": campaign, "file": "c.yaml", "target": "sandbox", "digests": digests, "refusals": []}
    campaigns = [{**entry, "destination": describe_destination(Target("sandbox")), "messages": [message]}]
    return {"now": format_moment(NOON), "plan_digest": plan_digest(campaigns), "campaigns": campaigns}


def write_set(
    folder: Path, world: World, load: Callable[..., Campaign]
) -> tuple[Campaign, list[PlannedLaunch]]:
    """Write the plan of a world in one partition, and return its campaign and launches."""
    planner = world.plan(load)
    plan = planner.make_plan(Problems())
    assert plan is not None
    launches = list(planner.iterate_launches())
    part = write_partition(SharedFolder(str(folder)), plan.campaign.name, 0, launches, planner.list_drafts())
    write_manifest(str(folder), describe("pulse"), PlanOptions(limit=7), {"pulse": [part]})
    return plan.campaign, launches


def summarize(launch: PlannedLaunch) -> tuple[Any, ...]:
    """Return all that is sent and recorded of a launch; the order of a definition's keys counts."""
    definition = json.dumps(launch.payload.definition)
    return launch.message, launch.arm, launch.until, definition, launch.payload.digest, launch.phones


@given(world=WORLDS)
@settings(max_examples=60)
def test_launches_come_back_as_planned(
    world: World, tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """Message, arm, time, definition, digest and phones of each launch come back, in order."""
    planned, launches = write_set(tmp_path / "set", world, campaign)
    found = read_plan_set(str(tmp_path / "set"))
    assert list(map(summarize, read_launches(found, planned, 0))) == list(map(summarize, launches))


def test_the_manifest_says_what_the_saved_plan_would(
    tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """Options, moment, digest and the files come back from the manifest."""
    write_set(tmp_path, SET, campaign)
    found = read_plan_set(str(tmp_path))
    assert (found.only, found.limit, found.now) == (None, 7, NOON)
    assert found.digest == describe("pulse")["plan_digest"]
    assert found.partitions("pulse") == 1
    assert "partitions" not in found.campaigns[0]


def test_files_are_their_owners_alone(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """Nobody else can read the phones, and nothing is left of the writing."""
    write_set(tmp_path / "set", SET, campaign)
    files = [file for file in (tmp_path / "set").rglob("*") if file.is_file()]
    assert sorted(file.name for file in files) == [MANIFEST, "part-00000.parquet"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    folders = {tmp_path / "set", *(file.parent for file in files)}
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def read_all(found: PlanSet, campaign: Campaign) -> None:
    for _ in read_launches(found, campaign, 0):
        pass


def fill_disk(folder: SharedFolder) -> None:
    """Write one file, and find the disk full at the next."""
    folder.write("pulse/part-00000.parquet", b"+14155550101")
    raise RunnerError("the disk is full")


def test_an_incomplete_set_is_removed(tmp_path: Path) -> None:
    """An error before the manifest is written leaves no file with phones in a new folder."""
    warned: list[str] = []
    made = SharedFolder(str(tmp_path / "set"))
    with pytest.raises(RunnerError, match="full"), completing(made.url, warned.append):
        fill_disk(made)
    assert list(tmp_path.iterdir()) == []
    assert warned == []


def test_files_of_others_are_named(tmp_path: Path) -> None:
    """In a folder that was there before nothing is removed, and a warning says what may be left."""
    warned: list[str] = []
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(RunnerError, match="full"), completing(str(tmp_path), warned.append):
        raise RunnerError("the disk is full")
    assert (tmp_path / "mine").exists()
    assert warned == [f"{tmp_path} may have files of an incomplete plan, with phones in them: remove them"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_worker_that_comes_late_adds_nothing(tmp_path: Path, *, is_new: bool) -> None:
    """A task that still plans when its run has failed leaves no phones, in a folder of others neither."""
    place = tmp_path / "set"
    if not is_new:
        place.mkdir()
    folder = locate_plan_set(str(place))
    with pytest.raises(RunnerError, match="full"), completing(folder.url, list[str]().append):
        fill_disk(folder)
    with pytest.raises(RunnerError, match="no longer wanted"):
        folder.write("pulse/part-00001.parquet", b"+14155550102")
    assert list(tmp_path.rglob("part-*")) == ([] if is_new else [place / "pulse" / "part-00000.parquet"])


def test_a_folder_of_an_incomplete_plan_can_be_used_again(tmp_path: Path) -> None:
    """A plan that failed in a folder that was there before does not keep the next one out."""
    with pytest.raises(RunnerError, match="full"), completing(str(tmp_path), list[str]().append):
        fill_disk(locate_plan_set(str(tmp_path)))
    with completing(str(tmp_path), pytest.fail):
        SharedFolder(str(tmp_path)).write(MANIFEST, b"{}")


def test_what_a_killed_run_has_left_is_named(tmp_path: Path) -> None:
    """A folder in which a run was killed, or still writes, gets no second plan, and nothing of it is removed."""
    made = SharedFolder(str(tmp_path / "set"))
    with completing(made.url, pytest.fail):
        made.write("pulse/part-00000.parquet", b"phones")
        with pytest.raises(RunnerError) as refused, completing(made.url, pytest.fail):
            pytest.fail("two plans in one folder")
        assert made.read("pulse/part-00000.parquet") == b"phones"
        made.write(MANIFEST, b"{}")
    assert refused.value.message == (
        f"{made.url} has an incomplete plan, of a run that was killed or still goes on"
    )
    assert refused.value.hint == "if none does, remove it: it has phones in it; or name another folder"


def test_a_complete_set_stays(tmp_path: Path) -> None:
    """Once its manifest is written, a set is kept."""
    with completing(str(tmp_path / "set"), pytest.fail):
        SharedFolder(str(tmp_path / "set")).write(MANIFEST, b"{}")
    assert [file.name for file in (tmp_path / "set").iterdir()] == [MANIFEST]


def test_an_edited_partition_is_refused(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """One bit of a partition that is not as it was written stops before its first launch."""
    planned, _ = write_set(tmp_path, SET, campaign)
    file = tmp_path / "pulse" / "part-00000.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(PlanChangedError) as error:
        read_all(read_plan_set(str(tmp_path)), planned)
    assert error.value.message == (
        f"the plan set {tmp_path} has changed: pulse/part-00000.parquet was edited: it doesn't fit its digest"
    )
    assert error.value.hint == HINT


def test_a_missing_partition_is_refused(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """A partition that is gone is said by name."""
    planned, _ = write_set(tmp_path, SET, campaign)
    (tmp_path / "pulse" / "part-00000.parquet").unlink()
    with pytest.raises(PlanChangedError) as error:
        read_all(read_plan_set(str(tmp_path)), planned)
    assert error.value.message == (
        f"the plan set {tmp_path} has changed: pulse/part-00000.parquet is missing"
    )


def test_a_message_that_the_campaign_has_not_is_refused(
    tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """A launch of a message that is gone is not sent."""
    write_set(tmp_path / "set", SET, campaign)
    other = campaign(
        "version: 1\nname: pulse\nrecipients: [{phone: '+14155550100'}]\nmessages: [{id: a, text: b}]\n"
    )
    with pytest.raises(PlanChangedError) as error:
        read_all(read_plan_set(str(tmp_path / "set")), other)
    assert error.value.message == (
        f"the plan set {tmp_path / 'set'} has changed: "
        "pulse/part-00000.parquet sends 'ask', which the campaign has not"
    )


def test_what_is_no_parquet_file_is_refused(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """A file whose digest fits and that holds something else is refused in words."""
    planned, _ = write_set(tmp_path, SET, campaign)
    found = read_plan_set(str(tmp_path))
    file = tmp_path / "pulse" / "part-00000.parquet"
    file.write_bytes(b"")
    empty = PartFile("pulse/part-00000.parquet", 0, 0, "cae66941d9efbd404e4d88758ea67670")
    one = PlanSet(found.url, found.campaigns, None, None, found.now, found.digest, {"pulse": (empty,)})
    with pytest.raises(PlanChangedError) as error:
        read_all(one, planned)
    assert error.value.message == (
        f"the plan set {tmp_path} has changed: pulse/part-00000.parquet is no file of launches"
    )


def digest_set(found: PlanSet, planned: Campaign, *launches: Sequence[PlannedLaunch]) -> list[PartDigests]:
    """Return the digests of files with these launches, as of one partition each."""
    digests = []
    for place, own in enumerate(launches):
        drafts = {
            (one.message.id, one.arm): PayloadTemplate(
                {name: Slot(0) if name == "text" else value for name, value in one.payload.definition.items()}
            )
            for one in own
        }
        part = write_partition(SharedFolder(found.url), "pulse", place, own, drafts)
        one = replace(found, parts={"pulse": (part,)})
        digests.append(digest_part(one, planned, place, len(launches)))
    return digests


PLAIN = """\
version: 1
name: pulse
recipients: [{phone: "+14155550100", vars: {n: A}}, {phone: "+14155550101", vars: {n: B}}]
messages: [{id: ask, text: "Hello {{ n }}"}, {id: more, text: "And {{ n }}"}]
"""
NIGHT = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def plan_plainly(
    folder: Path, load: Callable[..., Campaign]
) -> tuple[PlanSet, Campaign, list[PlannedLaunch]]:
    """Return the set of a campaign that says four things to two people, and its launches."""
    planner = Planner(load(PLAIN), "sandbox", RecordedDeliveries({}, {}), None, PlanOptions())
    plan = planner.make_plan(Problems())
    assert plan is not None
    url = str(folder / "set")
    found = PlanSet(url, (), None, None, NOON, plan.digest, {})
    return found, plan.campaign, list(planner.iterate_launches())


def with_text(launch: PlannedLaunch, text: str) -> PlannedLaunch:
    definition = {**launch.payload.definition, "text": text}
    return replace(launch, payload=launch.payload._replace(definition=definition))


def terms_of(launches: Sequence[PlannedLaunch]) -> str:
    terms = DeliveryDigest()
    for launch in launches:
        for phone in launch.phones:
            terms.add(phone, ("ask", "more").index(launch.message.id), digest_terms(launch.arm, launch.until))
    return join_digests([terms.finish()])


def test_launches_in_another_order_are_the_same_plan(
    tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """What counts is who gets what, not in which order it stands in the files."""
    found, planned, launches = plan_plainly(tmp_path, campaign)
    digests = digest_set(found, planned, launches[::-1])
    require_planned(found.url, "pulse", digests, found.digest, terms_of(launches))


@pytest.mark.parametrize("change", ["less", "more", "twice", "exchanged"])
def test_files_that_send_something_else_are_refused(
    change: str, tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """A launch less, a person more, a message twice, or two people's texts exchanged: it is another plan."""
    found, planned, launches = plan_plainly(tmp_path, campaign)
    first, second = launches[0], next(one for one in launches[1:] if one.message.id == launches[0].message.id)
    changed = {
        "less": launches[1:],
        "more": [replace(first, phones=(*first.phones, "+14155550199")), *launches[1:]],
        "twice": [*launches, first],
        "exchanged": [
            *(one for one in launches if one.message.id != first.message.id),
            replace(first, phones=second.phones),
            replace(second, phones=first.phones),
        ],
    }[change]
    digests = digest_set(found, planned, changed)
    with pytest.raises(PlanChangedError) as error:
        require_planned(found.url, "pulse", digests, found.digest, terms_of(launches))
    assert error.value.message == (
        f"the plan set {found.url} has changed: what the files of pulse send is not what was planned"
    )
    assert error.value.hint == HINT


@pytest.mark.parametrize("terms", [{"until": NIGHT}, {"arm": "warm"}])
def test_files_that_send_at_another_time_are_refused(
    terms: dict[str, Any], tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """The same texts to the same people, but into the night, or counted for another arm: refused."""
    found, planned, launches = plan_plainly(tmp_path, campaign)
    planned = replace(planned, variants=make_arms(campaign))
    launches = [replace(one, arm="short" if one.message.id == "ask" else None) for one in launches]
    changed = [replace(one, **terms) if one.message.id == "ask" else one for one in launches]
    digests = digest_set(found, planned, changed)
    with pytest.raises(PlanChangedError) as error:
        require_planned(found.url, "pulse", digests, found.digest, terms_of(launches))
    assert error.value.message == (
        f"the plan set {found.url} has changed: when, or in which arm, the files of pulse send is not what was "
        "planned"
    )


def make_arms(load: Callable[..., Campaign]) -> Any:
    arms = "variants: {seed: s, of: ask, arms: [{id: short, weight: 1}, {id: warm, weight: 1}]}\n"
    return load(PLAIN + arms).variants


@pytest.mark.parametrize("change", ["text", "nobody", "unplanned", "elsewhere"])
def test_files_that_no_plan_can_have_are_refused(
    change: str, tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """Texts under other texts' digests, to nobody, unasked for, or in a partition where they could hide."""
    found, planned, launches = plan_plainly(tmp_path, campaign)
    files: list[list[PlannedLaunch]] = [launches]
    if change == "text":
        files = [[with_text(launches[0], "Send money"), *launches[1:]]]
    elif change == "nobody":
        files = [[*launches, replace(launches[0], phones=())]]
    elif change == "unplanned":
        found = replace(found, only="more")
    else:
        files = [[*launches], [*launches]]
    with pytest.raises(PlanChangedError) as error:
        digest_set(found, planned, *files)
    assert re.fullmatch(
        f"the plan set {re.escape(found.url)} has changed: pulse/part-0000[01].parquet sends what no plan has in it",
        error.value.message,
    )
    assert error.value.hint == HINT


def edit(file: Path, **changed: Any) -> None:
    data = {**json.loads(file.read_text(encoding="utf-8")), **changed}
    del data["checksum"]
    file.write_text(json.dumps({**data, "checksum": digest_json(data)}), encoding="utf-8")


def test_a_set_is_not_sent_elsewhere(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """A set holds its target to the address that it was made for, before a cluster or a service is asked."""
    write_set(tmp_path / "set", SET, campaign)
    (tmp_path / "c.yaml").touch()
    env = {"RUNNER_BASE_URL": "http://127.0.0.1:9", "RUNNER_USERNAME": "u", "RUNNER_API_KEY": "k"}
    refused = run_inside("apply", "--plan", "set", "--target", "sandbox", cwd=tmp_path, env=env)
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan set is out of date: the target 'sandbox' leads elsewhere: address was the embedded "
        "sandbox and is now http://127.0.0.1:9\n"
        "  nothing was sent, and nobody was asked; put RUNNER_BASE_URL and targets.yaml back, or make a new plan "
        "with `runner plan --out`, and review that\n"
    )


def test_a_forged_place_is_refused(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """A manifest that names another address has another digest than the one that was reviewed."""
    write_set(tmp_path, SET, campaign)
    (entry,) = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))["campaigns"]
    entry["destination"]["address"] = "https://sms.example.com"
    edit(tmp_path / MANIFEST, campaigns=[entry])
    with pytest.raises(RunnerError) as error:
        read_plan_set(str(tmp_path))
    assert error.value.message == f"the plan set {tmp_path} was edited: it doesn't fit its plan digest"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"plan_digest": "0" * 32}, "the plan set {} was edited: it doesn't fit its plan digest"),
        (
            {"format_version": "9.9"},
            "the plan set {} was saved by another version of runner: its format is 9.9, and this one reads 1.0",
        ),
        ({"campaigns": []}, "{} is no plan set"),
        ({"now": "2026-13-01T00:00:00Z"}, "{} is no plan set"),
    ],
)
def test_a_manifest_of_something_else_is_refused(
    changed: dict[str, Any], message: str, tmp_path: Path, campaign: Callable[..., Campaign]
) -> None:
    """Another format, another digest and what is no plan are refused, whatever the checksum says."""
    write_set(tmp_path, SET, campaign)
    edit(tmp_path / MANIFEST, **changed)
    with pytest.raises(RunnerError) as error:
        read_plan_set(str(tmp_path))
    assert error.value.message == message.format(tmp_path)


def test_a_damaged_manifest_is_refused(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """A manifest that was cut off, edited, or is not there is each told apart."""
    write_set(tmp_path, SET, campaign)
    file = tmp_path / MANIFEST
    text = file.read_text(encoding="utf-8")
    words = []
    for damaged in (text[:100], text.replace('"limit": 7', '"limit": 8'), None, "[]"):
        file.unlink(missing_ok=True)
        if damaged is not None:
            file.write_text(damaged, encoding="utf-8")
        with pytest.raises(RunnerError) as error:
            read_plan_set(str(tmp_path))
        words.append(error.value.message)
    assert words == [
        f"the plan set {tmp_path} is damaged or cut off: it is not JSON (line 4, column 18)",
        f"the plan set {tmp_path} was edited: it doesn't fit its checksum",
        f"{tmp_path} is no plan set",
        f"{tmp_path} is no plan set",
    ]


def test_an_object_store_serves_as_well(tmp_path: Path, campaign: Callable[..., Campaign]) -> None:
    """A set at a URL is written and read as one at a path."""
    planner = SET.plan(campaign)
    plan = planner.make_plan(Problems())
    assert plan is not None
    launches = list(planner.iterate_launches())
    url = f"memory://{tmp_path.name}"
    part = write_partition(SharedFolder(url), "pulse", 0, launches, planner.list_drafts())
    write_manifest(url, describe("pulse"), PlanOptions(), {"pulse": [part]})
    found = list(read_launches(read_plan_set(url), plan.campaign, 0))
    assert list(map(summarize, found)) == list(map(summarize, launches))
