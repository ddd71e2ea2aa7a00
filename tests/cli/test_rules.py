"""Rules in targets.yaml: whoever tries to weaken one sends nothing beyond it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.world import World

CAMPAIGN = """\
version: 1
name: pulse
recipients: [{phone: "+14155550101"}, {phone: "+14155550102"}, {phone: "+14155550103"}]
messages: [{id: ask, text: Hello}]
"""
SURVEY = CAMPAIGN.replace("text: Hello", "questions: [{tag: why, text: Why?}]")
KEPT = "limits: {recipients: 2}\n"
EMPTY = "version: 1\ntargets: {}\n"
ONE = "require: {recipients: 2}"
"""A rule that the three people of the campaign break."""


def write(folder: Path, require: str, campaign: str = CAMPAIGN, name: str = "campaigns/pulse.yaml") -> None:
    """Write a repository with rules, and a campaign."""
    (folder / ".git").mkdir(exist_ok=True)
    for file, text in (("campaigns/targets.yaml", f"{EMPTY}{require}\n"), (name, campaign)):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")


def count_sent(world: World) -> int:
    """Return how many texts the sandbox has accepted."""
    if not (world.folder / ".runner/sandbox/service.sqlite").exists():
        return 0
    return int(world.query("SELECT count(*) FROM session")[0])


WEAK = [
    ("quiet_hours: legal", ""),
    ("quiet_hours: legal", "policy: {quiet_hours: none}"),
    ("no_rule: refuse", "policy: {quiet_hours: legal, no_rule: schedule}"),
    ("purpose: survey", "policy: {purpose: service}"),
    ("purpose: marketing", ""),
    ("consent: required", ""),
    ("timezone_unknown: refuse", "policy: {timezone_unknown: campaign}\nschedule: {timezone: UTC}"),
    ("landlines: refuse", ""),
    ("open_session: wait", "policy: {open_session: complete}"),
    ("open_session: complete", "policy: {open_session: queue}"),
    ("quiet_hours: legal", "policy: {quiet_hours: legal, open_session: queue}"),
    ("read_replies_within: 12h", ""),
    ("review_margin: 5%", ""),
    ("frequency_cap: {messages: 3, within: 7d}", ""),
    ("frequency_cap: {messages: 3, within: 7d}", "policy: {frequency_cap: {messages: 4, within: 7d}}"),
    ("frequency_cap: {messages: 3, within: 7d}", "policy: {frequency_cap: {messages: 1, within: 2d}}"),
    ('send_between: ["09:00", "20:00"]', ""),
    ('send_between: ["09:00", "20:00"]', 'schedule: {send_between: ["09:00", "20:01"]}'),
    ("recipients: <= 2", ""),
    ("recipients: <= 2", "limits: {recipients: 3}"),
    ("recipients: <= 2", "limits: {recipients: 2}"),
    ("renders: 5", ""),
    ("renders: 2", "limits: {renders: 2}"),
    ("segments_per_message: 1", "limits: {segments_per_message: 2}"),
    ("recipients_per_send: 1", ""),
    ("rollout_above: 2", ""),
    ("rollout_above: 2", "rollout: {steps: [{share: 100%}]}"),
    ("rollout_above: 2", "rollout: {steps: [{share: 99%, hold: 1h}, {share: 100%}]}"),
    ("sender: Acme", "policy: {sender: Evil}"),
]


@pytest.mark.parametrize(("rule", "campaign"), WEAK)
def test_a_campaign_beyond_a_bound_is_not_sent(world: World, rule: str, campaign: str) -> None:
    """It is an error at once, or stops the plan where only the audience shows it; `validate` names the rule."""
    write(world.folder, f"require: {{{rule}}}", f"{CAMPAIGN}{campaign}\n")
    said = world.run("validate", code=1)
    key = "open_session" if "queue" in campaign else rule.partition(":")[0]
    assert f"[require-{key.replace('_', '-')}]" in said
    assert "campaigns/targets.yaml:3 requires" in said
    is_of_audience = key == "rollout_above" or campaign in ("limits: {recipients: 2}", "limits: {renders: 2}")
    world.run("apply", "--auto-approve", "--limit", "1", code=5 if is_of_audience else 1)
    assert "campaigns/targets.yaml:3 requires" in world.errors
    assert count_sent(world) == 0


KEEPS = [
    ("quiet_hours: legal", "policy: {quiet_hours: legal}"),
    ("purpose: survey", "policy: {purpose: marketing}"),
    ("landlines: warn", "policy: {landlines: refuse}"),
    ("open_session: complete", ""),
    ("read_replies_within: 24h", ""),
    ("frequency_cap: {messages: 3, within: 7d}", "policy: {frequency_cap: {messages: 1, within: 3d}}"),
    ("frequency_cap: {messages: 3, within: 7d}", "policy: {frequency_cap: {messages: 3, within: 30d}}"),
    ('send_between: ["09:00", "20:00"]', 'schedule: {send_between: ["09:00", "12:00"]}'),
    ("recipients: 3", "limits: {recipients: 3}"),
    ("rollout_above: 3", ""),
    ("rollout_above: 2", "rollout: {steps: [{share: 60%, hold: 1h}, {share: 100%}]}"),
    ("state_key: true", ""),
]


@pytest.mark.parametrize(("rule", "campaign"), KEEPS)
def test_a_campaign_within_a_bound_is_valid(world: World, rule: str, campaign: str) -> None:
    """What is as strict as the rule, or stricter, is no problem."""
    write(world.folder, f"require: {{{rule}}}", f"{CAMPAIGN}{campaign}\n")
    world.run("validate")


@pytest.mark.parametrize(
    ("messages", "people"),
    [
        ("{id: ask, text: 'Evil: hello'}", 3),
        ("{id: ask, text: '{{ shop }}: hello'}", 1),
        ("{id: ask, text: '{% if shop == \"Acme\" %}Acme{% else %}Evil{% endif %}: hello'}", 2),
        ("{id: ask, text: 'Evil: https://evil.example/acme'}", 3),
        ("{id: ask, text: 'Your parcel waits: acme-parcels.com'}", 3),
        ("{id: ask, text: 'See www.acme.co.uk.'}", 3),
        ("{id: ask, introduction: 'Evil here.', questions: [{tag: a, text: 'Better than Acme?'}]}", 3),
        ("{id: ask, text: 'Acme: hello'}, {id: other, text: 'Evil: hello'}", 3),
    ],
)
def test_a_first_text_without_the_required_sender_is_not_sent(
    world: World, messages: str, people: int
) -> None:
    """What each person gets counts, in each message that may be their first."""
    own = CAMPAIGN.replace("{id: ask, text: Hello}", messages).replace("}]", ", vars: {shop: Bcme}}]", 1)
    own = own.replace('"+14155550101"', '"+14155550101", vars: {shop: Acme}')
    own = own.replace('"+14155550102"', '"+14155550102", vars: {shop: ACME}')
    write(world.folder, "require: {sender: Acme}", f"{own}policy: {{sender: Acme}}\n")
    said = f"the first text to {people} {'person' if people == 1 else 'people'} does not say its sender, Acme"
    assert f"error: {said} [text-without-sender]" in world.run("validate", code=1)
    world.run("apply", "--auto-approve", "--limit", "1", code=5)
    assert f"{said}, and campaigns/targets.yaml:3 requires it" in world.errors
    assert count_sent(world) == 0


@pytest.mark.parametrize(
    "messages",
    [
        "{id: ask, text: '{{ shop }}: hello'}",
        '{id: ask, text: "Acme\'s sale"}, {id: again, after: {message: ask, wait: 2d}, text: Still on}',
        "{id: ask, introduction: Acme asks., questions: [{tag: a, text: Why?}]}",
        "{id: ask, text: 'Hi from Acme.Your parcel waits'}",
    ],
)
def test_a_first_text_with_the_required_sender_is_sent(world: World, messages: str) -> None:
    """The name may come from a column, and a follow-up needs it no more."""
    own = CAMPAIGN.replace("{id: ask, text: Hello}", messages) + "vars: {shop: Acme}\n"
    write(world.folder, "require: {sender: Acme}", f"{own}policy: {{sender: Acme}}\n")
    world.run("validate")
    world.run("apply", "--auto-approve")
    assert count_sent(world) == 3


@pytest.mark.parametrize("names", ["アクメ", "京东", "Iğdır", "Acme.com", "!!"])
def test_a_sender_is_found_in_any_script(world: World, names: str) -> None:
    """Scripts without blanks or capitals have the name inside a word."""
    glued = f"您好{names}です" if names in ("アクメ", "京东") else f"{names}: hello"
    own = CAMPAIGN.replace("text: Hello", f"text: '{glued}'")
    write(world.folder, f"require: {{sender: '{names}'}}", f"{own}policy: {{sender: '{names}'}}\n")
    world.run("validate")


NIGHT, MORNING = "2026-12-01T10:00Z", "2026-12-01T15:30Z"
"""In California it is two; in New York half past ten, and half past seven in California."""
LAW = "policy: {quiet_hours: legal}\n"
HOURS = 'schedule: {send_between: ["09:00", "20:00"]}\n'


@pytest.mark.parametrize(
    ("require", "own"),
    [("quiet_hours: legal", LAW), ('send_between: ["09:00", "20:00"]', HOURS)],
)
@pytest.mark.parametrize(
    ("person", "now", "to_send"),
    [
        ('phone: "+14155550101", timezone: Asia/Tokyo', NIGHT, 0),
        ('phone: "+14155550101", timezone: Asia/Kolkata, region: IN', NIGHT, 0),
        ('phone: "+14155550101", timezone: America/New_York', MORNING, 0),
        ('phone: "+14155550101", region: US-NY', MORNING, 0),
        ('phone: "+18005550101", timezone: America/New_York', MORNING, 1),
        ('phone: "+18005550101", region: US-NY', MORNING, 1),
    ],
)
def test_a_person_s_own_place_gets_nobody_around_required_hours(
    world: World, require: str, own: str, person: str, now: str, to_send: int
) -> None:
    """A time zone or a region narrows down a number's own; beyond those, the hours of both places hold."""
    campaign = CAMPAIGN.replace('{phone: "+14155550101"}', f"{{{person}}}")
    campaign = campaign.replace(', {phone: "+14155550102"}, {phone: "+14155550103"}', "")
    write(world.folder, f"require: {{{require}}}", f"{campaign}{own}")
    plan = json.loads(world.run("plan", "--now", now, "--format", "json"))
    assert plan["campaigns"][0]["messages"][0]["to_send"] == to_send
    write(world.folder, "", f"{campaign}{own}")
    plan = json.loads(world.run("plan", "--now", now, "--format", "json"))
    assert plan["campaigns"][0]["messages"][0]["to_send"] == 1


