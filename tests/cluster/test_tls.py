"""Schedulers with TLS: the files for it, and each way in which it can fail, which is said and ends the command."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from shutil import which
from typing import TYPE_CHECKING

import pytest
import trustme

from runner.cluster.address import Address
from runner.cluster.dask_connection import open_cluster
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
        "from runner.cluster.dask_connection import open_cluster\n"
        f"with open_cluster(Address({secured.address!r}), {{}}) as cluster:\n"
        "    print(*cluster.run(abs, [(-1,)]))\n"
    )
    begin = "DASK_DISTRIBUTED__COMM__TLS__"
    files = {"CA_FILE": secured.own.ca, "CLIENT__CERT": cert, "CLIENT__KEY": key}
    for name, place in files.items():
        monkeypatch.setenv(f"{begin}{name}", str(place))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(0, 1)\n", "")


def test_files_that_are_missing_or_wrong_are_named(secured: Secured, tmp_path: Path) -> None:
    """Before anybody is asked it is said which file is wrong, how, and where it was named."""
    own, address = secured.own, secured.address
    absent = str(tmp_path / "absent")
    for change, message, hint in (
        ({"ca": absent}, f"the CA for TLS, {absent}, cannot be read: No such file or directory", _CA),
        ({"ca": str(tmp_path)}, f"the CA for TLS, {tmp_path}, is no regular file", _CA),
        ({"ca": own.key}, f"the CA for TLS, {own.key}, has no certificate in PEM", _CA),
        (
            {"cert": absent},
            f"the certificate for TLS, {absent}, cannot be read: No such file or directory",
            _CERT,
        ),
        ({"key": absent}, f"the key for TLS, {absent}, cannot be read: No such file or directory", _KEY),
        ({"key": None}, f"{own.cert} has no certificate with its key in PEM", f"{_CERT}, and {_KEY}"),
        (
            {"key": str(secured.papers.folder / "node.key")},
            f"the key for TLS, {secured.papers.folder}/node.key, is not that of the certificate {own.cert}",
            f"{_CERT}, and {_KEY}",
        ),
    ):
        assert fail(address, replace(own, **change)) == (message, f"check {hint}")
    assert fail(address, TlsFiles(cert=own.cert, key=own.key)) == (
        "tls:// needs the CA of the cluster, and a certificate and key of this machine",
        f"name them in Dask's own settings: {_CA}",
    )


def test_a_key_that_others_can_read_is_refused(secured: Secured, tmp_path: Path) -> None:
    """Who has the key can run code on the cluster, so it is for its owner alone."""
    key = tmp_path / "open.key"
    key.write_bytes((secured.papers.folder / "client.key").read_bytes())
    key.chmod(0o644)
    message, hint = fail(secured.address, replace(secured.own, key=str(key)))
    assert message == (
        f"the key for TLS, {key}, can be read by everybody on the machine, who could run code where the secrets are"
    )
    assert hint == f"make it a file for its owner alone: chmod 600 {key}"


@pytest.mark.skipif(which("openssl") is None, reason="openssl makes the key")
def test_a_key_with_a_passphrase_asks_nobody(secured: Secured, tmp_path: Path) -> None:
    """OpenSSL would ask for the passphrase at the terminal, and wait."""
    locked = tmp_path / "locked.key"
    subprocess.run(
        [
            "openssl",
            "ec",
            "-aes256",
            "-passout",
            "pass:word",
            "-in",
            str(secured.own.key),
            "-out",
            str(locked),
        ],
        check=True,
        capture_output=True,
    )
    locked.chmod(0o600)
    message, _ = fail(secured.address, replace(secured.own, key=str(locked)))
    assert message == f"the key for TLS, {locked}, has a passphrase, which Dask cannot be told"


def test_who_is_not_of_the_ca_is_refused(secured: Secured) -> None:
    """A scheduler of another CA is not spoken to; one that refuses this machine is quoted."""
    address, stranger = secured.address, trustme.CA()
    other = secured.papers.folder / "other.crt"
    stranger.cert_pem.write_to_path(other)
    message, hint = fail(address, replace(secured.own, ca=str(other)))
    assert message.startswith(f"the certificate of the scheduler at {address} is not to be trusted: ")
    assert hint is not None
    assert hint.startswith(f"name the CA of this cluster's certificates with {_CA}; ")
    foreign = secured.papers.issue(stranger, "foreign")
    assert (
        fail(address, foreign)[0]
        == f"the scheduler at {address} refuses this machine's certificate: unknown ca"
    )
    expired = secured.papers.issue(secured.authority, "expired", until=_LONG_AGO.replace(month=2))
    assert fail(address, expired)[0] == (
        f"the scheduler at {address} refuses this machine's certificate: certificate expired"
    )


@pytest.mark.slow
def test_an_expired_scheduler_is_said(secured: Secured) -> None:
    """A certificate of the right CA that has run out."""
    old = secured.papers.issue(secured.authority, "old", until=_LONG_AGO.replace(month=2))
    with DaskScheduler(free_port(), tls=old) as scheduler:
        message, _ = fail(scheduler.address, secured.own)
    assert message == f"the certificate of the scheduler at {scheduler.address} has expired"


@pytest.mark.slow
def test_tls_and_none_are_told_apart(secured: Secured) -> None:
    """`tcp://` to a scheduler with TLS, and `tls://` to one without, say what the other side speaks."""
    plain = secured.address.replace("tls", "tcp")
    message, hint = fail(plain, TlsFiles())
    assert message == f"the scheduler at {plain} speaks TLS"
    assert hint == f"say {secured.address}, and set {_CA}, {_CERT}, {_KEY}"
    with DaskScheduler(free_port()) as scheduler:
        address = scheduler.address.replace("tcp", "tls")
        message, hint = fail(address, secured.own)
    assert message == f"the scheduler at {address} does not speak TLS"
    assert hint is not None
    assert hint.startswith("start it and its workers with --tls-ca-file, --tls-cert and --tls-key; ")


@pytest.mark.slow
def test_a_command_without_certificates_ends(secured: Secured, tmp_path: Path) -> None:
    """A command that has no certificates for `tls://` says so and exits: nothing keeps its process alive."""
    folder = tmp_path / "campaigns"
    folder.mkdir()
    (folder / "pulse.yaml").write_text(
        "version: 1\nname: pulse\ntag: pulse\nrecipients: [{phone: '+14155550101'}]\n"
        "messages: [{id: ask, text: Hello}]\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "runner", "validate", "--cluster", secured.address],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("DASK_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: tls:// needs the CA of the cluster, and a certificate and key of this machine\n"
        f"  name them in Dask's own settings: {_CA} and {_CERT}\n"
    )
