"""The cluster as a way to have functions called elsewhere: the one door to `distributed`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from distributed import Client, LocalCluster, as_completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_LOCAL = "local:"
_Result = TypeVar("_Result")


class Cluster:
    """A cluster that is connected. `open_cluster` makes it.

    Args:
        client: connected to the scheduler.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def count_slots(self) -> int:
        """How many tasks can run at once, as of now: at least 1."""
        threads: int = sum(self._client.nthreads().values())
        return max(1, threads)

    def run(
        self, task: Callable[..., _Result], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Have a function called once with each of several arguments, and yield what comes back as it comes.

        A call whose worker is lost is made again, so it may happen twice, or twice at once.

        Args:
            task: a function of a module that the workers have, too.
            arguments: what it is called with; goes through the scheduler, so nothing secret.

        Yields:
            The place of the arguments, and what the call returned.
        """
        futures = {
            self._client.submit(task, *each, pure=False): place for place, each in enumerate(arguments)
        }
        for future in as_completed(list(futures)):
            yield futures.pop(future), future.result()
            future.release()


@contextmanager
def open_cluster(address: Any, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """Connect to a cluster while the block lasts; `local:N` starts one of N processes on this machine.

    Args:
        address: a scheduler's address, or `local:N`.
        environment: variables that workers started here have beside those of this process.
    """
    address = address.text
    if not address.startswith(_LOCAL):
        with Client(address) as client:
            yield Cluster(client)
        return
    workers = int(address.removeprefix(_LOCAL))
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, env=dict(environment)
        ) as local,
        Client(local) as client,
    ):
        yield Cluster(client)