@pytest.mark.parametrize(
    "person",
    [
        'phone: "+12125550106", region: GB',
        'phone: "+447400123451", region: US-NY',
        'phone: "+447400123451", region: US-NY, timezone: America/New_York',
    ],
)
def test_under_required_hours_both_places_need_a_known_law(world: World, person: str) -> None:
    """What is given and the number's country: nothing is known of the United Kingdom."""
    campaign = CAMPAIGN.replace('{phone: "+14155550101"}', f"{{{person}}}")
    campaign = campaign.replace(', {phone: "+14155550102"}, {phone: "+14155550103"}', "")
    write(world.folder, "require: {quiet_hours: legal, no_rule: refuse}", f"{campaign}{LAW}")
    plan = json.loads(world.run("plan", "--now", MORNING, "--format", "json"))
    assert plan["campaigns"][0]["messages"][0]["no_rule"] == 1
    assert "no legal hours for texts are known in GB" in world.run("validate")


CROWD = CAMPAIGN.replace(
    '[{phone: "+14155550101"}, {phone: "+14155550102"}, {phone: "+14155550103"}]',
    "[" + ", ".join(f'{{phone: "+1415555{number:04}"}}' for number in range(100, 150)) + "]",
)


@pytest.mark.parametrize(
    "rollout",
    [
        "{steps: [{share: 0.0001%, hold: 30d}, {share: 100%}]}",
        "{steps: [{share: 0.0001%, hold: 30d}, {share: 99%, hold: 1d}, {share: 100%}]}",
        "{seed: s4, steps: [{share: 10%, hold: 30d}, {share: 100%}]}",
    ],
)
@pytest.mark.parametrize("options", [(), ("--limit", "1")])
def test_the_people_of_the_first_step_count_as_they_are_drawn(
    world: World, rollout: str, options: tuple[str, ...]
) -> None:
    """A step that has nobody is none, and one that draws more than its share is as large as it is."""
    write(world.folder, "require: {rollout_above: 5}", f"{CROWD}rollout: {rollout}\n")
    world.run("apply", "--auto-approve", *options, code=5)
    assert "the first step of its rollout texts" in world.errors
    assert count_sent(world) == 0


