"""The one account of the service, and who may speak for it (section 5)."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from runner.sandbox.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Account:
    """The service's one account.

    Attributes:
        username: its name.
        api_key: its secret, kept out of the repr.
    """

    username: str
    api_key: str = field(repr=False)

    def check(self, query: Mapping[str, str]) -> None:
        """Compare the query parameters `username` and `api_key` of a request with the account.

        Raises:
            RefusalError: 401, without a word on which of them is wrong.
        """
        # All are compared, and in constant time, so that the time taken tells nothing.
        is_user = _is_same(query.get("username", ""), self.username)
        is_key = _is_same(query.get("api_key", ""), self.api_key)
        if not (is_user and is_key):
            raise RefusalError(401, "invalid_credentials", "The username or the api_key is missing or wrong.")

    def guard(self, endpoint: Endpoint) -> Endpoint:
        """Let only requests with the right credentials through to an endpoint."""

        async def check_and_call(request: Request) -> Response:
            self.check(request.query_params)
            return await endpoint(request)

        return check_and_call


def _is_same(given: str, expected: str) -> bool:
    # `replace`: escapes of a query may stand for what is no text, and that is no credential.
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))
