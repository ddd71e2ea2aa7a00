"""What a preview shows is what arrives: text for text and in order, whatever is answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from runner.source.json_schema import load_validator
from tests.rehearsal.campaigns import draw_campaign
from tests.rehearsal.world import Line, World

if TYPE_CHECKING:
    import random
    from pathlib import Path

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 100))]
NONSENSE = "?!"
FREE = "because"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A repository without a campaign."""
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, capsys)


class Walk:
    """One person's way through what a preview shows.

    Args:
        preview: as JSON.
        chance: what they answer is drawn from it.

    Attributes:
        expected: the texts that they get, by the preview.
        replies: what they text, one after the other.
    """

    def __init__(self, preview: dict[str, Any], chance: random.Random) -> None:
        self.expected: list[Line] = []
        self.replies: list[str] = []
        self._chance = chance
        for message in preview["messages"] if preview["why_not"] is None else ():
            self._converse(message["conversation"])

    def _converse(self, bubbles: list[dict[str, Any]]) -> None:
        places = {(bubble["part"], bubble["question_tag"]): n for n, bubble in enumerate(bubbles)}
        place, kind = 0, bubbles[0]["part"]
        while True:
            bubble = bubbles[place]
            self.expected.append(Line(kind, bubble["text"]))
            kind = ""
            if bubble["part"] != "question":
                if place + 1 == len(bubbles) or bubble["part"] == "conclusion":
                    return
                place += 1
                kind = bubbles[place]["part"]
                continue
            turn = self._chance.choice(bubble["turns"])
            self.replies.append(self._answer(turn))
            if turn["part"] is None:
                return
            place = places[turn["part"], turn["question_tag"]]
            kind = "repeat" if turn["on"] == "invalid" else turn["part"]

    def _answer(self, turn: dict[str, Any]) -> str:
        if turn["on"] == "invalid":
            return NONSENSE
        return self._chance.choice(turn["answers"]) if turn["answers"] else FREE


def rehearse(world: World, seed: int) -> None:
    """Send a random campaign to the end, and hold what everybody got to their preview."""
    draw = draw_campaign(seed)
    for message in draw.document["messages"]:
        for key in ("after", "to", "complete_existing_sessions"):
            message.pop(key, None)
    draw.document.pop("schedule", None)
    draw.document["policy"] = {"open_session": draw.chance.choice(["wait", "queue"])}
    world.campaign.write_text(draw.write(), encoding="utf-8")
    walks = {}
    for phone in draw.phones[:3]:
        text = world.run("preview", "--format", "json", "--phone", phone, str(world.campaign))
        preview = json.loads(text)
        load_validator("preview").validate(preview)
        walks[phone] = Walk(preview, draw.chance)
    replies = {phone: list(walk.replies) for phone, walk in walks.items()}
    for _run in range(len(draw.document["messages"]) + 1):
        sent = json.loads(world.run("apply", "--auto-approve", "--format", "json"))
        world.reply_all(replies)
        world.run("reconcile")
        if not sent["campaigns"][0]["recipients_sent"]:
            break
    for phone, walk in walks.items():
        assert world.read_transcript(phone) == walk.expected, f"{phone} of seed {seed}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_shown_is_what_arrives(world: World, seed: int) -> None:
    """Everybody gets the texts of their preview, in its order, and each answer leads where it says."""
    rehearse(world, seed)
