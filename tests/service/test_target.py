"""Where a run sends to: option beats environment beats file, and credentials stay where they belong (contract)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import ConfigurationError
from runner.service.target import (
    Credentials,
    Target,
    choose_target,
    is_loopback,
    list_variables,
    read_targets,
)
from runner.source.diagnostic import ProblemError
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[str], Path]

OWN = {"RUNNER_USERNAME": "ada", "RUNNER_API_KEY": "k3y"}
BASE = {**OWN, "RUNNER_BASE_URL": "https://env.example.com"}
NO_FILE: dict[str, Any] = {"targets": {}}
FILE: dict[str, Any] = {
    "default": "staging",
    "targets": {
        "staging": {"base_url": "https://staging.example.com/"},
        "named": {
            "base_url": "https://named.example.com",
            "username_env": "RUNNER_NAMED_USERNAME",
            "api_key_env": "RUNNER_NAMED_API_KEY",
            "state_key_env": "NAMED_STATE_KEY",
        },
        "open": {"base_url": "http://sms.example.com", "insecure": True},
        "closed": {"base_url": "http://sms.example.com"},
    },
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a targets.yaml and return it."""

    def write_targets(text: str) -> Path:
        file = tmp_path / "targets.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write_targets


def test_nothing_configured_is_the_sandbox() -> None:
    """On a fresh machine everything goes to the embedded sandbox, which needs no credentials."""
    assert choose_target(None, NO_FILE, {}) == Target("sandbox", settle_window=1.0)


@pytest.mark.parametrize(
    ("option", "environment", "file", "name", "base_url"),
    [
        (None, BASE, NO_FILE, "live", "https://env.example.com"),
        (None, {**BASE, "RUNNER_TARGET": "prod"}, NO_FILE, "prod", "https://env.example.com"),
        ("eu", {**BASE, "RUNNER_TARGET": "prod"}, NO_FILE, "eu", "https://env.example.com"),
        (None, OWN, FILE, "staging", "https://staging.example.com"),
        (None, {**OWN, "RUNNER_TARGET": "open"}, FILE, "open", "http://sms.example.com"),
        ("open", {**OWN, "RUNNER_TARGET": "staging"}, FILE, "open", "http://sms.example.com"),
        (None, BASE, FILE, "live", "https://env.example.com"),
        ("staging", BASE, FILE, "staging", "https://env.example.com"),
        (
            None,
            {**OWN, "RUNNER_BASE_URL": "", "RUNNER_TARGET": ""},
            FILE,
            "staging",
            "https://staging.example.com",
        ),
        ("sandbox", OWN, FILE, "sandbox", None),
    ],
)
def test_option_beats_environment_beats_file(
    option: str | None, environment: dict[str, str], file: dict[str, Any], name: str, base_url: str | None
) -> None:
    """The target's name and its address come from the nearest place that says them."""
    target = choose_target(option, file, environment)
    assert (target.name, target.base_url) == (name, base_url)
    assert target.credentials == (None if base_url is None else Credentials("ada", "k3y"))


@pytest.mark.parametrize("name", ["a/b", "../x", "", " ", "ä", "-a", "a" * 51, "a.b"])
def test_a_name_that_cannot_be_a_files_is_refused(name: str) -> None:
    """The name is a part of the lockfile's: it must not lead elsewhere."""
    environment = {**BASE, "RUNNER_TARGET": name or " "}
    with pytest.raises(ConfigurationError) as caught:
        choose_target(None, NO_FILE, environment)
    assert caught.value.message == f"{name or ' '!r} is no name of a target"
    assert caught.value.hint == "letters, digits, `_` and `-`, at most 50"


def test_a_target_that_nobody_describes_is_refused() -> None:
    """A misspelt target is an error that names those that are known."""
    with pytest.raises(ConfigurationError) as caught:
        choose_target("stagin", FILE, OWN)
    assert caught.value.message == "nothing says where the target 'stagin' is"
    assert caught.value.hint == (
        "set RUNNER_BASE_URL, or describe it in targets.yaml; known: sandbox, staging, named, open, closed"
    )


