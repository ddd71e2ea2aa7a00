"""When a request came, whoever has stood still since."""

from __future__ import annotations

import socket
import struct

_LAST_DATA = 52
"""Where the milliseconds since the last bytes came are in Linux's `struct tcp_info`."""


def read_age_s(connection: socket.socket) -> float:
    """Return the seconds since the last bytes came over a connection, as the system has it; 0 if that is not TCP."""
    if connection.family != socket.AF_INET:
        return 0.0
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA + 4)
    (age_ms,) = struct.unpack_from("=I", told, _LAST_DATA)
    return float(age_ms / 1000)
