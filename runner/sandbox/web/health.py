"""Whether the service lives and can serve, for whatever starts it and waits for it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.sandbox.store import find_database

if TYPE_CHECKING:
    from starlette.requests import Request

    from runner.sandbox.store import Store


def health_routes(store: Store) -> list[Route]:
    """Give the routes of `/livez` and `/readyz`; they ask for no credentials and tell nothing else.

    Args:
        store: its file must be there and readable for the service to be ready.
    """

    async def live(_request: Request) -> Response:
        return JSONResponse({"status": "live"})

    async def ready(_request: Request) -> Response:
        try:
            store.connection.execute("SELECT 1 FROM totals").fetchone()
            # One that was deleted could still be read, and written in vain.
            is_ready = find_database(store).is_file()
        except sqlite3.Error:
            is_ready = False
        return JSONResponse(
            {"status": "ready"} if is_ready else {"status": "not ready"}, 200 if is_ready else 503
        )

    return [Route("/livez", live, methods=["GET"]), Route("/readyz", ready, methods=["GET"])]
