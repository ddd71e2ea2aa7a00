"""An HTTP server for tests, on a machine that has other things to do."""

from __future__ import annotations

import socket
import sys
from http.server import ThreadingHTTPServer
from typing import Any


class PatientServer(ThreadingHTTPServer):
    """A server that keeps connections waiting, and says nothing of clients that vanish.

    The library keeps five: the kernel drops the sixth, whose client tries again after a second. A
    burst of clients, or a busy machine, would look like a service that cannot be reached.
    """

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def get_request(self) -> tuple[socket.socket, Any]:
        """Return a connection that sends at once: a body waits 40 ms for the acknowledgement of its headers."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that die: they belong to the tests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
