"""Replies to plain texts, and texts that wait until replies are read."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.campaign.checks import COMMAND_WORDS
from runner.optout.reply import classify
from runner.sandbox.model import Keyword
from runner.sandbox.service import Service, read_keyword
from runner.sandbox.store import open_store
from runner.workflow.documents import CARRIER_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
SENTENCE = "STOP I have moved, leave me out"
PLAIN_NOTE = (
    "Replies to a plain text, or after a survey's end, reach the service and the carriers alone. They act on "
    "STOP, STOPALL, UNSUBSCRIBE, OPTOUT, CANCEL, END, QUIT and REVOKE, as the whole reply, and on no other "
    "words. `replies: recorded` makes replies to a text results, so that `runner reconcile` finds opt-outs."
)
RECORDED_NOTE = (
    "Sent as an open question, since replies are recorded: notice/note. The session stays open until it is "
    "answered or expires: until then other messages to the same people wait (`open_session` in `policy`)."
)
HINT = "  somebody may have opted out: run `runner reconcile`, then this again\n"
PLAIN = "{id: note, text: The shop moves on Friday.}"
RECORDED = "{id: note, text: The shop moves on Friday., replies: recorded}"
QUEUE = "policy: {open_session: queue}\n"
"""For those who have an open survey, so that nothing but their unread replies keeps them waiting."""
SURVEY = "{id: ask, questions: [{tag: why, text: Why?}]}"


class Shop:
    """A repository on the sandbox, whose clock is moved."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self._run = run
        (folder / "campaigns").mkdir()

    def write(self, name: str, *messages: str, people: tuple[str, ...] = (ADA, BOB), more: str = "") -> None:
        """Write a campaign."""
        rows = "".join(f'  - phone: "{phone}"\n' for phone in people)
        listed = "".join(f"  - {message}\n" for message in messages)
        text = f"version: 1\nrecipients:\n{rows}messages:\n{listed}{more}"
        (self.folder / f"campaigns/{name}.yaml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> CompletedProcess[str]:
        """Run a command."""
        done = self._run(*arguments, cwd=self.folder)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done

    def apply(self, *names: str, code: int = 0) -> CompletedProcess[str]:
        """Send campaigns; all of them if none is named."""
        files = [f"campaigns/{name}.yaml" for name in names]
        return self.run("apply", *files, "--auto-approve", "--quiet", code=code)

    def plan(self, name: str, *options: str, code: int = 0) -> dict[str, Any]:
        """Return a campaign's plan, with the notes on the whole."""
        done = self.run("plan", f"campaigns/{name}.yaml", "--format", "json", *options, code=code)
        document = json.loads(done.stdout)
        return {**document["campaigns"][0], "notes": document["notes"]}

    def count(self, name: str, *, code: int = 0) -> tuple[int, int]:
        """Return how many people a campaign's first message waits for, and how many it is sent to now."""
        message = self.plan(name, code=code)["messages"][0]
        return message["deferred"], message["to_send"]

    def pass_hours(self, hours: int) -> None:
        """Move the sandbox's clock."""
        self.run("sandbox", "clock", f"+{hours}h")

    def say(self, phone: str, text: str) -> bool:
        """Have a participant text the sandbox, and return whether that was an answer."""
        with closing(open_store(self.folder / ".runner/sandbox/service.sqlite")) as store:
            return Service(store).receive(phone, text, datetime.now(UTC)).was_expected


@pytest.fixture
def shop(tmp_path: Path, run: Run) -> Shop:
    """A repository without campaigns."""
    return Shop(tmp_path, run)


@pytest.mark.slow
def test_a_stop_in_a_sentence_to_a_plain_text_is_found(shop: Shop, check_json: CheckJson) -> None:
    """Recorded replies are results: the next campaign leaves the person out, who has answered nothing."""
    shop.write("notice", RECORDED)
    shop.write("offer", "{id: offer, text: Coffee is on us.}", people=(ADA, BOB, CY))
    shop.apply("notice")
    assert shop.say(ADA, SENTENCE)
    assert shop.say(BOB, "Thanks!")
    assert "1 opt-out found" in shop.run("reconcile").stdout
    counts = shop.plan("offer")["messages"][0]
    assert (counts["opted_out"], counts["to_send"]) == (1, 2)
    assert shop.apply("offer").stdout == "offer: 2 people texted.\n"
    shop.run("report", "campaigns/notice.yaml", "--format", "json", "--out", "reports")
    report = check_json((shop.folder / "reports/notice.json").read_text(encoding="utf-8"), "report")
    (question,) = report["messages"][0]["questions"]
    assert (question["tag"], question["text"], question["answers"]) == (
        "reply",
        "The shop moves on Friday.",
        1,
    )
    status = check_json(shop.run("status", "campaigns/notice.yaml", "--format", "json").stdout, "status")
    answered = status["campaigns"][0]["messages"][0]["answered"]
    assert answered == report["messages"][0]["participants_answered"] == 1


def test_a_stop_in_a_sentence_to_an_ignored_text_is_lost_and_the_plan_says_so(shop: Shop) -> None:
    """The service records no result of it: the person stays in."""
    shop.write("notice", PLAIN)
    assert shop.plan("notice")["notes"] == [PLAIN_NOTE]
    shop.apply("notice")
    assert not shop.say(ADA, SENTENCE)
    assert "opt-out" not in shop.run("reconcile").stdout
    shop.write("offer", "{id: offer, text: Coffee is on us.}")
    assert shop.plan("offer")["messages"][0]["opted_out"] == 0


@pytest.mark.slow
def test_what_answers_nothing_is_no_answer(shop: Shop, check_json: CheckJson) -> None:
    """Blank, a reaction and an automatic reply are counted apart, and their authors are still unanswered."""
    said = ["\u3164\u200b", "Liked “Why?”", "I'm driving with Driving Focus turned on.", "?", "ok"]
    people = tuple(f"+1415555012{number}" for number in range(len(said)))
    again = '{id: again, after: {message: ask, wait: 1h}, to: unanswered, text: "Still there?"}'
    shop.write("poll", SURVEY, again, people=people, more=QUEUE)
    shop.apply("poll")
    for phone, text in zip(people, said, strict=True):
        assert shop.say(phone, text)
    shop.pass_hours(2)
    shop.run("reconcile")
    shop.run("report", "--format", "json", "--out", "reports")
    report = check_json((shop.folder / "reports/poll.json").read_text(encoding="utf-8"), "report")
    ask = report["messages"][0]
    assert (ask["participants_answered"], ask["response_rate"], ask["non_answers"]) == (2, 0.4, 3)
    assert (ask["questions"][0]["answers"], ask["results"], ask["discrepancies"]) == (2, 5, [])
    status = json.loads(shop.run("status", "--format", "json").stdout)
    assert status["campaigns"][0]["messages"][0]["answered"] == 2
    assert shop.plan("poll", code=0)["messages"][1]["to_send"] == 3


@pytest.mark.slow
def test_who_has_the_message_does_not_get_it_again_because_replies_are_recorded(shop: Shop) -> None:
    """A delivery is campaign, message and phone: only new people get the question."""
    shop.write("notice", PLAIN)
    shop.apply("notice")
    shop.write("notice", RECORDED, people=(ADA, BOB, CY))
    counts = shop.plan("notice")["messages"][0]
    assert (counts["already_sent"], counts["to_send"]) == (2, 1)


def test_follow_ups_go_by_recorded_replies(shop: Shop) -> None:
    """`to: answered` of a plain text is an error, unless its replies are recorded."""
    follow_up = "{id: thanks, after: {message: note, wait: 1h}, to: answered, text: Thank you!}"
    shop.write("notice", PLAIN, follow_up)
    assert "asks nothing" in shop.run("validate", code=1).stdout
    shop.write("notice", RECORDED, follow_up)
    shop.run("validate")
    shop.apply()
    shop.say(ADA, "Good to know")
    shop.pass_hours(2)
    shop.run("reconcile")
    assert shop.plan("notice")["messages"][1]["to_send"] == 1


@pytest.mark.parametrize("format_", ["human", "markdown"])
def test_a_plan_says_once_who_sees_replies(shop: Shop, format_: str) -> None:
    """Once for all its campaigns and messages; and which texts are sent as questions."""
    shop.write("first", PLAIN, "{id: two, text: And more.}")
    shop.write("notice", RECORDED)
    shop.write("second", PLAIN)
    shown = shop.run("plan", "--format", format_).stdout.replace("\\", "")
    assert (shown.count(PLAIN_NOTE), shown.count(RECORDED_NOTE)) == (1, 1)
    assert json.loads(shop.run("plan", "--format", "json").stdout)["notes"] == [PLAIN_NOTE, RECORDED_NOTE]


@pytest.mark.parametrize("word", CARRIER_WORDS)
def test_the_words_that_are_named_opt_out(word: str) -> None:
    """At the sandbox, by the rules for replies, and as a warning of what a question offers."""
    assert read_keyword(word, None, has_opted_out=False) is Keyword.OPT_OUT
    assert classify(word).kind == "sure"
    assert word.lower() in COMMAND_WORDS


@pytest.mark.slow
def test_texts_wait_while_replies_are_unread_for_a_day(shop: Shop, check_json: CheckJson) -> None:
    """23 hours do not hold, 25 do, in all campaigns of the target; to reconcile frees them."""
    shop.write("ask", SURVEY)
    shop.write("offer", "{id: offer, text: Coffee is on us.}", people=(ADA, CY), more=QUEUE)
    sent = shop.run("apply", "campaigns/ask.yaml", "--auto-approve", "--format", "json")
    assert check_json(sent.stdout, "apply")["campaigns"][0]["recipients_sent"] == 2
    shop.pass_hours(23)
    assert shop.count("offer") == (0, 2)
    shop.pass_hours(2)
    done = shop.run("plan", "campaigns/offer.yaml", "--format", "json", code=5)
    document = check_json(done.stdout, "plan")
    (campaign,) = document["campaigns"]
    (message,) = campaign["messages"]
    since = f"{datetime.fromisoformat(campaign['unread_replies']['since']):%Y-%m-%d %H:%M} UTC"
    assert campaign["unread_replies"]["campaign"] == "ask"
    assert (message["deferred"], message["to_send"], message["next_due"]) == (2, 0, None)
    unread = f"replies to ask are unread since {since}"
    assert message["reasons"] == [{"reason": f"{unread}: run `runner reconcile` first", "recipients": 2}]
    assert done.stderr == f"Error: offer: 2 texts wait: {unread}\n{HINT}"
    human = shop.run("plan", "campaigns/offer.yaml", code=5).stdout
    assert f"  offer: 2 people are deferred:\n    2: {unread}: run `runner reconcile` first\n" in human
    assert human.endswith("Nothing to send now; up to 2 texts later (2 more people).\n")
    assert f"offer waits: {unread}: run `runner reconcile` first.\n" in shop.run("status").stdout
    status = check_json(shop.run("status", "--format", "json").stdout, "status")["campaigns"]
    assert [one["unread_replies"] for one in status] == [None, campaign["unread_replies"]]
    held = shop.apply("offer", code=5)
    assert (held.stdout, held.stderr) == ("", f"Error: offer: 2 texts wait: {unread}\n{HINT}")
    shop.run("reconcile")
    assert shop.plan("offer")["unread_replies"] is None
    assert shop.apply("offer").stdout == "offer: 2 people texted.\n"


@pytest.mark.slow
def test_the_last_reading_counts(shop: Shop) -> None:
    """A survey that was reconciled a day ago is unread since, as long as somebody may still answer."""
    shop.write("ask", SURVEY)
    shop.write("offer", PLAIN, more=QUEUE)
    shop.apply("ask")
    shop.pass_hours(20)
    shop.run("reconcile")
    shop.pass_hours(20)
    assert shop.count("offer") == (0, 2)
    shop.pass_hours(5)
    assert shop.count("offer", code=5) == (2, 0)


@pytest.mark.slow
def test_each_campaign_says_how_long_replies_may_be_unread(shop: Shop) -> None:
    """Those that allow longer are sent; the others are named, and the exit code is theirs."""
    shop.write("ask", SURVEY)
    shop.apply()
    shop.write("calm", PLAIN, people=(CY,), more="policy: {read_replies_within: 3d}\n")
    shop.write("strict", PLAIN, people=(CY,))
    shop.pass_hours(48)
    done = shop.apply(code=5)
    assert done.stdout == "ask: nothing sent.\ncalm: 1 person texted.\n"
    assert done.stderr.startswith("Left out: strict: 1 text waits: replies to ask are unread since ")
    assert done.stderr.endswith(HINT)


def test_what_has_ended_is_not_waited_for(shop: Shop) -> None:
    """A survey that everybody has completed, and that was read since, has no replies to come."""
    shop.write("ask", SURVEY)
    shop.apply()
    shop.run("sandbox", "simulate", "--seed", "1", "--response-rate", "1")
    shop.write("offer", PLAIN, more=QUEUE)
    shop.pass_hours(25)
    assert shop.count("offer", code=5) == (2, 0)
    shop.run("reconcile")
    shop.pass_hours(1000)
    assert shop.count("offer") == (0, 2)


def test_replies_to_plain_texts_are_not_waited_for(shop: Shop) -> None:
    """They reach no result, so that nothing could be read."""
    shop.write("notice", PLAIN)
    shop.apply()
    shop.pass_hours(1000)
    shop.write("offer", PLAIN, more=QUEUE)
    assert shop.apply("offer").stdout == "offer: 2 people texted.\n"


@pytest.mark.slow
def test_a_machine_that_is_new_waits_until_it_has_read(shop: Shop) -> None:
    """A lockfile tells what was sent, and not what people have replied since."""
    shop.write("ask", SURVEY)
    shop.apply()
    for file in (shop.folder / ".runner").glob("ledger*"):
        file.unlink()
    shop.write("ask", SURVEY, people=(ADA, BOB, CY))
    shop.pass_hours(25)
    held = shop.apply(code=5)
    assert held.stderr.startswith("Error: ask: 1 text waits: replies to ask are unread since ")
    shop.run("reconcile")
    assert shop.apply().stdout == "ask: 1 person texted.\n"


@pytest.mark.slow
def test_what_only_the_lockfile_of_another_campaign_tells_of_is_waited_for(shop: Shop) -> None:
    """A machine that is new, and sends one campaign by its path, has not read the replies to the others."""
    shop.write("ask", SURVEY, people=(ADA,))
    shop.write("note", PLAIN, people=(BOB,))
    shop.apply()
    for file in (shop.folder / ".runner").glob("ledger*"):
        file.unlink()
    shop.write("offer", PLAIN, people=(CY,))
    assert shop.apply("offer").stdout == "offer: 1 person texted.\n"
    shop.write("offer", PLAIN, people=(CY, "+14155550104"))
    shop.pass_hours(25)
    assert shop.count("offer", code=5) == (1, 0)
    held = shop.apply("offer", code=5)
    assert held.stderr.startswith("Error: offer: 1 text waits: replies to ask are unread since ")
    shop.run("reconcile")
    assert shop.apply("offer").stdout == "offer: 1 person texted.\n"


@pytest.mark.slow
def test_what_sends_to_nobody_else_does_not_wait(shop: Shop) -> None:
    """To settle, and to text oneself, is possible at any time; what sends nothing ends well."""
    shop.write("ask", SURVEY)
    shop.apply()
    shop.pass_hours(25)
    shop.run("plan")
    assert shop.apply().stdout == "ask: nothing sent.\n"
    shop.write("offer", PLAIN, more=QUEUE)
    shop.run("apply", "--settle-only")
    shop.run("apply", "campaigns/offer.yaml", "--test-to", "+14155550109", "--auto-approve")


@pytest.mark.slow
def test_a_saved_plan_waits_for_replies_that_were_read_when_it_was_made(shop: Shop) -> None:
    """An approval can take days: exactly the plan is sent once somebody has reconciled."""
    shop.write("ask", SURVEY)
    shop.apply()
    shop.write("offer", PLAIN, more=QUEUE)
    shop.run("plan", "campaigns/offer.yaml", "--out", "plan.json")
    shop.pass_hours(25)
    held = shop.run("apply", "--plan", "plan.json", code=5)
    assert held.stderr.startswith("Error: offer: 2 texts wait: replies to ask are unread since ")
    shop.run("reconcile")
    assert shop.run("apply", "--plan", "plan.json").stdout == "offer: 2 people texted.\n"


def test_a_launch_that_the_service_does_not_list_is_looked_for_once(shop: Shop) -> None:
    """It has no replies to read: nobody waits for it for ever, and other surveys are still read."""
    shop.write("ask", SURVEY)
    shop.apply()
    shop.run("sandbox", "reset")
    shop.pass_hours(25)
    shop.write("offer", PLAIN, more=QUEUE)
    assert shop.count("offer", code=5) == (2, 0)
    shop.run("reconcile", code=1)
    assert shop.count("offer") == (0, 2)
