"""What a service does not say, or contradicts: it is not known, never 0, and nobody is reminded by it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from runner.source.storage import shipped_folder
from tests.cli.inside import run_inside
from tests.reconcile.surveyed import SurveyedService, surveying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

PHONES = ["+14155550101", "+14155550102", "+14155550103"]
FIRST, SECOND, THIRD = (f"00000000-0000-4000-8000-{number:012}" for number in (1, 2, 3))
COUNTS = [
    f"num_{name}"
    for name in (
        "active_sessions",
        "complete_sessions",
        "messages",
        "questions",
        "queued_sessions",
        "renders",
        "results",
    )
]
YAML = """\
version: 1
name: pulse
tag: pulse-2026
limits: {recipients_per_send: 1}
recipients:
"""
MESSAGES = """\
messages:
  - id: ask
    questions: [{tag: why, text: "Why?"}]
  - id: nudge
    tag: nudge
    after: {message: ask, wait: 0s}
    to: unanswered
    questions:
      - {tag: q, text: "And?"}
    complete_existing_sessions: true
"""
CONTRADICTS = "whether they have answered is not certain, the service contradicts itself:"
WAY_PAST = (
    "`runner reconcile` looks again, `runner reconcile --accept-differences` takes what is listed for all"
)


class Pulse:
    """A campaign of one launch a person on a service of its own, to be followed up at once."""

    def __init__(self, folder: Path, service: SurveyedService, url: str) -> None:
        self.service = service
        self._folder = folder
        self._environment = {
            "RUNNER_BASE_URL": url,
            "RUNNER_USERNAME": "ada@example.com",
            "RUNNER_API_KEY": "a-very-secret-key",
            "RUNNER_SETTLE_WINDOW": "0s",
        }
        (folder / "campaigns").mkdir()
        self.write(2)

    def write(self, people: int) -> None:
        """Write the campaign for so many people."""
        rows = "".join(f'  - phone: "{phone}"\n' for phone in PHONES[:people])
        (self._folder / "campaigns/pulse.yaml").write_text(YAML + rows + MESSAGES, encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> CompletedProcess[str]:
        """Run a command, which must end with a code."""
        done = run_inside(*arguments, cwd=self._folder, env=self._environment)
        assert done.returncode == code, done.stderr
        return done

    def ask(self) -> None:
        """Send the survey to everybody who has not got it, one after the other."""
        self.run("apply", "--auto-approve", "--only", "ask", "--concurrency", "1")

    def read(self, name: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Return the first campaign, or the report, of a command's JSON, which its schema allows."""
        document = json.loads(self.run(name, "--format", "json", *arguments, code=code).stdout)
        schema = json.loads((shipped_folder("schemas") / f"{name}.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator(schema).validate(document)
        found: dict[str, Any] = document if name == "report" else document["campaigns"][0]
        return found

    def read_ask(self, name: str) -> dict[str, Any]:
        """Return what status or report say of the survey."""
        message: dict[str, Any] = self.read(name)["messages"][0]
        return message

    def read_csv(self, measure: str, item: str = "") -> str:
        """Return a value of the survey's as the report's CSV has it."""
        rows = csv.DictReader(io.StringIO(self.run("report", "--format", "csv").stdout))
        named = ("ask", measure, item)
        return next(row["value"] for row in rows if (row["message"], row["measure"], row["item"]) == named)

    def plan_nudge(self) -> tuple[int, int, list[str]]:
        """Return of the follow-up how many get it now, how many wait, and why."""
        message = self.read("plan")["messages"][1]
        return message["to_send"], message["awaiting"], [one["reason"] for one in message["reasons"]]


@pytest.fixture
def pulse(tmp_path: Path) -> Iterator[Pulse]:
    """A campaign that has asked two people, of whom the first has answered."""
    service = SurveyedService()
    with surveying(service) as url:
        made = Pulse(tmp_path, service, url)
        made.ask()
        service.answer(PHONES[0])
        yield made


def change(*guids: str, **counts: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Have the service add to counts of some launches, or leave them out of its records where it adds 0."""

    def apply(launch: dict[str, Any]) -> dict[str, Any]:
        if launch["project_launch_guid"] in guids:
            for name, more in counts.items():
                launch[name] += more
                if not more:
                    del launch[name]
        return launch

    return apply


@pytest.mark.slow
def test_before_anything_was_read_nothing_is_zero(pulse: Pulse) -> None:
    """Right after the send nobody knows who has answered: in status, and in every format of the report."""
    status = pulse.read_ask("status")
    names = ("queued", "active", "complete", "answered", "reconciled_at")
    assert [status[name] for name in names] == [None] * 5
    assert (status["sent"], status["launches"], status["reconciled_launches"]) == (2, 2, 0)
    assert "not known" in pulse.run("status").stdout
    people = pulse.read("report")["people"]
    assert {people[name] for name in ("texted", "answered", "opted_out", "dispositions", "rates")} == {None}
    report = pulse.read_ask("report")
    assert set(report["sessions"].values()) == {None}
    for name in ("participants_answered", "participants_completed", "renders", "results", "opt_outs"):
        assert report[name] is None, name
        assert pulse.read_csv(name) == ""
    assert (report["response_rate"], report["cost_usd"]) == (None, None)
    (question,) = report["questions"]
    assert (question["asked"], question["answers"]) == (None, None)
    assert report["days"] == []
    text = pulse.run("report").stdout
    assert "- 2 people to text; how many were texted is not known.\n" in text
    assert "- **Response**: not known\n- **Answered**: not known\n- **Opted out**: not known\n" in text
    assert " | 2 | not known | not known | – |\n" in text
    assert text.endswith("\nNo answers have been read yet.\n")
    page = pulse.run("report", "--format", "html").stdout
    assert "<dt>Response</dt><dd>not known</dd>" in page


@pytest.mark.slow
def test_a_launch_that_came_later_leaves_the_rest_as_it_was(pulse: Pulse) -> None:
    """What was read stays told, and of how many launches it is; the total is not known."""
    pulse.run("reconcile")
    pulse.write(3)
    pulse.ask()
    status = pulse.read_ask("status")
    assert (status["launches"], status["reconciled_launches"], status["answered"]) == (3, 2, None)
    assert {part["name"]: (part["count"], part["launches"]) for part in status["partly_known"]} == {
        "active": (1, 2),
        "answered": (1, 2),
        "complete": (1, 2),
        "queued": (0, 2),
    }
    minute = f"{status['reconciled_at'][:16].replace('T', ' ')} UTC"
    assert (
        f"pulse/ask: reconciled at {minute}, 2 of 3 launches; active 1 in 2 of 3 launches, answered 1 in 2 of 3 "
        "launches, complete 1 in 2 of 3 launches, queued 0 in 2 of 3 launches.\n"
    ) in pulse.run("status").stdout
    report = pulse.read_ask("report")
    assert (report["participants_answered"], report["response_rate"], report["renders"]) == (None, None, None)
    assert {"name": "renders", "count": 2, "launches": 2} in report["partly_known"]
    (question,) = report["questions"]
    assert (question["asked"], question["answers"]) == (None, None)
    assert report["half_answered_within_s"] is None
    assert report["days"] == []
    text = pulse.run("report").stdout
    assert "It is not known how many answered: not all answers have been read yet.\n" in text
    assert "ask: people who answered: 1 so far, as not all texts are accounted for yet.\n" in text
    assert "ask: surveys that have ended: 1 so far, as not all texts are accounted for yet.\n" in text
    assert text.endswith(" (UTC), with the answers to 2 of 3 batches of texts.\n")
    assert (pulse.read_csv("sessions.complete"), pulse.read_csv("partly_known.count", "complete")) == (
        "",
        "1",
    )
    assert pulse.read_csv("answers") == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(("guids", "code"), [((FIRST, SECOND), 1), ((SECOND,), 3)])
def test_a_count_that_is_left_out_is_in_the_exit_code(
    pulse: Pulse, name: str, guids: tuple[str, ...], code: int
) -> None:
    """Of all launches it is 1, of some 3; the launch is known all the same, by its other counts."""
    pulse.service.change = change(*guids, **{name: 0})
    summary = pulse.read("reconcile", code=code)
    assert (summary["launches"], summary["whole_launches"]) == (2, 2 - len(guids))
    assert (summary["unread_launches"], summary["results"]) == (list(guids), 1)
    told = pulse.run("reconcile", code=code).stderr
    launches = "2 launches" if code == 1 else "1 launch"
    assert (
        f"Warning: pulse: {launches} of 2 could not be read as a whole, first: {', '.join(guids)}; what they "
        "would add to is shown as not known\n"
    ) in told
    assert pulse.run("report", "--reconcile", code=code).stdout.startswith("# pulse\n")
    report = pulse.read_ask("report")
    assert report["participants_answered"] == 1
    assert (report["renders"] is None) == (name == "num_renders")
    assert (report["sessions"]["complete"] is None) == (name == "num_complete_sessions")
    assert (report["questions"][0]["asked"] is None) == (name == "num_queued_sessions")


def test_what_the_service_leaves_out_is_named(pulse: Pulse) -> None:
    """The report says which count is missing, and shows what is known of the others."""
    pulse.service.change = change(SECOND, num_renders=0, num_complete_sessions=0)
    out = pulse.run("reconcile", code=3).stdout
    sessions = "0 queued, 1 active, complete not known"
    assert out == f"pulse: 2 launches; sessions: {sessions}; 1 result, 1 of them new.\n"
    report = pulse.read_ask("report")
    assert report["discrepancies"] == [
        "Launches of which the service does not say how many sessions are complete: 1.",
        "Launches of which the service does not say how many renders there were: 1.",
    ]
    assert {"name": "renders", "count": 1, "launches": 1} in report["partly_known"]


@pytest.mark.slow
def test_a_launch_that_is_listed_late_is_not_known(pulse: Pulse) -> None:
    """Until the service lists it nothing of it is 0: it is told apart, and nobody of it is reminded."""
    pulse.service.change = lambda launch: None if launch["project_launch_guid"] == SECOND else launch
    summary = pulse.read("reconcile", code=3)
    assert (summary["recorded_launches"], summary["launches"], summary["missing_launches"]) == (
        2,
        1,
        [SECOND],
    )
    assert (summary["sessions"]["active"], summary["expected_results"]) == (None, None)
    (difference,) = summary["differences"]
    assert (difference["problem"], difference["counted"], difference["listed"]) == ("unlisted", None, None)
    report = pulse.read_ask("report")
    assert (report["sessions"]["complete"], report["reconciled_launches"]) == (None, 1)
    minute = f"{difference['since'][:16].replace('T', ' ')} UTC"
    unlisted = f"launch {SECOND}: it does not list the launch, since {minute}"
    assert report["discrepancies"] == [
        (
            f"The service contradicts itself about answers: {unlisted}. Follow-ups that go by answers wait: run "
            "“runner reconcile” again, and if it stays, “runner reconcile --accept-differences”."
        )
    ]
    assert pulse.plan_nudge() == (0, 1, [f"{CONTRADICTS} {unlisted}; {WAY_PAST}"])
    pulse.service.change = lambda launch: launch
    pulse.run("reconcile")
    assert pulse.read_ask("report")["discrepancies"] == []
    assert pulse.plan_nudge() == (1, 0, [])


def test_when_no_launch_is_listed_any_more_it_fails(pulse: Pulse) -> None:
    """What was read before stays what it was; that nothing could be read now is in the exit code."""
    pulse.run("reconcile")
    pulse.service.change = lambda _launch: None
    pulse.run("reconcile", code=1)
    assert pulse.read_ask("report")["participants_answered"] == 1


@pytest.mark.slow
def test_what_is_counted_and_what_is_listed_stand_side_by_side(pulse: Pulse) -> None:
    """One result more than the list shows: what is there is shown, the difference is named everywhere."""
    pulse.service.change = change(SECOND, num_results=1)
    done = pulse.run("reconcile", code=3)
    (difference,) = pulse.read("reconcile", code=3)["differences"]
    minute = f"{difference['since'][:16].replace('T', ' ')} UTC"
    words = f"{SECOND}: 1 result counted, 0 listed, since {minute}"
    assert difference == {
        "project_launch_guid": SECOND,
        "problem": "more_counted",
        "counted": 1,
        "listed": 0,
        "since": difference["since"],
        "accepted_at": None,
    }
    assert done.stderr == (
        "Warning: pulse: the ledger holds 1 result, the service counts 2; run `runner reconcile` again, "
        "results may have come in meanwhile\n"
        f"Warning: pulse: launch {words}\n"
        "Warning: pulse: somebody may have answered 1 launch who is not known to, so follow-ups that go by "
        "answers wait; run `runner reconcile` again later, and if that stays, "
        "`runner reconcile --accept-differences`\n"
    )
    status = pulse.read_ask("status")
    assert (status["answered"], status["complete"], status["reconciled_launches"]) == (1, 1, 2)
    assert status["differing_launches"] == 1
    assert (
        "pulse/ask: the service contradicts itself about the answers to 1 launch; "
        "follow-ups that go by answers wait. `runner reconcile` says more.\n"
    ) in pulse.run("status").stdout
    report = pulse.read_ask("report")
    assert (report["participants_answered"], report["sessions"]["complete"], report["renders"]) == (1, 1, 2)
    assert report["discrepancies"][0].startswith(
        f"The service contradicts itself about answers: launch {words}."
    )
    assert "Results that the service counts: 2; in the ledger: 1." in report["discrepancies"]
    assert "> The figures do not add up:" in pulse.run("report").stdout
    assert pulse.plan_nudge() == (0, 1, [f"{CONTRADICTS} launch {words}; {WAY_PAST}"])


@pytest.mark.slow
def test_a_difference_that_is_accepted_lets_reminders_go(pulse: Pulse) -> None:
    """Who has not answered by what is listed is reminded then; the report goes on to say what differs."""
    pulse.service.change = change(SECOND, num_results=1)
    pulse.run("reconcile", code=3)
    held = pulse.run("apply", "--auto-approve")
    assert held.stdout == "pulse: nothing sent.\n"
    assert held.stderr.startswith(
        f"Warning: pulse: 1 recipient waits for `nudge`: {CONTRADICTS} launch {SECOND}"
    )
    told = pulse.run("reconcile", "--accept-differences").stderr
    assert "follow-ups that go by answers wait" not in told
    (difference,) = pulse.read("reconcile")["differences"]
    assert difference["accepted_at"] > difference["since"]
    assert pulse.plan_nudge() == (1, 0, [])
    status = pulse.read_ask("status")
    assert status["differing_launches"] == 0
    assert (
        "Launches whose answers were accepted as the service lists them: 1."
        in pulse.read_ask("report")["discrepancies"]
    )
    assert pulse.run("apply", "--auto-approve").stdout == "pulse: 1 person texted.\n"


@pytest.mark.slow
def test_a_new_difference_holds_again(pulse: Pulse) -> None:
    """What was accepted is just these counts: with others somebody else may have answered."""
    pulse.service.change = change(SECOND, num_results=1)
    pulse.run("reconcile", "--accept-differences")
    pulse.service.change = change(SECOND, num_results=2)
    pulse.run("reconcile", code=3)
    (difference,) = pulse.read("reconcile", code=3)["differences"]
    assert (difference["counted"], difference["accepted_at"]) == (2, None)
    pulse.write(3)
    pulse.ask()
    to_send, awaiting, _ = pulse.plan_nudge()
    # The second was read and accepted before: that is as of then, and the follow-up was due already.
    assert (to_send, awaiting) == (1, 1)


@pytest.mark.slow
def test_a_service_that_counts_no_results_holds_reminders(pulse: Pulse) -> None:
    """What is listed is counted and shown; that it is all there is a person has to say."""
    pulse.service.change = change(FIRST, SECOND, num_results=0)
    pulse.run("reconcile", code=1)
    assert pulse.read_ask("report")["participants_answered"] == 1
    to_send, awaiting, reasons = pulse.plan_nudge()
    assert (to_send, awaiting) == (0, 1)
    assert reasons[0].startswith(
        f"{CONTRADICTS} 2 launches, first {FIRST}: it does not say how many results there are, since "
    )
    pulse.run("reconcile", "--accept-differences", code=1)
    assert pulse.plan_nudge() == (1, 0, [])


def test_a_launch_that_is_never_listed_can_be_accepted(pulse: Pulse) -> None:
    """Its people are reminded then, and its counts stay not known."""
    pulse.service.change = lambda launch: None if launch["project_launch_guid"] == SECOND else launch
    pulse.run("reconcile", "--accept-differences", code=3)
    assert pulse.plan_nudge() == (1, 0, [])
    report = pulse.read_ask("report")
    assert (report["reconciled_launches"], report["renders"], report["participants_answered"]) == (2, None, 1)


@pytest.mark.slow
def test_a_list_that_has_more_than_is_counted_is_read_to_its_end(pulse: Pulse) -> None:
    """Nobody beyond the first page is reminded who has answered, however few the service counts."""
    for number in range(150):
        pulse.service.answer(PHONES[1], f"answer {number}")
    pulse.service.change = change(SECOND, num_results=-140)
    pulse.run("reconcile")
    assert pulse.read_ask("report")["results"] == 151


def test_a_result_that_cannot_be_read_holds_reminders(pulse: Pulse) -> None:
    """Somebody answered, and nobody can tell who: the launch's people wait."""
    pulse.service.answer(PHONES[1])
    del pulse.service.results[-1]["participant_phone_number"]
    pulse.run("reconcile", code=3)
    to_send, awaiting, reasons = pulse.plan_nudge()
    assert (to_send, awaiting) == (0, 1)
    assert reasons[0].startswith(f"{CONTRADICTS} launch {SECOND}: 1 result counted, 0 can be read, since ")


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["participant_phone_number", "result_response"])
@pytest.mark.parametrize("has_count", [True, False])
def test_answers_that_cannot_be_read_are_not_known(pulse: Pulse, lost: str, *, has_count: bool) -> None:
    """What rests on them is not known, nor is of which launches the rest is; a person may leave it at that."""
    pulse.service.answer(PHONES[1])
    pulse.service.results[-1][lost] = None
    if not has_count:
        pulse.service.change = change(SECOND, num_results=0)
    told = pulse.run("reconcile", code=3).stderr
    assert f"Warning: pulse: a result record of the service has no usable {lost} (result result-2, " in told
    assert f"1 launch of 2 could not be read as a whole, first: {SECOND}; what they would add to" in told
    assert (pulse.read_ask("status")["answered"], pulse.read_ask("status")["complete"]) == (None, 2)
    report = pulse.read_ask("report")
    names = ("participants_answered", "participants_completed", "results", "opt_outs", "response_rate")
    assert [report[name] for name in names] == [None] * 5
    assert (report["sessions"]["complete"], report["renders"]) == (2, 2)
    (question,) = report["questions"]
    assert (question["asked"], question["answers"]) == (None, None)
    assert "1 can be read" not in report["discrepancies"][0]
    assert f"launch {SECOND}: 1 result counted, 0 can be read, since " in report["discrepancies"][0]
    words = "It is not known how many answered: not all answers have been read yet.\n"
    assert words in pulse.run("report").stdout
    # Again, as long as it is so.
    pulse.run("reconcile", code=3)
    pulse.run("reconcile", "--accept-differences", code=0 if has_count else 3)
    report = pulse.read_ask("report")
    assert (report["participants_answered"], report["questions"][0]["answers"]) == (1, 1)
    assert "Launches whose answers were accepted as the service lists them: 1." in report["discrepancies"]
    assert pulse.plan_nudge() == (1, 0, [])


def test_a_result_that_can_be_read_again_is_counted(pulse: Pulse) -> None:
    """A difference ends with its cause."""
    phone = pulse.service.results[0].pop("participant_phone_number")
    pulse.run("reconcile", code=3)
    pulse.service.results[0]["participant_phone_number"] = phone
    pulse.run("reconcile")
    assert pulse.read_ask("report")["participants_answered"] == 1
