"""`runner apply --cluster`: real workers send, and nobody is texted twice, whatever becomes of the processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

from runner.plan.digest import digest_json
from tests.cluster.sending_farm import SHORT_LEASES, Farm, Sending, finish, wait_until
from tests.deliver.conftest import FaultyService, Request, faulty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.deliver.conftest import Behaviour
    from tests.postgres import PostgresServer

__all__ = ["faulty"]

HAS_ENDED = """
SELECT bool_or(holder IS NOT NULL AND expires_at < extract(epoch FROM clock_timestamp())) FROM partition_leases
"""
_SENT_ON_S = 55.0
"""For how long a worker that sends on is kept from its end: less than it waits for an answer."""
EXPIRE_CLIENTS = """
CREATE FUNCTION expire() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN NEW.coordinator_until := 0; RETURN NEW; END';
CREATE TRIGGER expire BEFORE INSERT OR UPDATE ON cluster_runs FOR EACH ROW EXECUTE FUNCTION expire()
"""


@pytest.fixture(scope="module")
def farm(postgres: PostgresServer) -> Iterator[Farm]:
    """Two workers for all tests of this module; their ledger is emptied for each."""
    farm = Farm(postgres)
    with farm.scheduler:
        for _worker in range(2):
            farm.scheduler.add_worker(farm.environment)
        yield farm


@pytest.fixture
def sending(
    tmp_path: Path,
    farm: Farm,
    faulty: FaultyService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Sending]:
    """A repository whose campaign the workers send to a service that counts."""
    farm.empty_ledger()
    farm.scheduler.wait_for_workers()
    sending = Sending(tmp_path, farm, faulty, monkeypatch, capsys)
    sending.enter()
    try:
        yield sending
    finally:
        sending.end()


@pytest.mark.slow
def test_workers_send_everyone_once(sending: Sending) -> None:
    """A whole run: what it says, and what is on record, is what one process would say and record."""
    phones = sending.write_campaign(30)
    code, out, err = sending.apply("--format", "json")
    assert (code, err) == (0, "")
    sending.require_everyone_once(phones)
    (campaign,) = json.loads(out)["campaigns"]
    launches = campaign.pop("launches")
    assert campaign == {
        "name": "pulse",
        **dict.fromkeys(("rejected", "unknown", "not_sent", "adopted", "unresolved", "not_tried"), 0),
        **dict.fromkeys(
            ("deferred", "expired", "opted_out", "capped", "open_session", "no_rule", "waiting"), 0
        ),
        "sent": 30,
        "recipients_sent": 30,
    }
    assert {launch["project_launch_guid"] for launch in launches} == set(sending.service.guids)
    assert sending.farm.query("SELECT count(DISTINCT run), count(*) FROM launches WHERE run IS NOT NULL") == [
        (1, 30)
    ]
    assert sending.farm.query("SELECT count(*) FROM cluster_runs") == [(0,)]
    assert sending.apply()[:2] == (0, "pulse: nothing sent.\n")


@pytest.mark.slow
def test_a_run_whose_client_is_killed_is_resumed(sending: Sending) -> None:
    """Tasks without their client end; the next run waits for their leases, settles, and sends the rest."""
    phones = sending.write_campaign(40)
    sending.hold_after(6)
    client = sending.start_until(8, *SHORT_LEASES)
    client.kill()
    client.communicate()
    sending.service.open_gate()
    code, out, err = sending.apply()
    assert code == 0, err
    assert re.search(r"pulse: (\d+ recipients? texted in \d+ launch(es)?|nothing sent)\.\n", out)
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_a_partition_whose_worker_is_killed_is_sent_by_another(sending: Sending) -> None:
    """What the lost worker had begun is settled; the rest of its partition is sent by who takes its lease."""
    phones = sending.write_campaign(40)
    sending.hold_after(6)
    client = sending.start_until(8, *SHORT_LEASES)
    sending.farm.scheduler.kill_worker(sending.farm.find_sender())
    sending.farm.scheduler.add_worker(sending.farm.environment)
    sending.service.open_gate()
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 40 recipients texted in 40 launches.\n"), err
    sending.require_everyone_once(phones)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["SIGTERM", "SIGTERM to its nanny", "retired"])
def test_a_worker_that_leaves_hands_its_partition_over(sending: Sending, way: str) -> None:
    """It records what is in flight, sends nothing more, releases its lease, and exits; another goes on."""
    farm, scheduler = sending.farm, sending.farm.scheduler
    if way == "SIGTERM to its nanny":
        for worker in tuple(scheduler.workers):
            scheduler.kill_worker(worker)
            scheduler.add_worker(farm.environment, nanny=True)
    scheduler.wait_for_workers()
    phones = sending.write_campaign(40)
    is_leaving, has_left = threading.Event(), threading.Event()

    def decide(number: int, _request: Request) -> Behaviour:
        if not is_leaving.is_set():
            return {"end": "hold"} if number > 6 else {}
        # A worker that sent on would never exit.
        has_left.wait(_SENT_ON_S)
        return {}

    sending.service.decide = decide
    client = sending.start_until(8)
    holder, worker = farm.find_holder()
    pid = int(holder.split()[1])
    address = scheduler.find_address(pid)
    if way == "retired":
        scheduler.retire_worker(pid)
    else:
        worker.send_signal(signal.SIGTERM)
    scheduler.workers.remove(worker)
    scheduler.add_worker(farm.environment)
    scheduler.wait_until_leaving(address)
    # A task looks several times a second.
    time.sleep(1)
    is_leaving.set()
    sending.service.open_gate()
    assert worker.wait(timeout=_SENT_ON_S - 5) == 0
    assert (holder,) not in farm.query("SELECT holder FROM partition_leases")
    has_left.set()
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 40 recipients texted in 40 launches.\n")
    assert "waiting" not in err
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_a_worker_that_stood_still_sends_nothing_more(sending: Sending) -> None:
    """Stopped for longer than its lease, it finds on its return that it has lost it, whatever was queued."""
    phones = sending.write_campaign(40)
    sending.hold_after(6)
    client = sending.start_until(8, *SHORT_LEASES)
    worker = sending.farm.find_sender()
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: sending.farm.query(HAS_ENDED) == [(True,)])
    sending.service.open_gate()
    worker.send_signal(signal.SIGCONT)
    code, out, err = finish(client)
    assert (code, out) == (0, "pulse: 40 recipients texted in 40 launches.\n"), err
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_of_two_clients_one_sends(sending: Sending) -> None:
    """The other one says who has the lock, and exits with 6."""
    phones = sending.write_campaign(12)
    sending.hold_after(0)
    client = sending.start_until(1)
    code, _, err = sending.apply()
    assert code == 6
    assert err.startswith(
        f"Error: pulse on live is being sent by another run: process {client.pid} on {socket.gethostname()} since"
    )
    sending.service.open_gate()
    assert finish(client)[0] == 0
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_all_tasks_keep_one_pace(sending: Sending) -> None:
    """All together keep the rate; and after a 429 with Retry-After, none sends until that is over."""
    arrivals: dict[int, float] = {}

    def decide(number: int, _request: Request) -> Behaviour:
        arrivals[number] = time.monotonic()
        if number == 25:
            return {"accepts": False, "status": 429, "headers": {"Retry-After": "3"}}
        return {}

    sending.service.decide = decide
    phones = sending.write_campaign(30, rate="10/s")
    code, _, err = sending.apply()
    assert code == 0, err
    sending.require_everyone_once(phones)
    refused = arrivals[25]
    # A task may be a second late for a moment that it holds (`runner.cluster.heartbeat`), and its request may
    # have to wait here for its turn. Without a pace all would come within half a second.
    assert refused - min(arrivals.values()) >= 24 / 10 - 1.5
    assert not [moment for moment in arrivals.values() if refused + 1.5 < moment < refused + 2.9]
    assert max(arrivals.values()) - refused >= 3


@pytest.mark.slow
def test_a_service_that_fails_ends_the_run_for_all(sending: Sending) -> None:
    """Failures in a row are counted over all tasks: after the limit, nobody sends on."""
    sending.write_campaign(80)
    sending.service.behave({"accepts": False, "status": 500})
    code, out, err = sending.apply("--concurrency", "4")
    assert code == 1
    assert "Warning: pulse: the run was ended, every further send would fail too: " in err
    assert "10 launches in a row failed, the last one with: " in err
    assert "left for the next run, since this one ended early" in out
    assert len(sending.service.requests) <= 10 + 4
    assert sending.farm.query("SELECT count(*) FROM deliveries WHERE NOT released") == [(0,)]


@pytest.mark.slow
def test_an_interrupt_ends_tasks_and_records(sending: Sending) -> None:
    """Ctrl-C stops all tasks; what was sent is recorded, and the next run sends the rest."""
    phones = sending.write_campaign(60)
    sending.hold_after(6)
    client = sending.start_until(8)
    client.send_signal(signal.SIGINT)
    wait_until(lambda: sending.farm.query("SELECT bool_and(stopped) FROM cluster_runs") == [(True,)])
    # Each task looks several times a second.
    time.sleep(1)
    sending.service.open_gate()
    code, _, err = finish(client)
    assert code == 130
    assert "Stopping: waiting for the sends in flight. A second interrupt stops at once.\n" in err
    assert err.endswith(
        "Error: interrupted; everything that was sent is recorded\n  run the same command again to send the rest\n"
    )
    assert 8 <= len(sending.service.launches) < 60
    assert sending.list_recorded() == len(sending.service.launches)
    assert sending.apply()[0] == 0
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_what_is_settled_for_longer_than_a_lease_is_sent(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settle window may be longer than the client's own lease: the next round is open all the same."""
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "2s")
    phones = sending.write_campaign(6)
    sending.service.decide = lambda number, _request: {"accepts": False, "status": 500} if number == 2 else {}
    assert sending.apply(*SHORT_LEASES) == (0, "pulse: 6 recipients texted in 6 launches.\n", "")
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_partitions_that_no_task_ends_are_an_error(sending: Sending) -> None:
    """Tasks that take their client for dead send nothing: that is said, and the next run sends the rest."""
    sending.write_campaign(1)
    assert sending.apply()[0] == 0
    sending.farm.query(EXPIRE_CLIENTS)
    phones = sending.write_campaign(6)
    code, out, err = sending.apply()
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"Error: pulse: \d+ of the plan's partitions were not sent to the end: their tasks lost touch with this "
        r"run again and again\n"
        r"  everything that was sent is recorded; run the same command again to send the rest\n",
        err,
    )
    sending.farm.query("DROP TRIGGER expire ON cluster_runs")
    assert sending.apply()[0] == 0
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_people_who_opt_out_before_the_second_try_count_once(sending: Sending) -> None:
    """What was freed and comes before the gate again is what becomes of it there, not also a launch."""
    phones = sending.write_campaign(6)
    lost: list[str] = []

    def lose_one(_number: int, request: Request) -> Behaviour:
        if lost:
            return {}
        lost.extend(request.data["phone"])
        command = [sys.executable, "-m", "runner", "optouts", "add", "--quiet", *lost]
        subprocess.run(command, cwd=sending.folder, env=dict(os.environ), check=True, timeout=60)
        return {"accepts": False, "status": 500}

    sending.service.decide = lose_one
    said = "pulse: 5 recipients texted in 5 launches, 1 recipient opted out meanwhile.\n"
    assert sending.apply() == (0, said, "")
    assert dict(sending.service.accepted) == dict.fromkeys(set(phones) - set(lost), 1)


