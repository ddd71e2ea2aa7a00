"""Saved plans as artifacts: good on another machine for the same world, refused for any other."""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from runner.plan.digest import digest_json, plan_digest
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

NEW_PLAN = "  nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that\n"


@pytest.fixture
def service(folder: Path, serve: Callable[..., Any]) -> Any:
    """The environment of a service that several machines share."""
    with serve(folder, "--db", "service.sqlite") as environment:
        yield {**environment, "RUNNER_SETTLE_WINDOW": "0.1s"}


def save(run: Run, folder: Path, *options: str, **given: Any) -> dict[str, Any]:
    done = run("plan", "--out", "plan.json", *options, cwd=folder, **given)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    return document


def copy_checkout(folder: Path, name: str) -> Path:
    """Return what a clone has of a repository: the campaigns with their lockfiles, and no ledger."""
    other = folder.parent / f"{folder.name}-{name}"
    shutil.copytree(folder / "campaigns", other / "campaigns")
    return other


def forge(folder: Path, document: dict[str, Any]) -> None:
    """Write a saved plan with a checksum that fits it."""
    body = {name: value for name, value in document.items() if name != "checksum"}
    text = json.dumps({**body, "checksum": digest_json(body)})
    (folder / "plan.json").write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_the_digest_is_the_same_wherever_it_is_printed(
    folder: Path, run: Run, check_json: Callable[[str, str], dict[str, Any]], tmp_path: Path
) -> None:
    """JSON, Markdown, a job's summary, the saved plan and the lockfile all name a plan alike."""
    digest = check_json(run("plan", "--format", "json", cwd=folder).stdout, "plan")["plan_digest"]
    saved = save(run, folder)
    check_json((folder / "plan.json").read_text(encoding="utf-8"), "plan")
    summary = tmp_path / "summary.md"
    run("plan", "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": str(summary)})
    said = f"\nPlan digest: {digest}\n"
    assert saved["plan_digest"] == digest
    assert run("plan", "--format", "markdown", cwd=folder).stdout.count(said) == 1
    assert said in summary.read_text(encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    lockfile = json.loads((folder / "campaigns/pulse.sandbox.lock.json").read_text(encoding="utf-8"))
    assert [one["plan_digest"] for one in lockfile["runs"]] == [digest]


def test_a_saved_plan_is_its_owners_alone(folder: Path, run: Run) -> None:
    """Whatever the umask, and also where a file that others could read is there."""
    (folder / "plan.json").touch(0o644)
    umask = os.umask(0o022)
    try:
        for file in ("plan.json", "new.json"):
            assert run("plan", "--out", file, cwd=folder).returncode == 0
    finally:
        os.umask(umask)
    assert [(folder / file).stat().st_mode & 0o777 for file in ("plan.json", "new.json")] == [0o600, 0o600]


def test_launches_are_not_saved(folder: Path, run: Run) -> None:
    """With --launches the output has people's texts, and the file has not."""
    run("plan", "--out", "plan.json", "--format", "json", "--launches", cwd=folder)
    saved = (folder / "plan.json").read_text(encoding="utf-8")
    assert "Ada" not in saved
    assert run("apply", "--plan", "plan.json", cwd=folder).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, STATE_KEY])
def test_a_first_plan_is_good_on_another_machine(
    folder: Path, run: Run, service: dict[str, str], key: str | None
) -> None:
    """Nothing was sent yet, and neither machine has a key but the user's: the plan is the same."""
    environment = {**service, **({"RUNNER_STATE_KEY": key} if key else {})}
    saved = save(run, folder, env=environment)
    other = copy_checkout(folder, "ci")
    shutil.copy(folder / "plan.json", other)
    done = run("apply", "--plan", "plan.json", cwd=other, env=environment)
    assert (done.returncode, done.stdout) == (0, "pulse: 4 people texted.\n"), done.stderr
    lockfile = json.loads((other / "campaigns/pulse.live.lock.json").read_text(encoding="utf-8"))
    assert [one["plan_digest"] for one in lockfile["runs"]] == [saved["plan_digest"]]


@pytest.mark.slow
@pytest.mark.parametrize("reconciles", ["there", "here"])
def test_a_later_plan_is_good_on_a_machine_with_another_ledger(
    folder: Path, run: Run, service: dict[str, str], reconciles: str
) -> None:
    """Same lockfile, ledgers filled differently, one of them reconciled: who gets what is the same."""
    assert run("apply", "--limit", "2", "--auto-approve", cwd=folder, env=service).returncode == 0
    other = copy_checkout(folder, "ci")
    assert run("reconcile", cwd=folder if reconciles == "here" else other, env=service).returncode == 0
    here, there = (save(run, one, env=service)["plan_digest"] for one in (folder, other))
    assert here == there
    shutil.copy(folder / "plan.json", other)
    done = run("apply", "--plan", "plan.json", cwd=other, env=service)
    assert (done.returncode, done.stdout) == (0, "pulse: 2 people texted.\n"), done.stderr


