"""What a plan costs, against sums made from the sandbox's own messages."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.message_model import Message, TemplateText
from runner.plan.decisions import Decision
from runner.plan.limits.cost import CostTally, find_countries
from runner.source.diagnostic import Position
from runner.source.money import Prices, round_money
from runner.text.payload import CompiledMessage, MessageRenderer, Payload
from runner.text.segment import count_segments
from runner.text.template import TextCompiler
from tests.cli.world import NPS, World

PRICES = {"US": "0.0079", "DE": "0.11", "GB": "0.04", "PL": "0.0321"}
STARTS = {"US": "+1415555", "DE": "+49151123", "GB": "+4474001", "PL": "+4851234"}
SURVEY = f"{{id: ask, introduction: Hello from Acme, questions: [{NPS}, {{tag: why, text: Why?}}], conclusion: Bye}}"


def list_phones(count: int = 12) -> tuple[str, ...]:
    """Return phones of four countries."""
    endings = {"US": "01{:02}", "DE": "45{:03}", "GB": "23{:03}", "PL": "56{:02}"}
    return tuple(f"{start}{endings[one].format(n)}" for one, start in STARTS.items() for n in range(count))


def price(world: World, *, per: str = "segment", again: int = 2, require: str = "{}", **prices: str) -> None:
    """Write the prices of the sandbox, and the rules."""
    countries = ", ".join(f'{one}: "{amount}"' for one, amount in (prices or PRICES).items())
    (world.folder / "campaigns/targets.yaml").write_text(
        f"version: 1\nrequire: {require}\ntargets:\n  sandbox:\n    prices:\n      currency: USD\n      as_of: 2026-11-01\n"
        f"      per: {per}\n      asked_again: {again}\n      countries: {{{countries}}}\n",
        encoding="utf-8",
    )


def plan_cost(world: World, code: int = 0) -> dict[str, Any]:
    """Return the cost of the one campaign's plan."""
    document = world.check(world.run("plan", "--format", "json", code=code), "plan")
    cost: dict[str, Any] = document["campaigns"][0]["cost"]
    return cost


def add_up_transcript(world: World, per: str) -> Decimal:
    """Return what all that the sandbox has rendered costs, by its own transcript."""
    sent = world.select(
        "SELECT phone, kind, text FROM transcript JOIN participant ON participant.id = participant_id "
        "WHERE kind IN ('introduction', 'text', 'question', 'repeat', 'conclusion')"
    )
    total = Decimal(0)
    for phone, _, text in sent:
        country = next(one for one, start in STARTS.items() if phone.startswith(start))
        total += Decimal(PRICES[country]) * (count_segments(text).segments if per == "segment" else 1)
    return total


def read_paid(world: World) -> dict[str, Any]:
    """Return what the one campaign has cost so far, which its report and its status say alike."""
    status = world.check(world.run("status", "--format", "json"), "status")
    report = world.check(world.run("report", "--format", "json"), "report")
    paid: dict[str, Any] = status["campaigns"][0]["paid"]
    assert paid == report["cost"]
    return paid


@pytest.mark.slow
@pytest.mark.parametrize(("per", "is_lost"), [("segment", False), ("render", False), ("segment", True)])
def test_simulated_campaign_costs_what_the_plan_said(world: World, per: str, *, is_lost: bool) -> None:
    """The cost in four countries, with invalid answers, is reported to the cent and within the plan's ends."""
    price(world, per=per)
    world.write(SURVEY, phones=list_phones())
    planned = plan_cost(world)["now"]
    world.apply()
    world.run("sandbox", "simulate", "--seed", "1", "--response-rate", "1", "--invalid-rate", "0.6")
    assert world.select("SELECT 1 FROM transcript WHERE kind = 'repeat'")
    if is_lost:
        world.lose_ledger()
    assert read_paid(world)["amount"] is None
    world.run("reconcile")
    total = add_up_transcript(world, per)
    assert Decimal(planned["least"]) <= total <= Decimal(planned["most"])
    paid = read_paid(world)
    assert paid["amount"] == dict.fromkeys(("least", "most"), round_money(total, "USD"))
    assert f"Cost so far: {paid['amount']['most']} USD, at prices per {per}" in world.run("status")


@pytest.mark.slow
def test_cost_lies_between_the_ends_of_a_mixed_launch(world: World) -> None:
    """A launch of several countries, with texts of several sizes, costs between its least and its most."""
    survey = SURVEY.replace("Hello from Acme", "'" + "x" * 400 + "'")
    world.write(survey, phones=list_phones(2))
    world.apply()
    world.run("sandbox", "simulate", "--seed", "1", "--response-rate", "1")
    world.run("reconcile")
    assert "cost" not in world.check(world.run("report", "--format", "json"), "report")
    price(world)
    assert read_paid(world)["unknown_launches"] == 1
    world.run("reconcile")
    amount = read_paid(world)["amount"]
    assert Decimal(amount["least"]) < add_up_transcript(world, "segment") < Decimal(amount["most"])


