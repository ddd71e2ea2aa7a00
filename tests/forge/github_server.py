"""A small real HTTP server that speaks GitHub's REST API as it is documented: pull requests, issues, their comments.

https://docs.github.com/rest/issues, https://docs.github.com/rest/pulls, https://docs.github.com/rest/commits,
https://docs.github.com/rest/actions/workflow-runs,
https://docs.github.com/rest/using-the-rest-api/using-pagination-in-the-rest-api. A test of a whole job uses it
as `with running_github() as github: run("ci", "comment", cwd=…, env=github.job(tmp_path))`.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.forge.github_routes import find_answer
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

BOT = "github-actions[bot]"
TOKEN = "ghs_token-of-the-job"  # noqa: S105  of a job that there is not
HEAD = "0123456789abcdef0123456789abcdef01234567"
_LOCK = threading.Lock()


@dataclass(slots=True)
class Fault:
    """An answer that is given instead of the right one.

    Attributes:
        method: of the requests it is for.
        path: is found in their paths.
        status: of the answer.
        message: of the answer.
        headers: of the answer.
        times: how often it still happens; then all is well.
        after: whether what was asked is done all the same.
    """

    method: str
    path: str
    status: int
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1_000_000
    after: bool = False


@dataclass(slots=True)
class GitHub:
    """The state of the server: one repository with one open pull request, and issues.

    Attributes:
        url: of the REST API.
        comments: of the pull request, as the API lists them.
        head: the commit that the pull request is at.
        login: whose comments and issues the token makes; None where GraphQL doesn't tell.
        issues: as the API lists them.
        threads: the comments of issues, by their numbers.
        commits: of the branch, the latest first, as the API lists them.
        pulls: pull requests, by the commits that they brought.
        files: that pull requests changed, by their numbers; `campaigns/pulse.yaml` of those that are not here.
        reviews: of pull requests, by their numbers.
        approvals: of workflow runs, by their ids.
        reviewers: whom the environment for approvals asks.
        waiting: the jobs that wait for them, by their runs' ids.
        readers: people who may read the repository, and not push to it.
        keeps_labels: false as for a token without push access, whose labels are silently dropped.
        before: is called with method and path before each answer; from several threads.
        faults: what goes wrong.
        requests: method and path of each, in order.
        tokens: the `Authorization` headers that came.
    """

    url: str = ""
    repository: str = "acme/campaigns"
    number: int = 7
    head: str = HEAD
    login: str | None = BOT
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    threads: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    commits: list[dict[str, Any]] = field(default_factory=list)
    pulls: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[int, list[str]] = field(default_factory=dict)
    reviews: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    approvals: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    reviewers: list[str] = field(default_factory=lambda: ["grace"])
    waiting: dict[int, str] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)
    keeps_labels: bool = True
    before: Callable[[str, str], object] = lambda _method, _path: None
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    _ids: Iterator[int] = field(default_factory=lambda: count(1), repr=False)

    def add_comment(self, body: str, login: str = BOT, issue: int | None = None) -> dict[str, Any]:
        """Add a comment as if somebody had written it, and return it.

        Args:
            body: Markdown.
            login: who wrote it.
            issue: its number; None for the pull request.
        """
        thread = self.comments if issue is None else self.threads.setdefault(issue, [])
        number = next(self._ids)
        place = f"pull/{self.number}" if issue is None else f"issues/{issue}"
        comment = {
            "id": number,
            "html_url": f"{self.url}/{self.repository}/{place}#issuecomment-{number}",
            "user": _write_user(login),
            "body": body,
        }
        thread.append(comment)
        return comment

    def add_issue(self, body: str, login: str = BOT, **values: Any) -> dict[str, Any]:
        """Add an issue as if somebody had written it, and return it.

        Args:
            body: Markdown.
            login: who wrote it.
            values: what differs from an open issue with the label `runner`.
        """
        number = 100 + len(self.issues)
        issue = {
            "number": number,
            "html_url": f"{self.url}/{self.repository}/issues/{number}",
            "user": _write_user(login),
            "title": "",
            "body": body,
            "state": "open",
            "state_reason": None,
            "locked": False,
            "labels": [{"name": "runner"}],
        } | values
        self.issues.append(issue)
        return issue

    def add_pull(
        self, number: int, sha: str, *, ref: str = "edit", merged_at: str | None = ""
    ) -> dict[str, Any]:
        """Add a pull request that brought a commit, and return it.

        Args:
            number: of the pull request.
            sha: the commit.
            ref: its branch.
            merged_at: when it was merged, 2026-11-21T08:00:00Z if empty; None if it is open.
        """
        merged = "2026-11-21T08:00:00Z" if merged_at == "" else merged_at
        pull = {
            "number": number,
            "html_url": f"{self.url}/{self.repository}/pull/{number}",
            "state": "closed" if merged else "open",
            "merged_at": merged,
            "merge_commit_sha": sha,
            "user": _write_user("ada"),
            "head": {"ref": ref, "sha": HEAD},
            "base": {"ref": "main"},
        }
        self.pulls.setdefault(sha, []).append(pull)
        return pull

    def add_commit(self, sha: str, message: str) -> None:
        """Add a commit on top of the branch."""
        self.commits.insert(0, {"sha": sha, "commit": {"message": message}})

    def add_review(self, number: int, login: str, state: str = "APPROVED", sha: str = HEAD) -> None:
        """Add a review of a pull request."""
        reviews = self.reviews.setdefault(number, [])
        reviews.append({"id": len(reviews) + 1, "user": _write_user(login), "state": state, "commit_id": sha})

    def add_approval(self, run: int, environment: str, login: str, state: str = "approved") -> None:
        """Add a decision on a workflow run that waits for an environment's reviewers."""
        approval = {
            "environments": [{"id": 1, "name": environment}],
            "state": state,
            "user": _write_user(login),
            "comment": "",
        }
        self.approvals.setdefault(run, []).append(approval)

    def job(
        self, folder: Path, *, event: Mapping[str, Any] | None = None, **variables: str
    ) -> dict[str, str]:
        """Return the environment of a pull request's job.

        Args:
            folder: where the event's file is written.
            event: what differs in the event's `pull_request`.
            variables: what differs in the environment.
        """
        repo = {"full_name": self.repository}
        request = {"number": self.number, "head": {"sha": HEAD, "repo": repo}, "base": {"repo": repo}}
        file = folder / "event.json"
        file.write_text(json.dumps({"pull_request": request | dict(event or {})}), encoding="utf-8")
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.url,
            "GITHUB_EVENT_PATH": str(file),
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "42",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_TOKEN": TOKEN,
        } | variables

    @property
    def author(self) -> str:
        """Whose the token's comments and issues are."""
        return self.login or BOT

    def find_issue(self, number: int) -> dict[str, Any] | None:
        """Return an issue; None if there is none of that number."""
        return next((issue for issue in self.issues if issue["number"] == number), None)

    def bodies(self) -> list[str]:
        """Return the bodies of all comments."""
        return [comment["body"] for comment in self.comments]

    def writes(self) -> list[str]:
        """Return the methods of the requests that changed something."""
        return [method for method, path in self.requests if method != "GET" and "graphql" not in path]

    def take_fault(self, method: str, path: str) -> Fault | None:
        """Return what goes wrong with a request, and count it."""
        for fault in self.faults:
            if fault.method == method and fault.path in path and fault.times:
                fault.times -= 1
                return fault
        return None


