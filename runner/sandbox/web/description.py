"""The OpenAPI description of the service, as the service itself gives it."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response
from starlette.routing import Route

_PACKAGE = Path(__file__).resolve().parents[2]
_NAME = "schemas/service.openapi.yaml"
_MEDIA_TYPE = "application/yaml"  # RFC 9512


def read_description() -> bytes:
    """Read the description.

    It stands at the top of the repository, and below `runner/shipped/` once installed from a wheel, as all
    schemas do. It is looked up here because the sandbox knows nothing of the rest of the program.
    """
    installed = _PACKAGE / "shipped" / _NAME
    return (installed if installed.is_file() else _PACKAGE.parent / _NAME).read_bytes()


def make_description_route() -> Route:
    """Give the route of `/openapi.yaml`; it asks for no credentials, so that every tool can read it."""

    async def show(_request: object) -> Response:
        # Read when it is asked for: few ask, and everyone starts the service.
        return Response(read_description(), media_type=_MEDIA_TYPE)

    return Route("/openapi.yaml", show, methods=["GET"])
