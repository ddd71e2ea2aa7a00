"""Any client that speaks the API works unchanged: requests byte for byte as public clients write them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import requests

from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress

Call = Callable[..., requests.Response]
Reply = Callable[[str, str], None]

ADA = "+14155550101"


def speak(address: ServiceAddress, *parts: bytes) -> tuple[int, bytes]:
    """Return status and body of the last answer to bytes that are written in parts, to the end of the connection."""
    url = urlsplit(address.url)
    received = b""
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        while data := connection.recv(65536):
            received += data
    head, _, body = received.rpartition(b"\r\n\r\n")
    return int(head.rpartition(b"HTTP/1.1 ")[2][:3]), body


def write_send(address: ServiceAddress, body: bytes, *headers: str, path: str = "/api/send") -> bytes:
    query = urlencode({"username": address.username, "api_key": address.api_key})
    lines = [f"POST {path}?{query} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def list_phones(call: Call) -> list[str]:
    stats = call("GET", "/api/stats/").json()["objects"]
    return [session["to"] for stat in stats for session in stat["sessions"]]


def test_numbers_are_taken_as_clients_write_them(call: Call) -> None:
    """A number with or without its plus sign, in an array or alone, is the same participant."""
    written: list[object] = [
        ["+14155550101"], ["14155550101"], "+14155550101", "14155550101", "+1 (415) 555-0101", "1.415.555.0101",
        ["+1415 5550101"],
    ]  # fmt: skip
    for phone in written:
        assert call("POST", "/api/send", {"phone": phone, "text": "Hello"}).status_code == 200, phone
    assert list_phones(call) == [ADA] * len(written)


def test_numbers_with_and_without_plus_are_one_session(call: Call) -> None:
    """The same number twice in one send, written in two ways, is texted once."""
    call("POST", "/api/send", {"phone": ["14155550101", ADA, "+1-415-555-0101"], "text": "Hello"})
    assert list_phones(call) == [ADA]


def test_body_comes_without_a_content_type(address: ServiceAddress, call: Call) -> None:
    """A body without Content-Type is JSON, as one public client sends it."""
    body = json.dumps({"phone": [ADA], "text": "Grüße ☕"}).encode()
    assert speak(address, write_send(address, body, f"Content-Length: {len(body)}"))[0] == 200
    assert call("GET", "/api/stats/").json()["objects"][0]["project_definition"] == {"text": "Grüße ☕"}


def test_body_is_json_in_any_of_its_encodings(address: ServiceAddress, call: Call) -> None:
    """A body in UTF-8 with a byte order mark, UTF-16 or UTF-32, is understood."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        body = json.dumps({"phone": ADA, "text": "Grüße"}, ensure_ascii=False).encode(encoding)
        assert speak(address, write_send(address, body, f"Content-Length: {len(body)}"))[0] == 200
    assert {each["project_definition"]["text"] for each in call("GET", "/api/stats/").json()["objects"]} == {
        "Grüße"
    }


def test_credentials_hold_any_characters(db: Path) -> None:
    """Credentials with every character that a query must escape are read as they were given."""
    username, api_key = "ada@example.com", "a&b=c/ü+% ?#"
    with running_service(db, username=username, api_key=api_key) as address:

        def ask(query: str) -> int:
            return requests.get(f"{address.url}/api/stats/?{query}", timeout=60).status_code

        assert ask(urlencode({"username": username, "api_key": api_key})) == 200
        assert ask(f"api_key={quote(api_key, safe='')}&username={quote(username)}") == 200
        assert ask(f"username={username}&api_key=a&b=c/ü+%25 ?#") == 401
        assert ask(urlencode([("username", username), ("api_key", "wrong"), ("api_key", api_key)])) == 200
        assert ask(urlencode([("username", username), ("api_key", api_key), ("api_key", "wrong")])) == 401


def test_no_header_is_a_credential(address: ServiceAddress) -> None:
    """There is no header-based scheme: without the query a request is refused."""
    for scheme in (
        "Basic c2FuZGJveDprZXk=",
        f"ApiKey sandbox:{address.api_key}",
        f"Bearer {address.api_key}",
    ):
        answer = requests.get(f"{address.url}/api/stats/", headers={"Authorization": scheme}, timeout=60)
        assert answer.status_code == 401


def test_limit_and_offset_are_what_meta_says(call: Call) -> None:
    """Whatever limit and offset are asked for in a way that means something, meta says what was applied."""
    for _ in range(3):
        call("POST", "/api/send", {"phone": [ADA], "text": "Hello"})
    cases: list[tuple[dict[str, Any], int, int, int]] = [
        ({}, 20, 0, 3),
        ({"limit": "2"}, 2, 0, 2),
        ({"limit": "2", "offset": "1"}, 2, 1, 2),
        ({"limit": "", "offset": ""}, 20, 0, 3),
        ({"limit": ["5", "1"]}, 1, 0, 1),
        ({"limit": "999999999999999"}, 1000, 0, 3),
        ({"offset": "3"}, 20, 3, 0),
        ({"offset": "999999999999999"}, 20, 999999999999999, 0),
        ({"limit": "1", "page": "7", "order_by": "-created"}, 1, 0, 1),
    ]
    for query, limit, offset, found in cases:
        page = call("GET", "/api/stats/", **query).json()
        meta = page["meta"]
        assert (meta["limit"], meta["offset"], meta["total_count"]) == (limit, offset, 3), query
        assert len(page["objects"]) == found
        assert (meta["next"] == "") == (offset + limit >= 3)
        assert (meta["previous"] is None) == (offset == 0)


def test_csv_is_exact(call: Call, reply: Reply) -> None:
    """CSV is RFC 4180: UTF-8 without a mark, CRLF, quotes only where they are needed and doubled inside."""
    body = {"phone": [ADA], "tag": 'a,"b"', "questions": [{"text": "Why,\nthough?", "tag": "ü"}]}
    call("POST", "/api/send", body)
    reply(ADA, " line\r\n=1+1 ")
    (result,) = call("GET", "/api/results").json()["objects"]
    written = {
        **result,
        "project_tag": '"a,""b"""',
        "question_text": '"Why,\nthough?"',
        "result_answer": '" line\r\n=1+1 "',
        "result_response": '" line\r\n=1+1 "',
    }
    answer = call("GET", "/api/results", format="csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    lines = [",".join(result), ",".join(written.values()), ""]
    assert answer.content == "\r\n".join(lines).encode()


def test_other_paths_are_not_found(call: Call) -> None:
    """What is no path of the reference is not found, and redirected nowhere."""
    for path in ["/api//send", "/API/send", "/api/send//", "/api/results/a/b", "/api", "/api/"]:
        for method in ("GET", "POST"):
            assert call(method, path).status_code == 404, path
