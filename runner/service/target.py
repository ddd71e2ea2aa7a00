"""Targets: a service, its limits and credentials, the state keys, and the destination that a plan names.

State keys make fingerprints and sign records, which are often public. Phone numbers are few, so a guessed key
would identify everybody. A key needs at least 16 random bytes, checked by its length and kind of characters:

- digits alone: at least 39;
- hexadecimal digits alone: at least 32;
- letters of one case, and digits: at least 25;
- any other text: at least 22 characters (base64);

and at least 8 different characters, which excludes repetition.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict, cast
from urllib.parse import urlsplit

from runner.audience.phone import REGION_HINT, find_region_fault
from runner.errors import LINE_BREAK_HINT, ConfigurationError, MissingKeyError
from runner.source.diagnostic import ProblemError
from runner.source.quantity import parse_duration, parse_rate
from runner.source.targets_file import read_targets_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from urllib3.util import Url

    from runner.source.diagnostic import Diagnostic
    from runner.source.money import Prices
    from runner.source.yaml import YamlDocument


STATE_KEY = "RUNNER_STATE_KEY"
"""The environment variable with the key of targets that name none of their own."""
OLD_STATE_KEY = "RUNNER_OLD_STATE_KEY"
"""The environment variable with the key from which records are moved: it may be a weak one."""

_BYTES = 32
_LENGTHS = (
    (re.compile(r"[0-9]*"), 39, 6),
    (re.compile(r"[0-9a-fA-F]*"), 32, 8),
    (re.compile(r"[0-9a-z]*|[0-9A-Z]*"), 25, 8),
    (re.compile(r".*", re.DOTALL), 22, 8),
)
"""Characters, how many of them are as hard to guess as 128 random bits, and how many of these differ."""
_PAIRS = 14
"""Different pairs of neighbours at least: what is repeated has fewer, and nothing random has."""
SANDBOX = "sandbox"
LIVE = "live"
EMBEDDED = "the embedded sandbox"
"""In the place of an address: the sandbox has another port each time that it is started."""
_PORTS = {"http": 80, "https": 443}
DEFAULT_CONCURRENCY = 16
_EMBEDDED_SETTLE_WINDOW_S = 1.0
"""The embedded sandbox ends with the run that started it, and lists what it has accepted at once."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_BASE_URL = re.compile(r"https?://[^?#@\s]+", re.IGNORECASE)
_LISTED = "RUNNER_CREDENTIAL_VARIABLES"
"""Further variables that credentials may come from: who may change targets.yaml must not choose them."""
_ALLOWED = {
    "username_env": ("USERNAME", re.compile(r"RUNNER_([A-Za-z0-9_]+_)?USERNAME")),
    "api_key_env": ("API_KEY", re.compile(r"RUNNER_([A-Za-z0-9_]+_)?API_KEY")),
}


def make_state_key() -> str:
    """Return a new key: 32 random bytes in base64, for URLs and files."""
    return secrets.token_urlsafe(_BYTES)


def read_state_key(environment: Mapping[str, str], variable: str) -> str | None:
    """Return the state key in an environment variable; None if it isn't set."""
    value = environment.get(variable)
    if not value:
        return None
    _require_one_line(variable, value)
    needed, different = next(limits for allowed, *limits in _LENGTHS if allowed.fullmatch(value))
    is_long = len(value) >= needed and len(set(value)) >= different
    if is_long and len(set(pairwise(value))) >= _PAIRS and _is_text(value):
        return value
    raise ConfigurationError(
        f"the key in {variable} can be guessed: it has less than 16 random bytes",
        hint="`runner key new` prints a good one. If something was sent with this one, `runner key rotate` "
        f"moves the records, with the new key in {variable} and the old one in RUNNER_OLD_STATE_KEY",
    )


def _require_one_line(variable: str, value: str) -> None:
    """Refuse a variable's value that begins or ends with a line break, as one copied from a file does."""
    if value != value.strip("\r\n"):
        raise ConfigurationError(f"{variable} ends with a line break", hint=LINE_BREAK_HINT)


def read_old_state_key(environment: Mapping[str, str]) -> str | None:
    """Return the key that records are migrated from, however weak; None if it isn't set."""
    value = environment.get(OLD_STATE_KEY)
    if value and not _is_text(value):
        raise ConfigurationError(
            f"the key in {OLD_STATE_KEY} is no text in UTF-8", hint="no record can have been made with it"
        )
    return value or None