@pytest.mark.slow
def test_report_names_countries_without_a_price(world: World) -> None:
    """What texts to a country without a price have cost is not known, and the report names it."""
    price(world, US="0.01")
    world.write(SURVEY, phones=("+14155550101", "+48512345601"))
    world.apply()
    world.run("reconcile")
    paid = read_paid(world)
    assert (paid["amount"], paid["unpriced"]) == (None, {"PL": 1})
    assert "Cost so far: not known: no price for PL." in world.run("report")


def test_least_is_what_the_opening_costs(world: World) -> None:
    """The least is what is paid at once: openings of all people, to the cent."""
    price(world)
    world.write(SURVEY, phones=list_phones(3))
    # An introduction and a question: a segment each.
    least = sum((Decimal(one) * 3 * 2 for one in PRICES.values()), Decimal(0))
    assert Decimal(plan_cost(world)["now"]["least"]) == least.quantize(Decimal("0.01"), ROUND_HALF_UP)


def test_plan_tells_cost_in_words(world: World) -> None:
    """The words name both ends, the day of the prices, and how often a question may be asked again."""
    price(world, again=1, US="0.01")
    world.write(SURVEY, phones=("+14155550101",))
    assert (
        "Cost: 0.02 to 0.05 USD now, 0.00 USD later, at prices per segment as of 2026-11-01, "
        "if no question is asked again more than 1 time."
    ) in " ".join(world.run("plan").split())
    assert "pulse: Cost: 0.02 to 0.05 USD now" in world.run("status")


def test_only_choice_questions_count_again(world: World) -> None:
    """What is asked again costs its own segments: not those of a long introduction or an open question."""
    price(world, again=3, US="1")
    survey = SURVEY.replace("Hello from Acme", "x" * 400).replace("Why?", "'" + "Why? " * 40 + "'")
    world.write(survey, phones=("+14155550101",))
    # 3 segments, 1 (asked up to 4 times), 2, and 1.
    assert plan_cost(world)["now"] == {"least": "4.00", "most": "10.00"}


def test_missing_price_is_named(world: World) -> None:
    """A country without a price makes the cost unknown, and is named with its people."""
    price(world, US="0.01")
    world.write(SURVEY, phones=("+14155550101", "+48512345601", "+48512345602"))
    cost = plan_cost(world)
    assert (cost["now"], cost["unpriced"]) == (None, {"PL": 2})
    assert "not known now" in world.run("plan")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("0.05 USD", None),
        ("0.04 USD", "it could cost 0.02 to 0.05 USD, and limits.cost is 0.04 USD"),
        (
            "9 EUR",
            "it could cost 0.02 to 0.05 USD, and limits.cost is 9 EUR, another currency than the target's: write it in USD",
        ),
    ],
)
def test_limit_of_cost_stops_a_plan(world: World, limit: str, words: str | None) -> None:
    """A plan that could cost more than `limits.cost` sends nothing, and says the figures."""
    price(world, again=1, US="0.01")
    world.write(SURVEY, phones=("+14155550101",), rules=f"limits: {{cost: {limit}}}\n")
    world.run("plan", code=0 if words is None else 5)
    assert words is None or words in " ".join(world.errors.split())
    assert words is None or f"pulse: nothing is sent: {words}" in world.run("status")
    world.run("apply", "--auto-approve", code=0 if words is None else 5)


@pytest.mark.parametrize("rule", ["0.08 USD", "0.07 USD"])
def test_rule_on_cost_counts_what_comes_later(world: World, rule: str) -> None:
    """A required bound is on now and later together, so that a reminder cannot go beyond it."""
    price(world, again=1, US="0.01", require=f"{{cost: {rule}}}")
    nudge = (
        "{id: nudge, tag: nudge, after: {message: ask, wait: 2d}, to: unanswered, text: '" + "x" * 400 + "'}"
    )
    world.write(SURVEY, nudge, phones=("+14155550101",), rules="limits: {cost: 0.06 USD}\n")
    is_within = rule == "0.08 USD"
    world.run("apply", "--auto-approve", code=0 if is_within else 5)
    assert (
        is_within or "it could cost 0.02 to 0.08 USD, and campaigns/targets.yaml:2 requires" in world.errors
    )


