"""One issue of a repository, kept against a server that speaks GitHub's REST API."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from runner.github.comments import Kept, write_marker
from runner.github.issues import LABEL, Report, keep_issue
from runner.github.rest import ACTIONS_BOT, RETRIES, RefusedError, Repository, UnavailableError
from tests.forge.github_server import TOKEN, Fault, GitHub, running_github

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARKER = write_marker("live", kind="issue")


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """GitHub, with a repository that has no issues, and a client without pauses."""
    monkeypatch.setattr("runner.github.rest.PAUSE_S", 0.0)
    with running_github() as server:
        yield server


def keep(github: GitHub, held: int, *, text: str = "") -> Kept:
    """Keep an issue about some held people: it is news if they are more than before."""

    def compose(state: Mapping[str, Any]) -> Report:
        before = state.get("held", 0)
        return Report(
            title=f"{'Somebody' if held else 'Nobody'} is held",
            text=text or f"{held} held",
            state={"held": held} if held else {},
            is_open=held > 0,
            news=f"{held} now" if held > before else "" if held else "All is well.",
        )

    return keep_issue(Repository(github.url, TOKEN, github.repository), MARKER, compose)


def list_states(github: GitHub) -> list[tuple[int, str]]:
    return [(issue["number"], issue["state"]) for issue in github.issues]


def list_comments(github: GitHub, number: int) -> list[str]:
    return [comment["body"] for comment in github.threads.get(number, [])]


def test_an_issue_is_opened_edited_and_closed(github: GitHub) -> None:
    """Trouble opens an issue; more of it is a comment, less of it none; the end closes it with a comment."""
    assert keep(github, 0) == Kept("nothing")
    opened = keep(github, 2)
    (issue,) = github.issues
    assert opened == Kept("opened", issue["html_url"])
    assert issue["body"] == f'{MARKER}\n<!-- state {{"change":0,"held":2}} -->\n2 held'
    assert (issue["title"], issue["labels"]) == ("Somebody is held", [{"name": LABEL}])
    assert keep(github, 2).action == "unchanged"
    assert keep(github, 3).action == "updated"
    assert keep(github, 1).action == "updated"
    assert list_comments(github, issue["number"]) == ["<!-- change=1 -->\n3 now"]
    assert keep(github, 0).action == "closed"
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert list_comments(github, issue["number"])[1:] == ["<!-- change=2 -->\nAll is well."]
    github.requests.clear()
    assert keep(github, 0, text="as of another run") == Kept("nothing")
    assert github.writes() == []


def test_new_trouble_opens_the_issue_again(github: GitHub) -> None:
    """A target has one issue: whoever follows it hears of the next trouble, too."""
    keep(github, 2)
    keep(github, 0)
    assert keep(github, 1).action == "opened"
    assert list_states(github) == [(100, "open")]
    assert list_comments(github, 100)[1:] == ["<!-- change=2 -->\n1 now"]
    assert github.issues[0]["body"] == f'{MARKER}\n<!-- state {{"change":2,"held":1}} -->\n1 held'


def test_somebody_elses_marker_is_not_ours(github: GitHub) -> None:
    """An issue with the marker by a stranger is neither edited nor closed, nor is a pull request of ours."""
    body = f'{MARKER}\n<!-- state {{"change":0,"held":99}} -->\n99 held'
    github.add_issue(body, login="mallory")
    github.add_issue(body, login="other[bot]", state="closed")
    github.add_issue(body, pull_request={"url": "…"})
    github.add_issue(f"> {body}")
    assert keep(github, 2).action == "opened"
    assert keep(github, 0).action == "closed"
    assert list_states(github) == [
        (100, "open"),
        (101, "closed"),
        (102, "open"),
        (103, "open"),
        (104, "closed"),
    ]
    assert all(issue["body"].endswith(body) for issue in github.issues[:4])


@pytest.mark.parametrize(("login", "author"), [("release-app[bot]", "release-app[bot]"), (None, ACTIONS_BOT)])
def test_own_issues_are_those_of_the_token(github: GitHub, login: str | None, author: str) -> None:
    """An app's own token knows its issues; where nobody tells whose it is, it is the job's own."""
    github.login = login
    github.add_issue(
        f'{MARKER}\n<!-- state {{"change":0,"held":2}} -->\n2 held', login=author, title="Somebody is held"
    )
    assert keep(github, 2).action == "unchanged"


def test_targets_have_issues_of_their_own(github: GitHub) -> None:
    """An issue of another target is left alone."""
    github.add_issue(f"{write_marker('live-2', kind='issue')}\n5 held")
    assert keep(github, 0).action == "nothing"
    assert keep(github, 1).action == "opened"
    assert github.issues[0]["state"] == "open"


def test_an_issue_that_somebody_closed_stays_closed_until_it_is_worse(github: GitHub) -> None:
    """Who closes it has read it: it is opened again for what is new."""
    keep(github, 2)
    github.issues[0]["state"] = "closed"
    assert keep(github, 2) == Kept("left closed", github.issues[0]["html_url"])
    assert keep(github, 1).action == "left closed"
    assert keep(github, 2).action == "opened"
    assert list_states(github) == [(100, "open")]


def test_an_issue_that_somebody_closed_learns_of_the_end(github: GitHub) -> None:
    """After all was well, the same trouble is a new one."""
    keep(github, 2)
    github.issues[0]["state"] = "closed"
    assert keep(github, 0).action == "nothing"
    assert list_comments(github, 100) == []
    assert github.issues[0]["body"] == f'{MARKER}\n<!-- state {{"change":0}} -->\n0 held'
    github.requests.clear()
    assert keep(github, 0).action == "nothing"
    assert github.writes() == []
    assert keep(github, 2).action == "opened"


def test_a_locked_issue_is_edited_without_a_comment(github: GitHub) -> None:
    """What a lock refuses is left, and the rest is done."""
    keep(github, 2)
    github.issues[0]["locked"] = True
    assert keep(github, 3).action == "updated"
    assert github.issues[0]["body"].endswith("3 held")
    assert keep(github, 0).action == "closed"


def test_an_issue_that_was_opened_without_an_answer_is_found(github: GitHub) -> None:
    """An opening that was answered with 502 is not repeated blindly."""
    github.faults.append(Fault("POST", "/issues", 502, times=1, after=True))
    with pytest.raises(UnavailableError, match=r"^it answered 502$"):
        keep(github, 2)
    assert keep(github, 2).action == "unchanged"
    assert len(github.issues) == 1


@pytest.mark.parametrize("held", [3, 0])
def test_a_comment_is_written_once(github: GitHub, held: int) -> None:
    """A fault between the comment and the edit costs no second comment, in this job or the next one."""
    keep(github, 2)
    github.faults.append(Fault("PATCH", "/issues/100", 502, times=1 + RETRIES))
    with pytest.raises(UnavailableError, match=r"^it answered 502$"):
        keep(github, held)
    assert keep(github, held).action == ("updated" if held else "closed")
    assert len(list_comments(github, 100)) == 1


def test_a_token_that_sets_no_labels_opens_one_issue(github: GitHub) -> None:
    """Where labels are silently dropped, the next job finds the issue all the same."""
    github.keeps_labels = False
    assert [keep(github, 2).action for _ in range(2)] == ["opened", "unchanged"]


def test_all_pages_of_issues_are_read(github: GitHub) -> None:
    """Our issue is found behind hundreds of others of the same author."""
    for index in range(230):
        github.add_issue(f"issue {index}")
    keep(github, 2)
    assert keep(github, 2).action == "unchanged"
    assert any("page=3" in path for _, path in github.requests)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "<!-- state [1] -->",
        "<!-- state {] -->",
        f"<!-- state {'[' * 60_000} -->",
        '<!-- state {"change":"x"} -->',
    ],
)
def test_a_body_that_somebody_edited_is_put_right(github: GitHub, line: str) -> None:
    """What cannot be read of the state counts as nothing: people are told, and the body is whole again."""
    github.add_issue(f"{MARKER}\n{line}\nedited")
    assert keep(github, 2).action == "updated"
    assert github.issues[0]["body"].startswith(f'{MARKER}\n<!-- state {{"change":1,"held":2}} -->\n')
    assert list_comments(github, 100) == ["<!-- change=1 -->\n2 now"]


@pytest.mark.parametrize("status", [401, 403, 404, 410, 422])
def test_a_refusal_is_final(github: GitHub, status: int) -> None:
    """Without rights, or in a repository without issues, there is no second try."""
    github.faults.append(Fault("POST", "/issues", status, "Issues has been disabled in this repository."))
    with pytest.raises(RefusedError, match=f"{status}: Issues has been disabled in this repository."):
        keep(github, 2)
    assert github.writes() == ["POST"]


def test_a_forge_that_does_not_answer_in_time(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forge that is too slow counts as out of order."""
    monkeypatch.setattr("runner.github.rest.TIMEOUT_S", (10.0, 0.05))
    is_over = threading.Event()
    github.before = lambda method, _: is_over.wait(20) if method == "GET" else None
    with pytest.raises(UnavailableError, match=r"^it cannot be reached"):
        keep(github, 2)
    is_over.set()


def test_an_answer_that_is_none(github: GitHub) -> None:
    """A proxy's page in the place of a list is a fault."""
    github.faults.append(Fault("GET", "/issues", 200, "welcome"))
    with pytest.raises(UnavailableError, match=r"^its answer cannot be read$"):
        keep(github, 2)


def test_a_state_cannot_break_out_of_its_line(github: GitHub) -> None:
    """Nothing in the state ends the HTML comment, mentions a person, or refers to an issue."""
    repository = Repository(github.url, TOKEN, github.repository)
    state = {"jobs": {"--><b>@ada #1 &amp;": ["1"]}}
    report = Report("t", "text", state, is_open=True, news="n")
    seen: list[Mapping[str, Any]] = []

    def compose(before: Mapping[str, Any]) -> Report:
        seen.append(before)
        return report

    for _ in range(2):
        keep_issue(repository, MARKER, compose)
    line = github.issues[0]["body"].split("\n")[1]
    assert not set("<>&@#") & set(line.removeprefix("<!--").removesuffix("-->"))
    assert seen == [{}, {**state, "change": 0}]
