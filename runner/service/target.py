"""Where a run sends to: a service, its limits, and the credentials for it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from runner.errors import ConfigurationError, MissingKeyError
from runner.service.state_key import STATE_KEY, read_state_key
from runner.source.confine import is_readable_below, reading_root
from runner.source.diagnostic import Diagnostic
from runner.source.document import YamlProblemError
from runner.source.rate import parse_rate
from runner.source.schema import find_problems
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.source.document import YamlDocument

SANDBOX = "sandbox"
LIVE = "live"
DEFAULT_CONCURRENCY = 16
_EMBEDDED_SETTLE_WINDOW_S = 1.0
"""The embedded sandbox ends with the run that started it, and lists what it has accepted at once."""

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_BASE_URL = re.compile(r"https?://[^?#@\s]+", re.IGNORECASE)
_LISTED = "RUNNER_CREDENTIAL_VARIABLES"
"""Further variables that credentials may come from: who may change targets.yaml must not choose them."""
_ALLOWED = {
    "username_env": ("USERNAME", re.compile(r"RUNNER_([A-Za-z0-9_]+_)?USERNAME")),
    "api_key_env": ("API_KEY", re.compile(r"RUNNER_([A-Za-z0-9_]+_)?API_KEY")),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """What every request carries in its query (reference, section 5). Never shown."""

    username: str = field(repr=False)
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A service to send to.

    Attributes:
        name: a part of the lockfile's name.
        base_url: None for the embedded sandbox, whose address is known once it runs.
        credentials: None for the embedded sandbox, and where the service need not be asked.
        state_key: the user's secret for fingerprints, if there is one.
        concurrency: sends in flight at once.
        rate: the most sends a second; None for no limit.
        recipients_per_send: the most phones in one send; None if the target doesn't say.
        connect_timeout: seconds.
        read_timeout: seconds for a whole answer to come, once the request has left.
        settle_window: seconds that the service may take to list a launch; one that is missing from its
            list before and after them was not sent.
        insecure: whether http to another machine is wanted.
        username_env: the environment variable that has the username.
        api_key_env: the environment variable that has the API key.
        cluster: the address of the cluster that works for it; None for none.
    """

    name: str
    base_url: str | None = None
    credentials: Credentials | None = None
    state_key: str | None = field(default=None, repr=False)
    concurrency: int = DEFAULT_CONCURRENCY
    rate: float | None = None
    recipients_per_send: int | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    settle_window: float = 60.0
    insecure: bool = False
    username_env: str = "RUNNER_USERNAME"
    api_key_env: str = "RUNNER_API_KEY"
    cluster: str | None = None


class TargetsProblemError(Exception):
    """`targets.yaml` is wrong.

    Attributes:
        diagnostics: all that is wrong with it.
    """

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__(f"{len(diagnostics)} problems")
        self.diagnostics = diagnostics


