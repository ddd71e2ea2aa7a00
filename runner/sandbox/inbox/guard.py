"""Keeps other web pages out: which requests and forms are our own."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from runner.sandbox.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

FORM_BYTES_MAX = 64 * 1024


def is_foreign(request: Request) -> bool:
    """Tell whether another web page made the browser send this request.

    Browsers say so themselves in Sec-Fetch-Site (W3C Fetch Metadata), and older ones in Origin. `null` says
    nothing there: under `Referrer-Policy: no-referrer` our own forms send it too (Fetch standard, "append a
    request `Origin` header"), and the token decides.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    origin = request.headers.get("origin", "null")
    return origin not in {"null", f"{request.scope['scheme']}://{request.headers.get('host')}"}


async def read_form(request: Request, token: str) -> Mapping[str, str]:
    """Read what one of our own forms sent; where a field comes several times, the last value counts.

    Raises:
        RefusalError: 403, another page sent it or the token is not ours; 413, it is too long.
    """
    if is_foreign(request):
        raise RefusalError(403, "cross_site", "Another web page sent this form; nothing was done.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            raise RefusalError(413, "body_too_large", "That is too long for a text; nothing was done.")
    fields = parse_qs(bytes(body).decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    form = {name: values[-1] for name, values in fields.items()}
    if not hmac.compare_digest(form.get("token", "").encode(), token.encode()):
        raise RefusalError(403, "invalid_token", "This form is out of date; reload the page and try again.")
    return form
