"""Schedulers with TLS: the files for it, and each way in which it can fail, which is said and ends the command."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import trustme

from runner.cluster.address import Address
from runner.cluster.dask_engine import open_cluster
from runner.errors import RunnerError
from tests.cluster import tasks
from tests.cluster.schedulers import DaskScheduler, TlsFiles, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
_CA = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE"
_CERT = "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"
_KEY = "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY"


@dataclass(frozen=True, slots=True)
class Papers:
    """Certificates in a folder, from a cluster's CA and from a stranger's."""

    folder: Path

    def issue(self, authority: trustme.CA, name: str, *, until: datetime | None = None) -> TlsFiles:
        """Issue a certificate; return its files with the cluster's CA."""
        begin = None if until is None else _LONG_AGO
        issued = authority.issue_cert("127.0.0.1", not_before=begin, not_after=until)
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        key.chmod(0o600)
        return TlsFiles(str(self.folder / "ca.crt"), str(cert), str(key))


@dataclass(frozen=True, slots=True)
class Secured:
    """A scheduler with TLS and a worker.

    Attributes:
        scheduler: with its worker.
        address: of the scheduler, for clients of the CA.
        own: the client's files.
        papers: issues others.
        authority: the cluster's CA.
    """

    scheduler: DaskScheduler
    own: TlsFiles
    papers: Papers
    authority: trustme.CA

    @property
    def address(self) -> str:
        return self.scheduler.address


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A scheduler whose clients and workers need certificates of one CA."""
    papers, authority = Papers(tmp_path_factory.mktemp("papers")), trustme.CA()
    authority.cert_pem.write_to_path(papers.folder / "ca.crt")
    with DaskScheduler(free_port(), tls=papers.issue(authority, "node")) as scheduler:
        scheduler.add_worker()
        yield Secured(scheduler, papers.issue(authority, "client"), papers, authority)


def fail(address: str, tls: TlsFiles) -> tuple[str, str | None]:
    """Return what is said about a cluster that cannot be reached, and what to do."""
    with tls.set(), pytest.raises(RunnerError) as caught, open_cluster(Address(address), {}):
        pytest.fail("it can be reached")
    return caught.value.message, caught.value.hint


@pytest.mark.slow
def test_a_cluster_with_tls_is_used(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files come from Dask's own settings, with the key in the certificate's file too; or its variables."""
    cert, key = secured.papers.folder / "client.crt", secured.papers.folder / "client.key"
    both = tmp_path / "both.pem"
    both.write_text(cert.read_text() + key.read_text())
    both.chmod(0o600)
    for tls in (secured.own, replace(secured.own, cert=str(both), key=None)):
        with tls.set(), open_cluster(Address(secured.address), {}) as cluster:
            assert list(cluster.run(tasks.square, [(3,)])) == [(0, 9)]
    # Dask reads the environment when it is imported.
    code = (
        "from runner.cluster.address import Address\n"
        "from runner.cluster.dask_engine import open_cluster\n"
        f"with open_cluster(Address({secured.address!r}), {{}}) as cluster:\n"
        "    print(*cluster.run(abs, [(-1,)]))\n"
    )
    begin = "DASK_DISTRIBUTED__COMM__TLS__"
    files = {"CA_FILE": secured.own.ca, "CLIENT__CERT": cert, "CLIENT__KEY": key}
    for name, place in files.items():
        monkeypatch.setenv(f"{begin}{name}", str(place))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(0, 1)\n", "")


@pytest.mark.slow
def test_who_is_not_of_the_ca_is_refused(secured: Secured) -> None:
    """A scheduler of another CA is not spoken to, and refuses who has no certificate of its own."""
    address, stranger = secured.address, trustme.CA()
    other = secured.papers.folder / "other.crt"
    stranger.cert_pem.write_to_path(other)
    foreign = secured.papers.issue(stranger, "foreign")
    for tls in (replace(secured.own, ca=str(other)), foreign, TlsFiles()):
        assert fail(address, tls)[0].startswith(f"Dask cannot connect to a scheduler at {address}: ")