@pytest.mark.slow
def test_a_later_step_may_be_larger(world: World) -> None:
    """Once the first step is over, the bound is kept, also for a message that is added."""
    steps = "rollout: {seed: s3, steps: [{share: 10%, hold: 1h}, {share: 100%}]}\n"
    write(world.folder, "require: {rollout_above: 9}", f"{CROWD}{steps}")
    world.run("apply", "--auto-approve")
    assert 0 < count_sent(world) <= 9
    world.run("sandbox", "clock", "+2h")
    world.run("reconcile")
    world.run("apply", "--auto-approve")
    assert count_sent(world) == 50
    more = CROWD.replace("text: Hello}", "text: Hello}, {id: more, text: More}")
    write(world.folder, "require: {rollout_above: 9}", f"{more}{steps}")
    world.run("apply", "--auto-approve")
    assert 50 < count_sent(world) <= 59


def place_beside_other_targets(folder: Path) -> list[str]:
    write(folder, ONE, name="campaigns/team/pulse.yaml")
    (folder / "campaigns/team/targets.yaml").write_text(f"{EMPTY}require: {{recipients: 900}}\n")
    return []


def place_in_another_folder(folder: Path) -> list[str]:
    write(folder, ONE, name="other/deep/pulse.yaml")
    (folder / "other/deep/targets.yaml").write_text(EMPTY)
    return ["other/deep"]


