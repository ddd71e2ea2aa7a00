"""Campaign tests: what one person gets at one moment, decided as a plan decides."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from runner.reasons import REASONS
from runner.source.json_schema import load_validator, schema_text
from tests.cli.world import ASK, Project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.world import Enter

WHY = """\
{id: why, after: {message: ask, wait: 1h}, to: {question: nps, values: 0-6},
   questions: [{tag: reason, text: "Why, {{ first_name }}?"}]}"""
NUDGE = """\
{id: nudge, after: {message: ask, wait: 1d}, to: unanswered, text: "Still there, {{ first_name }}?"}"""
CAMPAIGN = """\
version: 1
name: pulse
recipients:
  - {csv: people.csv, phone_column: mobile, region: US, consent: {source_column: agreed}}
  - {phone: "+14155550109", vars: {vip: "yes"}, consent: {source: asked}}
exclude:
  - phone: "+14155550108"
"""
PERSON = '{mobile: "+12125550142", first_name: Ada, agreed: shop}'


class Suite(Project):
    """A campaign and its tests."""

    def write(self, messages: str, *tests: str, rules: str = "", people: str = PERSON) -> None:
        """Write the campaign, and tests of `people`, each with the rest of its keys."""
        file = self.folder / "campaigns/pulse.yaml"
        file.write_text(f"{CAMPAIGN}messages:\n{messages}{rules}", encoding="utf-8")
        (file.parent / "people.csv").write_text(
            "mobile,first_name,agreed\n+14155550109,Z,shop\n", encoding="utf-8"
        )
        (file.parent / "tests").mkdir(exist_ok=True)
        listed = "".join(f"  - {{name: t{i}, person: {people}, {one}}}\n" for i, one in enumerate(tests, 1))
        (file.parent / "tests/pulse.yaml").write_text(f"campaign: pulse\ntests:\n{listed}", encoding="utf-8")

    def fail(self, messages: str, *tests: str, rules: str = "", people: str = PERSON) -> list[str]:
        """Return what differs, without places."""
        self.write(messages, *tests, rules=rules, people=people)
        document = json.loads(self.run("test", "--format", "json", code=1))
        load_validator("test").validate(document)
        return [one["message"] for one in document["diagnostics"]]


@pytest.fixture
def tested(enter: Enter) -> Suite:
    return enter(Suite)


def list_messages(*messages: str) -> str:
    return "".join(f"  - {one}\n" for one in messages)


def test_what_is_expected_happens(tested: Suite) -> None:
    """Words, follow-ups by answer, reminders, opt-outs and hours are decided for the person of the test."""
    tested.write(
        list_messages(ASK, WHY, NUDGE),
        "at: 2026-12-01T10:00, expect: {message: ask, says: [0 to 10, Reply 0-10]}",
        "at: 2026-12-01T10:00-05:00, expect: {message: ask}",
        "at: 2026-12-01T22:00, expect: {none: deferred}",
        "at: 2026-12-01T10:00, opted_out: true, expect: {none: opted_out}",
        "at: 2026-12-01T11:00, sent: {ask: 2026-12-01T10:00}, answers: {nps: 6}, expect: {message: why, says: 'Why, Ada?'}",
        "at: 2026-12-01T11:00, sent: {ask: 2026-12-01T10:00}, answers: {nps: 7}, expect: {message: why, none: not_qualified}",
        "at: 2026-12-01T10:59, sent: {ask: 2026-12-01T10:00}, answers: {nps: 6}, expect: [{message: why, none: deferred}]",
        "at: 2026-12-02T10:00, sent: {ask: 2026-12-01T10:00}, expect: {message: nudge, none: open_session}",
        "at: 2026-12-02T10:00, sent: {ask: 2026-12-01T10:00}, surveys_ended: true, expect: {message: nudge}",
        rules="schedule: {timezone: America/New_York, send_between: ['09:00', '20:00']}\n",
    )
    assert tested.run("test") == "9 campaign tests passed.\n"
    assert not (tested.folder / ".runner").exists()


def test_what_differs_is_named_at_its_place(tested: Suite) -> None:
    """Each difference has the test's name, what happens instead, and the line that expects otherwise."""
    tested.write(
        list_messages(ASK, NUDGE),
        "at: 2026-12-01T10:00, expect: {message: ask, says: [0 to 10, Ada]}",
        "at: 2026-12-01T10:00, expect: {none: opted_out}",
        "at: 2026-12-01T10:00, expect: {message: nudge}",
    )
    shown = tested.run("test", code=1).splitlines(keepends=True)
    assert (
        "".join(line for line in shown if not line.startswith("  | "))
        == """\
campaigns/tests/pulse.yaml:3:142: error: t1: `ask` does not say 'Ada' [test-failed]
    it says: 0 to 10? Reply 0-10
campaigns/tests/pulse.yaml:4:118: error: t2: expected no `ask`: opted_out; they get it [test-failed]
campaigns/tests/pulse.yaml:5:111: error: t3: they get `ask`, which is not expected [test-failed]
campaigns/tests/pulse.yaml:5:121: error: t3: expected `nudge`; they get nothing: awaiting [test-failed]
0 campaign tests passed, 3 failed.
"""
    )
    first = tested.run("test", "--format", "github", code=1).splitlines()[0]
    place = "file=campaigns/tests/pulse.yaml,line=3,col=142,title=test-failed"
    assert first == f"::error {place}::t1: `ask` does not say 'Ada'%0Ait says: 0 to 10? Reply 0-10"


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("expect: {message: ask}", "what they get depends on the time, and this test has no `at`"),
        (
            "at: 1.2.2026, expect: {message: ask}",
            "'1.2.2026' is refused: it can be read as 2026-02-01 and as 2026-01-02",
        ),
        (
            "at: 2026-11-01T01:30, expect: {message: ask}",
            "which moment '2026-11-01T01:30' is cannot be told: it is several moments in America/New_York",
        ),
        (
            "at: 2026-12-01T10:00, sent: {aks: 2026-12-01}, expect: {message: ask}",
            "there is no message `aks`: did you mean `ask`?",
        ),
        (
            "at: 2026-12-01T10:00, sent: {ask: 2026-12-02}, expect: {message: ask}",
            "`ask` was sent after the moment of the test",
        ),
        (
            "at: 2026-12-01T10:00, answers: {nps: 3}, expect: {message: ask}",
            "they answer `nps`, and have got no message that asks it",
        ),
        (
            "at: 2026-12-01T10:00, answers: {nsp: 3}, expect: {message: ask}",
            "there is no question `nsp`: did you mean `nps`?",
        ),
        (
            "at: 2026-12-01T10:00, sent: {ask: 2026-11-30}, answers: {nps: 11}, expect: {message: why}",
            "there is no response to `nps`: `11`: did you mean `1`?",
        ),
        ("at: 2026-12-01T10:00, expect: {message: aks}", "there is no message `aks`: did you mean `ask`?"),
        ("at: 2026-12-01T10:00, arm: a, expect: {message: ask}", "there is no arm `a`"),
        (
            "at: 2026-12-01T10:00, arm: control_group, expect: {message: ask}",
            "there is no arm `control_group`",
        ),
    ],
)
def test_a_test_that_means_nothing_is_refused(tested: Suite, rest: str, said: str) -> None:
    """Times, messages, questions, responses and arms that are not there are errors with a suggestion."""
    rules = "schedule: {timezone: America/New_York, send_between: ['09:00', '20:00']}\n"
    assert tested.fail(list_messages(ASK, WHY), rest, rules=rules) == [f"t1: {said}"]