@pytest.mark.parametrize(
    ("name", "environment", "hint"),
    [
        ("staging", {}, "set RUNNER_USERNAME and RUNNER_API_KEY"),
        ("staging", {"RUNNER_USERNAME": "ada"}, "set RUNNER_API_KEY"),
        ("staging", {"RUNNER_API_KEY": "k3y", "RUNNER_USERNAME": ""}, "set RUNNER_USERNAME"),
        ("named", OWN, "set RUNNER_NAMED_USERNAME and RUNNER_NAMED_API_KEY"),
        ("named", {**OWN, "RUNNER_NAMED_USERNAME": "bo"}, "set RUNNER_NAMED_API_KEY"),
    ],
)
def test_missing_credentials_are_named(name: str, environment: dict[str, str], hint: str) -> None:
    """A target that names its own variables never gets another one's credentials instead."""
    with pytest.raises(ConfigurationError) as caught:
        choose_target(name, FILE, environment)
    assert caught.value.message == f"the target {name!r} has no credentials"
    assert caught.value.hint == hint


def test_a_target_gets_its_own_credentials_and_key() -> None:
    """What the target names is what it gets, state key and all."""
    named = {"RUNNER_NAMED_USERNAME": "bo", "RUNNER_NAMED_API_KEY": "b3y", "NAMED_STATE_KEY": STATE_KEY}
    target = choose_target("named", FILE, {**OWN, **named, "RUNNER_STATE_KEY": OTHER_STATE_KEY})
    assert target.credentials == Credentials("bo", "b3y")
    assert target.state_key == STATE_KEY
    for secret in ("bo", "b3y", STATE_KEY):
        assert f"'{secret}'" not in repr(target)


def test_a_missing_state_key_is_named() -> None:
    """A target that names a key for its fingerprints is not used without it: everyone could look new."""
    with pytest.raises(ConfigurationError) as caught:
        choose_target(
            "named",
            FILE,
            {"RUNNER_NAMED_USERNAME": "bo", "RUNNER_NAMED_API_KEY": "b3y", "NAMED_STATE_KEY": ""},
        )
    assert caught.value.message == "the target 'named' has no key for its fingerprints"
    assert caught.value.hint == "set NAMED_STATE_KEY"


def test_the_sandbox_is_on_this_machine() -> None:
    """Whoever says sandbox texts nobody, whatever else the environment says."""
    with pytest.raises(ConfigurationError) as caught:
        choose_target("sandbox", NO_FILE, BASE)
    assert caught.value.message == (
        "the target 'sandbox' would text real people: its base URL leads to another machine"
    )
    assert caught.value.hint == (
        "unset RUNNER_BASE_URL to use the sandbox, or give the service another name with --target"
    )
    here = choose_target("sandbox", NO_FILE, {**BASE, "RUNNER_BASE_URL": "http://127.0.0.1:8025"})
    assert (here.name, here.base_url) == ("sandbox", "http://127.0.0.1:8025")


@pytest.mark.parametrize(
    "base_url",
    [
        "sms.example.com",
        "ftp://sms.example.com",
        "https://",
        "https:///path",
        "https://ada:s3cret@sms.example.com",
        "https://:s3cret@sms.example.com",
        "https://s3cret@sms.example.com",
        "https://sms.example.com?api_key=s3cret",
        "https://sms.example.com/#s3cret",
        "https://sms.example.com:port",
        "https://sms.example.com:99999",
        "https://sms.example.com:0",
        "https://[::1",
        "https://sms.example.com ",
        "https://sms example.com",
    ],
)
def test_a_base_url_that_is_none_is_refused(base_url: str) -> None:
    """A wrong RUNNER_BASE_URL is told without showing it: it may hold a credential."""
    with pytest.raises(ConfigurationError) as caught:
        choose_target(None, NO_FILE, {**OWN, "RUNNER_BASE_URL": base_url})
    assert caught.value.message == "the base URL is not one that can be used"
    assert caught.value.hint == (
        "as in https://sms.example.com, without credentials, `?` or `#`; check RUNNER_BASE_URL"
    )


@pytest.mark.parametrize("name", [None, "closed"])
def test_an_unencrypted_service_elsewhere_is_refused(name: str | None) -> None:
    """Credentials and phones don't cross a network in plain sight unless the target says so."""
    environment = OWN if name else {**OWN, "RUNNER_BASE_URL": "http://sms.example.com:8080/path"}
    with pytest.raises(ConfigurationError) as caught:
        choose_target(name, FILE if name else NO_FILE, environment)
    assert caught.value.message == (
        "the base URL http://sms.example.com would send credentials and phone numbers unencrypted"
    )
    assert caught.value.hint == "use https, or set `insecure: true` for this target in targets.yaml"


