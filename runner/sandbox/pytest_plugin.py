"""A pytest plugin with the fixture `messaging_service`, for tests of clients of the service.

Pytest finds it by the entry point `pytest11`. The web server is imported when the fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.sandbox.handle import MessagingService


@pytest.fixture(scope="session")
def _messaging_service_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    """Run one service for the whole test session."""
    # Late: most tests of most projects never use it.
    from runner.sandbox.handle import MessagingService  # noqa: PLC0415  see above
    from runner.sandbox.web.server import running_service  # noqa: PLC0415  see above

    db = tmp_path_factory.mktemp("messaging-service") / "service.sqlite"
    with running_service(db) as address:
        yield MessagingService(address.url, address.username, address.api_key)


@pytest.fixture
def messaging_service(_messaging_service_process: MessagingService) -> MessagingService:
    """Give an empty Messaging Survey Service that runs on this machine and texts nobody.

    It has `url`, `username` and `api_key` for the program under test, and for the test itself `messages`,
    `reply`, `requests`, `expect_requests`, `webhooks`, `advance`, `simulate`, `wait`, `launches`, `results`,
    `state`, `set_faults` and `reset`.
    """
    _messaging_service_process.reset()
    return _messaging_service_process
