"""A campaign's messages reach each person in the order of the file, whatever becomes of single launches."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from runner.source.json_schema import load_validator

if TYPE_CHECKING:
    from tests.deliver.conftest import Applied, Behaviour, FaultyService, Repository, Request

PHONES = [f"+1415555{number:04}" for number in range(100, 140)]
TEXTS = ["Hello {{ name }}", "News for all", "Bye {{ name }}"]
"""The second one is everybody's: it is complete, as a launch, before most of the first have left."""


def write(repository: Repository, texts: list[str], per_send: int) -> None:
    """Write a campaign of plain texts for 40 people, two of whom share each name."""
    people = "".join(
        f'  - {{phone: "{phone}", vars: {{name: N{index // 2}}}}}\n' for index, phone in enumerate(PHONES)
    )
    messages = "".join(f'  - {{id: m{index}, text: "{text}"}}\n' for index, text in enumerate(texts))
    repository.campaign.parent.mkdir(exist_ok=True)
    repository.campaign.write_text(
        f"version: 1\nname: pulse\nrecipients:\n{people}messages:\n{messages}"
        f"limits: {{recipients_per_send: {per_send}}}\n",
        encoding="utf-8",
    )


def list_arrivals(service: FaultyService) -> dict[str, list[str]]:
    """Return the first words of what each phone got, in the order in which the service took it."""
    found: dict[str, list[str]] = {}
    for launch in service.launches:
        for session in launch["sessions"]:
            found.setdefault(session["to"], []).append(launch["project_definition"]["text"].split()[0])
    return found


def read(applied: Applied) -> dict[str, Any]:
    document = json.loads(applied.out)
    load_validator("apply").validate(document)
    return applied.campaign


@pytest.mark.parametrize("texts", [TEXTS, ["All of you", "Hello {{ name }}", "And all again"]])
def test_everybody_gets_the_messages_in_the_order_of_the_file(
    repository: Repository, faulty: FaultyService, texts: list[str]
) -> None:
    """However long single launches take, no message of a person overtakes the one before it."""
    delays = random.Random(7)  # noqa: S311  the same delays every time

    def decide(_number: int, _request: Request) -> Behaviour:
        time.sleep(delays.random() * 0.03)
        return {}

    faulty.decide = decide
    write(repository, texts, per_send=7)
    done = read(repository.apply("--concurrency", "8", "--format", "json"))
    assert (done["recipients_sent"], done["waiting"], done["not_tried"]) == (120, 0, 0)
    expected = [text.split()[0] for text in texts]
    assert list_arrivals(faulty) == dict.fromkeys(PHONES, expected)


def test_a_message_waits_where_the_one_before_it_may_have_been_lost(
    repository: Repository, faulty: FaultyService
) -> None:
    """Later messages of people whose earlier launch has no clear outcome wait for the next run, which says so."""
    lost: list[str] = []

    def decide(_number: int, request: Request) -> Behaviour:
        if request.data["text"] == "Hello N3" and not lost:
            lost.extend(request.data["phone"])
            return {"end": "drop"}
        return {}

    faulty.decide = decide
    write(repository, TEXTS, per_send=7)
    first = repository.apply("--format", "json")
    done = read(first)
    # Settling finds the launch at the service; what waited for it goes with the next run.
    assert (first.code, done["recipients_sent"], done["waiting"], done["not_tried"]) == (0, 116, 4, 0)
    assert {phone: list_arrivals(faulty)[phone] for phone in lost} == {
        phone: ["Hello"] for phone in PHONES[6:8]
    }
    again = repository.apply()
    assert again.out + again.err != ""
    assert list_arrivals(faulty) == {phone: ["Hello", "News", "Bye"] for phone in PHONES}


def test_the_run_says_how_many_texts_wait(repository: Repository, faulty: FaultyService) -> None:
    """What waits behind a message of unknown outcome is counted in the run's sentence."""
    faulty.decide = lambda _number, request: {"end": "drop"} if request.data["text"] == "Hello N3" else {}
    write(repository, TEXTS, per_send=7)
    said = repository.apply()
    assert (
        "4 texts left for the next run, since an earlier message may not have gone out" in said.out + said.err
    )


def test_a_message_goes_where_the_one_before_it_was_refused(
    repository: Repository, faulty: FaultyService
) -> None:
    """A launch that the service refuses for good holds up none of the messages after it."""
    faulty.decide = lambda _number, request: (
        {"status": 422, "accepts": False} if request.data["text"] == "Hello N3" else {}
    )
    write(repository, TEXTS, per_send=7)
    applied = repository.apply("--format", "json")
    done = read(applied)
    assert (applied.code, done["rejected"], done["waiting"]) == (3, 1, 0)
    found = list_arrivals(faulty)
    assert {phone: found[phone] for phone in PHONES[6:8]} == {phone: ["News", "Bye"] for phone in PHONES[6:8]}


def test_a_message_waits_where_the_one_before_it_never_left(
    repository: Repository, faulty: FaultyService
) -> None:
    """A launch that settling finds not sent is sent again, and the messages after it wait for the next run."""
    tries: list[int] = []

    def decide(number: int, request: Request) -> Behaviour:
        if request.data["text"] != "Hello N3":
            return {}
        tries.append(number)
        return {"status": 500, "accepts": False} if len(tries) == 1 else {}

    faulty.decide = decide
    write(repository, TEXTS, per_send=7)
    done = read(repository.apply("--format", "json"))
    assert (len(tries), done["recipients_sent"], done["waiting"]) == (2, 116, 4)
    repository.apply()
    assert list_arrivals(faulty) == {phone: ["Hello", "News", "Bye"] for phone in PHONES}