@pytest.mark.parametrize(
    ("person", "said"),
    [
        (
            '{mobile: "+14155550101", frist_name: Ada}',
            "no part of the audience has the column `frist_name`: did you mean `first_name`?",
        ),
        ('{mobile: "12", first_name: Ada}', "the phone '12' is refused: it has too few digits"),
        (
            '{mobile: "+14155550101", agreed: shop}',
            "`first_name` is blank here, and the message `hi` needs it",
        ),
        ('{mobile: "+14155550101", Mobile: "12"}', "`mobile` and `Mobile` are one column"),
        (
            '{mobile: "+14155550101", vip: "yes"}',
            "no part of the audience has all of these columns",
        ),
    ],
)
def test_a_person_is_read_as_the_audience_is(tested: Suite, person: str, said: str) -> None:
    """A column that no file has, a refused phone and a blank variable are the errors of `validate`."""
    hi = '{id: hi, text: "Hi {{ first_name }}"}'
    assert tested.fail(list_messages(hi), "expect: {message: hi}", people=person) == [f"t1: {said}"]


def test_columns_have_their_meanings(tested: Suite) -> None:
    """National numbers, consent and exclusions of the campaign hold for the person."""
    hi = '{id: hi, text: "Hi {{ first_name | default(vip) }}"}'
    rules = "policy: {consent: required}\n"
    for person, expected in (
        (
            '{mobile: "(415) 555-0101", First Name: "Ada, \\"A\\"", agreed: shop}',
            "{message: hi, says: 'Hi Ada, \"A\"'}",
        ),
        ('{phone: "+14155550101", first_name: Ada}', "{none: no_consent}"),
        ('{phone: "+14155550108", first_name: Ada, agreed: shop}', "{none: excluded}"),
        ('{phone: "+14155550101", vip: "no"}', "{message: hi, says: Hi no}"),
    ):
        tested.write(
            list_messages(hi), f"at: 2026-12-01T10:00Z, expect: {expected}", rules=rules, people=person
        )
        assert tested.run("test") == "1 campaign test passed.\n", person


