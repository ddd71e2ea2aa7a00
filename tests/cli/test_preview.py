"""`runner preview`: whole conversations, worst cases first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

YAML = """\
version: 1
name: visit
recipients:
  - csv: people.csv
messages:
  - id: ask
    introduction: |-
      {% if language == "de" %}
      Hallo {{ name | default("du") }}!
      {% elif language == "fr" %}
      Salut!
      {% else %}
      Hi {{ name | default("you") }}!
      {% endif %}
    questions:
      - {tag: how, text: "How was it?", responses: [Good, Bad], conclude_on: Good}
      - {tag: why, text: "Why?"}
    conclusion: "Bye {{ 1 }}"
  - id: later
    text: "Still there, {{ name | default('you') }}?"
"""
PEOPLE = """\
phone,name,language
+14155550101,Ada,en
+14155550102,O’Neil the Younger,en
+4915112345678,Bea,de
+14155550103,,en
"""


@pytest.fixture
def visit(tmp_path: Path) -> Path:
    """A folder with one campaign of two messages and four recipients."""
    (tmp_path / "visit.yaml").write_text(YAML, encoding="utf-8")
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    return tmp_path


def test_the_worst_cases_come_first(run: Run, visit: Path) -> None:
    """Without a phone, the conversations with the most segments and the longest text."""
    done = run("preview", "visit.yaml", "--message", "ask", cwd=visit)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        """\
visit, worst cases first

ask (SMS, tag visit): 4 people

case 1: +14•••••••02, line 3 of people.csv
  the most segments: 4
  the longest text: 26 characters

introduction [1 segment, 22 in UCS-2 because of '’']
  │ Hi O’Neil the Younger!

question how [1 segment, 26 in GSM-7]
  │ How was it?
  │ 1. Good
  │ 2. Bad
  "Bad" → question why
  "Good" → conclusion, 1 question skipped
  anything else → asked again, 1 segment more

question why [1 segment, 4 in GSM-7]
  │ Why?
  any answer → conclusion

conclusion [1 segment, 5 in GSM-7]
  │ Bye 1

  ’ (RIGHT SINGLE QUOTATION MARK) makes 1 recipient's text UCS-2: """
        "4 segments, and no fewer with all replaced that can be\n"
    )


def test_one_person_s_conversation(run: Run, visit: Path) -> None:
    """`--phone` shows every message of one recipient, however the number is written."""
    done = run("preview", "visit.yaml", "--phone", "+1 415-555-0103", cwd=visit)
    assert done.returncode == 0
    assert done.stdout.startswith("visit, as +14•••••••03 will see it\n\nask (SMS, tag visit)\n")
    assert "introduction [1 segment, 7 in GSM-7]\n  │ Hi you!\n" in done.stdout
    assert "\nlater (SMS, tag visit)\n\ntext [1 segment, 17 in GSM-7]\n  │ Still there, you?\n" in done.stdout
    assert "case 1" not in done.stdout
    national = run("preview", "visit.yaml", "--phone", "(415) 555-0103", "--region", "US", cwd=visit)
    assert national.stdout == done.stdout
    (visit / "visit.yaml").write_text(
        YAML.replace("people.csv", "people.csv\n    region: US"), encoding="utf-8"
    )
    assert run("preview", "visit.yaml", "--phone", "(415) 555-0103", cwd=visit).stdout == done.stdout


def test_a_stranger_has_no_conversation(run: Run, visit: Path) -> None:
    """A number that the campaign does not text, and one that is none, are refused."""
    stranger = run("preview", "visit.yaml", "--phone", "+14155550142", cwd=visit)
    assert stranger.returncode == 1
    assert (
        stranger.stderr
        == "Error: +14•••••••42 is no recipient of visit\n  --phone takes one of its recipients\n"
    )
    wrong = run("preview", "visit.yaml", "--phone", "12", cwd=visit)
    assert wrong.returncode == 64
    assert wrong.stderr == (
        "Error: the phone '12' is refused: it does not start with + and a country code\n"
        "  write it as in +14155550101, or name its country with --region\n"
    )
    short = run("preview", "visit.yaml", "--phone", "41555", cwd=visit)
    assert short.returncode == 64
    assert short.stderr == (
        "Error: the phone '41•55' is refused: a short number is a service, not a person's phone\n"
        "  write it as in +14155550101, or name its country with --region\n"
    )


