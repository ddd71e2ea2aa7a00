"""Access of a task to ledger, service and keys by its worker's environment."""

from __future__ import annotations

import secrets
import socket
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from runner.cluster.address import LEDGER
from runner.cluster.shared_limit import SharedLimit
from runner.cluster.worker_environment import OWN, Variables, WorkerEnvironment
from runner.errors import ConfigurationError, MissingKeyError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.locks.campaign_lock import read_clock
from runner.ledger.locks.request_shares import RequestBudget
from runner.ledger.record.deliveries import read_campaign_key
from runner.ledger.record.renaming import find_first_name
from runner.ledger.target_key import KeySource
from runner.reconcile.context import ReconcileContext
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.target import STATE_KEY, Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from runner.reconcile.context import ReadingOrder
    from runner.service.target import Target


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """A target without credentials and key, with the names of their variables.

    Attributes:
        target: the rest.
        username: the variable with the user's name.
        api_key: the variable with the API key.
        state_key: the variable with the key of the fingerprints.
        environment: the worker's variables to read them from.
    """

    target: Target
    username: str = "RUNNER_USERNAME"
    api_key: str = "RUNNER_API_KEY"
    state_key: str = STATE_KEY
    environment: WorkerEnvironment = OWN

    @classmethod
    def strip(
        cls,
        target: Target,
        variables: tuple[str, str, str],
        environment: WorkerEnvironment = OWN,
    ) -> WorkerTarget:
        """Return a reached target without secrets; `variables` is from `list_variables`."""
        return cls(replace(target, credentials=None, state_key=None), *variables, environment)

    def read_state_key(self, environment: Variables) -> str | None:
        """Return the key of the fingerprints, if the worker has one."""
        return environment.get(self.state_key) or None


@contextmanager
def open_worker_ledger(environment: Variables, variable: str = LEDGER) -> Iterator[Ledger]:
    """Open the ledger that a worker's environment names in a variable.

    Raises:
        ConfigurationError: it names none.
        LedgerError: it cannot be used.
    """
    with Ledger(_require(environment, variable)) as ledger:
        yield ledger


@contextmanager
def open_worker_service(
    worker_target: WorkerTarget,
    concurrency: int,
    environment: Variables,
    hold: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[ServiceClient]:
    """Open the service with a worker's credentials; each request is made within `hold()`.

    Raises:
        ConfigurationError: the environment has none.
    """
    credentials = Credentials(
        _require(environment, worker_target.username), _require(environment, worker_target.api_key)
    )
    target = replace(worker_target.target, credentials=credentials, concurrency=concurrency)
    bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or True
    connection = Connection(target, verify=bundle, hold=hold)
    try:
        yield ServiceClient(target, connection)
    finally:
        connection.close()


def open_campaign_key(
    ledger: Ledger, campaign_id: int, worker_target: WorkerTarget, environment: Variables
) -> FingerprintKey:
    """Return the key of a campaign in the ledger.

    Raises:
        MissingKeyError: the worker lacks it; with another key everyone would look new.
    """
    with ledger.reading() as connection:
        salt, name = read_campaign_key(connection, campaign_id)
        first_name = find_first_name(connection, campaign_id)
    source = salt or worker_target.read_state_key(environment)
    key = None
    if source:
        key = FingerprintKey.from_salt(source) if salt else FingerprintKey.from_secret(source)
    if key is None or key.name != name:
        where, variable = socket.gethostname(), worker_target.state_key
        what = f"another {variable} than the record was written with" if source else f"no {variable}"
        raise MissingKeyError(
            f"a worker on {where} has {what}{_say_where(environment)}",
            hint="start all workers with the same one as the client; nobody was texted with another",
        )
    return replace(key, first_name=first_name)


def _require(environment: Variables, variable: str) -> str:
    value = environment.get(variable)
    if not value:
        raise ConfigurationError(
            f"a worker on {socket.gethostname()} has no {variable}"
            f"{_say_where(environment) or ' in its environment'}",
            hint="start all workers with the variables that the client has",
        )
    return value


def _say_where(environment: Variables) -> str:
    return environment.say_where() if isinstance(environment, WorkerEnvironment) else ""


_MOST_THREADS = 8
_LAPSE_S = 10.0
"""Seconds for which a reading task may stand still: there is less to lose than in sending."""


@dataclass(frozen=True, slots=True)
class WorkerContexts:
    """An opener of a campaign's context with a worker's environment.

    Tasks share the target's requests in flight. `reading` is a name that no other reading has.
    """

    order: ReadingOrder
    target: WorkerTarget
    reading: str = field(default_factory=partial(secrets.token_hex, 8))

    @property
    def threads(self) -> int:
        """The threads of one task: it may have all the requests for itself."""
        return min(_MOST_THREADS, self.concurrency)

    @property
    def concurrency(self) -> int:
        """Requests in flight of all tasks together."""
        return self.target.target.concurrency

    @contextmanager
    def open(self) -> Iterator[ReconcileContext]:
        """Open ledger and service, and find the keys.

        Raises:
            ConfigurationError: the environment names no ledger, or has no credentials.
            LedgerError: the ledger cannot be used.
            MissingKeyError: the worker lacks the key of the campaign.
        """
        environment, target = self.target.environment, self.target
        budget = RequestBudget(self.reading, self.concurrency, _LAPSE_S, find_patience(target.target))
        with (
            open_worker_ledger(environment) as ledger,
            SharedLimit(ledger, budget, read_clock) as limit,
            open_worker_service(target, self.threads, environment, limit.hold) as client,
        ):
            key = open_campaign_key(ledger, self.order.campaign_id, target, environment)
            state_key = target.read_state_key(environment)
            people = KeySource(target.target.name, state_key, secrets.token_hex(16))
            yield ReconcileContext(self.order, ledger, client, key, people)


def find_patience(target: Target) -> float:
    """Return the longest that one request takes before nobody waits for its answer, in seconds."""
    return target.connect_timeout + target.read_timeout
