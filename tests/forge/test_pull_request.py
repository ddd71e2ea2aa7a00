"""One comment on a pull request, kept against a server that speaks GitHub's REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.github.comments import Kept, count_units, keep_comment, write_marker
from runner.github.job import NoJobError, read_github_job
from runner.github.rest import (
    ACTIONS_BOT,
    RETRIES,
    RefusedError,
    Repository,
    UnavailableError,
    is_safe_address,
)
from tests.forge.github_server import HEAD, TOKEN, Fault, GitHub, running_github

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER = write_marker("live", None)
BODY = f"{MARKER}\nthe plan"


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """GitHub, with one pull request and no comments, and a client without pauses."""
    monkeypatch.setattr("runner.github.rest.PAUSE_S", 0.0)
    with running_github() as server:
        yield server


def keep(github: GitHub, body: str = BODY, *, marker: str = MARKER) -> Kept:
    """Keep a comment, and return what became of it."""
    repository = Repository(github.url, TOKEN, github.repository)
    return keep_comment(repository, github.number, marker, body, HEAD)


def test_one_comment_is_created_edited_and_left_alone(github: GitHub) -> None:
    """The first job comments, a changed plan edits that comment, the same plan sends nothing."""
    assert keep(github).action == "created"
    assert keep(github, f"{MARKER}\nanother plan").action == "updated"
    assert github.bodies() == [f"{MARKER}\nanother plan"]
    github.requests.clear()
    assert keep(github, f"{MARKER}\nanother plan\n").action == "unchanged"
    assert github.writes() == []


def test_line_breaks_of_the_forge_are_no_change(github: GitHub) -> None:
    """A body that came back with other line breaks counts as the same."""
    github.add_comment(BODY.replace("\n", "\r\n"))
    assert keep(github).action == "unchanged"


def test_somebody_elses_marker_is_not_ours(github: GitHub) -> None:
    """A comment with the marker by somebody else is neither edited nor deleted, nor is a quote of ours."""
    github.add_comment(BODY, login="mallory")
    github.add_comment(f"> {BODY}")
    assert keep(github, f"{MARKER}\nnew").action == "created"
    assert github.bodies() == [BODY, f"> {BODY}", f"{MARKER}\nnew"]


@pytest.mark.parametrize(("login", "author"), [("release-app[bot]", "release-app[bot]"), (None, ACTIONS_BOT)])
def test_own_comments_are_those_of_the_token(github: GitHub, login: str | None, author: str) -> None:
    """An app's own token knows its comments; where nobody tells whose it is, it is the job's own."""
    github.login = login
    github.add_comment(BODY, login="other[bot]")
    github.add_comment(BODY, login=author)
    assert keep(github).action == "unchanged"


def test_targets_and_names_have_comments_of_their_own(github: GitHub) -> None:
    """Two jobs, or two targets, don't fight over one comment."""
    markers = [MARKER, write_marker("live", "eu"), write_marker("live-2", None), write_marker("live", "eu2")]
    for marker in markers * 2:
        keep(github, f"{marker}\nplan", marker=marker)
    assert github.bodies() == [f"{marker}\nplan" for marker in markers]


def test_all_pages_of_comments_are_read(github: GitHub) -> None:
    """Our comment is found behind hundreds of others."""
    for index in range(230):
        github.add_comment(f"comment {index}", login="ada")
    github.add_comment(BODY)
    assert keep(github).action == "unchanged"
    pages = [path for method, path in github.requests if method == "GET" and "/comments" in path]
    assert [path.rpartition("&page=")[2] for path in pages[1:]] == ["2", "3"]


def test_of_several_the_oldest_is_edited(github: GitHub) -> None:
    """Links lead to it."""
    for text in (BODY, f"{MARKER}\nolder plan"):
        github.add_comment(text)
    assert keep(github, f"{MARKER}\nnew").action == "updated"
    assert github.bodies()[0] == f"{MARKER}\nnew"


def test_an_old_job_does_not_overwrite_a_newer_plan(github: GitHub) -> None:
    """A job for a commit that the pull request has left leaves the comment alone."""
    github.add_comment(BODY)
    github.head = "f" * 40
    assert keep(github, f"{MARKER}\nold") == Kept("overtaken")
    assert github.bodies() == [BODY]


def test_a_token_that_may_not_see_commits_still_comments(github: GitHub) -> None:
    """Whether the job is the latest is asked, not demanded."""
    github.faults.append(Fault("GET", "/pulls/", 403, "Resource not accessible by integration"))
    assert keep(github).action == "created"


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_fault_of_the_forge_is_tried_again(github: GitHub, status: int) -> None:
    """What the forge cannot do now is tried some times, if it can be repeated."""
    github.faults.append(Fault("GET", "/comments", status, times=RETRIES))
    assert keep(github).action == "created"


