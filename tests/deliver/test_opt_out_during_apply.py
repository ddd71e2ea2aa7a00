"""Opt-outs and pauses that are entered while `apply` runs, from the command line to the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from runner.source.storage import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request


def opt_out_at(number: int, repository: Repository, *phones: str) -> Callable[[int, Request], Behaviour]:
    """Return what has the service accept everything, and `runner optouts add` run before a send is answered."""

    def decide(request: int, _request: Request) -> Behaviour:
        if request == number:
            enter(repository, "optouts", "add", "--quiet", *phones)
        return {}

    return decide


def enter(repository: Repository, *arguments: str) -> None:
    command = [sys.executable, "-m", "runner", *arguments]
    subprocess.run(command, cwd=repository.folder, env=dict(os.environ), check=True, timeout=60)


def check_apply(text: str) -> dict[str, Any]:
    """Hold the JSON of `apply` to its schema; return its first campaign."""
    document = json.loads(text)
    rules = json.loads((shipped_folder("schemas") / "apply.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(rules).validate(document)
    campaign: dict[str, Any] = document["campaigns"][0]
    return campaign


def write_paced_campaign(repository: Repository, count: int, per_send: int = 1) -> tuple[str, ...]:
    phones = repository.write_campaign(count, per_send=per_send)
    text = repository.campaign.read_text(encoding="utf-8")
    repository.campaign.write_text(text.replace("limits:\n", "limits:\n  rate: 50/s\n"), encoding="utf-8")
    return phones


@pytest.mark.slow
def test_whoever_opts_out_during_the_run_is_not_texted(repository: Repository, faulty: FaultyService) -> None:
    """The others are, the run has failed in nothing, and the next one has nothing to do."""
    phones = write_paced_campaign(repository, 6)
    faulty.decide = opt_out_at(1, repository, phones[4])
    applied = repository.apply("--concurrency", "1", "--quiet")
    assert (applied.code, applied.err) == (0, "")
    assert applied.out == "pulse: 5 people texted, 1 person opted out meanwhile.\n"
    assert faulty.accepted == Counter(phones) - Counter([phones[4]])
    again = repository.apply("--format", "json")
    assert (again.code, again.campaign["opted_out"], len(faulty.requests)) == (0, 0, 5)


@pytest.mark.slow
def test_the_json_counts_them(repository: Repository, faulty: FaultyService) -> None:
    """They are counted as `opted_out`, and as nothing else; launches of several go without them."""
    phones = write_paced_campaign(repository, 9, per_send=3)
    faulty.decide = opt_out_at(1, repository, *phones[7:], "+14155550999")
    applied = repository.apply("--concurrency", "1", "--format", "json", "--quiet")
    campaign = check_apply(applied.out)
    assert (applied.code, campaign["opted_out"], campaign["recipients_sent"]) == (0, 2, 7)
    others = ("capped", "deferred", "not_tried", "not_sent", "rejected", "unknown", "unresolved")
    assert {name: campaign[name] for name in others} == dict.fromkeys(others, 0)
    assert [launch["recipients"] for launch in campaign["launches"]] == [3, 3, 1]
    assert repository.count_recipients() == {"sent": 7}
    assert faulty.accepted == Counter(phones[:7])


@pytest.mark.slow
@pytest.mark.parametrize("per_send", [1, 4])
def test_all_who_are_left_opt_out(repository: Repository, faulty: FaultyService, per_send: int) -> None:
    """The run ends by itself, well; what had its intent already leaves."""
    phones = write_paced_campaign(repository, 4 * per_send, per_send)
    ahead = 2 * per_send
    faulty.decide = opt_out_at(1, repository, *phones[ahead:])
    applied = repository.apply("--concurrency", "1", "--format", "json", "--quiet")
    campaign = check_apply(applied.out)
    assert (applied.code, campaign["recipients_sent"], campaign["opted_out"]) == (0, ahead, ahead)
    assert faulty.accepted == Counter(phones[:ahead])


@pytest.mark.slow
def test_what_is_sent_once_more_is_looked_at_again(repository: Repository, faulty: FaultyService) -> None:
    """A launch that was not accepted after all is not repeated to somebody who has opted out by then."""
    phones = write_paced_campaign(repository, 2)
    enter = opt_out_at(1, repository, phones[0])

    def lose_first(number: int, request: Request) -> Behaviour:
        enter(number, request)
        return {"accepts": False, "end": "drop"} if number == 1 else {}

    faulty.decide = lose_first
    applied = repository.apply("--concurrency", "1", "--format", "json", "--quiet")
    campaign = check_apply(applied.out)
    assert (applied.code, campaign["recipients_sent"], campaign["opted_out"]) == (0, 1, 1), applied.err
    assert (campaign["not_tried"], campaign["unresolved"]) == (0, 0)
    assert faulty.accepted == Counter(phones[1:])


@pytest.mark.parametrize("rate", ["50/s", pytest.param("1/s", marks=pytest.mark.slow)])
def test_a_pause_stops_the_run(repository: Repository, faulty: FaultyService, rate: str) -> None:
    """Launches that have their intent wait as well; what was sent is recorded, and the rest goes once resumed."""
    phones = write_paced_campaign(repository, 20)
    text = repository.campaign.read_text(encoding="utf-8")
    repository.campaign.write_text(text.replace("rate: 50/s", f"rate: {rate}"), encoding="utf-8")

    def pause_at_third(number: int, _request: Request) -> Behaviour:
        if number == 3:
            enter(repository, "pause", "pulse", "--reason", "a wrong link")
        return {}

    faulty.decide = pause_at_third
    applied = repository.apply("--concurrency", "1", "--format", "json", "--quiet")
    campaign = check_apply(applied.out)
    sent = campaign["sent"]
    # A launch that was looked at within the last second may still leave.
    assert (applied.code, sent in (3, 4, 5), campaign["not_tried"]) == (7, True, 20 - sent), applied.err
    assert (campaign["recipients_sent"], campaign["not_sent"], campaign["unknown"]) == (sent, 0, 0)
    assert "pulse is paused since " in applied.err
    assert applied.err.endswith(" UTC: a wrong link; `runner resume pulse` lets it go on\n")
    assert faulty.accepted == Counter(phones[:sent])
    assert repository.apply("--quiet").code == 7
    enter(repository, "resume", "pulse")
    text = repository.campaign.read_text(encoding="utf-8")
    repository.campaign.write_text(text.replace(f"rate: {rate}", "rate: 50/s"), encoding="utf-8")
    assert repository.apply("--format", "json").campaign["recipients_sent"] == 20 - sent
    assert faulty.accepted == Counter(phones)
