"""The layers of the program: the allowed imports of each room (docs/architecture.md)."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

import runner

PACKAGE = Path(runner.__file__).parent

STOREYS: tuple[tuple[str, ...], ...] = (
    ("runner.errors", "runner.wording", "runner.version", "runner.execution", "runner.atomic_write"),
    ("runner.document", "runner.reasons", "runner.view"),
    ("runner.telemetry",),
    ("runner.source", "runner.git", "runner.github"),
    ("runner.settings", "runner.timing", "runner.optout"),
    ("runner.campaign.message_model", "runner.campaign.rule_model"),
    ("runner.campaign.model",),
    ("runner.audience",),
    ("runner.text",),
    ("runner.campaign",),
    ("runner.ledger", "runner.service"),
    ("runner.plan", "runner.report"),
    ("runner.delivery", "runner.reconcile"),
    ("runner.cluster",),
    ("runner.workflow",),
    ("runner.api",),
    ("runner.cli",),
)
"""Layers from the ground up: a room may import those on the layers below it."""
SANDBOX_STOREYS = (
    ("runner.sandbox.web", "runner.sandbox.inbox", "runner.sandbox.pytest_plugin"),
    ("runner.sandbox.rehearsal",),
)
"""Layers of the sandbox above its core: each may import those below it."""
VALUES_BELOW: dict[str, set[str]] = {
    "runner.campaign.message_model": {"runner.source.diagnostic", "runner.timing.schedule"},
    "runner.campaign.model": {
        "runner.campaign.message_model",
        "runner.campaign.rule_model",
        "runner.source.diagnostic",
        "runner.source.money",
        "runner.timing.schedule",
    },
    "runner.campaign.rule_model": {"runner.source.diagnostic"},
    "runner.ledger.model": set(),
    "runner.ledger.report_model": {"runner.document", "runner.ledger.model"},
    "runner.service.model": {"runner.errors"},
}
"""The modules of values, with the others that each of them may import."""
DOORS: dict[str, tuple[str, ...]] = {
    # The sandbox shares nothing with the rest; its own description is no foreign file.
    "yaml": ("runner.source.yaml",),
    "jsonschema": ("runner.source.json_schema",),
    # Two doors for two kinds of service: one takes credentials in its query, the other a token in a header.
    "requests": ("runner.service.connection", "runner.github.rest"),
    "sqlalchemy": ("runner.ledger",),
    "msgspec": ("runner.document", "runner.ledger", "runner.github.comments", "runner.sandbox"),
    # Campaign texts are foreign and bounded; our own documents escape HTML.
    "jinja2": (
        "runner.text.faults",
        "runner.text.syntax",
        "runner.text.template",
        "runner.text.cells",
        "runner.text.language",
        "runner.report.documents.formats",
        "runner.sandbox.inbox.pages",
    ),
    "phonenumbers": (
        "runner.audience.phone",
        "runner.audience.phone_search",
        "runner.audience.rows",
        "runner.timing.zone",
    ),
    "holidays": ("runner.timing.window",),
    "csv": (
        "runner.audience.table",
        "runner.report.documents.formats",
        "runner.sandbox.records",
    ),
    "click": ("runner.cli",),
    "rich": ("runner.cli.console",),
    "subprocess": ("runner.git", "runner.cli.commands.demo"),
    "duckdb": ("runner.report.columns.engine",),
    "fsspec": ("runner.source.storage",),
    "pyarrow": ("runner.workflow.results.report",),
    "pandas": ("runner.report.columns.spss", "runner.workflow.results.report"),
    "pyrage": ("runner.source.encrypted",),
    "pyreadstat": ("runner.report.columns.spss",),
    "dask": ("runner.cluster.dask_engine",),
    "distributed": ("runner.cluster.dask_engine",),
    "opentelemetry": ("runner.telemetry",),
    "sqlite3": ("runner.sandbox", "runner.ledger.database"),
    "starlette": ("runner.sandbox",),
    "uvicorn": ("runner.sandbox",),
}


def name_module(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(module: str) -> set[str]:
    """Return every module that a module imports: at its top, in functions, and for types alone."""
    found = set()
    for node in NODES[module]:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            assert node.module is not None
            found.add(node.module)
    return found


NODES = {
    name_module(file): list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    for file in sorted(PACKAGE.rglob("*.py"))
}
IMPORTS = {module: find_imports(module) for module in NODES}


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or (place != "runner" and module.startswith(f"{place}.")) for place in places)


ROOMS = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}


def find_room(module: str) -> str | None:
    """Return the room of the plan that a module is in; None for the entry point and the sandbox."""
    return max((room for room in ROOMS if is_within(module, (room,))), key=len, default=None)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_only_those_below_it(room: str) -> None:
    """A room imports nothing of the program but itself and rooms on lower layers."""
    modules = [module for module in IMPORTS if find_room(module) == room]
    assert modules
    for module in modules:
        known = {name: find_room(name) for name in IMPORTS[module]}
        strangers = {
            n for n, other in known.items() if other not in {None, room} and ROOMS[other] >= ROOMS[room]
        }
        assert not strangers, f"{module} knows {strangers}"


def test_no_module_stands_outside_of_the_plan() -> None:
    """Every module is in a room of the plan, in the sandbox, or is the entry point."""
    outside = {module for module in IMPORTS if find_room(module) is None}
    assert {m for m in outside if not is_within(m, ("runner.sandbox",))} == {"runner", "runner.__main__"}


def test_nobody_knows_the_command_line() -> None:
    """Only the entry point imports runner.cli."""
    knowing = {m for m, names in IMPORTS.items() if any(is_within(n, ("runner.cli",)) for n in names)}
    assert {m for m in knowing if not is_within(m, ("runner.cli",))} == {"runner.__main__"}


def test_only_use_cases_start_the_sandbox() -> None:
    """Client and server share schemas alone, so that one wrong idea can't satisfy both ends."""
    for module, names in IMPORTS.items():
        if any(is_within(name, ("runner.sandbox",)) for name in names):
            assert is_within(module, ("runner.sandbox", "runner.workflow", "runner.api", "runner.cli")), (
                module
            )


