"""Where a plan is sent: what its digest covers of a target, and what a reviewer sees of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.service.target import Target

EMBEDDED = "the embedded sandbox"
"""In the place of an address: the sandbox has another port each time that it is started."""


def describe_destination(target: Target) -> dict[str, Any]:
    """Return where a target's sends go, by the names of the JSON: the same for all ways to write the same.

    Args:
        target: as it is configured, without what a command line changes of it.

    Raises:
        ConfigurationError: its base URL has a host that cannot be one.
    """
    return {
        "address": _normalize_address(target),
        "insecure": target.insecure,
        "username_env": target.username_env,
        "api_key_env": target.api_key_env,
        "concurrency": target.concurrency,
        "rate": target.rate,
        "recipients_per_send": target.recipients_per_send,
        "connect_timeout": target.connect_timeout,
        "read_timeout": target.read_timeout,
        "settle_window": target.settle_window,
    }


def list_moves(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words what differs between two destinations.

    Args:
        then: as `describe_destination` gave it.
        now: as it gives it by now.
    """
    return [
        f"{name} was {_show(then[name])} and is now {_show(value)}"
        for name, value in now.items()
        if then[name] != value
    ]


def _normalize_address(target: Target) -> str:
    if target.base_url is None:
        return EMBEDDED
    # Imported here: a plan for the sandbox does without what speaks HTTP.
    from runner.service.route import name_origin, parse_base_url  # noqa: PLC0415

    url = parse_base_url(target)
    return name_origin(url) + (url.path or "").rstrip("/")


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else f"{value}"