def link_to_a_campaign(folder: Path) -> list[str]:
    write(folder, ONE, name="elsewhere/old.txt")
    (folder / "campaigns/pulse.yaml").symlink_to("../elsewhere/old.txt")
    return []


def link_from_elsewhere(folder: Path) -> list[str]:
    write(folder, ONE)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/other.yaml").symlink_to("../campaigns/pulse.yaml")
    return ["elsewhere/other.yaml"]


def link_to_another_repository(folder: Path) -> list[str]:
    write(folder, ONE)
    (folder / "campaigns/pulse.yaml").unlink()
    (folder / "nested/.git").mkdir(parents=True)
    (folder / "nested/pulse.yaml").write_text(CAMPAIGN)
    return ["nested/pulse.yaml"]


def work_in_another_folder(folder: Path) -> list[str]:
    write(folder, ONE)
    (folder / "team/campaigns").mkdir(parents=True)
    (folder / "team/campaigns/targets.yaml").write_text(EMPTY)
    os.chdir(folder / "team")
    return ["../campaigns/pulse.yaml"]


def fill_by_default(folder: Path) -> list[str]:
    place_beside_other_targets(folder)
    (folder / "campaigns/team/targets.yaml").write_text(f"{EMPTY}defaults: {{limits: {{recipients: 900}}}}\n")
    return []


def merge_by_alias(folder: Path) -> list[str]:
    write(folder, ONE, f"{CAMPAIGN}vars: &big {{recipients: 900}}\nlimits: *big\n")
    return []


def name_another_target(folder: Path) -> list[str]:
    write(folder, ONE)
    return ["--target", "sandbox"]


def choose_some(folder: Path) -> list[str]:
    write(folder, ONE, f"{CAMPAIGN}{KEPT}")
    return ["--limit", "1"]


def choose_a_message(folder: Path) -> list[str]:
    write(folder, ONE, f"{CAMPAIGN}{KEPT}")
    return ["--only", "ask"]


def send_later(folder: Path) -> list[str]:
    later = 'schedule: {send_between: ["00:00", "00:01"]}\n'
    write(folder, ONE, f"{CAMPAIGN}{KEPT}{later}")
    return []


def try_it_out(folder: Path) -> list[str]:
    write(folder, ONE)
    return ["--test-to", "+14155550199"]


