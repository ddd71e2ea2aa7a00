"""The service as one ASGI application: the API of the reference, and what the sandbox has beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from runner.sandbox.inbox.routes import inbox_routes
from runner.sandbox.web.answers import ERROR_HANDLERS
from runner.sandbox.web.api import Api
from runner.sandbox.web.control import Control
from runner.sandbox.web.description import make_description_route
from runner.sandbox.web.health import health_routes
from runner.sandbox.web.hosts import guard_hosts
from runner.sandbox.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp

    from runner.sandbox.changes import Changes
    from runner.sandbox.clock import Clock
    from runner.sandbox.rehearsal.faults import Faults
    from runner.sandbox.service import Service
    from runner.sandbox.web.credentials import Account


def make_app(
    service: Service,
    *,
    account: Account,
    clock: Clock,
    faults: Faults,
    changes: Changes,
    listens_on: str,
    allowed_hosts: Collection[str] = (),
) -> ASGIApp:
    """Put the service together.

    Args:
        service: the domain on its store.
        account: whose credentials requests must carry.
        clock: the service's time.
        faults: says which requests go wrong, and how long all of them wait.
        changes: is told of each committed write.
        listens_on: the host that the service was told to listen on.
        allowed_hosts: names by which it may be called beside that and this machine's own.
    """
    writer = Writer(service, clock.now, changes)
    api = Api(service, writer=writer, clock=clock.now, faults=faults)
    control = Control(service, writer=writer, clock=clock, changes=changes, faults=faults)
    app = Starlette(
        # The API first: routes are tried in their order.
        routes=[
            *api.routes(account),
            *control.routes(account),
            *health_routes(service.store),
            make_description_route(),
            *inbox_routes(service, writer=writer, changes=changes, clock=clock, account=account),
        ],
        exception_handlers=ERROR_HANDLERS,
    )
    app.router.redirect_slashes = False
    return guard_hosts(app, listens_on, allowed_hosts)
