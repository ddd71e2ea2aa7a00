"""What a task opens with what its worker's own environment has: ledger, service, the campaign's key."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.cluster.address import LEDGER
from runner.errors import ConfigurationError, MissingKeyError
from runner.ledger.database import Ledger
from runner.ledger.deliveries import read_campaign_key
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.renaming import find_first_name
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.state_key import STATE_KEY
from runner.service.target import Credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.service.target import Target


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """A target as it travels to workers: without credentials and key, with the names of their variables.

    Attributes:
        target: the rest.
        username: the variable with the user's name.
        api_key: the variable with the API key.
        state_key: the variable with the key of the fingerprints.
    """

    target: Target
    username: str = "RUNNER_USERNAME"
    api_key: str = "RUNNER_API_KEY"
    state_key: str = STATE_KEY

    @classmethod
    def strip(cls, target: Target, variables: tuple[str, str, str]) -> WorkerTarget:
        """Return a target without what is secret.

        Args:
            target: reached, with its base URL.
            variables: as `list_variables` gives them.
        """
        return cls(replace(target, credentials=None, state_key=None), *variables)

    def read_state_key(self, environment: Mapping[str, str]) -> str | None:
        """Return the key of the fingerprints, if the worker has one."""
        return environment.get(self.state_key) or None


@contextmanager
def open_worker_ledger(environment: Mapping[str, str]) -> Iterator[Ledger]:
    """Open the ledger that a worker's environment names.

    Raises:
        ConfigurationError: it names none.
        LedgerError: it cannot be used.
    """
    with Ledger(_require(environment, LEDGER)) as ledger:
        yield ledger


@contextmanager
def open_worker_service(
    worker_target: WorkerTarget, concurrency: int, environment: Mapping[str, str]
) -> Iterator[ServiceClient]:
    """Open the service with the credentials that a worker's environment has.

    Raises:
        ConfigurationError: it has none.
    """
    credentials = Credentials(
        _require(environment, worker_target.username), _require(environment, worker_target.api_key)
    )
    target = replace(worker_target.target, credentials=credentials, concurrency=concurrency)
    bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or True
    connection = Connection(target, verify=bundle)
    try:
        yield ServiceClient(target, connection)
    finally:
        connection.close()


def open_campaign_key(
    ledger: Ledger, campaign_id: int, worker_target: WorkerTarget, environment: Mapping[str, str]
) -> FingerprintKey:
    """Return the key of a campaign that the ledger has entered.

    Raises:
        MissingKeyError: the worker has not got it: with another one everyone would look new.
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
            f"a worker on {where} has {what}",
            hint="start all workers with the same one as the client; nobody was texted with another",
        )
    return replace(key, first_name=first_name)


def _require(environment: Mapping[str, str], variable: str) -> str:
    value = environment.get(variable)
    if not value:
        raise ConfigurationError(
            f"a worker on {socket.gethostname()} has no {variable} in its environment",
            hint="start all workers with the variables that the client has",
        )
    return value