@pytest.mark.parametrize("host", ["localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", ""])
def test_what_only_looks_like_this_machine_is_another(host: str) -> None:
    """Names are taken at their word: none but `localhost` and loopback addresses are this machine."""
    assert not is_loopback(host)


def test_limits_are_read(write: Write) -> None:
    """A target's limits arrive in numbers: sends a second, seconds."""
    file = write(
        "version: 1\ntargets:\n  live:\n    base_url: https://sms.example.com\n    limits:\n"
        "      concurrency: 4\n      rate: 600/m\n      recipients_per_send: 50\n"
        "      connect_timeout: 500ms\n      read_timeout: 1.5m\n      settle_window: 2m\n"
    )
    target = choose_target("live", read_targets(file, {}), OWN)
    assert (target.concurrency, target.rate, target.recipients_per_send) == (4, 10.0, 50)
    assert (target.connect_timeout, target.read_timeout, target.settle_window) == (0.5, 90.0, 120.0)


RATE = "a rate is a number above 0, a slash and a unit, as in 20/s or 600/m"
DURATION = "a duration is a number above 0 and a unit, as in 500ms, 10s or 2m, of at most 9999m or 99999s"
CREDENTIAL = "is a credential: it may not stand in a file"
CREDENTIAL_HINT = "put it into an environment variable and name that with `username_env` or `api_key_env`"


@pytest.mark.parametrize("key", ["username", "user", "password", "api_key", "key", "token", "state_key"])
def test_a_credential_in_the_file_is_refused(write: Write, key: str) -> None:
    """Credentials never stand in a file, and the error doesn't show them either."""
    file = write(
        f"version: 1\ntargets:\n  live:\n    base_url: https://sms.example.com\n    {key}: s3cret-value\n"
    )
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {})
    (problem,) = caught.value.diagnostics
    assert problem.code == "targets-credential"
    assert problem.message == f"`targets.live.{key}` {CREDENTIAL}"
    assert problem.hint == CREDENTIAL_HINT
    assert (problem.line, problem.severity) == (5, "error")
    assert "s3cret" not in repr(problem) + str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "base_url: https://ada:s3cret@sms.example.com",
            "a base URL is http(s)://host/path, without credentials, `?` or `#`",
        ),
        ("api_key_env: s3cret-value!", "this is no name of an environment variable"),
        ("username_env: s3cret value", "this is no name of an environment variable"),
    ],
)
def test_what_may_be_a_credential_is_not_shown(write: Write, line: str, message: str) -> None:
    """A credential that was put in a wrong place stays out of the error."""
    start = "" if line.startswith("base_url") else "    base_url: https://sms.example.com\n"
    file = write(f"version: 1\ntargets:\n  live:\n{start}    {line}\n")
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {})
    (problem,) = caught.value.diagnostics
    assert problem.message == f"`targets.live.{line.partition(':')[0]}`: {message}"
    assert "s3cret" not in repr(problem)


NEVER = "has no credential of the service: it is runner's own, or the platform's"
OTHER = "is not known to have a credential"


def write_variable(write: Write, key: str, variable: str) -> Path:
    return write(
        f"version: 1\ntargets:\n  live:\n    base_url: https://sms.example.com\n    {key}: {variable}\n"
    )


@pytest.mark.parametrize("key", ["username_env", "api_key_env"])
@pytest.mark.parametrize(
    "variable",
    [
        "RUNNER_STATE_KEY", "RUNNER_EU_STATE_KEY", "EU_STATE_KEY", "RUNNER_LEDGER", "RUNNER_STATE_REMOTE",
        "RUNNER_TOKEN", "RUNNER_USERNAMES", "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "CI",
        "CI_JOB_TOKEN", "GITLAB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "SYSTEM_ACCESSTOKEN",
        "PGPASSWORD",
    ],
)  # fmt: skip
def test_a_secret_of_something_else_is_never_a_credential(write: Write, key: str, variable: str) -> None:
    """What is runner's own or the platform's is refused, listed or not, with its place and without its name."""
    file = write_variable(write, key, variable)
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {"RUNNER_CREDENTIAL_VARIABLES": variable})
    (problem,) = caught.value.diagnostics
    assert problem.message == f"`targets.live.{key}` names a variable that {NEVER}"
    assert problem.hint == "keep the credential in a variable of its own, and name that"
    assert (problem.code, problem.line, problem.column) == ("targets-variable", 5, 7 + len(key))