WAYS = [
    place_beside_other_targets,
    place_in_another_folder,
    link_to_a_campaign,
    link_from_elsewhere,
    link_to_another_repository,
    work_in_another_folder,
    fill_by_default,
    merge_by_alias,
    name_another_target,
    choose_some,
    choose_a_message,
    send_later,
    try_it_out,
]


@pytest.mark.parametrize("place", WAYS)
def test_no_way_leads_around_a_rule(world: World, place: Callable[[Path], list[str]]) -> None:
    """Other folders, files of targets, links, names, targets and options send nothing beyond the bound."""
    arguments = place(world.folder)
    campaigns = [one for one in arguments if "/" in one]
    said = world.run("validate", *campaigns, code=1)
    assert "campaigns/targets.yaml:3 requires at most 2 [require-recipients]" in said
    code = 5 if place in (choose_some, choose_a_message, send_later) else 1
    world.run("apply", "--auto-approve", *arguments, code=code)
    assert "campaigns/targets.yaml:3 requires at most 2" in world.errors
    assert count_sent(world) == 0


@pytest.mark.parametrize(
    "break_file",
    [
        lambda file: file.write_text("version: 2\n"),
        lambda file: file.write_text(f"{EMPTY}require: {{recipient: 2}}\n"),
        lambda file: file.write_bytes(b"\xff\xfe\x00"),
        lambda file: (file.unlink(), file.symlink_to("gone.yaml")),
        lambda file: (file.unlink(), file.symlink_to("targets.yaml")),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), file.symlink_to("/etc/hostname")),
    ],
)
def test_a_file_of_rules_that_cannot_be_read_is_an_error(
    world: World, break_file: Callable[[Path], object]
) -> None:
    """It never means that there are no rules, also where another targets.yaml has the target."""
    write(world.folder, ONE, name="campaigns/team/pulse.yaml")
    (world.folder / "campaigns/team/targets.yaml").write_text(EMPTY)
    break_file(world.folder / "campaigns/targets.yaml")
    world.run("apply", "--auto-approve", "campaigns/team", code=1)
    assert "campaigns/targets.yaml:" in world.errors
    assert count_sent(world) == 0


def test_defaults_are_taken_where_a_campaign_says_nothing(world: World) -> None:
    """Key by key; opt-out words are added; the plan says once which defaults hold, and for which campaigns."""
    defaults = (
        "defaults:\n"
        "  policy: {open_session: complete, opt_out_words: [adieu]}\n"
        "  limits: {recipients: 2, renders: 900}\n"
        "  owner: cx@example.com\n"
    )
    own = "limits: {recipients: 3}\npolicy: {opt_out_words: [basta]}\n"
    write(world.folder, defaults, f"{SURVEY}{own}")
    write(world.folder, defaults, f"{CAMPAIGN.replace('pulse', 'other')}{own}", "campaigns/other.yaml")
    document = world.check(world.run("plan", "--format", "json"), "plan")
    (campaign, again) = document["campaigns"]
    assert campaign["defaults"] == again["defaults"]
    assert [(one["key"], one["value"], one["line"]) for one in campaign["defaults"]] == [
        ("owner", "cx@example.com", 6),
        ("policy.open_session", "complete", 4),
        ("policy.opt_out_words", ["adieu"], 4),
        ("limits.renders", 900, 5),
    ]
    assert document["notes"][0] == (
        "Taken from `defaults` in campaigns/targets.yaml by other, pulse: `owner: cx@example.com`, "
        '`policy.open_session: complete`, `policy.opt_out_words: ["adieu"]`, `limits.renders: 900`.'
    )
    assert world.run("plan").count("Taken from `defaults`") == 1
    world.run("apply", "--auto-approve")
    assert count_sent(world) == 6
    world.reply("+14155550101", "Adieu")
    world.run("reconcile")
    assert "1 person has opted out" in world.run("optouts", "list")


