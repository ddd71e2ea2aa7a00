"""Credentials and phone numbers stay out of whatever is said about a send (contract, "Where it talks to")."""

from __future__ import annotations

import html
import json
import logging
import traceback
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest

from runner.errors import ServiceError
from runner.service.client import ServiceClient
from runner.service.connection import Connection, NetworkError
from runner.service.target import Credentials, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request

    Connect = Callable[..., ServiceClient]

USERNAME = "ada@example.com"
API_KEY = "a&b=c/ü+%"
PHONE = "+14155550101"
DEFINITION = '{"tag": "pulse", "text": "Hello, you"}'
WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "capitals": str.upper,
    "query": quote_plus,
    "query, small letters": lambda text: quote_plus(text).lower(),
    "path": quote,
    "everything quoted": lambda text: quote(text, safe=""),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON as PHP writes it": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "HTML": html.escape,
}


def assert_silent(text: str) -> None:
    """Hold a text to having no credential and no phone number in it, in any way of writing them."""
    folded = text.casefold()
    for secret in (USERNAME, API_KEY):
        for write in WRITTEN.values():
            assert write(secret).casefold() not in folded
    assert PHONE.removeprefix("+") not in text


def test_credentials_go_out_in_the_query(faulty: FaultyService, connect: Connect) -> None:
    """The service gets them as it wants them, whatever characters they have, and nowhere else."""
    connect(faulty.url).send(DEFINITION, [PHONE])
    request = faulty.requests[0]
    assert request.query == {"username": USERNAME, "api_key": API_KEY}
    assert_silent(json.dumps(request.headers) + request.body.decode().replace(PHONE, ""))


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503])
@pytest.mark.parametrize("written", WRITTEN)
def test_an_answer_that_repeats_them_is_not_repeated(
    faulty: FaultyService, connect: Connect, written: str, status: int
) -> None:
    """What an error's body says of the credentials, in whatever form, is left out of the detail."""
    key, name = (WRITTEN[written](secret) for secret in (API_KEY, USERNAME))
    body = f'{{"error": "no: {key} of {name} to /api/send?api_key={key}&username={name}"}}'
    faulty.behave({"status": status, "body": body.encode()})
    reply = connect(faulty.url).send(DEFINITION, [PHONE])
    assert (
        reply.detail == f'HTTP {status}: {{"error": "no: ••• of ••• to /api/send?api_key=•••&username=•••"}}'
    )
    assert_silent(repr(reply))


@pytest.mark.parametrize(
    "written",
    ["+14155550101", "14155550101", "%2B14155550101", "+1 415-555-0101", "(415) 555-0101", "415.555.0101"],
)
def test_an_answer_that_repeats_a_phone_is_not_repeated(
    faulty: FaultyService, connect: Connect, written: str
) -> None:
    """A phone number in an error's body is left out, with and without punctuation."""
    faulty.behave({"status": 400, "body": f"the phone {written} is not mobile".encode()})
    detail = connect(faulty.url).send(DEFINITION, [PHONE]).detail
    assert detail is not None
    assert detail.startswith("HTTP 400: the phone ")
    assert detail.endswith("••• is not mobile")
    assert "0101" not in detail


def test_a_long_answer_is_cut_after_its_secrets_are_out(faulty: FaultyService, connect: Connect) -> None:
    """A detail has 200 characters at most, and the cut leaves no half of a secret."""
    faulty.behave({"status": 500, "body": ("x" * 195 + API_KEY + "y" * 300).encode()})
    detail = connect(faulty.url).send(DEFINITION, [PHONE]).detail
    assert detail == f"HTTP 500: {'x' * 195}•••yy…"


@pytest.mark.parametrize("end", ["drop", "reset", "half", "noise"])
def test_an_exception_says_nothing(faulty: FaultyService, connect: Connect, end: str) -> None:
    """No form of an error, traceback and all, has the address, which has the credentials."""
    behaviour: Behaviour = {"end": end, "accepts": False}  # type: ignore[typeddict-item]
    faulty.behave(behaviour)
    faulty.lists_results = False
    client = connect(faulty.url)
    with pytest.raises(ServiceError) as caught:
        client.read_results({}, 0)
    assert_silent("".join(traceback.format_exception(caught.value)))
    assert_silent(f"{caught.value} {caught.value!r} {caught.value.hint}")


def test_a_refused_connection_says_nothing(closed_port: int) -> None:
    """The connection's own error has neither the address nor a cause that has it."""
    target = Target("live", f"http://127.0.0.1:{closed_port}", Credentials(USERNAME, API_KEY))
    connection = Connection(target)
    with pytest.raises(NetworkError) as caught:
        connection.post("/api/send", b"{}")
    assert_silent("".join(traceback.format_exception(caught.value)))
    assert str(caught.value) == caught.value.reason == "it cannot be reached"
    assert_silent(f"{target!r} {target.credentials!r} {connection!r} {ServiceClient(target, connection)!r}")


def test_logging_at_any_level_says_nothing(
    faulty: FaultyService, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The HTTP library logs addresses; none of that comes through, even where everything is logged."""
    caplog.set_level(logging.DEBUG)
    client = connect(faulty.url, read_timeout=0.3)
    # A header without a colon has the library warn of the address that it came from.
    faulty.behave({"headers": {"X-Broken\r\nno colon here\r\nX": "1"}})
    client.send(DEFINITION, [PHONE])
    faulty.behave({"end": "drop"})
    client.send(DEFINITION, [PHONE])
    assert_silent(caplog.text)


def test_a_run_leaves_none_behind(repository: Repository, faulty: FaultyService) -> None:
    """After a run with every kind of outcome, no output and no file but the campaign's has any of it."""
    phones = repository.write_campaign(8)
    echo = f"{API_KEY} {quote_plus(API_KEY)} {USERNAME} {PHONE} ".encode()

    def decide(number: int, _request: Request) -> Behaviour:
        answers: dict[int, Behaviour] = {
            2: {"accepts": False, "status": 400, "body": echo},
            3: {"status": 500, "body": echo},
            4: {"end": "drop"},
            5: {"status": 201, "body": echo},
            8: {"accepts": False, "status": 403, "body": echo},
        }
        return answers.get(number, {})

    faulty.decide = decide
    texts = [repository.apply("-v", "--concurrency", "1", "--format", "json")]
    assert texts[0].code == 1
    texts.append(repository.apply("-v"))
    files = [file for file in repository.folder.rglob("*") if file.is_file() and file != repository.campaign]
    assert repository.lockfile in files
    assert repository.ledger in files
    written = [file.read_bytes() for file in files]
    written += [(text.out + text.err).encode() for text in texts]
    for secret in (API_KEY, quote_plus(API_KEY), USERNAME, *(phone[1:] for phone in phones)):
        assert not [content for content in written if secret.encode() in content]
    for text in ("Hello, how are you?",):
        assert text.encode() not in repository.lockfile.read_bytes()