def _is_text(value: str) -> bool:
    # Bytes that are not UTF-8 arrive as half surrogate pairs, which cannot be hashed.
    return not any("\ud800" <= character <= "\udfff" for character in value)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Parameters of every request's query, hidden from output."""

    username: str = field(repr=False)
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A service to send to.

    Attributes:
        name: a part of the lockfile's name.
        base_url: None for the embedded sandbox until it runs.
        credentials: None for the embedded sandbox, and where the service is not asked.
        state_key: the user's secret for fingerprints.
        concurrency: sends in flight at once.
        rate: maximum sends a second; None without a limit.
        recipients_per_send: maximum phones in one send; None if not set.
        connect_timeout: seconds.
        read_timeout: seconds from the end of the request to the end of the answer.
        settle_window: seconds the service may take to list a launch; one that is missing before and after
            them was not sent.
        settle_history: age in seconds up to which a launch that no record has may be of a lost run, whatever
            its tag.
        insecure: allows http to another machine.
        username_env: environment variable of the username.
        api_key_env: environment variable of the API key.
        cluster: address of the cluster that works for the target, if any.
        state_remote: the git remote by which machines share the record; `none` if one machine alone sends.
        prices: of its texts, by all files that hold (`find_prices`); None if it has none.
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
    settle_history: float = 30 * 86_400.0
    insecure: bool = False
    username_env: str = "RUNNER_USERNAME"
    api_key_env: str = "RUNNER_API_KEY"
    cluster: str | None = None
    state_remote: str | None = None
    prices: Prices | None = None


