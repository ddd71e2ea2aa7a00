"""The OpenAPI description of the service with the sandbox's own routes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[2]
_SERVICE = "schemas/service.openapi.yaml"
_SANDBOX = "schemas/sandbox.openapi.yaml"


def read_schema(name: str) -> bytes:
    """Return a file from the repository's top, or from `runner/shipped/` of a wheel."""
    installed = _PACKAGE / "shipped" / name
    return (installed if installed.is_file() else _PACKAGE.parent / name).read_bytes()


def read_description() -> bytes:
    """Return the OpenAPI description of the service alone, in YAML."""
    return read_schema(_SERVICE)


@cache
def load_description() -> dict[str, Any]:
    """Return the description with the sandbox's own routes."""
    # Late: few ask, and everyone starts the service.
    import yaml  # noqa: PLC0415  see above

    service, sandbox = (yaml.safe_load(read_schema(name)) for name in (_SERVICE, _SANDBOX))
    return {
        **service,
        "tags": [*service["tags"], *sandbox["tags"]],
        "paths": {**service["paths"], **sandbox["paths"]},
    }
