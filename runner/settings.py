"""The settings: each once, with every way to give it.

The options of the command line, the keywords of `runner.open`, the table of docs/reference/settings.md and
the checks of `runner doctor` come from here. An option beats the environment, which beats `targets.yaml`.

A pull request can change a file in a repository, so a setting has a key there only if a stranger's value does
no harm: not the ledger, whose URL may hold a password; not a scheduler or a folder for intermediate files,
which would get secrets or phones; not further folders to read from; and nothing that would keep a run from
reading pauses and opt-outs of other machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from runner.errors import UsageError
from runner.source.quantity import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

_YES = {"1", "true", "t", "yes", "y", "on"}
_NO = {"", "0", "false", "f", "no", "n", "off"}
DURATION_HINT = "write for example 500ms, 10s or 2m"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting.

    Attributes:
        name: the keyword in Python, if it has an option or one of `runner.open`.
        meaning: what it is, in a sentence.
        variable: the environment variable; empty if there is none.
        option: the option of the command line; empty if there is none.
        command: the command that has the option; empty for all commands.
        key: the key in `targets.yaml`; empty if there is none.
        default: the value if it is not set, in words.
        kind: how its text is read: `list` has commas between its parts.
        metavar: what stands for its value in help pages.
    """

    name: str
    meaning: str
    variable: str = ""
    option: str = ""
    command: str = ""
    key: str = ""
    default: str = ""
    kind: Literal["text", "list", "switch", "duration"] = "text"
    metavar: str | None = None

    def read(self, environ: Mapping[str, str]) -> Any:
        """Return the value in an environment; None, False or an empty list if it has none.

        Raises:
            UsageError: the variable's text is no such value.
        """
        text = environ.get(self.variable, "")
        if self.kind == "list":
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.kind == "switch":
            if text.lower() not in _YES | _NO:
                raise UsageError(
                    f"{self.variable}: {text!r} is neither yes nor no", hint="write true or false"
                )
            return text.lower() in _YES
        if self.kind == "duration" and text:
            try:
                return parse_duration(text).total_seconds()
            except ValueError:
                raise UsageError(f"{self.variable}: {text!r} is not a duration", hint=DURATION_HINT) from None
        return text or None

    def describe(self) -> str:
        """Return its meaning and default for a help page."""
        return f"{self.meaning} Default: {self.default}." if self.default else self.meaning


TARGET = Setting(
    "target",
    "The target: one from targets.yaml, live or sandbox.",
    "RUNNER_TARGET",
    "--target",
    key="default",
    metavar="NAME",
)
REQUIRE_APPROVAL = Setting(
    "require_approval",
    "Send only what people have approved; without a state key, only the plan of --expect-digest.",
    "RUNNER_REQUIRE_APPROVAL",
    "--require-approval",
    "apply",
    kind="switch",
)
SETTLE_WINDOW = Setting(
    "settle_window_s",
    "Time that the service may take to list a launch; a launch missing after that was not sent.",
    "RUNNER_SETTLE_WINDOW",
    "--settle-window",
    "apply",
    "limits.settle_window",
    "60s",
    "duration",
    "TIME",
)
SHOW_REPLIES = Setting(
    "show_replies",
    "Show the replies in the target's issue, shortened, with digits and addresses masked.",
    "CAMPAIGNS_REPLIES",
    "--show-replies",
    "ci alert",
    kind="switch",
)
_COMMON = (
    Setting(
        "ledger",
        "The ledger's database URL.",
        "RUNNER_LEDGER",
        "--ledger",
        default="SQLite below .runner/",
        metavar="URL",
    ),
    Setting(
        "state_remote",
        "A git remote, such as `origin`, through which machines with separate ledgers lock campaigns and "
        "reserve what they are about to send; `none` for no remote.",
        "RUNNER_STATE_REMOTE",
        "--state-remote",
        key="state_remote",
        default="none",
        metavar="NAME",
    ),
    Setting(
        "record_remote",
        "The git remote where `apply` looks, before and while it sends, for pauses and opt-outs that this "
        "clone lacks; `none` looks at none.",
        "RUNNER_RECORD_REMOTE",
        "--record-remote",
        default="`origin`, if there is one",
        metavar="NAME",
    ),
    Setting(
        "allowed",
        "Another folder, or a prefix of URLs, that campaigns may read from; the option may be repeated, the "
        "variable has commas between them.",
        "RUNNER_ALLOW_PATH",
        "--allow-path",
        kind="list",
        metavar="DIR|URL",
    ),
    Setting(
        "cluster",
        "A Dask cluster to plan on: the address of its scheduler, or local:N for N processes on this "
        "machine, which is all that targets.yaml may choose.",
        "RUNNER_CLUSTER",
        "--cluster",
        key="cluster",
        default="one process",
        metavar="ADDRESS",
    ),
    Setting(
        "insecure_cluster",
        "Allow tcp:// to another machine, although anybody who reaches the scheduler's port can run code on "
        "its workers and read their secrets.",
        "RUNNER_INSECURE_CLUSTER",
        "--insecure-cluster",
        kind="switch",
    ),
    Setting(
        "profile",
        "With a scheduler: the profile in which its workers find the ledger's URL and the state key, as "
        "RUNNER_PROFILE_<NAME>_LEDGER and so on.",
        "RUNNER_PROFILE",
        "--profile",
        default="RUNNER_LEDGER and so on",
        metavar="NAME",
    ),
    Setting(
        "scratch",
        "With a cluster: a folder for intermediate files that all workers reach, a path or an fsspec URL.",
        "RUNNER_SCRATCH",
        "--scratch",
        default="below .runner/",
        metavar="URL",
    ),
)
_OF_SERVICE = (
    Setting(
        "",
        "Where the service is; https, unless it is on this machine.",
        "RUNNER_BASE_URL",
        key="base_url",
    ),
    Setting("", "The account at the service.", "RUNNER_USERNAME", key="username_env"),
    Setting("", "The account's secret.", "RUNNER_API_KEY", key="api_key_env"),
    Setting(
        "",
        "Further variables that `username_env` and `api_key_env` may name, with commas between them. Without "
        "it they name RUNNER_*_USERNAME and RUNNER_*_API_KEY: no other secret can go out as a credential.",
        "RUNNER_CREDENTIAL_VARIABLES",
    ),
    Setting(
        "",
        "The key of the fingerprints and signatures in records: at least 16 random bytes, as "
        "`runner key new` prints them. Without one, phones can be guessed from fingerprints.",
        "RUNNER_STATE_KEY",
        key="state_key_env",
    ),
    Setting("", "The key from which `runner key rotate` moves records.", "RUNNER_OLD_STATE_KEY"),
)
LOG_FORMAT = Setting(
    "log_format",
    "Format of standard error: `text`, or `json` for one object a line.",
    "RUNNER_LOG_FORMAT",
    "--log-format",
    default="text",
)
SETTINGS = (
    *_OF_SERVICE,
    TARGET,
    *_COMMON,
    REQUIRE_APPROVAL,
    SETTLE_WINDOW,
    SHOW_REPLIES,
    LOG_FORMAT,
)
"""All settings, in the order of the docs."""
COMMON = _COMMON
"""Settings that all commands take, and `runner.open`; with TARGET they are read into a scope."""


def read_settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of TARGET and the `COMMON` settings by name: given ones, or else the environment's.

    Raises:
        UsageError: the text of a variable cannot be read.
    """
    return {
        one.name: value if (value := given.get(one.name)) not in (None, ()) else one.read(environ)
        for one in (TARGET, *COMMON)
    }