def _write_user(login: str) -> dict[str, str]:
    return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Say nothing: requests are kept."""

    @property
    def _github(self) -> GitHub:
        return cast("_Server", self.server).github

    def _serve(self, method: str) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        github = self._github
        github.requests.append((method, self.path))
        github.tokens.add(self.headers.get("authorization", ""))
        github.before(method, self.path)
        fault = github.take_fault(method, self.path)
        if fault is not None:
            if fault.after:
                self._answer(method, data)
            self._send(fault.status, {"message": fault.message}, fault.headers)
        elif self.headers.get("authorization") != f"Bearer {TOKEN}":
            self._send(401, {"message": "Bad credentials"})
        else:
            status, document = self._answer(method, data)
            headers: dict[str, str] = {}
            if method == "GET" and isinstance(document, list):
                document, headers = self._cut_page(document)
            self._send(status, document, headers)

    def _answer(self, method: str, data: bytes) -> tuple[int, Any]:
        path, body = urlsplit(self.path).path, json.loads(data or b"{}")
        with _LOCK:
            return find_answer(self._github, method, path, self._query(), body)

    def _cut_page(self, rows: list[Any]) -> tuple[list[Any], dict[str, str]]:
        query = self._query()
        size, page = int(query.pop("per_page", "30")), int(query.pop("page", "1"))
        if page * size >= len(rows):
            return rows[(page - 1) * size :], {}
        more = urlencode({**query, "per_page": size, "page": page + 1})
        where = f"{self._github.url}{urlsplit(self.path).path}?{more}"
        return rows[(page - 1) * size : page * size], {"Link": f'<{where}>; rel="next"'}

    def _query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query))

    def _send(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(PatientServer):
    def __init__(self, github: GitHub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.github = github


@contextmanager
def running_github() -> Iterator[GitHub]:
    """Run the server while a block lasts."""
    github = GitHub()
    server = _Server(github)
    github.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