def test_a_message_that_is_not_there(run: Run, visit: Path) -> None:
    """`--message` names one of the campaign's."""
    done = run("preview", "visit.yaml", "--message", "asks", cwd=visit)
    assert done.returncode == 64
    assert done.stderr == "Error: visit has no message 'asks'\n  known: ask, later\n"


def test_the_json_document(run: Run, visit: Path, check_json: CheckJson) -> None:
    """JSON holds the first recipient's messages, as ever, and the worst cases beside them."""
    document = check_json(run("preview", "visit.yaml", "--format", "json", cwd=visit).stdout, "preview")
    assert document["phone"] == "+14•••••••01"
    assert [message["message"] for message in document["messages"]] == ["ask", "later"]
    assert document["messages"][0]["conversation"][0]["text"] == "Hi Ada!"
    assert document["messages"][0]["conversation"][1]["turns"] == [
        {
            "on": "valid",
            "answers": ["Bad"],
            "taken": None,
            "part": "question",
            "question_tag": "why",
            "skipped": 0,
        },
        {
            "on": "conclude_on",
            "answers": ["Good"],
            "taken": None,
            "part": "conclusion",
            "question_tag": None,
            "skipped": 1,
        },
        {
            "on": "invalid",
            "answers": [],
            "taken": None,
            "part": "question",
            "question_tag": "how",
            "skipped": 0,
        },
    ]
    cases = [case for case in document["cases"] if case["message"] == "ask"]
    assert [case["line"] for case in cases] == [3]
    assert cases[0]["reasons"][1] == {"kind": "longest_text", "count": 26}
    remarks = document["remarks"][0]
    assert remarks["recipients"] == 4
    assert remarks["characters"] == [
        {"character": "’", "recipients": 1, "segments": 4, "segments_without": 4, "instead": "'"}
    ]
    named = run("preview", "visit.yaml", "--format", "json", "--phone", "+14155550102", cwd=visit)
    assert check_json(named.stdout, "preview")["cases"] == []


def test_the_markdown_document(run: Run, visit: Path) -> None:
    """Markdown shows texts as they are, never as Markdown."""
    done = run("preview", "visit.yaml", "--format", "markdown", "--message", "later", cwd=visit)
    assert done.stdout == (
        "**visit, worst cases first**\n\n## later (SMS, tag visit): 4 people\n\n"
        "### case 1: +14•••••••02, line 3 of people.csv\n\n"
        "- the most segments: 1\n- the longest text: 32 characters\n\n"
        "#### text \\[1 segment, 32 in UCS-2 because of '’'\\]\n\n"
        "```\nStill there, O’Neil the Younger?\n```\n\n"
        "- ’ (RIGHT SINGLE QUOTATION MARK) makes 1 recipient's text UCS-2: "
        "1 segment, and no fewer with all replaced that can be\n"
    )


def test_whoever_gets_nothing_is_no_case(run: Run, visit: Path) -> None:
    """Excluded people are no worst case; asked for by phone, they are shown with the reason."""
    with (visit / "visit.yaml").open("a", encoding="utf-8") as file:
        file.write('exclude:\n  - phone: "+14155550102"\n')
    worst = run("preview", "visit.yaml", cwd=visit)
    assert "O’Neil" not in worst.stdout
    named = run("preview", "visit.yaml", "--phone", "+14155550102", cwd=visit)
    assert named.stdout.startswith(
        "visit, as +14•••••••02 will see it\n(excluded: gets nothing)\n\nask (SMS, tag visit)\n"
    )