@pytest.mark.slow
def test_progress_does_not_count_what_may_be_sent_again(sending: Sending) -> None:
    """A launch of unknown outcome is not done: it would be counted once more when it is sent again."""
    phones = sending.write_campaign(6)
    told: list[int] = []

    def lose_three(number: int, _request: Request) -> Behaviour:
        if number == 7:
            told.extend(row[0] for row in sending.farm.query("SELECT sum(recipients) FROM partition_leases"))
        return {"accepts": False, "status": 500} if number <= 3 else {}

    sending.service.decide = lose_three
    assert sending.apply() == (0, "pulse: 6 recipients texted in 6 launches.\n", "")
    assert told == [3]
    sending.require_everyone_once(phones)


@pytest.mark.slow
def test_a_refusal_is_diagnosed(sending: Sending) -> None:
    """A 403 in one task ends all, and the client looks for the cause once."""
    sending.write_campaign(40)
    sending.service.behave({"accepts": False, "status": 403})
    code, out, err = sending.apply("--concurrency", "2")
    assert code == 1
    assert "Warning: pulse: the service refuses to send (HTTP 403) but takes these credentials" in err
    assert "left for the next run, since this one ended early" in out
    assert len(sending.service.requests) < 40


@pytest.mark.slow
def test_a_saved_plan_set_is_sent(sending: Sending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `plan --out` put into a folder is sent as it is; nothing of it, if it or the record has changed."""
    phones = sending.write_campaign(8)
    folder = str(tmp_path / "set")
    code, _, err = sending.run("plan", "--out", folder)
    assert code == 0, err
    part = next((tmp_path / "set" / "pulse").iterdir())
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    said = (
        f"Error: the plan set {folder} has changed: pulse/{part.name} was edited: it doesn't fit its digest\n"
        "  nothing was sent; make a new plan with `runner plan --cluster … --out DIR`, and review that\n"
    )
    assert sending.apply("--plan", folder) == (1, "", said)
    part.write_bytes(content)
    assert sending.service.requests == []
    with monkeypatch.context() as patch:
        patch.delenv("RUNNER_CLUSTER")
        alone = sending.apply("--plan", folder)
    assert alone == (64, "", f"Error: {folder} is a plan set: it is sent with --cluster\n")
    code, out, err = sending.apply("--plan", folder)
    assert (code, out) == (0, "pulse: 8 recipients texted in 8 launches.\n"), err
    sending.require_everyone_once(phones)
    code, _, err = sending.apply("--plan", folder)
    assert code == 1
    assert err == (
        f"Error: the plan {folder} is out of date: pulse: something has been sent, or recorded, in the meantime\n"
        "  nothing was sent; make a new plan with `runner plan --out`, and review that\n"
    )


@pytest.mark.slow
def test_a_plan_set_is_approved(sending: Sending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cluster has planned is approved, refused and sent as what one process has planned."""
    phones = sending.write_campaign(6)
    folder = str(tmp_path / "set")
    with monkeypatch.context() as patch:
        patch.setenv("RUNNER_STATE_KEY", "a-state-key-for-tests-Xq3v9LrT0bWc")
        # Processes of its own, which have the key.
        code, _, err = sending.run("plan", "--cluster", "local:1", "--out", folder)
        assert code == 0, err
        patch.delenv("RUNNER_CLUSTER")
        assert sending.run("approve", "--plan", folder, "--by", "ada") == (0, "Approved by ada: pulse.\n", "")
        (book,) = tmp_path.rglob("*.approvals.json")
        messages = json.loads(book.read_text(encoding="utf-8"))["approvals"][0]["messages"]
        assert [one["recipients"] for one in messages.values()] == [6]
        assert sending.run("plan")[1].endswith("\npulse: approved by ada\n")
    assert sending.run("plan", "--out", folder)[0] == 0
    digest = json.loads((tmp_path / "set" / "manifest.json").read_text(encoding="utf-8"))["plan_digest"]
    assert sending.apply("--plan", folder, "--require-approval")[0] == 5
    assert sending.service.requests == []
    code, _, err = sending.apply("--plan", folder, "--require-approval", "--expect-digest", digest)
    assert code == 0, err
    sending.require_everyone_once(phones)


def reforge(folder: Path) -> None:
    """Make a set's manifest fit whatever its files are by now: all that who can write there can do."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    for part in (part for campaign in manifest["campaigns"] for part in campaign["partitions"]):
        part["digest"] = blake2b((folder / part["file"]).read_bytes(), digest_size=16).hexdigest()
    body = {name: value for name, value in manifest.items() if name != "checksum"}
    file.write_text(json.dumps({**body, "checksum": digest_json(body)}), encoding="utf-8")


@pytest.mark.slow
def test_an_exchanged_part_is_not_sent(sending: Sending, tmp_path: Path) -> None:
    """Files of another plan, under a manifest that fits them and has the reviewed digest: nothing is sent."""
    sending.write_campaign(8)
    reviewed, other = tmp_path / "set", tmp_path / "other"
    assert sending.run("plan", "--out", str(reviewed))[0] == 0
    file = tmp_path / "campaigns" / "pulse.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("how are you?", "send money!"), encoding="utf-8")
    assert sending.run("plan", "--out", str(other))[0] == 0
    file.write_text(text, encoding="utf-8")
    digest = json.loads((reviewed / "manifest.json").read_text(encoding="utf-8"))["plan_digest"]
    parts = sorted(one.name for one in (reviewed / "pulse").iterdir())
    assert parts == sorted(one.name for one in (other / "pulse").iterdir())
    for name in parts:
        (reviewed / "pulse" / name).write_bytes((other / "pulse" / name).read_bytes())
    reforge(reviewed)
    assert json.loads((reviewed / "manifest.json").read_text(encoding="utf-8"))["plan_digest"] == digest
    said = (
        f"Error: the plan set {reviewed} has changed: what the files of pulse send is not what was planned\n"
        "  nothing was sent; make a new plan with `runner plan --cluster … --out DIR`, and review that\n"
    )
    assert sending.apply("--plan", str(reviewed), "--expect-digest", digest) == (1, "", said)
    assert sending.service.requests == []
