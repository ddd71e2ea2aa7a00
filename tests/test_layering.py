"""The shape of the house: who may know whom (design: architecture)."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

import runner

PACKAGE = Path(runner.__file__).parent

MAY_KNOW: dict[str, tuple[str, ...]] = {
    "runner.errors": (),
    "runner.source": ("runner.errors", "runner.source"),
    "runner.timing": ("runner.timing",),
    "runner.campaign": ("runner.errors", "runner.source", "runner.timing", "runner.campaign"),
    "runner.ledger": ("runner.errors", "runner.source", "runner.ledger"),
    "runner.service": ("runner.errors", "runner.source", "runner.service", "runner"),
    "runner.report": ("runner.errors", "runner.report", "runner.ledger.report_model"),
    "runner.plan": (
        "runner.errors",
        "runner.source",
        "runner.timing",
        "runner.campaign",
        "runner.ledger",
        "runner.plan",
    ),
    "runner.deliver": (
        "runner.errors",
        "runner.campaign",
        "runner.plan",
        "runner.ledger",
        "runner.service",
        "runner.source.folding",
        "runner.deliver",
    ),
    "runner.forge": ("runner.forge", "runner"),
    "runner.repository": ("runner.errors", "runner.repository"),
    "runner.optout": ("runner.source.yaml", "runner.optout"),
    "runner.reconcile": (
        "runner.errors",
        "runner.ledger",
        "runner.service",
        "runner.source.folding",
        "runner.optout",
        "runner.reconcile",
    ),
    "runner.cluster": (
        "runner.errors",
        "runner.source",
        "runner.timing",
        "runner.campaign",
        "runner.plan",
        "runner.ledger",
        "runner.service",
        "runner.deliver",
        "runner.optout",
        "runner.reconcile",
        "runner.report",
        "runner.cluster",
        "runner",
    ),
    "runner.sandbox": ("runner.sandbox",),
}
SANDBOX_STOREYS = (
    ("runner.sandbox.web", "runner.sandbox.inbox", "runner.sandbox.pytest_plugin"),
    ("runner.sandbox.rehearsal",),
)
"""Storeys of the sandbox above its core: each may know those below it."""
VALUES_BELOW: dict[str, set[str]] = {
    "runner.campaign.policy": {"runner.timing.schedule"},
    "runner.campaign.position": set(),
    "runner.campaign.recipients": {"runner.campaign.position"},
    "runner.campaign.model": {
        "runner.campaign.policy",
        "runner.campaign.position",
        "runner.campaign.recipients",
        "runner.timing.schedule",
    },
    "runner.ledger.model": set(),
    "runner.ledger.report_model": {"runner.ledger.model"},
    "runner.service.model": set(),
}
"""The modules of values, and which others each of them may know."""
DOORS: dict[str, tuple[str, ...]] = {
    "yaml": ("runner.source.yaml",),
    "jsonschema": ("runner.source.schema",),
    # Two doors for two kinds of service: one takes credentials in its query, the other a token in a header.
    "requests": ("runner.service.connection", "runner.service.route", "runner.forge.connection"),
    "sqlalchemy": ("runner.ledger",),
    # Campaign texts and our own documents: the first are theirs and bounded, the others escape HTML.
    "jinja2": (
        "runner.campaign.absent",
        "runner.campaign.bounds",
        "runner.campaign.branch",
        "runner.campaign.language",
        "runner.campaign.template",
        "runner.campaign.failure",
        "runner.report.custom_template",
        "runner.report.html",
        "runner.sandbox.inbox.pages",
    ),
    "phonenumbers": (
        "runner.campaign.allocation",
        "runner.campaign.phone",
        "runner.campaign.checks",
        "runner.timing.place",
        "runner.timing.zone",
    ),
    "holidays": ("runner.timing.public_holidays",),
    "csv": (
        "runner.campaign.table",
        "runner.report.columns.staging",
        "runner.report.csv_table",
        "runner.sandbox.records",
    ),
    "click": ("runner.cli",),
    "rich": ("runner.cli.console",),
    "subprocess": ("runner.repository.git", "runner.cli.demo"),
    # One counts the results of reports, the other writes exports of the ledger and reads them again.
    "duckdb": ("runner.report.columns.engine", "runner.ledger.parquet_files"),
    "pygal": ("runner.report.charts",),
    "fsspec": ("runner.source.storage", "runner.cluster.folder"),
    "pyarrow": ("runner.campaign.parquet_table", "runner.cluster.columns"),
    "dask": ("runner.cluster.connection",),
    "distributed": ("runner.cluster.connection", "runner.cluster.engine"),
    "sqlite3": ("runner.sandbox",),
    "starlette": ("runner.sandbox",),
    "uvicorn": ("runner.sandbox",),
}


def name_module(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(file: Path) -> set[str]:
    """Return every module that a file imports: at its top, in functions, and for types alone."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name} has a relative import"
            assert node.module is not None
            found.add(node.module)
    return found


