"""A campaign with one part that its schema refuses: the rest is checked, and nothing is made up about it."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.load import load_campaign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOUND: dict[str, Any] = {
    "version": 1,
    "name": "pulse",
    "renamed_from": ["pulse-2025"],
    "vars": {"company": "Acme"},
    "recipients": [
        {"phone": "+14155550101", "vars": {"name": "Ada"}},
        {"phone": "+14155550102", "consent": {"source": "web", "date": "2026-03-01"}},
        {"csv": "people.csv", "region": "US"},
    ],
    "exclude": [{"phone": "+14155550109"}],
    "messages": [
        {
            "id": "ask",
            "questions": [{"tag": "q", "text": "Well?", "responses": ["Bad", "Good"], "conclude_on": "Bad"}],
        },
        {"id": "tell", "text": "Hi"},
        {"id": "thank", "text": "Thanks", "after": {"message": "ask", "wait": "2d"}, "to": "answered"},
        {
            "id": "nudge",
            "questions": [{"tag": "q", "text": "And now?"}],
            "after": {"message": "thank", "wait": "1d"},
            "complete_existing_sessions": True,
        },
    ],
    "variants": {
        "seed": "s",
        "of": "tell",
        "arms": [{"id": "a", "text": "Hey"}, {"id": "b", "text": "Hello"}],
    },
    "schedule": {"timezone": "America/New_York", "not_before": "2026-03-02T09:00", "days": ["mon", "tue"]},
    "policy": {"consent": "required", "timezone_unknown": "campaign"},
    "limits": {"rate": "5/s", "recipients": 10},
}
NONSENSE: dict[str, list[str]] = {"no such key!": []}


def iterate_paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (key,)
            yield from ((key, *rest) for rest in iterate_paths(item))


def codes_of(folder: Path, document: dict[str, Any]) -> list[str]:
    (folder / "people.csv").write_text("phone\n+14155550103\n", encoding="utf-8")
    file = folder / "campaign.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    campaign, problems = load_campaign(file, current=folder)
    assert (campaign is None) is bool(problems)
    return [problem.code for problem in problems]


def test_the_sound_campaign_has_no_problem(tmp_path: Path) -> None:
    """What the other tests start from is right."""
    assert codes_of(tmp_path, SOUND) == []


@settings(max_examples=40)
@given(st.sampled_from([path for path in iterate_paths(SOUND) if "vars" not in path[:-1]]), st.data())
def test_what_is_refused_has_no_consequences(
    tmp_path: Path, path: tuple[str | int, ...], data: st.DataObject
) -> None:
    """Nonsense in the place of any value is one kind of mistake: of the form, never of the rules."""
    broken = copy.deepcopy(SOUND)
    *parents, key = path
    value = broken
    for parent in parents:
        value = value[parent]  # type: ignore[index]
    value[key] = data.draw(st.sampled_from([NONSENSE, [[NONSENSE]]]))  # type: ignore[index]
    codes = codes_of(tmp_path, broken)
    assert codes
    assert {code.partition("-")[0] for code in codes} <= {"value", "key", "yaml", "message"}, codes


def test_duplicate_keys_hide_nothing(tmp_path: Path) -> None:
    """A key that stands twice is said along with what its schema and the rules refuse."""
    file = tmp_path / "campaign.yaml"
    file.write_text(
        "version: 1\nrecipients: [{csv: nowhere.csv}]\nmessages:\n"
        "  - {id: ask, text: Hi, text: Ho}\n  - {id: ask, text: Ha}\nlimits: {rate: fast}\n",
        encoding="utf-8",
    )
    campaign, problems = load_campaign(file, current=tmp_path)
    assert campaign is None
    assert sorted(problem.code for problem in problems) == [
        "csv-not-found",
        "message-id-repeated",
        "value-pattern",
        "yaml-duplicate-key",
    ]
