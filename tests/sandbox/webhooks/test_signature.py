"""Signatures of webhooks, as receivers verify them."""

from __future__ import annotations

import base64
import hmac
import subprocess
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.handle import MessagingService
from runner.sandbox.webhooks.sender import sign
from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

    import requests

    from runner.sandbox.model import ServiceAddress

PHONE = "+14155550101"


def test_signature_is_that_of_the_specification() -> None:
    """The test vector that the Standard Webhooks libraries share gives their signature."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    at = datetime.fromtimestamp(1614265330, UTC)
    assert sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b'{"test": 2432232314}') == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


class _Receiver(PatientServer):
    def __init__(self) -> None:
        self.received: list[tuple[Message, bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.headers, body))
        # The first try fails, so that there is a second one.
        self.send_response(500 if len(self.server.received) == 1 else 204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.mark.usefixtures("patient_webhooks")
def test_every_try_is_signed_with_the_api_key(
    address: ServiceAddress, call: Callable[..., requests.Response]
) -> None:
    """Each try has the result's guid, its own time by this machine, and a signature that openssl makes, too."""
    service = MessagingService(address.url, address.username, address.api_key)
    service.advance("2d")
    with _Receiver() as receiver:
        thread = Thread(target=receiver.serve_forever, args=(0.02,))
        thread.start()
        hook = f"http://127.0.0.1:{receiver.server_port}/hook"
        call("POST", "/api/send", {"phone": [PHONE], "questions": [{"text": "Why?", "webhook": hook}]})
        guid = service.reply(PHONE, "calm ☕")["result_guid"]
        while not service.webhooks("DELIVERED"):
            time.sleep(0.02)
        receiver.shutdown()
        thread.join()
    first, second = receiver.received
    assert first[0]["webhook-id"] == second[0]["webhook-id"] == guid
    for headers, body in receiver.received:
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 3600
        signed = f"{guid}.{headers['webhook-timestamp']}.".encode() + body
        made = subprocess.run(
            ["openssl", "dgst", "-sha256", "-hmac", address.api_key, "-binary"],
            input=signed,
            capture_output=True,
            check=True,
        ).stdout
        assert hmac.compare_digest(headers["webhook-signature"], f"v1,{base64.b64encode(made).decode()}")