def test_only_the_expected_plan_is_sent(folder: Path, run: Run) -> None:
    """A plan that is whole and true, but not the one that was approved, is refused; the approved one is sent."""
    approved = save(run, folder, "--limit", "2")["plan_digest"]
    other = save(run, folder)["plan_digest"]
    refused = run("apply", "--plan", "plan.json", "--expect-digest", approved, cwd=folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"Error: the plan plan.json is not the one that is expected: its digest is {other}, and not {approved}\n"
        "  nothing was sent; get the plan that was approved, or have this one approved\n"
    )
    done = run("apply", "--plan", "plan.json", "--expect-digest", other, cwd=folder)
    assert (done.returncode, done.stdout) == (0, "pulse: 4 people texted.\n")


def test_an_expected_digest_is_one_and_of_a_plan(folder: Path, run: Run) -> None:
    """An empty digest, as of a job's output that was never set, expects nothing by mistake; nor without a plan."""
    save(run, folder)
    for digest in ("", "0" * 31, "latest"):
        refused = run("apply", "--plan", "plan.json", "--expect-digest", digest, cwd=folder)
        assert (refused.returncode, refused.stdout) == (64, "")
        assert refused.stderr == (
            "Error: --expect-digest takes a plan's digest: 32 digits from 0 to 9 and from a to f\n"
            "  `runner plan --out` prints it\n"
        )
    refused = run("apply", "--auto-approve", "--expect-digest", "0" * 32, cwd=folder)
    assert refused.returncode == 64
    assert refused.stderr == "Error: --expect-digest is about a saved plan\n  name it with --plan\n"


def test_a_plan_cut_off_is_refused(folder: Path, run: Run) -> None:
    """Half a file is no plan."""
    save(run, folder)
    text = (folder / "plan.json").read_text(encoding="utf-8")
    (folder / "plan.json").write_text("\n".join(text.split("\n")[:3]), encoding="utf-8")
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == (f"Error: the plan plan.json is damaged or cut off: it is not JSON\n{NEW_PLAN}")


@pytest.mark.parametrize("name", ["options", "now", "campaigns"])
def test_an_edited_plan_is_refused(folder: Path, run: Run, name: str) -> None:
    """Whatever is changed in a saved plan, it is another one than was reviewed."""
    saved = save(run, folder, "--limit", "2")
    saved["campaigns"][0]["messages"][0]["segments"] += name == "campaigns"
    saved["options"]["limit"] += name == "options"
    saved["now"] = saved["now"].replace("20", "21", 1) if name == "now" else saved["now"]
    (folder / "plan.json").write_text(json.dumps(saved), encoding="utf-8")
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: the plan plan.json was edited: it doesn't fit its checksum\n{NEW_PLAN}"
    )


def test_a_forged_plan_is_refused(folder: Path, run: Run) -> None:
    """Numbers that were not to be sent are found out, also by who makes the digests anew."""
    saved = save(run, folder)
    saved["campaigns"][0]["messages"][0]["to_send"] = 1
    forge(folder, saved)
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: the plan plan.json was edited: it doesn't fit its plan digest\n{NEW_PLAN}"
    )
    forge(folder, {**saved, "plan_digest": plan_digest(saved["campaigns"])})
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan plan.json was edited: it says other numbers than are to be sent\n" + NEW_PLAN
    )


def test_a_plan_without_campaigns_is_none(folder: Path, run: Run) -> None:
    """An empty plan must not stand for all campaigns."""
    forge(folder, {**save(run, folder), "campaigns": [], "plan_digest": plan_digest([])})
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: the plan plan.json is out of date: pulse: the plan has nothing of it\n{NEW_PLAN}"
    )


def test_a_plan_of_another_version_is_refused(folder: Path, run: Run) -> None:
    """A plan is for the program that made it: what it says may mean something else to another."""
    saved = save(run, folder)
    forge(folder, {**saved, "format_version": "2.0"})
    refused = run("apply", "--plan", "plan.json", cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan plan.json has the format 2.0 of another version of runner; this one reads 1.0\n"
        f"{NEW_PLAN}"
    )


def test_a_plan_of_another_target_is_refused(folder: Path, run: Run, service: dict[str, str]) -> None:
    """What was reviewed for the sandbox is not sent to people, whatever the environment says by now."""
    save(run, folder)
    refused = run("apply", "--plan", "plan.json", cwd=folder, env=service)
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan plan.json is for the target 'sandbox', and this run for 'live'\n"
        "  nothing was sent; name the target: --target sandbox\n"
    )


