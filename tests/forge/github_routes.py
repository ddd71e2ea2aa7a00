"""What GitHub's REST API answers, route by route."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.forge.github_server import GitHub

Answer = tuple[int, Any]
Values = dict[str, Any]
_LONGEST_BODY = 65_536
_LONGEST_TITLE = 256
_TOO_LONG = 422, {"message": "Validation Failed: body is too long (maximum is 65536 characters)"}
_LOCKED = 403, {"message": "Unable to create comment because issue is locked."}
_NOT_FOUND = 404, {"message": "Not Found"}


def find_answer(github: GitHub, method: str, path: str, query: Values, body: Values) -> Answer:
    """Return the status and the document of an answer; a list whole."""
    if (method, path) == ("POST", "/graphql"):
        viewer = {"data": {"viewer": {"login": github.login}}}
        errors = {"data": None, "errors": [{"message": "Resource not accessible by integration"}]}
        return 200, viewer if github.login else errors
    place = f"/repos/{github.repository}/"
    for expected, pattern, serve in _ROUTES:
        found = re.fullmatch(re.escape(place) + pattern, path)
        if found and expected == method:
            return serve(github, "".join(found.groups()), query, body)
    return _NOT_FOUND


def _read_pull(github: GitHub, _number: str, _query: Values, _body: Values) -> Answer:
    return 200, {"number": github.number, "head": {"sha": github.head}}


def _list_comments(github: GitHub, number: str, _query: Values, _body: Values) -> Answer:
    return 200, github.comments if int(number) == github.number else github.threads.get(int(number), [])


def _add_comment(github: GitHub, number: str, _query: Values, body: Values) -> Answer:
    issue = github.find_issue(int(number))
    if issue is not None and issue["locked"]:
        return _LOCKED
    if len(body["body"]) > _LONGEST_BODY:
        return _TOO_LONG
    place = None if int(number) == github.number else int(number)
    return 201, github.add_comment(body["body"], github.author, place)


def _find_comment(github: GitHub, number: str) -> tuple[list[Values], Values]:
    for thread in (github.comments, *github.threads.values()):
        for comment in thread:
            if comment["id"] == int(number):
                return thread, comment
    return [], {}


def _edit_comment(github: GitHub, number: str, _query: Values, body: Values) -> Answer:
    _, comment = _find_comment(github, number)
    if not comment:
        return _NOT_FOUND
    comment["body"] = body["body"]
    return 200, comment


def _delete_comment(github: GitHub, number: str, _query: Values, _body: Values) -> Answer:
    thread, comment = _find_comment(github, number)
    if not comment:
        return _NOT_FOUND
    thread.remove(comment)
    return 204, None


def _list_issues(github: GitHub, _number: str, query: Values, _body: Values) -> Answer:
    labels = set(filter(None, query.get("labels", "").split(",")))
    state = query.get("state", "open")
    found = [
        issue
        for issue in github.issues
        if state in ("all", issue["state"])
        and labels <= {label["name"] for label in issue["labels"]}
        and query.get("creator", issue["user"]["login"]) == issue["user"]["login"]
    ]
    return 200, found if query.get("direction") == "asc" else found[::-1]


def _add_issue(github: GitHub, _number: str, _query: Values, body: Values) -> Answer:
    if _is_too_long(body):
        return _TOO_LONG
    labels = [{"name": name} for name in body.get("labels", []) if github.keeps_labels]
    return 201, github.add_issue(body["body"], github.author, title=body["title"], labels=labels)


def _edit_issue(github: GitHub, number: str, _query: Values, body: Values) -> Answer:
    issue = github.find_issue(int(number))
    if issue is None:
        return _NOT_FOUND
    if _is_too_long(body):
        return _TOO_LONG
    issue.update(body)
    return 200, issue


def _is_too_long(body: Values) -> bool:
    return len(body.get("body", "")) > _LONGEST_BODY or len(body.get("title", "")) > _LONGEST_TITLE


def _list_commits(github: GitHub, _number: str, query: Values, _body: Values) -> Answer:
    names = [commit["sha"] for commit in github.commits]
    start = query.get("sha")
    return (200, github.commits[names.index(start) :]) if start in names else _NOT_FOUND


def _list_pulls(github: GitHub, sha: str, _query: Values, _body: Values) -> Answer:
    return 200, github.pulls.get(sha, [])


def _list_files(github: GitHub, number: str, _query: Values, _body: Values) -> Answer:
    return 200, [{"filename": name} for name in github.files.get(int(number), ["campaigns/pulse.yaml"])]


def _list_reviews(github: GitHub, number: str, _query: Values, _body: Values) -> Answer:
    return 200, github.reviews.get(int(number), [])


def _list_approvals(github: GitHub, run: str, _query: Values, _body: Values) -> Answer:
    return 200, github.approvals.get(int(run), [])


def _read_environment(github: GitHub, name: str, _query: Values, _body: Values) -> Answer:
    reviewers = [{"type": "User", "reviewer": {"login": login}} for login in github.reviewers]
    rules = [{"id": 1, "type": "required_reviewers", "reviewers": reviewers}] if reviewers else []
    return 200, {"name": name, "protection_rules": [{"id": 2, "type": "branch_policy"}, *rules]}


def _list_runs(github: GitHub, _number: str, query: Values, _body: Values) -> Answer:
    assert query["status"] == "waiting"
    runs = [
        {"id": run, "status": "waiting", "html_url": f"https://github.example/runs/{run}"}
        for run in github.waiting
    ]
    return 200, {"total_count": len(runs), "workflow_runs": runs}


def _list_jobs(github: GitHub, run: str, _query: Values, _body: Values) -> Answer:
    jobs = [
        {"name": "Plan", "status": "completed"},
        {"name": github.waiting[int(run)], "status": "waiting"},
    ]
    return 200, {"total_count": len(jobs), "jobs": jobs}


def _read_permission(github: GitHub, login: str, _query: Values, _body: Values) -> Answer:
    return 200, {"permission": "read" if login in github.readers else "write", "user": {"login": login}}


_ROUTES: list[tuple[str, str, Callable[[GitHub, str, Values, Values], Answer]]] = [
    ("GET", r"issues/(\d+)/comments", _list_comments),
    ("POST", r"issues/(\d+)/comments", _add_comment),
    ("PATCH", r"issues/comments/(\d+)", _edit_comment),
    ("DELETE", r"issues/comments/(\d+)", _delete_comment),
    ("GET", r"issues", _list_issues),
    ("POST", r"issues", _add_issue),
    ("PATCH", r"issues/(\d+)", _edit_issue),
    ("GET", r"pulls/(\d+)", _read_pull),
    ("GET", r"pulls/(\d+)/files", _list_files),
    ("GET", r"pulls/(\d+)/reviews", _list_reviews),
    ("GET", r"commits", _list_commits),
    ("GET", r"commits/([0-9a-f]+)/pulls", _list_pulls),
    ("GET", r"actions/runs/(\d+)/approvals", _list_approvals),
    ("GET", r"actions/runs", _list_runs),
    ("GET", r"actions/runs/(\d+)/jobs", _list_jobs),
    ("GET", r"environments/([\w-]+)", _read_environment),
    ("GET", r"collaborators/([\w-]+)/permission", _read_permission),
]