@pytest.mark.parametrize(
    ("key", "variable", "end"),
    [
        ("username_env", "LIVE_USERNAME", "USERNAME"),
        ("username_env", "RUNNER_EU_API_KEY", "USERNAME"),
        ("username_env", "DATABASE_PASSWORD", "USERNAME"),
        ("api_key_env", "LIVE_API_KEY", "API_KEY"),
        ("api_key_env", "RUNNER_USERNAME", "API_KEY"),
        ("api_key_env", "CIVIL_KEY", "API_KEY"),
    ],
)
def test_a_credential_comes_from_variables_with_such_a_name(
    write: Write, key: str, variable: str, end: str
) -> None:
    """Any other variable has to be listed where who edits the file cannot; then it is taken."""
    file = write_variable(write, key, variable)
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {"RUNNER_CREDENTIAL_VARIABLES": "ONE,TWO"})
    (problem,) = caught.value.diagnostics
    assert problem.message == f"`targets.live.{key}` names a variable that {OTHER}"
    assert problem.hint == (
        f"call it RUNNER_{end} or RUNNER_*_{end}, or list it in RUNNER_CREDENTIAL_VARIABLES outside of the repository"
    )
    assert (problem.code, problem.line, problem.column) == ("targets-variable", 5, 7 + len(key))
    targets = read_targets(file, {"RUNNER_CREDENTIAL_VARIABLES": f"ONE, {variable} "})
    target = choose_target("live", targets, {**OWN, variable: "v4lue"})
    assert target.credentials is not None
    assert "v4lue" in (target.credentials.username, target.credentials.api_key)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("rate: 20", "`targets.live.limits.rate` must be text, not the number 20"),
        ("rate: 0/s", f'`targets.live.limits.rate` is "0/s": {RATE}'),
        ("rate: 20/d", f'`targets.live.limits.rate` is "20/d": {RATE}'),
        ("read_timeout: 0s", f'`targets.live.limits.read_timeout` is "0s": {DURATION}'),
        ("read_timeout: soon", f'`targets.live.limits.read_timeout` is "soon": {DURATION}'),
        ("read_timeout: 100000s", f'`targets.live.limits.read_timeout` is "100000s": {DURATION}'),
        ("read_timeout: 35792m", f'`targets.live.limits.read_timeout` is "35792m": {DURATION}'),
        ("read_timeout: 0.0001ms", f'`targets.live.limits.read_timeout` is "0.0001ms": {DURATION}'),
        ("concurrency: 0", "`targets.live.limits.concurrency` is 0: the least is 1"),
        ("concurrency: 1025", "`targets.live.limits.concurrency` is 1025: the most is 1024"),
        ("recipients_per_send: 0", "`targets.live.limits.recipients_per_send` is 0: the least is 1"),
        ("rates: 1/s", "`rates` is not a key in `targets.live.limits`: did you mean `rate`?"),
    ],
)  # fmt: skip
def test_a_wrong_limit_is_refused(write: Write, limit: str, message: str) -> None:
    """A limit that cannot be kept, or would be none, is an error and not ignored."""
    file = write(
        f"version: 1\ntargets:\n  live:\n    base_url: https://sms.example.com\n    limits:\n      {limit}\n"
    )
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {})
    assert [problem.message for problem in caught.value.diagnostics] == [message]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "this file cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"version: 1\n", "the file has no `targets`"),
        (b"version: 2\ntargets: {}\n", "`version` must be 1, not 2"),
        (b"version: 1\ntargets:\n  a/b: {base_url: https://x.example.com}\n",
         'the key "a/b" in `targets`: a target\'s name is letters, digits, `_` and `-`, at most 50'),
        (b"version: 1\ntargets:\n  live: {insecure: true}\n", "`targets.live` has no `base_url`"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused(write: Write, content: bytes, message: str) -> None:
    """Whatever is wrong with the file is said with its place; nothing is sent by half a file."""
    file = write("")
    file.write_bytes(content)
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {})
    assert [problem.message for problem in caught.value.diagnostics] == [message]
    assert {problem.file for problem in caught.value.diagnostics} == {file}


def test_the_variables_of_a_targets_secrets_are_known_by_name() -> None:
    """Who runs elsewhere for a target has to be given these: its own ones, else those of everyone."""
    assert list_variables("named", FILE) == (
        "RUNNER_NAMED_USERNAME",
        "RUNNER_NAMED_API_KEY",
        "NAMED_STATE_KEY",
    )
    assert list_variables("live", NO_FILE) == ("RUNNER_USERNAME", "RUNNER_API_KEY", "RUNNER_STATE_KEY")