def test_the_sandbox_is_built_on_its_core() -> None:
    """Conversations and store import neither HTTP, pages nor rehearsals; those import only lower modules."""
    for module, names in IMPORTS.items():
        if is_within(module, ("runner.sandbox",)):
            assert not {
                name
                for name in names
                if name.startswith("runner.") and not is_within(name, ("runner.sandbox",))
            }
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
    """No module imports, directly or indirectly, a module that imports it."""
    graph = {module: {name for name in names if name in IMPORTS} for module, names in IMPORTS.items()}
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("library", DOORS)
def test_a_library_has_one_door(library: str) -> None:
    """A library is imported only in its places, and in each of them."""
    entered = {m for m, names in IMPORTS.items() if any(n.split(".")[0] == library for n in names)}
    assert entered
    assert {module for module in entered if not is_within(module, DOORS[library])} == set()
    assert {door for door in DOORS[library] if not any(is_within(m, (door,)) for m in entered)} == set()


COMMANDS_KNOW = (
    "runner.api",
    "runner.workflow",
    "runner.cli",
    "runner.document",
    "runner.errors",
    "runner.reasons",
    "runner.settings",
    "runner.view",
    "runner.wording",
    "runner.sandbox",
)
"""Rooms that commands call; `runner sandbox` serves the sandbox itself."""
COMMANDS_STILL_KNOW = {
    "demo": {"runner.source"},
    "manual": {"runner.source", "runner.timing"},
    "people": {"runner.audience"},
    "admin": {"runner.service"},
    "plan": {"runner.github"},
    "report": {"runner.report"},
}
"""Rooms below the use cases that commands still import: this list may only become shorter."""


def test_commands_call_use_cases() -> None:
    """A command parses, calls a use case and shows the result: it imports few other rooms, and no new one."""
    for module, names in IMPORTS.items():
        if is_within(module, ("runner.cli.commands",)):
            rooms = {".".join(n.split(".")[:2]) for n in names if n.startswith("runner.")}
            strangers = {room for room in rooms if not is_within(room, COMMANDS_KNOW)}
            command = module.rpartition(".")[2]
            assert strangers <= COMMANDS_STILL_KNOW.get(command, set()), f"{module} knows {strangers}"


def test_commands_do_not_share_work() -> None:
    """Work that two commands share is in a use case or a writer: no command imports another."""
    shared = {
        # A job shows what the commands show that it is made of.
        "jobs": {f"runner.cli.commands.{name}" for name in ("apply", "reconcile")},
    }
    for module, names in IMPORTS.items():
        if is_within(module, ("runner.cli.commands",)):
            others = {name for name in names if is_within(name, ("runner.cli.commands",))}
            others -= {name for name in names if is_within(name, (".".join(module.split(".")[:4]),))}
            assert others <= shared.get(module.rpartition(".")[2], set()), module


def test_only_the_command_line_writes_output() -> None:
    """Nothing prints, and only runner.cli and the entry point use the process's streams."""
    streams = {"stdout", "stderr", "__stdout__", "__stderr__"}
    for module, nodes in NODES.items():
        calls = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert "print" not in calls, module
        if not is_within(module, ("runner.cli", "runner.__main__")):
            assert not [n for n in nodes if isinstance(n, ast.Attribute) and is_of(n, "sys", streams)], module


def is_of(node: ast.Attribute, module: str, names: set[str]) -> bool:
    return node.attr in names and isinstance(node.value, ast.Name) and node.value.id == module


def test_a_public_class_has_a_name_of_its_own() -> None:
    """No two modules have public classes of one name."""
    places: dict[str, list[str]] = {}
    for module, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_environment_is_an_argument() -> None:
    """The command line passes the process's environment on; a program that uses the API chooses one.

    Exceptions: git runs with that of the process, cluster workers have their own, and a forge's jobs are
    described by it.
    """
    reading = {
        module
        for module, nodes in NODES.items()
        if any(isinstance(n, ast.Attribute) and is_of(n, "os", {"environ", "getenv"}) for n in nodes)
    }
    known = (
        "runner.cli",
        "runner.cluster",
        "runner.git.command",
        "runner.github.job_summary",
        "runner.workflow.review",
    )
    assert {module for module in reading if not is_within(module, known)} == set()


def test_the_plan_of_the_house_names_what_is_there() -> None:
    """Each room and module that docs/architecture.md names exists."""
    page = (PACKAGE.parent / "docs/architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| \d+ \|.*\| ([^|]+) \|$", page, re.MULTILINE)
    named = {name for step in steps for name in re.findall(r"`([a-z_.]+)`", step)}
    assert 20 <= len(steps) <= 25
    assert not {name for name in named if not any(is_within(each, (f"runner.{name}",)) for each in IMPORTS)}
