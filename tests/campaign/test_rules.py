"""The rules of targets.yaml as values: each has a check, and a cap is as strict as it says."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.load import load_campaign
from runner.source.json_schema import schema_text
from runner.timing.legal_hours import load_law

if TYPE_CHECKING:
    from pathlib import Path

CAMPAIGN = 'version: 1\nname: pulse\nrecipients: [{phone: "+14155550101"}]\nmessages: [{id: ask, text: Hi}]\n'
TARGETS = "version: 1\ntargets: {}\n"
ELSEWHERE = {"rollout_above", "state_key"}
"""Rules that the plan and the target are checked for (tests/cli/test_rules.py)."""
REQUIRE = json.loads(schema_text("targets"))["$defs"]["require"]["properties"]


def load(folder: Path, rules: str, campaign: str = CAMPAIGN) -> tuple[object, set[str]]:
    """Return the loaded campaign, None if it has errors, and the codes of these."""
    (folder / "targets.yaml").write_text(f"{TARGETS}{rules}\n", encoding="utf-8")
    file = folder / "pulse.yaml"
    file.write_text(campaign, encoding="utf-8")
    found, problems = load_campaign(file, current=folder)
    return found, {one.code for one in problems if one.severity == "error"}


LOOSE = {
    "no_rule": "policy: {quiet_hours: legal, no_rule: schedule}",
    "timezone_unknown": "schedule: {timezone: UTC}\npolicy: {timezone_unknown: campaign}",
    "open_session": "policy: {open_session: queue}",
    "purpose": "policy: {purpose: service}",
    "landlines": "policy: {landlines: allow}",
    "review_margin": "policy: {review_margin: 90%}",
    "read_replies_within": "policy: {read_replies_within: 9w}",
    "recipients_per_send": "limits: {recipients_per_send: 501}",
}
"""Where a campaign that says nothing is strict enough, one that is not."""


@pytest.mark.parametrize("name", sorted(REQUIRE.keys() - ELSEWHERE))
def test_each_rule_of_the_schema_has_a_check(tmp_path: Path, name: str) -> None:
    """A campaign beyond its example is an error, which names it: no key is read and then forgotten."""
    bound = json.dumps(REQUIRE[name]["examples"][0])
    campaign = f"{CAMPAIGN}{LOOSE.get(name, '')}\n"
    assert load(tmp_path, f"require: {{{name}: {bound}}}", campaign) == (
        None,
        {f"require-{name.replace('_', '-')}"},
    )


@given(st.integers(1, 2), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_a_cap_is_as_strict_if_it_lets_no_more_through(
    tmp_path_factory: pytest.TempPathFactory, messages: int, within: int, most: int, days: int
) -> None:
    """By all ways to spread messages over days that a cap allows, counted in the rule's own time."""
    ways = product(range(messages + 1), repeat=days)
    through = max(sum(way) for way in ways if all(sum(way[i : i + within]) <= messages for i in range(days)))
    cap = f"policy: {{frequency_cap: {{messages: {messages}, within: {within}d}}}}\n"
    rule = f"require: {{frequency_cap: {{messages: {most}, within: {days}d}}}}"
    _, codes = load(tmp_path_factory.mktemp("cap"), rule, f"{CAMPAIGN}{cap}")
    assert codes == (set() if through <= most else {"require-frequency-cap"})


def test_a_purpose_with_more_laws_is_stricter() -> None:
    """Whatever law covers texts of one purpose covers those of the next stricter one."""
    for rule in load_law().rules:
        assert "survey" in rule.purposes or "service" not in rule.purposes
        assert "marketing" in rule.purposes or "survey" not in rule.purposes


def test_defaults_stay_out_of_what_an_alias_repeats(tmp_path: Path) -> None:
    """A mapping that stands in two places takes defaults in the one that is meant."""
    written = f"{CAMPAIGN}vars: &some {{recipients: 3}}\nlimits: *some\n"
    campaign, codes = load(tmp_path, "defaults: {limits: {renders: 9}}", written)
    assert not codes
    assert (campaign.vars, campaign.limits.renders) == ({"recipients": 3}, 9)  # type: ignore[attr-defined]


def test_only_applied_defaults_are_in_the_digest(tmp_path: Path) -> None:
    """A default that a campaign overrides changes nothing; one that it takes changes campaign and rules."""
    digests = []
    for rules in ("", "defaults: {limits: {renders: 9}}", "defaults: {limits: {renders: 8}}"):
        taken, _ = load(tmp_path, rules)
        own, _ = load(tmp_path, rules, f"{CAMPAIGN}limits: {{renders: 5}}\n")
        digests.append((taken.digest, taken.rules.digest, own.digest, own.rules.digest))  # type: ignore[attr-defined]
    assert len({one[0] for one in digests}) == len({one[1] for one in digests}) == 3
    assert len({one[2:] for one in digests}) == 1