@pytest.mark.parametrize(
    ("own", "code"),
    [("recipients: 9", 5), ("recipients: {most: 9}", 5), ("recipients: {least: 1}", 0), ("recipients: 2", 5)],
)
def test_guards_of_an_audience_are_taken_one_by_one(world: World, own: str, code: int) -> None:
    """A campaign with a limit of its own keeps the default's other guards."""
    defaults = "defaults: {limits: {recipients: {least: 4, most: 5, change: 30%}}}"
    write(world.folder, defaults, f"{CAMPAIGN}limits: {{{own}}}\n")
    world.run("apply", "--auto-approve", code=code)
    assert code == 0 or "limits.recipients.least is 4" in world.errors
    assert "`limits.recipients: {" in world.run("plan", code=code)


def test_a_campaign_without_rules_keeps_its_digest(world: World) -> None:
    """A targets.yaml without them, or with rules of other keys, changes nothing of what was planned before."""
    write(world.folder, "")
    plain = json.loads(world.run("plan", "--format", "json"))["campaigns"][0]
    (world.folder / "campaigns/targets.yaml").unlink()
    assert json.loads(world.run("plan", "--format", "json"))["campaigns"][0] == plain
    assert plain["digests"].keys() == {"campaign", "deliveries", "record"}
    assert "defaults" not in plain


@pytest.mark.parametrize(
    "later",
    [
        "require: {renders: 800}\ndefaults: {limits: {renders: 800}}",
        "require: {renders: 900}\ndefaults: {limits: {renders: 800}}",
        "require: {renders: 900, recipients: 3}\ndefaults: {limits: {renders: 900, recipients: 3}}",
        "",
    ],
)
def test_a_plan_saved_under_other_rules_is_refused(world: World, later: str) -> None:
    """Its digest covers the rules: one that was tightened, loosened or removed needs a new plan."""
    write(world.folder, "require: {renders: 900}\ndefaults: {limits: {renders: 900}}")
    world.run("plan", "--out", "plan.json")
    write(world.folder, later)
    world.run("apply", "--plan", "plan.json", code=1)
    assert "out of date: pulse: the rules in targets.yaml have changed" in world.errors
    assert count_sent(world) == 0


def test_an_approval_is_of_the_rules(
    world: World, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]
) -> None:
    """What was approved under other rules is not approved."""
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    with serve(world.folder, "--db", "live.sqlite") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        write(world.folder, "require: {recipients: 9}", f"{CAMPAIGN}limits: {{recipients: 9}}\n")
        world.run("plan", "--out", "plan.json")
        world.run("ci", "approve", "--plan", "plan.json", "--by", "ada")
        write(world.folder, "require: {recipients: 90}", f"{CAMPAIGN}limits: {{recipients: 9}}\n")
        world.run("apply", "--auto-approve", "--require-approval", code=5)
        assert "the rules in targets.yaml have changed since it was approved" in world.errors


def test_a_target_needs_a_state_key(
    world: World, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]
) -> None:
    """Also one of the environment alone, on this machine, and under any name."""
    write(world.folder, "require: {state_key: true}")
    with serve(world.folder, "--db", "live.sqlite") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for target in ("live", "sandbox", "other"):
            world.run("apply", "--auto-approve", "--target", target, code=1)
            assert world.errors.startswith(
                f"Error: the target '{target}' has no state key, and campaigns/targets.yaml:3 requires one\n"
                "  set RUNNER_STATE_KEY; `runner key new` makes a key\n"
            )
        monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
        world.run("apply", "--auto-approve", "--target", "live")


def test_a_campaign_that_has_begun_goes_on(world: World) -> None:
    """Of its audience only those count who are not texted yet: `validate`, which does not know them, warns."""
    write(world.folder, "")
    world.run("apply", "--auto-approve")
    write(world.folder, "require: {rollout_above: 1}", CAMPAIGN.replace("0103", "0104"))
    assert "warning: it could text 3 people, now and later" in world.run("validate")
    world.run("apply", "--auto-approve")
    assert count_sent(world) == 4


def test_what_was_sent_before_a_rule_is_read_all_the_same(world: World) -> None:
    """Replies may be opt-outs: `reconcile` and `report` do not hang on rules; nothing more is sent."""
    write(world.folder, "", SURVEY)
    world.run("apply", "--auto-approve")
    world.reply("+14155550101", "stop")
    write(world.folder, ONE, SURVEY)
    world.run("reconcile")
    assert "1 person has opted out" in world.run("optouts", "list")
    world.run("report")
    world.run("apply", "--auto-approve", code=1)