def test_an_arm_and_a_cap_count(tested: Suite) -> None:
    """A test names the arm, or the control group; the person's own texts count for the frequency cap."""
    hi, more = '{id: hi, text: "Hi"}', '{id: more, after: {message: hi, wait: 1d}, text: "More"}'
    rules = (
        "policy: {frequency_cap: {messages: 1, within: 7d}}\n"
        "variants: {seed: s, of: hi, holdout: 0.9, arms: [{id: plain}, {id: warm, text: Dear}]}\n"
    )
    tested.write(
        list_messages(hi, more),
        "at: 2026-12-01T10:00, arm: plain, expect: {message: hi, says: Hi}",
        "at: 2026-12-01T10:00, arm: warm, expect: {message: hi, says: Dear}",
        "at: 2026-12-03T10:00, arm: warm, sent: {hi: 2026-12-01T10:00}, expect: {message: more, none: capped}",
        "at: 2026-12-09T10:00, arm: warm, sent: {hi: 2026-12-01T10:00}, expect: {message: more}",
        "at: 2026-12-01T10:00, arm: control_group, expect: {none: control_group}",
        rules=rules,
    )
    assert tested.run("test") == "5 campaign tests passed.\n"


@pytest.mark.slow
def test_replies_are_judged_as_reconcile_judges_them(tested: Suite) -> None:
    """An answer that opts out, may do so, or is a phone's reaction is what it is once it has been read."""
    ask = '{id: ask, questions: [{tag: why, text: "Why, {{ first_name }}?"}]}'
    more = "{id: more, after: {message: ask, wait: 1h}, to: answered, text: More}"
    rules = "policy: {opt_out_words: [genug], landlines: allow}\n"
    replies = {
        "STOP": "opted_out",
        "Genug!": "opted_out",
        "this is the wrong number": "opt_out_doubtful",
        "Liked “Why, Ada?”": "not_qualified",
        "Liked “it”": "to_send",
        "Good, thanks": "to_send",
    }
    expected = (
        f"answers: {{why: '{reply}'}}, expect: {{message: more{'' if why == 'to_send' else f', none: {why}'}}}"
        for reply, why in replies.items()
    )
    sent = "at: 2026-12-01T11:00Z, sent: {ask: 2026-12-01T10:00Z}"
    tested.write(list_messages(ask, more), *[f"{sent}, {one}" for one in expected], rules=rules)
    assert tested.run("test") == "6 campaign tests passed.\n"
    phones = [f"+1415555012{place}" for place in range(len(replies))]
    rows = "".join(f"{phone},Ada,shop\n" for phone in phones)
    (tested.folder / "campaigns/people.csv").write_text(f"mobile,first_name,agreed\n{rows}", encoding="utf-8")
    file = tested.folder / "campaigns/pulse.yaml"
    inline = next(line for line in CAMPAIGN.splitlines(keepends=True) if "vip" in line)
    file.write_text(file.read_text(encoding="utf-8").replace(inline, ""), encoding="utf-8")
    tested.run("apply", "--auto-approve")
    for phone, reply in zip(phones, replies, strict=True):
        tested.reply(phone, reply)
    tested.run("sandbox", "clock", "+1h")
    tested.run("reconcile")
    document = tested.check(tested.run("plan", "--format", "json"), "plan")
    found = document["campaigns"][0]["messages"][1]
    assert {why: found[why] for why in replies.values()} == Counter(replies.values())


