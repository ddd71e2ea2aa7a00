"""A small real HTTP server that speaks GitHub's REST API as it is documented, for the comments of pull requests.

https://docs.github.com/rest/issues/comments, https://docs.github.com/rest/pulls/pulls,
https://docs.github.com/rest/using-the-rest-api/using-pagination-in-the-rest-api. A test of a whole job uses it
as `with running_github() as github: run("comment", cwd=…, env=github.job(tmp_path))`.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BOT = "github-actions[bot]"
TOKEN = "ghs_token-of-the-job"  # noqa: S105  of a job that there is not
HEAD = "0123456789abcdef0123456789abcdef01234567"
_LONGEST_BODY = 65_536
_COMMENTS = re.compile(r"/repos/([^/]+/[^/]+)/issues/(\d+)/comments")
_COMMENT = re.compile(r"/repos/([^/]+/[^/]+)/issues/comments/(\d+)")
_PULL = re.compile(r"/repos/([^/]+/[^/]+)/pulls/(\d+)")


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
    """The state of the server: one repository with one pull request.

    Attributes:
        url: of the REST API.
        comments: as the API lists them.
        head: the commit that the pull request is at.
        login: whose comments the token makes; None where GraphQL doesn't tell.
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
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def add_comment(self, body: str, login: str = BOT) -> dict[str, Any]:
        """Add a comment as if somebody had written it, and return it."""
        number = len(self.comments) + len(self.requests) * 1000 + 1
        comment = {
            "id": number,
            "html_url": f"{self.url}/{self.repository}/pull/{self.number}#issuecomment-{number}",
            "user": {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"},
            "body": body,
        }
        self.comments.append(comment)
        return comment

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
        fault = github.take_fault(method, self.path)
        if fault is not None:
            if fault.after:
                self._answer(method, data)
            self._send(fault.status, {"message": fault.message}, fault.headers)
        elif self.headers.get("authorization") != f"Bearer {TOKEN}":
            self._send(401, {"message": "Bad credentials"})
        else:
            self._send(*self._answer(method, data))

    def _answer(self, method: str, data: bytes) -> tuple[int, Any, dict[str, str]]:
        github, path = self._github, urlsplit(self.path).path
        if method == "POST" and path == "/graphql":
            viewer = {"data": {"viewer": {"login": github.login}}}
            errors = {"data": None, "errors": [{"message": "Resource not accessible by integration"}]}
            return 200, viewer if github.login else errors, {}
        for pattern, serve in (
            (_COMMENTS, self._serve_list),
            (_COMMENT, self._serve_one),
            (_PULL, self._pull),
        ):
            found = pattern.fullmatch(path)
            if found and found[1] == github.repository:
                return serve(method, int(found[2]), data)
        return 404, {"message": "Not Found"}, {}

    def _pull(self, _method: str, _number: int, _data: bytes) -> tuple[int, Any, dict[str, str]]:
        return 200, {"number": self._github.number, "head": {"sha": self._github.head}}, {}

    def _serve_list(self, method: str, _number: int, data: bytes) -> tuple[int, Any, dict[str, str]]:
        github = self._github
        if method == "POST":
            body = json.loads(data)["body"]
            if len(body) > _LONGEST_BODY:
                return (
                    422,
                    {"message": "Validation Failed: body is too long (maximum is 65536 characters)"},
                    {},
                )
            return 201, github.add_comment(body, github.login or BOT), {}
        query = parse_qs(urlsplit(self.path).query)
        size, page = int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0])
        shown = github.comments[(page - 1) * size : page * size]
        headers = {}
        if page * size < len(github.comments):
            where = f"{github.url}{urlsplit(self.path).path}?per_page={size}&page={page + 1}"
            headers["Link"] = f'<{where}>; rel="next"'
        return 200, shown, headers

    def _serve_one(self, method: str, number: int, data: bytes) -> tuple[int, Any, dict[str, str]]:
        comments = self._github.comments
        comment = next((one for one in comments if one["id"] == number), None)
        if comment is None:
            return 404, {"message": "Not Found"}, {}
        if method == "DELETE":
            comments.remove(comment)
            return 204, None, {}
        comment["body"] = json.loads(data)["body"]
        return 200, comment, {}

    def _send(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

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