@pytest.mark.slow
def test_an_experiment_is_shown_arm_by_arm(run: Run, visit: Path, check_json: CheckJson) -> None:
    """Each arm has worst cases of its own; whoever is in the control group gets nothing."""
    people = "phone,name,language\n" + "".join(f"+1415555{n:04},P{n},en\n" for n in range(200, 300))
    (visit / "people.csv").write_text(people, encoding="utf-8")
    with (visit / "visit.yaml").open("a", encoding="utf-8") as file:
        file.write(
            "variants:\n  seed: s\n  of: later\n  holdout: 0.5\n"
            "  arms:\n    - {id: short, weight: 1, text: Hi}\n    - {id: as-is, weight: 1}\n"
        )
    document = check_json(run("preview", "visit.yaml", "--format", "json", cwd=visit).stdout, "preview")
    later = [remark for remark in document["remarks"] if remark["message"] == "later"]
    assert {remark["arm"] for remark in later} == {"short", "as-is"}
    whole = next(remark for remark in document["remarks"] if remark["message"] == "ask")
    assert sum(remark["recipients"] for remark in later) == whole["recipients"] < 80
    texts = {case["arm"]: case["conversation"][0]["text"] for case in document["cases"] if case["arm"]}
    assert texts["short"] == "Hi"
    assert texts["as-is"].startswith("Still there, P")
    held = [
        number
        for number in range(200, 210)
        if "(in the control group: gets nothing)"
        in run("preview", "visit.yaml", "--phone", f"+1415555{number:04}", cwd=visit).stdout
    ]
    assert 0 < len(held) < 10


def test_timing_is_said(run: Run, visit: Path) -> None:
    """When a message goes out stands above its conversations; a reminder that ends its survey is warned of."""
    with (visit / "visit.yaml").open("a", encoding="utf-8") as file:
        file.write(
            "    after: {message: ask, wait: 1d12h}\n    to: unanswered\n    complete_existing_sessions: true\n"
            "schedule:\n  not_before: 2026-12-01T09:00\n  expires: 2026-12-05T18:00\n"
            '  timezone: America/New_York\n  send_between: ["09:00", "20:00"]\n  days: [mon, tue, wed, fri]\n'
            "policy: {quiet_hours: legal}\n"
        )
    done = run("preview", "visit.yaml", "--message", "later", cwd=visit)
    assert "[after-ends-survey]" in done.stderr
    assert (
        "later (SMS, tag visit): 4 people\n"
        "  1d12h after ask, to those who have not answered\n"
        "  not before 2026-12-01 09:00 America/New_York\n"
        "  in each recipient's local time: mon-wed 09:00-20:00, fri 09:00-20:00\n"
        "  within the legal hours of the recipient's place\n"
        "  expires 2026-12-05 18:00 America/New_York\n"
    ) in done.stdout


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("before: 24h", "1d before the date in `visited`"),
        ("after: 2h", "2h after the date in `visited`"),
        ("after: 0s", "at the date in `visited`"),
    ],
)
def test_the_date_that_a_message_goes_by_is_said(run: Run, visit: Path, when: str, words: str) -> None:
    """So does the comment of a pull request, which shows messages in the same way."""
    with (visit / "visit.yaml").open("a", encoding="utf-8") as file:
        file.write(f"    when: {{column: visited, {when}}}\nvars: {{visited: 2026-12-24T10:00}}\n")
    done = run("preview", "visit.yaml", "--message", "later", cwd=visit)
    assert f"later (SMS, tag visit): 4 people\n  {words}\n" in done.stdout


def test_nobody_is_left(run: Run, visit: Path) -> None:
    """A campaign whose recipients are all excluded has nothing to show."""
    with (visit / "visit.yaml").open("a", encoding="utf-8") as file:
        file.write("exclude:\n  - csv: people.csv\n")
    done = run("preview", "visit.yaml", cwd=visit)
    assert (done.returncode, done.stderr) == (1, "Error: nobody gets anything of visit\n")
