"""What laws ask of a first text: the words, and whose law it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import runner
from runner.campaign.lint import find_lint
from runner.campaign.load import load_campaign
from runner.timing.legal_hours import LawBook, read_law

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE = Path(runner.__file__).parent / "timing/legal_hours.json"


def make_law(*asks: str, purposes: tuple[str, ...] = ("marketing",)) -> LawBook:
    """Return the shipped laws with one of Vietnam that asks for something."""
    data: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    rule = data["rules"][0] | {"places": ["VN"], "citation": "Decree 1", "asks": asks, "purposes": purposes}
    data["rules"] = [*(one for one in data["rules"] if "VN" not in one["places"]), rule]
    return read_law(json.dumps(data))


def lint(folder: Path, text: str, policy: str, law: LawBook, places: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the warnings about a campaign whose people are at some places."""
    file = folder / "pulse.yaml"
    file.write_text(
        'version: 1\nname: pulse\nrecipients: [{phone: "+14155550101"}]\n'
        f"messages: [{{id: ask, text: {json.dumps(text)}}}]\npolicy: {policy}\n",
        encoding="utf-8",
    )
    campaign, problems = load_campaign(file, current=folder)
    assert campaign is not None, problems
    return [f"{one.code}: {one.message}" for one in find_lint(campaign, law, lambda: places)]


MARKETING, SURVEY = "{purpose: marketing}", "{quiet_hours: legal}"
SENDER = "text-without-sender: the first text lacks its sender's name, which Decree 1 asks for"
OPT_OUT = "text-without-opt-out: the first text lacks a word on opting out, which Decree 1 asks for"
LABEL = "text-without-label: the first text lacks the label of advertising, which Decree 1 asks for"


@pytest.mark.parametrize(
    ("text", "policy", "places", "said"),
    [
        ("10% off", MARKETING, [("VN",)], {SENDER, OPT_OUT, LABEL}),
        ("[QC] 10% off. STOP ends this", MARKETING, [("VN",)], {SENDER}),
        ("[QC] Acme: 10% off. Reply stop", "{purpose: marketing, sender: ACME}", [("VN",)], set()),
        ("10% off", MARKETING, [("US-CA",)], set()),
        ("10% off", "{quiet_hours: legal, purpose: service}", [("VN",)], set()),
        ("How was it?", SURVEY, [("VN",)], set()),
    ],
)
def test_a_law_asks_for_words(
    tmp_path: Path, text: str, policy: str, places: list[tuple[str, ...]], said: set[str]
) -> None:
    """What the law of somebody's place asks for, and the first text lacks, is named with the law."""
    assert set(lint(tmp_path, text, policy, make_law("sender", "opt_out", "label"), places)) == said


def test_a_law_on_surveys_counts_where_laws_are_kept(tmp_path: Path) -> None:
    """A survey is held to laws that name surveys, if the campaign applies laws at all."""
    law = make_law("opt_out", purposes=("survey",))
    assert lint(tmp_path, "How was it?", SURVEY, law, [("US",), ("VN",)]) == [OPT_OUT]
    assert lint(tmp_path, "How was it?", "{}", law, [("VN",)]) == []


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ("Reply STOP to opt out.", True),
        ("Opt out: https://acme.example/out", True),
        ("配信停止はSTOPと返信", True),
        ("您好。回复TD退订", True),
        ("무료수신거부 0801234567", True),
        ("أرسل إيقاف للإلغاء", True),
        ("Отписаться: отправьте СТОП", True),
        ("Antworte genug", True),
        ("Our non-stop flights", False),
        ("ALL DAY NON-STOP", False),
        ("Your bus stop has moved. Stop by any time!", False),
        ("Baja California from $99", False),
        ("See https://acme.example/stop-to-opt-out", False),
        ("See acme.example/STOP", False),
        ("Write to STOP@acme.example", False),
    ],
)
def test_a_way_out_is_said(tmp_path: Path, text: str, *, is_said: bool) -> None:
    """Words in capitals, a campaign's own and phrases say how to opt out, in any script; addresses do not."""
    policy = "{purpose: marketing, opt_out_words: [genug]}"
    assert lint(tmp_path, text, policy, make_law("opt_out"), [("VN",)]) == [] if is_said else [OPT_OUT]


def test_an_unknown_law_may_ask_for_a_way_out(tmp_path: Path) -> None:
    """Advertising to a place without a known law is warned of, if nothing says how to opt out."""
    (said,) = lint(tmp_path, "10% off", MARKETING, make_law(), [("US",), ("GB",)])
    assert said.endswith("a word on opting out, which may be law in GB, whose law is not known here")
    assert lint(tmp_path, "10% off. Responda BAJA", MARKETING, make_law(), [("GB",)]) == []