def test_a_number_that_means_two_responses_is_refused(tested: Suite) -> None:
    """A number is that of a response in the list; one that is the value of another is refused with both."""
    responses = "[{text: Good, value: 3}, {text: Fair, value: 2}, {text: Poor, value: 1}]"
    ask = f'{{id: ask, questions: [{{tag: sat, text: "How?", scale: csat, responses: {responses}}}]}}'
    low = "{id: low, after: {message: ask, wait: 1h}, to: {question: sat, values: 1}, text: Sorry}"
    sent = "at: 2026-12-01T11:00Z, sent: {ask: 2026-12-01T10:00Z}"
    found = tested.fail(
        list_messages(ask, low),
        f"{sent}, answers: {{sat: 1}}, expect: {{message: low}}",
        f"{sent}, answers: {{sat: 2}}, expect: {{message: low, none: not_qualified}}",
        f"{sent}, answers: {{sat: Poor}}, expect: {{message: low}}",
    )
    assert found == ["t1: 1 is the number of 'Good' in the list, and the value of 'Poor'"]


def test_a_person_in_several_files_is_refused(tested: Suite) -> None:
    """Where files with the same columns do not say the same of them, a test names the file."""
    hi = '{id: hi, text: "Hi"}'
    tested.write(
        list_messages(hi),
        "at: 2026-12-01T10:00Z, expect: {message: hi}",
        "at: 2026-12-01T10:00Z, file: people.csv, expect: {message: hi}",
        "at: 2026-12-01T10:00Z, file: leads.csv, expect: {none: no_consent}",
        "at: 2026-12-01T10:00Z, file: lead.csv, expect: {none: no_consent}",
    )
    file = tested.folder / "campaigns/pulse.yaml"
    text = file.read_text(encoding="utf-8")
    more = (
        "recipients:\n  - {csv: leads.csv, phone_column: mobile}\n  - {csv: more.csv, phone_column: mobile}\n"
    )
    text = text.replace("recipients:\n", more)
    for name, columns in (("leads.csv", "mobile,first_name,agreed"), ("more.csv", "mobile,city")):
        (file.parent / name).write_text(f"{columns}\n", encoding="utf-8")
    file.write_text(f"{text}policy: {{consent: required}}\n", encoding="utf-8")
    shown = tested.run("test", code=1)
    assert "t1: leads.csv and people.csv both have these columns, and do not say the same of" in shown
    assert "say where they are, as in `file: people.csv`" in shown
    assert "t4: there is no part of the audience `lead.csv`: did you mean `leads.csv`?" in shown
    assert "2 campaign tests passed, 2 failed." in shown
    file.write_text(text, encoding="utf-8")
    assert "t1" not in tested.run("test", code=1), "they are the same person where no consent is required"
    tested.write(list_messages(hi), "expect: {message: hi}", people='{phone: "+12125550142"}')
    assert tested.run("test") == "1 campaign test passed.\n", "in the file, and in the campaign itself"


def test_a_person_has_their_dates(tested: Suite) -> None:
    """A message by a date goes by the person's cell, and is sent once for it, and again if it was moved."""
    remind = '{id: remind, when: {column: first_name, before: 24h}, text: "Tomorrow"}'
    bring = "{id: bring, after: {message: remind, wait: 1h}, text: Bring it}"
    person = '{mobile: "+12125550142", first_name: 2026-12-24T10:00, agreed: shop}'
    tested.write(
        list_messages(remind, bring),
        "at: 2026-12-23T10:00, expect: {message: remind}",
        "at: 2026-12-22T10:00, expect: {none: deferred}",
        "at: 2026-12-25T10:00, expect: {none: missed}",
        "at: 2026-12-23T10:59, sent: {remind: 2026-12-23T10:00}, expect: {message: remind, none: already_sent}",
        "at: 2026-12-23T10:00, sent: {remind: 2026-12-21T10:00}, expect: {message: remind}",
        "at: 2026-12-23T11:00, sent: {remind: 2026-12-23T10:00}, expect: {message: bring}",
        people=person,
    )
    assert tested.run("test") == "6 campaign tests passed.\n"


