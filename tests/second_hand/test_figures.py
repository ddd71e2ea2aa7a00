"""Every figure of every report against another computation, from the lives of 2,000 people."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.second_hand.compare import Comparison
from tests.second_hand.questions import STRANGE
from tests.second_hand.recount import recount
from tests.second_hand.waves import link_series
from tests.second_hand.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[2] / "schemas/report.schema.json").read_bytes())
EXEMPT = {
    **dict.fromkeys(
        ("/discrepancies[]", "/messages[]/discrepancies[]", "/comments/problem"),
        "sentences, without a figure",
    ),
    # `test_two_quarters` counts two waves, tests/cli samples and rollouts by the sandbox's own records.
    **dict.fromkeys(("/wave", "/rollout", "/sample"), "none of these campaigns has one"),
    "/pruned_at": "none of these is pruned: tests/cli/test_prune.py compares the figures before and after",
    "/cost": "no target has prices here: tests/cli/test_cost.py sums up what the sandbox has sent",
}
"""Paths of the schema that are not compared, and why."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_figure_differs(tmp_path: Path, seed: int, record_property: Callable[[str, object], None]) -> None:
    """The reports of five campaigns, half read and read, are what another hand counts, leaf by leaf."""
    comparison = Comparison(SCHEMA, EXEMPT)
    world = World(tmp_path, seed)
    try:
        unusual = _live(world, comparison)
    finally:
        world.service.close()
    record_property("figures", sum(comparison.told.values()))
    found = f"{sum(comparison.told.values()):,} figures compared, {len(comparison.differences)} differ"
    print(found, dict(unusual))  # noqa: T201  shown with -s and for failures
    assert not comparison.differences, "\n".join(comparison.differences)
    assert unusual["withdrawn"]
    assert unusual["uncertain"]
    paths = comparison.list_paths()
    assert paths <= comparison.compared.keys()
    untold = {path for path in paths if not comparison.told[path]}
    assert not untold, untold


def test_a_figure_that_is_new_in_the_schema_has_to_be_counted() -> None:
    """A leaf of the schema that the other hand does not count is a difference, and so is one of the report's."""
    schema = {"properties": {"sent": {"type": "integer"}, "answered": {"type": "integer"}}}
    comparison = Comparison(schema, {})
    comparison.compare({"sent": 1, "answered": 1}, {"sent": 1}, "a")
    comparison.compare({"sent": 2, "answered": 1, "more": 1}, {"sent": 1, "answered": 1}, "b")
    assert comparison.differences == [
        "a/answered: stands in one of both alone",
        "b/sent: the report has 2, counted again 1",
        "b/more: is not in the schema",
    ]


def _live(world: World, comparison: Comparison) -> Counter[str]:
    """Compare what is reported, and return how many people were withdrawn and uncertain at the end."""
    service = world.service
    unusual = Counter[str]()

    def compare(about: str) -> None:
        situation = world.describe()
        expected = {name: recount(situation, campaign) for name, campaign in world.campaigns.items()}
        link_series(expected, world.campaigns)
        for name, report in world.report().items():
            comparison.compare(report, expected[name], f"{about}: {name}")
            unusual.update({key: report["people"][key] or 0 for key in ("withdrawn", "uncertain")})

    def list_guids(*runs: int) -> set[str]:
        sendings = service.facts.sendings
        return {one.guid for one in sendings if one.run in runs and one.message != "rate"}

    service.meets = lambda body: "refused" if "Bonn" in body["introduction"] else ""
    world.apply("pulse", days=0, codes=(3,))
    service.live(0)
    world.reconcile("campaigns/pulse.yaml")
    world.decide()
    service.meets = _meet_later
    world.write_people(world.people)
    world.apply("early", "service", "wave", days=3)
    world.apply("pulse", days=4, codes=(4,))
    compare("half read")
    service.live(1)
    service.live(2)
    service.end_together(0.2, "wave")
    world.reconcile()
    service.end_together(0.9, "wave")
    world.reconcile()
    world.decide()
    service.change_answers(list_guids(0, 1, 2), 150)
    service.edit_answers(list_guids(0, 1, 2), 60)
    service.ask_once_more(list_guids(1), STRANGE, 0.2)
    service.delete_answers(list_guids(1), 20, STRANGE["tag"])
    service.renew_guids(list_guids(0))
    service.meets = lambda _body: ""
    world.apply("service", days=6)
    service.live(3)
    world.reconcile("--drop-unlisted")
    world.decide()
    world.apply("early", days=8)
    service.live(4)
    service.expire("wave")
    world.reconcile()
    world.write_people(world.people[30:])
    compare("read")
    return unusual


@cache
def _meet(text: str) -> str:
    if text.startswith("Lyon"):
        return "refused"
    return "unknown" if text.startswith("Rome") else ""


def _meet_later(body: dict[str, Any]) -> str:
    """Refuse some of the later launches of `pulse`, and leave others unclear."""
    return _meet(body.get("introduction", "")) if body["tag"] == "pulse-tag" else ""