def read_targets(file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what `targets.yaml` says: `default` and `targets`; both empty if there is no such file.

    Args:
        file: where it is.
        environment: the process's environment variables: they list which others have credentials.

    Raises:
        TargetsProblemError: it is wrong.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {"targets": {}}
    except (OSError, UnicodeDecodeError) as error:
        message = f"this file cannot be read: {error}"
        raise TargetsProblemError([Diagnostic("error", "targets-unreadable", message, file, 1, 1)]) from None
    root = reading_root(file, current=Path.cwd())
    if file.resolve() != file.absolute() and not is_readable_below(file, (root,)):
        # Parts of it are shown where they are wrong, and a link in a pull request may lead to any file.
        message = "this is a link out of the repository, or to a hidden file, and is not read"
        raise TargetsProblemError([Diagnostic("error", "targets-outside", message, file, 1, 1)])
    try:
        document = read_yaml(text, file)
    except YamlProblemError as error:
        raise TargetsProblemError([error.diagnostic]) from None
    problems = [*document.problems, *find_problems(document, "targets")]
    problems = problems or list(_find_other_variables(document, environment))
    if problems:
        raise TargetsProblemError(problems)
    return document.data  # type: ignore[no-any-return]


def _find_other_variables(document: YamlDocument, environment: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield credentials that come from variables which need not have any: they would go out as such."""
    listed = {name.strip() for name in environment.get(_LISTED, "").split(",")}
    for name, settings in document.data["targets"].items():
        for key, (end, allowed) in _ALLOWED.items():
            variable = settings.get(key)
            if variable is None or variable in listed or allowed.fullmatch(variable):
                continue
            yield Diagnostic(
                "error",
                "targets-variable",
                f"`targets.{name}.{key}` names a variable that is not known to have a credential",
                document.file,
                *document.locate(["targets", name, key]),
                f"call it RUNNER_{end} or RUNNER_*_{end}, or list it in {_LISTED} outside of the repository",
            )


def choose_target(
    name: str | None,
    targets: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    needs_credentials: bool = True,
) -> Target:
    """Return the target of a run: option beats environment beats file (contract, "Where it talks to").

    Args:
        name: `--target`, if given.
        targets: what `read_targets` returned.
        environment: the process's environment variables.
        needs_credentials: whether the service has to be asked; a pull request's job has none.

    Raises:
        ConfigurationError: nothing, or not enough, is said about it.
    """
    chosen = _choose_name(name, targets, environment)
    settings: dict[str, Any] = targets["targets"].get(chosen, {})
    base_url = environment.get("RUNNER_BASE_URL") or settings.get("base_url")
    if base_url is None:
        if chosen == SANDBOX:
            state_key = _read_state_key(chosen, settings, environment)
            return Target(SANDBOX, state_key=state_key, settle_window=_EMBEDDED_SETTLE_WINDOW_S)
        known = ", ".join([SANDBOX, *targets["targets"]])
        raise ConfigurationError(
            f"nothing says where the target {chosen!r} is",
            hint=f"set RUNNER_BASE_URL, or describe it in targets.yaml; known: {known}",
        )
    is_insecure = settings.get("insecure", False)
    host = require_safe_url(base_url, insecure=is_insecure)
    if chosen == SANDBOX and not is_loopback(host):
        raise ConfigurationError(
            f"the target {SANDBOX!r} would text real people: its base URL leads to another machine",
            hint="unset RUNNER_BASE_URL to use the sandbox, or give the service another name with --target",
        )
    variables = list_variables(chosen, targets)[:2]
    return Target(
        chosen,
        base_url.rstrip("/"),
        _read_credentials(chosen, variables, environment, are_needed=needs_credentials),
        _read_state_key(chosen, settings, environment),
        insecure=is_insecure,
        username_env=variables[0],
        api_key_env=variables[1],
        cluster=settings.get("cluster"),
        **_read_limits(settings.get("limits", {})),
    )


def _choose_name(name: str | None, targets: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    default = LIVE if environment.get("RUNNER_BASE_URL") else targets.get("default", SANDBOX)
    chosen: str = name or environment.get("RUNNER_TARGET") or default
    if not _NAME.fullmatch(chosen):
        raise ConfigurationError(
            f"{chosen!r} is no name of a target", hint="letters, digits, `_` and `-`, at most 50"
        )
    return chosen


def _read_state_key(name: str, settings: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    variable = settings.get("state_key_env")
    if variable is not None and not environment.get(variable):
        raise MissingKeyError(f"the target {name!r} has no key for its fingerprints", hint=f"set {variable}")
    return read_state_key(environment, variable or STATE_KEY)


def find_key_variable(name: str, targets: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return which environment variable has the key of a target's fingerprints, and if it must be set.

    Args:
        name: the target's name.
        targets: what `read_targets` returned; with None for the variable if it does not know the target.
    """
    settings = targets.get("targets", {}).get(name)
    if settings is None:
        return None, False
    own = settings.get("state_key_env")
    return own or STATE_KEY, own is not None


def list_variables(name: str, targets: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return which environment variables have the secrets of a target: its credentials, and its state key.

    Args:
        name: the target's name.
        targets: what `read_targets` returned.
    """
    settings = targets.get("targets", {}).get(name, {})
    defaults = {
        "username_env": "RUNNER_USERNAME",
        "api_key_env": "RUNNER_API_KEY",
        "state_key_env": STATE_KEY,
    }
    return tuple(settings.get(key, default) for key, default in defaults.items())


def _read_credentials(
    name: str, variables: tuple[str, str], environment: Mapping[str, str], *, are_needed: bool
) -> Credentials | None:
    # A target that names its own variables never gets the credentials of another one.
    missing = [variable for variable in variables if not environment.get(variable)]
    if missing and not are_needed:
        return None
    if missing:
        raise ConfigurationError(
            f"the target {name!r} has no credentials", hint=f"set {' and '.join(missing)}"
        )
    return Credentials(*(environment[variable] for variable in variables))


def _read_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {
        key: limits[key] for key in ("concurrency", "recipients_per_send") if key in limits
    }
    if "rate" in limits:
        read["rate"] = parse_rate(limits["rate"])
    for key in ("connect_timeout", "read_timeout", "settle_window"):
        if key in limits:
            read[key] = parse_duration(limits[key])
    return read


def parse_duration(text: str) -> float:
    """Return a duration such as `500ms`, `10s` or `2m` in seconds.

    Raises:
        ValueError: it is not written like that.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _SECONDS[match[2]]


def require_safe_url(base_url: str, *, insecure: bool) -> str:
    """Return the host of a base URL that may be used.

    Args:
        base_url: where a service is.
        insecure: whether http to another machine is wanted.

    Raises:
        ConfigurationError: it is none, or would send credentials unencrypted.
    """
    try:
        parts = urlsplit(base_url)
        # Asking for the port is what checks it.
        host = "" if parts.port == 0 else parts.hostname or ""
    except ValueError:
        host = ""
    if not host or not _BASE_URL.fullmatch(base_url):
        raise ConfigurationError(
            "the base URL is not one that can be used",
            hint="as in https://sms.example.com, without credentials, `?` or `#`; check RUNNER_BASE_URL",
        )
    if parts.scheme != "https" and not insecure and not is_loopback(host):
        raise ConfigurationError(
            f"the base URL http://{host} would send credentials and phone numbers unencrypted",
            hint="use https, or set `insecure: true` for this target in targets.yaml",
        )
    return host


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
