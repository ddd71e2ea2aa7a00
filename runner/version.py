"""The versions of the program and of its documents, and where its documentation is."""

from __future__ import annotations

__version__ = "0.1.0"
DOCUMENTATION_URL = "https://sms-campaign-runner.example/"
"""Where people read about this program; schemas are called by their places below it."""
FORMAT_VERSION = "1.0"
"""Of the JSON documents that commands write and the Python API returns, reports and plans included."""

# The versions of the files that are read again, each in its own numbers.
LOCKFILE_VERSION = 2
STATE_VERSION = 2
"""Of the holder's file on a state remote; older programs write 1."""
SUPPRESSIONS_VERSION = 2


_PACKAGES = ("click", "duckdb", "jinja2", "jsonschema", "requests", "SQLAlchemy", "psycopg", "distributed")


def describe_version() -> str:
    """Return the versions of the program, of Python and of the main packages that are installed."""
    # Late: every command imports this module, and hardly any needs these.
    import platform  # noqa: PLC0415  see above

    installed = [f"{name} {version}" for name in _PACKAGES if (version := _find_version(name)) is not None]
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"runner, version {__version__}\n{where}\n{', '.join(installed)}"


def _find_version(package: str) -> str | None:
    from importlib import metadata  # noqa: PLC0415  see there

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
