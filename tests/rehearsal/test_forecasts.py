"""What plans say will come brackets what the sandbox then counts: people, launches, segments and renders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.rehearsal.campaigns import draw_campaign
from tests.rehearsal.world import Session, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 100))]
ANSWERED, STEPS, MOST_STEPS = 2, 10, 25
"""People answer in the first steps alone: that takes the sandbox's clock a day or more.

It goes on while somebody is sure to come: by the hour at which it starts, four messages may take five days.
"""
HOURS_A_STEP = 9
"""Shorter than the hours of any campaign here, so that some run finds everybody in theirs."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """A repository without a campaign."""
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, capsys)


@dataclass(frozen=True)
class Forecast:
    """A plan, with what was sent before it and at once after it, as places in the list of sessions."""

    plan: dict[str, Any]
    before: int
    after: int


def sum_messages(plan: dict[str, Any], name: str) -> int:
    """Return a count of all messages of a plan."""
    return sum(message[name] for message in plan["messages"])


def sum_later(plan: dict[str, Any], name: str) -> dict[str, int] | None:
    """Return a span of all texts that a plan expects later; None if one is not known."""
    spans = [group[name] for message in plan["messages"] for group in message["coming"]]
    if None in spans:
        return None
    return {bound: sum(span[bound] for span in spans) for bound in ("least", "most")}


def require_within(span: dict[str, int] | None, came: int, most: int, words: str) -> None:
    """Hold what came to a span: all of it to the least, and without repetitions to the most."""
    if span is not None:
        assert span["least"] <= came, words
        assert most <= span["most"], words


def require_costs(spans: dict[str, Any], sessions: Sequence[Session], words: str) -> None:
    """Hold what sessions have cost by now to segments and renders; a question that is asked again is more."""
    counts: tuple[tuple[str, Callable[..., int]], ...] = (
        ("segments", Session.count_segments),
        ("renders", Session.count_renders),
    )
    for name, count in counts:
        came = sum(count(one, repeats=True) for one in sessions)
        once = sum(count(one, repeats=False) for one in sessions)
        require_within(spans[name], came, once, f"{name}, {words}")


def require_now(forecast: Forecast, sessions: Sequence[Session], words: str) -> None:
    """Hold a plan to what was sent by it."""
    own, plan = sessions[forecast.before : forecast.after], forecast.plan
    launches = {one.launch for one in own}
    assert (len(own), len({one.phone for one in own})) == (sum_messages(plan, "to_send"), plan["people"]), (
        words
    )
    assert len(launches) == sum_messages(plan, "launches"), words
    for message in forecast.plan["messages"]:
        mine = [one for one in own if one.message == message["id"]]
        assert len(mine) == message["to_send"], words
        spans = {
            name: {"least": message[f"{name}_min"], "most": message[f"{name}_max"]}
            for name in ("segments", "renders")
        }
        require_costs(spans, mine, f"{message['id']} now, {words}")


def require_later(forecast: Forecast, sessions: Sequence[Session], words: str) -> None:
    """Hold what a plan says of later runs to what these have sent."""
    texted = {one.phone for one in sessions[forecast.before : forecast.after]}
    later = sessions[forecast.after :]
    coming = {
        name: sum_later(forecast.plan, name) for name in ("recipients", "launches", "segments", "renders")
    }
    others = len({one.phone for one in later} - texted)
    require_within(forecast.plan["people_later"], others, others, f"people later, {words}")
    require_within(coming["recipients"], len(later), len(later), f"recipients later, {words}")
    launches = len({one.launch for one in later})
    require_within(coming["launches"], launches, launches, f"launches later, {words}")
    require_costs(coming, later, f"later, {words}")
    for message in forecast.plan["messages"]:
        own = [one for one in later if one.message == message["id"]]
        groups = message["coming"]
        span = {name: sum(group["recipients"][name] for group in groups) for name in ("least", "most")}
        require_within(span, len(own), len(own), f"{message['id']} later, {words}")
        assert len(own) <= message["forecast"], words
        moments = [group["first"] for group in groups]
        if own and None not in moments:
            assert min(one.at for one in own) >= min(map(datetime.fromisoformat, moments)), words


def rehearse(world: World, seed: int) -> None:
    """Send a random campaign with people who answer, or don't, and hold all of its plans to what came."""
    draw = draw_campaign(seed)
    world.campaign.write_text(draw.write(), encoding="utf-8")
    world.run("sandbox", "clock", f"+{draw.chance.randint(1, 24)}h")
    forecasts = []
    for step in range(MOST_STEPS):
        world.pass_the_half_hour()
        before = len(world.read_sessions())
        plan = world.plan()
        least = (sum_later(plan, "recipients") or {"least": 0})["least"]
        if step >= STEPS and not sum_messages(plan, "to_send") and not least:
            break
        world.run("apply", "--auto-approve")
        sessions = world.read_sessions()
        forecasts.append(Forecast(plan, before, len(sessions)))
        require_now(forecasts[-1], sessions, f"at once, step {step} of seed {seed}")
        if step < ANSWERED:
            world.run(
                "sandbox", "simulate", "--seed", str(seed + step), "--invalid-rate", "0.4",
                "--quit-rate", "0.3", "--response-rate", str(draw.chance.choice([0, 0.5, 1])),
            )  # fmt: skip
        world.run("sandbox", "clock", f"+{HOURS_A_STEP}h")
        world.run("reconcile")
    sessions = world.read_sessions()
    for step, forecast in enumerate(forecasts):
        require_now(forecast, sessions, f"in the end, step {step} of seed {seed}")
        # Those of the last steps are cut off by the end of the rehearsal.
        if step <= ANSWERED:
            require_later(forecast, sessions, f"step {step} of seed {seed}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_forecast_brackets_what_comes(world: World, seed: int) -> None:
    """However people answer, what comes is within what each plan said: now, later, of each message."""
    rehearse(world, seed)