def test_other_prices_beside_a_campaign_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheaper price in a folder of one's own gets no campaign around a rule on the cost."""
    price(world, US="1.00", require="{cost: 2 USD}")
    world.write(SURVEY, phones=("+14155550101",), rules="limits: {cost: 2 USD}\n")
    own = world.folder / "campaigns/own"
    own.mkdir()
    (world.folder / "campaigns/pulse.yaml").rename(own / "pulse.yaml")
    written = (world.folder / "campaigns/targets.yaml").read_text(encoding="utf-8")
    (own / "targets.yaml").write_text(written.replace("1.00", "0.001"), encoding="utf-8")
    team = world.folder / "team/campaigns"
    team.mkdir(parents=True)
    (team / "targets.yaml").write_text(written.replace("1.00", "0.002"), encoding="utf-8")
    world.run("apply", "--auto-approve", "campaigns/own", code=1)
    assert (
        "Error: 'sandbox' has other prices in campaigns/own/targets.yaml than in campaigns/targets.yaml\n"
        "  write them once, or the same in both\n"
    ) in world.errors
    (world.folder / ".git").mkdir(exist_ok=True)
    monkeypatch.chdir(own)
    world.run("apply", "--auto-approve", "pulse.yaml", code=1)
    assert "'sandbox' has other prices in targets.yaml than in ../targets.yaml" in world.errors
    (own / "targets.yaml").write_text("version: 1\ntargets: {}\n", encoding="utf-8")
    world.run("apply", "--auto-approve", "pulse.yaml", code=5)
    assert "it could cost 2.00 to 6.00 USD" in world.errors


def test_limit_of_cost_stops_what_has_no_price(world: World) -> None:
    """A plan whose cost is not known is beyond any limit."""
    price(world, US="0.01")
    world.write(SURVEY, phones=("+48512345601",), rules="limits: {cost: 100 USD}\n")
    world.run("apply", "--auto-approve", code=5)
    assert (
        "what it costs is not known: no price for PL (1 person), and limits.cost is 100 USD" in world.errors
    )


@pytest.mark.parametrize(
    ("phone", "countries"),
    [
        ("+14155550101", ("US",)),
        ("+14165550101", ("CA",)),
        ("+447400123456", ("GB",)),
        ("+447797712345", ("JE",)),
        ("+77012345678", ("KZ",)),
        ("+80012345678", ("+800",)),
    ],
)
def test_country_of_number(phone: str, countries: tuple[str, ...]) -> None:
    """Countries that share a code are told apart; a worldwide number has its code."""
    assert find_countries(phone) == countries


def test_shared_number_costs_a_range() -> None:
    """A toll-free number costs between the least and the most of its possible countries."""
    countries = find_countries("+18005550101")
    prices = Prices.read({"currency": "USD", "as_of": "2026-11-01", "countries": {"US": 0.0079, "CA": 0.02}})
    assert {"US", "CA"} <= set(countries)
    assert prices.find(countries) == (Decimal("0.0079"), Decimal("0.02"))


_NOWHERE = Position(Path("pulse.yaml"), 1, 1)
_TEXT = Message("ask", "ask", _NOWHERE, TemplateText("Hi", _NOWHERE, 1, 1, is_block=False))
_COMPILED = CompiledMessage(_TEXT, {None: MessageRenderer(_TEXT, TextCompiler(Path()))})
_PRICE = st.decimals(min_value=0, max_value=100, places=6)
_SIZES = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))


@given(
    st.lists(st.tuples(st.sampled_from(list_phones(1)), _SIZES, st.booleans(), st.booleans())),
    st.lists(_PRICE, min_size=4, max_size=4),
)
def test_sums_are_exact(
    people: list[tuple[str, tuple[int, int, int], bool, bool]], prices: list[Decimal]
) -> None:
    """The least is at most the most, and both are the exact sums, however the people are parted."""
    listed = Prices.read(
        {
            "currency": "USD",
            "as_of": "2026-11-01",
            "asked_again": 2,
            "countries": dict(zip(STARTS, map(str, prices), strict=True)),
        }
    )
    known = dict(zip(STARTS, prices, strict=True))
    tallies = CostTally(listed), CostTally(listed)
    least = most = Decimal(0)
    for place, (phone, (opening, more, repeated), is_now, is_sure) in enumerate(people):
        text = Payload({}, "", opening, None, opening + more, repeated=repeated)
        decision = (
            Decision(0, "to_send", text, may_queue=not is_sure)
            if is_now
            else Decision(0, "deferred", coming=text, is_sure=is_sure)
        )
        tallies[place % 2].add(find_countries(phone), [decision])
        price = known[next(one for one, start in STARTS.items() if phone.startswith(start))]
        least += price * opening * is_sure
        most += price * (opening + more + 2 * repeated)
    tallies[0].merge(tallies[1])
    cost = tallies[0].add_up([_COMPILED], lets_queue=False)
    assert cost.now is not None
    assert cost.later is not None
    assert (cost.now.least + cost.later.least, cost.now.most + cost.later.most) == (least, most)
    assert cost.now.least <= cost.now.most
    assert cost.later.least <= cost.later.most


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        ("0.005", "USD", "0.01"),
        ("0.0049", "USD", "0.0049"),
        ("0", "USD", "0.00"),
        ("12.5", "JPY", "13"),
        ("1.2345", "KWD", "1.235"),
    ],
)
def test_amounts_are_rounded_to_the_minor_unit(amount: str, currency: str, shown: str) -> None:
    """Amounts are rounded once, half away from zero, to what the currency has; nothing above zero looks free."""
    assert round_money(Decimal(amount), currency) == shown