MOVED = (
    "  nothing was sent, and nobody was asked; put RUNNER_BASE_URL and targets.yaml back, or make a new plan with "
    "`runner plan --out`, and review that\n"
)
TARGETS = """\
version: 1
default: live
targets:
  live:
    base_url: {url}
    limits: {{rate: 100/s}}
"""


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[bytes]]]:
    """An address that takes connections, and what is sent to it."""
    heard: list[bytes] = []

    class Listener(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            heard.append(self.request.recv(1 << 16))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
        server.shutdown()


def write_targets(folder: Path, url: str) -> Path:
    file = folder / "campaigns/targets.yaml"
    file.write_text(TARGETS.format(url=url), encoding="utf-8")
    return file


@pytest.mark.parametrize("place", ["targets.yaml", "RUNNER_BASE_URL"])
def test_a_plan_is_not_sent_elsewhere(
    folder: Path, run: Run, service: dict[str, str], elsewhere: tuple[str, list[bytes]], place: str
) -> None:
    """A target that leads elsewhere by now is refused with both addresses, and nothing goes there."""
    here, (there, heard) = service.pop("RUNNER_BASE_URL"), elsewhere
    write_targets(folder, here)
    digest = save(run, folder, env=service)["plan_digest"]
    env = {**service, **({"RUNNER_BASE_URL": there} if place == "RUNNER_BASE_URL" else {})}
    write_targets(folder, here if place == "RUNNER_BASE_URL" else there)
    refused = run("apply", "--plan", "plan.json", cwd=folder, env={**env, "RUNNER_TARGET": "live"})
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan plan.json is out of date: the target 'live' leads elsewhere: "
        f"address was {here} and is now {there}\n{MOVED}"
    )
    assert heard == []
    write_targets(folder, here)
    assert save(run, folder, env=service)["plan_digest"] == digest
    sent = run("apply", "--plan", "plan.json", cwd=folder, env=service)
    assert (sent.returncode, sent.stdout) == (0, "pulse: 4 people texted.\n")


def test_all_that_leads_elsewhere_is_named(folder: Path, run: Run, service: dict[str, str]) -> None:
    """`insecure`, the credentials' variables and the limits are part of what was reviewed."""
    file = write_targets(folder, service.pop("RUNNER_BASE_URL"))
    digests = {save(run, folder, env=service)["plan_digest"]}
    text = file.read_text(encoding="utf-8").replace("{rate: 100/s}", "{concurrency: 3}")
    file.write_text(f"{text}    insecure: true\n    username_env: RUNNER_EU_USERNAME\n", encoding="utf-8")
    env = {**service, "RUNNER_EU_USERNAME": service["RUNNER_USERNAME"]}
    refused = run("apply", "--plan", "plan.json", cwd=folder, env=env)
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan plan.json is out of date: the target 'live' leads elsewhere: insecure was false and "
        "is now true, username_env was RUNNER_USERNAME and is now RUNNER_EU_USERNAME, concurrency was 16 and is "
        f"now 3, rate was 100.0 and is now not set\n{MOVED}"
    )
    digests.add(save(run, folder, env=env)["plan_digest"])
    assert len(digests) == 2


def test_a_plan_of_another_key_is_refused(folder: Path, run: Run) -> None:
    """A plan that was made without the key cannot be held to with it: this says so, and not that all changed."""
    save(run, folder)
    refused = run("apply", "--plan", "plan.json", cwd=folder, env={"RUNNER_STATE_KEY": STATE_KEY})
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: the plan plan.json is out of date: pulse: it was planned with another RUNNER_STATE_KEY, "
        f"or with none: set the same one for both\n{NEW_PLAN}"
    )


def test_what_one_machine_holds_and_another_has_settled_is_one_record(
    folder: Path, run: Run, service: dict[str, str]
) -> None:
    """Whoever may have been texted gets nothing here, and there neither: the plan is the same."""
    assert run("apply", "--limit", "2", "--auto-approve", cwd=folder, env=service).returncode == 0
    other = copy_checkout(folder, "ci")
    (folder / "campaigns/pulse.live.lock.json").unlink()
    with closing(sqlite3.connect(folder / ".runner/ledger.sqlite")) as ledger, ledger:
        ledger.execute("UPDATE launches SET state = 'unknown', project_launch_guid = NULL")
    here, there = (save(run, one, env=service) for one in (folder, other))
    held, settled = (plan["campaigns"][0]["messages"][0] for plan in (here, there))
    assert (held["unresolved"], settled["already_sent"]) == (2, 2)
    assert here["plan_digest"] == there["plan_digest"]


def test_a_lost_lockfile_is_another_record(folder: Path, run: Run, service: dict[str, str]) -> None:
    """A plan that was made without what had been sent is refused: it would text the same people."""
    save(run, folder, env=service)
    other = copy_checkout(folder, "ci")
    assert run("apply", "--limit", "2", "--auto-approve", cwd=other, env=service).returncode == 0
    refused = run("apply", "--plan", "plan.json", cwd=folder, env=service)
    assert refused.returncode == 1
    assert refused.stderr.endswith(
        "Error: the plan plan.json is out of date: pulse: something has been sent, or recorded, "
        f"in the meantime\n{NEW_PLAN}"
    )
