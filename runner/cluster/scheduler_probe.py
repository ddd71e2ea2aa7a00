"""A look at a scheduler's address, and at the files for TLS, before Dask's client connects.

The client says little about why it cannot connect, and tries again for a minute.
"""

from __future__ import annotations

import socket
import ssl
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runner.errors import ConfigurationError, RunnerError
from runner.source.storage import find_readers

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_CONNECT_S = 10.0
_START_S = 15.0
"""Seconds that a scheduler which has just gone, or been started, has to begin to listen."""
_AGAIN_S = 0.25
_SILENCE_S = 1.5
"""Seconds after which a silent scheduler is asked whether it speaks TLS."""
_EXPIRED, _NOT_YET = 10, 9
_SETTINGS = "DASK_DISTRIBUTED__COMM__TLS__"
_WHERE = {
    "CA": f"{_SETTINGS}CA_FILE",
    "certificate": f"{_SETTINGS}CLIENT__CERT",
    "key": f"{_SETTINGS}CLIENT__KEY",
}
"""Variables with which Dask finds the files, if no configuration file of Dask's names them."""


def check_files(authority: str | None, certificate: str | None, key: str | None) -> None:
    """Check the files for TLS: paths, or contents in PEM as Dask's settings allow.

    `key` is None if it is in the certificate's file. Others must not be able to read it.

    Raises:
        ConfigurationError: one is missing, wrong, or a key that others can read.
    """
    files = {"CA": authority, "certificate": certificate, **({"key": key} if key else {})}
    missing = [_WHERE[what] for what, file in files.items() if not file]
    if missing:
        raise ConfigurationError(
            "tls:// needs the CA of the cluster, and a certificate and key of this machine",
            hint=f"name them in Dask's own settings: {' and '.join(missing)}",
        )
    for what, file in files.items():
        if file and "\n" not in file:
            _check_readable(what, file)
    if not any("\n" in file for file in files.values() if file):
        _check_pair(str(authority), str(certificate), key)
    if "\n" not in (held := str(key or certificate)):
        _check_private(held)


def _check_readable(what: str, file: str) -> None:
    try:
        is_file = stat.S_ISREG(Path(file).stat().st_mode)
        if is_file:
            Path(file).open("rb").close()
    except OSError as error:
        raise ConfigurationError(
            f"the {what} for TLS, {file}, cannot be read: {error.strerror}", hint=f"check {_WHERE[what]}"
        ) from None
    if not is_file:
        raise ConfigurationError(
            f"the {what} for TLS, {file}, is no regular file", hint=f"check {_WHERE[what]}"
        )


def _check_private(file: str) -> None:
    if readers := find_readers(Path(file).stat()):
        raise ConfigurationError(
            f"the key for TLS, {file}, can be read by {readers}, who could run code where the secrets are",
            hint=f"make it a file for its owner alone: chmod 600 {file}",
        )


class _LockedKeyError(Exception):
    """A key needs a passphrase."""


def _refuse_passphrase() -> NoReturn:
    raise _LockedKeyError


