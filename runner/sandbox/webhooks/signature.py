"""Signatures of webhooks, as version 1 of the Standard Webhooks specification (standardwebhooks.com)."""

from __future__ import annotations

import base64
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def sign(key: bytes, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers that prove a body's origin and age.

    Args:
        key: shared with the receiver.
        message_id: the same in every try, so that receivers recognise repetitions; without a full stop.
        at: the moment of this try.
        body: as it is sent.
    """
    timestamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digest = hmac.digest(key, signed, "sha256")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
