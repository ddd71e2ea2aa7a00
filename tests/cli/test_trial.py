"""`apply --test-to`: what is tried, of which message and arm, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from runner.campaign.message_model import Message
from runner.plan.model import PlannedLaunch
from runner.source.diagnostic import Position
from runner.text.payload import Payload
from runner.workflow.trial import choose_launches

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Serve = Callable[..., AbstractContextManager[dict[str, str]]]

TRIAL = ("apply", "--test-to", "+14155550142", "--auto-approve")


def launch_of(name: str, segments: int, arm: str | None = None, message: str = "ask") -> PlannedLaunch:
    made = Message(message, "pulse", Position(Path("campaign.yaml"), 1, 1))
    payload = Payload({"text": name}, name, segments, None, segments_max=segments)
    return PlannedLaunch(made, payload, ("+14155550101",), arm)


def names_of(*launches: PlannedLaunch) -> list[str]:
    return [launch.payload.digest for launch in choose_launches(launches)]


def test_the_largest_comes_first_then_the_first_ones() -> None:
    """The first three launches are tried, and before them the one that takes the most segments."""
    small = [launch_of(f"small {n}", 1) for n in range(5)]
    assert names_of(*small) == ["small 0", "small 1", "small 2"]
    assert names_of(*small, launch_of("large", 2)) == ["large", "small 0", "small 1", "small 2"]
    assert names_of(small[0], launch_of("large", 2), *small[1:]) == ["large", "small 0", "small 1"]


def test_every_message_and_arm_is_tried() -> None:
    """However rare an arm is, somebody's text of it is among those that are tried."""
    common = [launch_of(f"common {n}", 1, "common") for n in range(9)]
    rare, other = launch_of("rare", 1, "rare"), launch_of("other", 1, message="nudge")
    assert names_of(*common, rare, other) == ["common 0", "common 1", "common 2", "rare", "other"]


def sent_texts(environment: dict[str, str]) -> list[dict[str, Any]]:
    credentials = {"username": environment["RUNNER_USERNAME"], "api_key": environment["RUNNER_API_KEY"]}
    stats = requests.get(f"{environment['RUNNER_BASE_URL']}/api/stats/", params=credentials, timeout=10)
    found: list[dict[str, Any]] = stats.json()["objects"]
    return found


def test_a_trial_is_possible_at_any_time(folder: Path, run: Run, serve: Serve) -> None:
    """What is deferred, and a follow-up that is not due, can be tried all the same, arm by arm."""
    tomorrow = datetime.now(UTC) + timedelta(days=2)
    campaign = folder / "campaigns/pulse.yaml"
    with campaign.open("a", encoding="utf-8") as file:
        file.write(
            "  - {id: nudge, tag: nudge, text: Still there?, after: {message: ask, wait: 1d},\n"
            "     complete_existing_sessions: true}\n"
            "variants:\n  seed: t\n  of: nudge\n"
            "  arms:\n    - {id: a, weight: 1, tag: nudge-a}\n    - {id: b, weight: 1, text: Hi, tag: nudge-b}\n"
            f"schedule: {{not_before: {tomorrow:%Y-%m-%dT%H:%M}, timezone: UTC}}\n"
        )
    with serve(folder, "--db", "service.sqlite") as environment:
        tried = run(*TRIAL, cwd=folder, env=environment)
        assert tried.stderr == "Sent 5 test launches to +14•••••••42; nothing was recorded.\n"
        tags = [launch["project_tag"] for launch in sent_texts(environment)]
    assert sorted(tags) == ["nudge-a-test", "nudge-b-test", *["pulse-2026-test"] * 3]


def test_no_trial_to_what_is_no_phone(folder: Path, run: Run, serve: Serve) -> None:
    """A mistyped phone of one's own is refused in a command line's words, and hardly shown."""
    with serve(folder, "--db", "service.sqlite") as environment:
        tried = run("apply", "--test-to", "+1415555", "--auto-approve", cwd=folder, env=environment)
        assert tried.returncode == 64
        assert tried.stderr == (
            "Error: the phone '+14•••55' is refused: it has too few digits\n  write it as in +14155550101\n"
        )
        assert sent_texts(environment) == []


def test_no_trial_for_whoever_opted_out(folder: Path, run: Run, serve: Serve) -> None:
    """Who asked not to be texted is not texted to try something, either."""
    with serve(folder, "--db", "service.sqlite") as environment:
        added = run("optouts", "add", "+14155550142", cwd=folder, env=environment)
        assert added.returncode == 0, added.stderr
        tried = run(*TRIAL, cwd=folder, env=environment)
        assert tried.returncode == 5
        assert tried.stderr == (
            "Error: --test-to: whoever has +14•••••••42 opted out on live: nothing was sent\n"
            "  name a phone of your own; `runner optouts remove` is for who wants to be texted again\n"
        )
        assert sent_texts(environment) == []


def test_what_everybody_has_can_still_be_tried(folder: Path, run: Run, serve: Serve) -> None:
    """Samples are made whatever is on record: they record nothing themselves."""
    with serve(folder, "--db", "service.sqlite") as environment:
        assert run("apply", "--auto-approve", cwd=folder, env=environment).returncode == 0
        tried = run(*TRIAL, cwd=folder, env=environment)
        assert tried.stderr == "Sent 3 test launches to +14•••••••42; nothing was recorded.\n"
        assert run("plan", cwd=folder, env=environment).stdout.endswith("Nothing to send.\n")


def test_the_frequency_cap_keeps_nobody_from_being_tried(tmp_path: Path, run: Run, serve: Serve) -> None:
    """Samples go to oneself: how often the others have been texted lately does not matter."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "campaigns").mkdir()
    for name in ("first", "second"):
        (tmp_path / f"campaigns/{name}.yaml").write_text(
            f"version: 1\nname: {name}\nrecipients: [{{phone: '+14155550101'}}]\n"
            f"messages: [{{id: hi, tag: {name}, text: Hello}}]\n"
            "policy: {frequency_cap: {messages: 1, within: 7d}}\n",
            encoding="utf-8",
        )
    with serve(tmp_path, "--db", "service.sqlite") as environment:
        sent = run("apply", "--auto-approve", "campaigns/first.yaml", cwd=tmp_path, env=environment)
        assert sent.returncode == 0, sent.stderr
        assert "capped" in run("plan", "campaigns/second.yaml", cwd=tmp_path, env=environment).stdout
        tried = run(*TRIAL, "campaigns/second.yaml", cwd=tmp_path, env=environment)
        assert tried.stderr == "Sent 1 test launch to +14•••••••42; nothing was recorded.\n"


def test_nobody_to_take_samples_from_is_an_error(folder: Path, run: Run, serve: Serve) -> None:
    """An audience that is excluded as a whole leaves nothing to try, and that is no success."""
    campaign = folder / "campaigns/pulse.yaml"
    audience = next((folder / "campaigns").rglob("*.csv")).relative_to(campaign.parent)
    written = campaign.read_text(encoding="utf-8")
    campaign.write_text(
        written.replace(
            "exclude:\n", f"exclude:\n  - csv: {audience}\n    phone_column: mobile\n    region: US\n"
        ),
        encoding="utf-8",
    )
    with serve(folder, "--db", "service.sqlite") as environment:
        tried = run(*TRIAL, cwd=folder, env=environment)
        assert tried.returncode == 5
        assert tried.stderr == (
            "Error: --test-to: no recipient is left whose texts could be tried: nothing was sent\n"
            "  `runner plan` says what keeps them from being texted\n"
        )
        assert sent_texts(environment) == []