def read_targets(file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return `default` and `targets` of `targets.yaml`; both empty if the file is missing.

    Raises:
        ProblemError: it is wrong.
    """
    document = read_targets_file(file)
    if document is None:
        return {"targets": {}}
    if problems := [*_find_other_variables(document, environment), *_find_unknown_countries(document)]:
        raise ProblemError(*problems)
    return document.data  # type: ignore[no-any-return]


def _find_other_variables(document: YamlDocument, environment: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each credential that comes from a variable not listed for credentials."""
    listed = {name.strip() for name in environment.get(_LISTED, "").split(",")}
    for name, settings in document.data["targets"].items():
        for key, (end, allowed) in _ALLOWED.items():
            variable = settings.get(key)
            if variable is None or variable in listed or allowed.fullmatch(variable):
                continue
            yield document.position(["targets", name, key]).problem(
                "targets-variable",
                f"`targets.{name}.{key}` names a variable that is not known to have a credential",
                f"call it RUNNER_{end} or RUNNER_*_{end}, or list it in {_LISTED} outside of the repository",
            )


def _find_unknown_countries(document: YamlDocument) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each price of what is no country, whose texts would have none."""
    for name, settings in document.data["targets"].items():
        for country in settings.get("prices", {}).get("countries", ()):
            if (fault := find_region_fault(country)) is not None:
                place = document.position(["targets", name, "prices", "countries", country], at_key=True)
                yield place.problem("prices-country", fault, REGION_HINT)


def choose_target(
    name: str | None,
    targets: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    needs_credentials: bool = True,
) -> Target:
    """Return the target of a run: the option (`name`) beats the environment, which beats `read_targets`.

    Credentials may be missing where the service is not asked: jobs of pull requests have none.
    """
    chosen = _choose_name(name, targets, environment)
    settings: dict[str, Any] = targets["targets"].get(chosen, {})
    _require_one_line("RUNNER_BASE_URL", environment.get("RUNNER_BASE_URL", ""))
    base_url = environment.get("RUNNER_BASE_URL") or settings.get("base_url")
    if base_url is None:
        return _make_embedded(chosen, targets, environment)
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
        state_remote=settings.get("state_remote"),
        **{limit: _read_limit(limit, value) for limit, value in settings.get("limits", {}).items()},
    )


def _make_embedded(name: str, targets: Mapping[str, Any], environment: Mapping[str, str]) -> Target:
    """Return the embedded sandbox; refuse another target without an address."""
    if name != SANDBOX:
        known = ", ".join([SANDBOX, *targets["targets"]])
        raise ConfigurationError(
            f"nothing says where the target {name!r} is",
            hint=f"set RUNNER_BASE_URL, or describe it in targets.yaml; known: {known}",
        )
    settings = targets["targets"].get(name, {})
    state_key = _read_state_key(name, settings, environment)
    return Target(SANDBOX, state_key=state_key, settle_window=_EMBEDDED_SETTLE_WINDOW_S)


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


def find_key_variable(name: str, targets: Mapping[str, Any]) -> str:
    """Return the environment variable of the key of a target's fingerprints."""
    return list_variables(name, targets)[2]


def list_variables(name: str, targets: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the environment variables of a target's credentials and its state key."""
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
    # A target with its own variables never gets another target's credentials.
    missing = [variable for variable in variables if not environment.get(variable)]
    if missing and not are_needed:
        return None
    if missing:
        raise ConfigurationError(
            f"the target {name!r} has no credentials", hint=f"set {' and '.join(missing)}"
        )
    for variable in variables:
        _require_one_line(variable, environment[variable])
    return Credentials(*(environment[variable] for variable in variables))


def _read_limit(name: str, value: str | int) -> Any:
    if not isinstance(value, str):
        return int(value)
    return parse_rate(value) if name == "rate" else parse_duration(value).total_seconds()


def require_safe_url(base_url: str, *, insecure: bool) -> str:
    """Return the host of a base URL; `insecure` allows http to another machine."""
    try:
        parts = urlsplit(base_url)
        # Reading the port checks it.
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


def leads_elsewhere(target: Target) -> bool:
    """Return whether a target's address is another machine's, and so may text real people."""
    return target.base_url is not None and not is_loopback(urlsplit(target.base_url).hostname or "")


def is_loopback(host: str) -> bool:
    """Return True for a host name or address of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_base_url(target: Target) -> Url:
    """Return the base URL as sent: percent-encoded, with its host in Punycode."""
    # Late: a plan for the sandbox needs no HTTP.
    from urllib3.exceptions import LocationParseError  # noqa: PLC0415
    from urllib3.util import parse_url  # noqa: PLC0415

    try:
        return parse_url(str(target.base_url))
    except LocationParseError:
        raise ConfigurationError(
            f"the base URL of the target {target.name!r} has a host that cannot be one",
            hint="check RUNNER_BASE_URL, or `base_url` in targets.yaml",
        ) from None


def name_origin(url: Url) -> str:
    """Return the normalized scheme, host and port of an address."""
    port = "" if url.port in (None, _PORTS.get(str(url.scheme))) else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}"


class Destination(TypedDict):
    """The destination of a plan: the target as targets.yaml and the environment describe it.

    Attributes:
        address: the base URL: scheme and host in lower case, without a default port and a slash at its end;
            `the embedded sandbox` for that.
        insecure: whether http to another machine is wanted.
        username_env: the environment variable that has the username.
        api_key_env: the environment variable that has the API key.
        concurrency: sends in flight at once.
        rate: the most sends in a second; None for no limit.
        recipients_per_send: the most phones in one send; None if the target doesn't say.
        connect_timeout: in seconds.
        read_timeout: in seconds.
        settle_window: in seconds.
    """

    address: str
    insecure: bool
    username_env: str
    api_key_env: str
    concurrency: int
    rate: float | None
    recipients_per_send: int | None
    connect_timeout: float
    read_timeout: float
    settle_window: float


def describe_destination(target: Target) -> Destination:
    """Return the normalized destination of a configured target."""
    settings = {name: getattr(target, name) for name in Destination.__annotations__ if name != "address"}
    return cast("Destination", {"address": _normalize_address(target), **settings})


def require_one_name(target: Target, targets: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Ensure that no other target leads to a target's account: opt-outs are known by the target's name."""
    if target.base_url is None:
        return

    def name_user(variable: str) -> str:
        return environment.get(variable, variable).strip().casefold()

    address, user = _normalize_address(target), name_user(target.username_env)
    for name, settings in targets["targets"].items():
        if "base_url" not in settings:  # the sandbox
            continue
        other = Target(name, settings["base_url"], username_env=list_variables(name, targets)[0])
        account = _normalize_address(other), name_user(other.username_env)
        if name != target.name and account == (address, user):
            raise ConfigurationError(
                f"the targets {target.name!r} and {name!r} are one account: people who opted out under one "
                "name would be texted under the other",
                hint=f"an account has one name: take {name!r} or {target.name!r} out of targets.yaml, and "
                "keep the one that texts were sent under",
            )


def list_moves(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the differences between two destinations of `describe_destination`."""
    return [
        f"{name} was {_show(then[name])} and is now {_show(value)}"
        for name, value in now.items()
        if then[name] != value
    ]


def _normalize_address(target: Target) -> str:
    if target.base_url is None:
        return EMBEDDED
    url = parse_base_url(target)
    return name_origin(url) + (url.path or "").rstrip("/")


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else f"{value}"
