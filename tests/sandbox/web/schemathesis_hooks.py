"""What Schemathesis is told beside the description: CSV is text, and held to its schema as text."""

from __future__ import annotations

import schemathesis
from schemathesis import DeserializationContext, Response


@schemathesis.deserializer("text/csv")
def read_csv(_context: DeserializationContext, response: Response) -> str:
    """Return the text of a list as CSV."""
    return response.content.decode("utf-8")