def test_a_comment_that_was_made_without_an_answer_is_found(github: GitHub) -> None:
    """A creation that was answered with 502 is not repeated blindly."""
    github.faults.append(Fault("POST", "/comments", 502, times=1, after=True))
    with pytest.raises(UnavailableError, match=r"^it answered 502$"):
        keep(github)
    assert keep(github).action == "unchanged"
    assert github.bodies() == [BODY]


def test_tries_end(github: GitHub) -> None:
    """A forge that is down, or whose limit is used up, is not asked for ever."""
    used_up = Fault(
        "GET", "/comments", 403, "API rate limit exceeded", {"X-RateLimit-Remaining": "0"}, times=1
    )
    github.faults += [used_up, Fault("GET", "/comments", 502)]
    for reason, tries in (("its rate limit is reached", 1), ("it answered 502", 2 + RETRIES)):
        with pytest.raises(UnavailableError, match=f"^{reason}$"):
            keep(github)
        assert sum("/comments" in path for _, path in github.requests) == tries


@pytest.mark.slow
def test_an_unreachable_forge_is_said_without_its_details() -> None:
    """Nobody listens: the reason has no address of a proxy in it."""
    repository = Repository("http://127.0.0.1:9", TOKEN, "a/b")
    with pytest.raises(UnavailableError, match=r"^it cannot be reached \(ConnectionError\)$"):
        keep_comment(repository, 1, MARKER, BODY)


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_refusal_is_final(github: GitHub, status: int) -> None:
    """Without rights there is no second try."""
    github.faults.append(Fault("POST", "/comments", status, "Resource not accessible by integration"))
    with pytest.raises(RefusedError, match=f"{status}: Resource not accessible by integration"):
        keep(github)
    assert github.writes() == ["POST"]


def test_the_token_stays_with_the_api(github: GitHub) -> None:
    """A redirect is not followed."""
    with running_github() as other:
        elsewhere = {"Location": f"{other.url}/repos/a/b/issues/7/comments"}
        github.faults.append(Fault("GET", "/issues/", 302, headers=elsewhere))
        with pytest.raises(RefusedError, match="302"):
            keep(github)
        assert other.requests == []


def test_a_next_page_elsewhere_is_not_asked(github: GitHub) -> None:
    """A `Link` to another host doesn't get the token either."""
    with running_github() as other:
        link = {"Link": f'<{other.url}/repos/a/b/issues/7/comments?page=2>; rel="next"'}
        github.faults.append(Fault("GET", "/issues/", 200, headers=link))
        with pytest.raises(UnavailableError):
            keep(github)
        assert other.requests == []


def test_a_netrc_does_not_replace_the_token(
    github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is what the forge gets, whatever the machine's netrc says."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    keep(github)
    assert github.tokens == {f"Bearer {TOKEN}"}


def test_the_token_is_never_shown(github: GitHub, tmp_path: Path) -> None:
    """A job's representation has no token in it."""
    job = read_github_job(github.job(tmp_path))
    assert job.token == TOKEN
    assert TOKEN not in repr(job)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"GITHUB_REPOSITORY": "../x/y?"}, "this is no job of GitHub"),
        ({"GITHUB_API_URL": "http://forge.example"}, "GITHUB_API_URL would send the token unencrypted"),
        (
            {"GITHUB_TOKEN": ""},
            "there is no GITHUB_TOKEN: hand it to the step with `env: {GITHUB_TOKEN: ${{ github.token }}}`",
        ),
    ],
)
def test_a_job_that_cannot_comment_says_why(
    github: GitHub, tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    """What is missing is named."""
    with pytest.raises(NoJobError) as failed:
        read_github_job(github.job(tmp_path) | variables)
    assert str(failed.value) == reason


@pytest.mark.parametrize("event", ["", "[]", "{", '{"pull_request": 3}', '{"pull_request": {"number": "7"}}'])
def test_an_event_of_another_shape(github: GitHub, tmp_path: Path, event: str) -> None:
    """An event that is not a pull request's is no job of one, whatever it holds."""
    environment = github.job(tmp_path)
    (tmp_path / "event.json").write_text(event, encoding="utf-8")
    assert read_github_job(environment).number == 0


def test_lengths_and_addresses() -> None:
    """Characters beyond the first plane count twice; tokens go out encrypted or to this machine."""
    assert count_units("a→🌈") == 4
    assert is_safe_address("https://api.github.com")
    assert is_safe_address("http://127.0.0.1:80")
    assert not is_safe_address("http://github.example")
    assert not is_safe_address("http://[::1")
