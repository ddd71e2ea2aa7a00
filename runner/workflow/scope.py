"""The scope of a use case: campaigns, target, ledger and verbosity."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from runner.git.lease import LEASE_S
from runner.settings import read_settings
from runner.source.encrypted import VARIABLE
from runner.source.storage import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Shared = TypeVar("_Shared")


@dataclass(frozen=True, slots=True)
class Scope:
    """The options that commands share, with one meaning everywhere.

    Attributes:
        paths: campaign files and folders of them; empty for `campaigns/`.
        allowed: further folders, and URLs, that campaigns may read from.
        target: the target's name, if given.
        ledger: the ledger's URL, if given.
        state_remote: the git remote of a shared state, if given.
        record_remote: the git remote with others' records, if given.
        cluster: the address of a cluster, if given.
        insecure_cluster: allow a scheduler on another machine without TLS.
        scratch: the cluster's folder for intermediate files, if given.
        state_lease_s: this run's hold on the state remote unless renewed, in seconds.
        verbose: print more on standard error.
        environ: all environment variables to use, instead of the process's.
        shared: what several use cases of one process have in common; None for a use case alone.
    """

    paths: tuple[Path, ...] = ()
    allowed: tuple[Path | str, ...] = ()
    target: str | None = None
    ledger: str | None = None
    state_remote: str | None = None
    record_remote: str | None = None
    cluster: str | None = None
    insecure_cluster: bool = False
    scratch: str | None = None
    state_lease_s: float = LEASE_S
    verbose: bool = False
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    shared: dict[object, Any] | None = field(default=None, repr=False)

    @property
    def identity(self) -> str:
        """The key of encrypted audiences; empty if there is none."""
        return self.environ.get(VARIABLE, "").strip()

    def share(self, key: object, make: Callable[[], _Shared]) -> _Shared:
        """Return what `make` makes; where use cases share, it is made once for each key."""
        if self.shared is None:
            return make()
        if key not in self.shared:
            self.shared[key] = make()
        found: _Shared = self.shared[key]
        return found

    @classmethod
    def read(cls, given: Mapping[str, Any], environ: Mapping[str, str]) -> Scope:
        """Return a scope of given values, by attribute, and of the environment for settings not given."""
        values = {**given, **read_settings(given, environ)}
        # A URL is taken as written.
        values["allowed"] = tuple(
            place if isinstance(place, str) and is_url(place) else Path(place) for place in values["allowed"]
        )
        return cls(**values, environ=environ)