def _check_pair(authority: str, certificate: str, key: str | None) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=authority)
    except ssl.SSLError:
        raise ConfigurationError(
            f"the CA for TLS, {authority}, has no certificate in PEM", hint=f"check {_WHERE['CA']}"
        ) from None
    held = key or certificate
    try:
        context.load_cert_chain(certificate, key, password=_refuse_passphrase)
    except _LockedKeyError:
        raise ConfigurationError(
            f"the key for TLS, {held}, has a passphrase, which Dask cannot be told",
            hint="name a key without one, in a file for its owner alone",
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            fault = f"the key for TLS, {held}, is not that of the certificate {certificate}"
        elif key is None:
            fault = f"{certificate} has no certificate with its key in PEM"
        else:
            fault = f"{certificate} and {key} are no certificate and key in PEM"
        raise ConfigurationError(fault, hint=f"check {_WHERE['certificate']}, and {_WHERE['key']}") from None


def require_listener(
    address: str,
    context: ssl.SSLContext | None,
    patience_s: float = _START_S,
    tell: Callable[[str], None] = lambda _text: None,
) -> None:
    """Fail soon if no scheduler listens at an address; `context` is for `tls://`.

    One that refuses connections may be starting: it is waited for, for the shorter of `patience_s` and 15
    seconds. `tell` receives a note of that.

    Raises:
        RunnerError: nobody listens, or no scheduler, or one that this process may not speak to.
    """
    try:
        with _await_listener(address, min(patience_s, _START_S), tell) as probe:
            if context is None:
                _await_greeting(address, probe)
            else:
                _shake_hands(address, probe, context)
    except OSError as error:
        raise no_scheduler(address, error) from None


def _await_listener(address: str, patience_s: float, tell: Callable[[str], None]) -> socket.socket:
    deadline, has_told = time.monotonic() + patience_s, False
    while True:
        try:
            return _open(address)
        except ConnectionRefusedError:
            # A process that stood still meanwhile asks once more, too.
            if has_told and time.monotonic() >= deadline:
                raise
        if not has_told:
            tell(f"cluster: waiting for a scheduler at {address}, {patience_s:g} s at most.")
            has_told = True
        time.sleep(_AGAIN_S)


def no_scheduler(address: str, error: Exception) -> RunnerError:
    """Return the error that no scheduler answers."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "it does not answer as one"
    return RunnerError(
        f"there is no Dask scheduler at {address}: {reason}",
        hint="check the address; start one with `dask scheduler`, or work on this machine alone, with "
        "--cluster local:N",
    )


def _open(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_CONNECT_S)


def _await_greeting(address: str, probe: socket.socket) -> None:
    """Wait for a first byte: without TLS, both sides begin to speak at once."""
    probe.settimeout(_SILENCE_S)
    try:
        greeting = probe.recv(1)
    except TimeoutError:
        if _speaks_tls(address):
            raise ConfigurationError(
                f"the scheduler at {address} speaks TLS",
                hint=f"say {address.replace('tcp://', 'tls://', 1)}, and set {', '.join(_WHERE.values())}",
            ) from None
        probe.settimeout(_CONNECT_S)
        greeting = probe.recv(1)
    if not greeting:
        raise no_scheduler(address, EOFError())


def _speaks_tls(address: str) -> bool:
    """Return whether somebody answers to the beginning of TLS in kind; nothing is said to them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _open(address) as probe, context.wrap_socket(probe):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _shake_hands(address: str, probe: socket.socket, context: ssl.SSLContext) -> None:
    """Begin TLS, and wait for a first byte: with TLS 1.3 a refusal comes after the handshake."""
    try:
        with context.wrap_socket(probe) as secured:
            if not secured.recv(1):
                raise no_scheduler(address, EOFError())
    except ssl.SSLCertVerificationError as error:
        raise _distrust(address, error) from None
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "ALERT" in reason:
            raise _refused(address, reason) from None
        if isinstance(error, ssl.SSLEOFError):
            raise no_scheduler(address, EOFError()) from None
        raise ConfigurationError(
            f"the scheduler at {address} does not speak TLS",
            hint="start it and its workers with --tls-ca-file, --tls-cert and --tls-key; without TLS, it is "
            "at a tcp:// address, on a network that is closed to all others",
        ) from None


def _distrust(address: str, error: ssl.SSLCertVerificationError) -> RunnerError:
    if error.verify_code in {_EXPIRED, _NOT_YET}:
        what = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
        return ConfigurationError(
            f"the certificate of the scheduler at {address} {what}",
            hint="start the scheduler and its workers with a valid one, and check this machine's clock",
        )
    return ConfigurationError(
        f"the certificate of the scheduler at {address} is not to be trusted: {error.verify_message}",
        hint=f"name the CA of this cluster's certificates with {_WHERE['CA']}; if that is the one, "
        "somebody else answers there",
    )


def _refused(address: str, reason: str) -> RunnerError:
    words = reason.rpartition("ALERT_")[2].replace("_", " ").lower()
    return ConfigurationError(
        f"the scheduler at {address} refuses this machine's certificate: {words}",
        hint=f"name a valid one that comes from the cluster's CA, with {_WHERE['certificate']}",
    )