def test_tests_are_no_campaigns(tested: Suite, tmp_path: Path) -> None:
    """Other commands leave the folder of tests alone; `validate` checks the form of its files."""
    tested.write(list_messages('{id: hi, text: "Hi"}'), "expect: {message: hi}")
    assert "Valid: 1 campaign, 0 errors" in tested.run("validate")
    assert "Valid: 0 campaigns" in tested.run("validate", "campaigns/tests/pulse.yaml")
    assert "pulse" in tested.run("plan")
    tested.run("plan", "campaigns/tests/pulse.yaml")
    assert "no campaign" in tested.errors
    (tested.folder / "campaigns/tests/pulse.yaml").write_text("campaign: pulse\n", encoding="utf-8")
    assert "the file has no `tests`" in tested.run("validate", code=1)
    assert "the file has no `tests`" in tested.run("test", "campaigns", code=1)
    outside = tmp_path.parent / f"{tmp_path.name}.secret.yaml"
    outside.write_text("password: hunter2\n", encoding="utf-8")
    (tested.folder / "campaigns/tests/pulse.yaml").unlink()
    (tested.folder / "campaigns/tests/pulse.yaml").symlink_to(outside)
    shown = tested.run("test", code=1)
    assert "outside the repository" in shown
    assert "hunter2" not in shown


def test_a_campaign_is_found_by_name_and_file(tested: Suite) -> None:
    """One that is not there is an error with a suggestion; one with errors is said to have them."""
    tested.write(list_messages('{id: hi, text: "Hi"}'), "expect: {message: hi}")
    file = tested.folder / "campaigns/tests/pulse.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("campaign: pulse", "campaign: ../pulse.yaml"), encoding="utf-8")
    assert tested.run("test", "campaigns/pulse.yaml") == "1 campaign test passed.\n"
    file.write_text(text.replace("campaign: pulse", "campaign: puls"), encoding="utf-8")
    assert "there is no campaign 'puls': did you mean `pulse`?" in tested.run("test", code=1)
    tested.run("test", "campaigns/pulse.yaml", code=1)
    file.write_text(f"{text}{text.splitlines()[-1]}\n", encoding="utf-8")
    (tested.folder / "campaigns/pulse.yaml").write_text("version: 1\nname: pulse\n", encoding="utf-8")
    shown = tested.run("test", code=1)
    assert shown.count("the campaign pulse has errors") == 1, "once for two tests"
    assert "0 campaign tests passed, 2 failed." in shown


def test_that_there_are_no_tests_is_said(tested: Suite) -> None:
    """Without tests the place where they are looked for is named; a path without any is an error."""
    tested.write(list_messages('{id: hi, text: "Hi"}'), "expect: {message: hi}")
    for path in ("campaigns/people.csv", "campaigns/pulse.yaml"):
        (tested.folder / "campaigns/tests/pulse.yaml").unlink(missing_ok=True)
        assert tested.run("test", path, code=1) == ""
        assert f"there are no campaign tests of {path}" in tested.errors
    said = "There are no campaign tests: they are looked for in `campaigns/tests/`.\n"
    assert tested.run("test") == said


def test_reasons_are_those_of_plans() -> None:
    """The reasons that tests may expect are reasons of plans, save those about all people."""
    of_all = {"unresolved", "not_sampled", "enough", "later_step", "paused", "over_limit"}
    found = json.loads(schema_text("tests"))["$defs"]["expectation"]["properties"]["none"]["enum"]
    assert set(found) == REASONS.keys() - of_all


def test_the_review_runs_them(tested: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test that fails makes the review fail; the comment has the numbers, and the silenced warnings."""
    hi, rules = (
        '{id: hi, text: "Hi: https://bit.ly/a"}',
        "ignore: [{code: link-shortener, reason: our own}]\n",
    )
    tested.write(list_messages(hi), "expect: {message: hi}", rules=rules)
    shown = tested.run("ci", "review")
    assert "**1 campaign test passed.**" in shown
    assert "1 warning is silenced:\n\n- pulse: link-shortener (1): our own" in shown
    tested.write(list_messages(hi), "expect: {message: hi, says: Hey}", rules=rules)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    shown = tested.run("ci", "review", code=1)
    assert "::error file=campaigns/tests/pulse.yaml,line=3" in shown
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.count("**0 campaign tests passed, 1 failed.**") == 2, "in the summary, and in the comment"