IMPORTS = {name_module(file): find_imports(file) for file in sorted(PACKAGE.rglob("*.py"))}


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or (place != "runner" and module.startswith(f"{place}.")) for place in places)


@pytest.mark.parametrize("shelf", MAY_KNOW)
def test_shelf_knows_only_its_neighbours(shelf: str) -> None:
    """A shelf imports nothing of the program but what stands below it."""
    modules = [module for module in IMPORTS if is_within(module, (shelf,))]
    assert modules
    for module in modules:
        ours = {name for name in IMPORTS[module] if name.split(".")[0] == "runner"}
        strangers = {name for name in ours if not is_within(name, MAY_KNOW[shelf])}
        assert not strangers, f"{module} knows {strangers}"


def test_nobody_knows_the_command_line() -> None:
    """Only the entry point imports runner.cli."""
    knowing = {m for m, names in IMPORTS.items() if any(is_within(n, ("runner.cli",)) for n in names)}
    assert {m for m in knowing if not is_within(m, ("runner.cli",))} == {"runner.__main__"}


def test_only_the_command_line_knows_the_sandbox() -> None:
    """Client and server share schemas alone, so that one wrong idea can't satisfy both ends."""
    for module, names in IMPORTS.items():
        if any(is_within(name, ("runner.sandbox",)) for name in names):
            assert is_within(module, ("runner.sandbox", "runner.cli")), module


def test_the_sandbox_is_built_on_its_core() -> None:
    """Conversations and store know nothing of HTTP, pages or rehearsals; those know only what is below them."""
    for module, names in IMPORTS.items():
        if is_within(module, ("runner.sandbox",)):
            above = next(
                (SANDBOX_STOREYS[:i] for i, own in enumerate(SANDBOX_STOREYS) if is_within(module, own)),
                SANDBOX_STOREYS,
            )
            strangers = {n for n in names if any(is_within(n, storey) for storey in above)}
            assert not strangers, f"{module} knows {strangers}"


@pytest.mark.parametrize("model", VALUES_BELOW)
def test_models_know_nobody(model: str) -> None:
    """A module of values imports nothing of the program but values from further down."""
    known = {name for name in IMPORTS[model] if name.split(".")[0] == "runner"}
    assert known <= VALUES_BELOW[model]


def test_there_are_no_import_cycles() -> None:
    """No module imports, by whatever way, a module that imports it."""
    graph = {module: {name for name in names if name in IMPORTS} for module, names in IMPORTS.items()}
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("library", DOORS)
def test_a_library_has_one_door(library: str) -> None:
    """A library is imported in the one place that is its door."""
    entered = {m for m, names in IMPORTS.items() if any(n.split(".")[0] == library for n in names)}
    assert entered
    assert {module for module in entered if not is_within(module, DOORS[library])} == set()


def test_only_the_command_line_writes_output() -> None:
    """Nothing but runner.cli prints: the rest returns values or tells an observer."""
    for file in PACKAGE.rglob("*.py"):
        calls = (n for n in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(n, ast.Call))
        prints = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert not prints, file
