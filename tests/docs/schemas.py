"""The schemas of documents, made from their types."""

from __future__ import annotations

import inspect
import json
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runner.cli.commands.sandbox import ShownClock, Simulation
from runner.plan.documents import PlanDocument
from runner.report.columns.file_columns import Codebook
from runner.report.model import CampaignReport
from runner.version import DOCUMENTATION_URL, FORMAT_VERSION
from runner.workflow.apply import AppliedDocument
from runner.workflow.checking.suite import SuiteDocument
from runner.workflow.checking.validate import ValidationDocument
from runner.workflow.doctor import Examination
from runner.workflow.preview import PreviewDocument
from runner.workflow.records.forgetting import ForgottenPerson
from runner.workflow.records.ledger_copy import LedgerCopy
from runner.workflow.records.opt_outs import OptOutsDocument
from runner.workflow.records.pausing import PauseChange
from runner.workflow.records.pruning import PrunedDocument
from runner.workflow.resolve import UnresolvedDocument
from runner.workflow.results.reconcile import Reconciliation
from runner.workflow.results.status import StatusDocument
from runner.workflow.who import PersonDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "schemas"
DOCUMENTS: dict[str, tuple[str, tuple[type, ...]]] = {
    "doctor": ("Doctor", (Examination,)),
    "forget": ("A person forgotten", (ForgottenPerson,)),
    "prune": ("Texts and answers pruned", (PrunedDocument,)),
    "ledger": ("Ledger", (LedgerCopy,)),
    "optouts": ("Opt-outs", (OptOutsDocument,)),
    "apply": ("Delivery", (AppliedDocument,)),
    "status": ("Status", (StatusDocument,)),
    "plan": ("Plan", (PlanDocument,)),
    "report": ("Campaign report", (CampaignReport,)),
    "codebook": ("Codebook", (Codebook,)),
    "preview": ("Preview", (PreviewDocument,)),
    "sandbox": ("The sandbox", (Simulation, ShownClock)),
    "reconcile": ("Reconciliation", (Reconciliation,)),
    "resolve": ("Launches that may have reached people", (UnresolvedDocument,)),
    "validate": ("Validation", (ValidationDocument,)),
    "pause": ("Pauses", (PauseChange,)),
    "test": ("Test results", (SuiteDocument,)),
    "who": ("A person", (PersonDocument,)),
}
"""The titles and types of documents, by the name of their schema."""
_ENTRY = re.compile(r"^    (\w+): (.*?)(?=^    \S|\Z)", re.DOTALL | re.MULTILINE)
_WIDTH = 140
_VERSION = {
    "description": "The version of this format; later minor versions only add.",
    "const": FORMAT_VERSION,
}


@cache
def render_schemas() -> dict[Path, str]:
    """Return the text of each generated schema, by its path."""
    return {FOLDER / f"{name}.schema.json": _lay_out(build_schema(name)) + "\n" for name in DOCUMENTS}


def _lay_out(value: Any, indent: str = "") -> str:
    """Return JSON in which what fits on a line stands on one."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(whole) < _WIDTH or not isinstance(value, (dict, list)):
        return whole
    inner = f"{indent}  "
    if isinstance(value, list):
        lines = [f"{inner}{_lay_out(one, inner)}" for one in value]
    else:
        lines = [f"{inner}{json.dumps(name)}: {_lay_out(one, inner)}" for name, one in value.items()]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return ",\n".join([f"{first}\n{lines[0]}", *lines[1:]]) + f"\n{indent}{last}"


def build_schema(name: str) -> dict[str, Any]:
    """Return the schema of a document, closed and with the descriptions of its types' docstrings."""
    title, kinds = DOCUMENTS[name]
    _, parts = msgspec.json.schema_components(kinds, schema_hook=_describe_own_type)
    classes = {one.__name__: one for one in _list_classes(kinds)}
    definitions = {part: _describe(classes[part], rules) for part, rules in parts.items()}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{DOCUMENTATION_URL}schemas/{name}.schema.json",
        "$comment": f"generated: from the types of {kinds[0].__module__}, by `make reference`",
        "title": title,
    }
    if len(kinds) == 1:
        body = definitions.pop(kinds[0].__name__)
    else:
        body = {
            "description": _read_docstring(kinds[0].__mro__[1])[0],
            "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        }
    return {**head, **body, **({"$defs": definitions} if definitions else {})}


def _describe_own_type(kind: type) -> dict[str, Any]:
    if kind is Fraction:
        return {"type": "number"}
    raise NotImplementedError


def _list_classes(kinds: tuple[type, ...]) -> Iterator[type]:
    """Yield the classes that schemas have definitions of."""
    waiting: list[Any] = [msgspec.inspect.type_info(kind) for kind in kinds]
    seen: set[Any] = set()
    while waiting:
        one = waiting.pop()
        if hasattr(one, "fields") and one.cls not in seen:
            seen.add(one.cls)
            yield one.cls
            waiting += [field.type for field in one.fields]
        for name in ("type", "item_type", "key_type", "value_type"):
            waiting += [getattr(one, name)] if hasattr(one, name) else []
        waiting += [*getattr(one, "types", ()), *getattr(one, "item_types", ())]


def _describe(kind: type, rules: dict[str, Any]) -> dict[str, Any]:
    """Return a definition without what msgspec takes from names and defaults, with a docstring's words."""
    words, entries = _read_docstring(kind)
    named = {}
    for name, rule in rules["properties"].items():
        if name == "format_version":
            named[name] = _VERSION
            continue
        assert name in entries, f"{kind.__qualname__} does not describe {name}"
        plain = {key: value for key, value in _simplify(rule).items() if key != "default"}
        named[name] = {"description": entries[name], **plain}
    needed = [name for name in named if not _may_be_unset(kind, name)]
    return {
        "description": words,
        "type": "object",
        "required": needed,
        "additionalProperties": False,
        "properties": named,
    }


def _may_be_unset(kind: type, name: str) -> bool:
    if not issubclass(kind, msgspec.Struct):
        return "NotRequired" in str(kind.__annotations__.get(name))
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return name in fields and fields[name].default is msgspec.UNSET


def _simplify(rule: Any) -> Any:
    """Return rules with `type: [integer, null]` for a choice of the two."""
    if isinstance(rule, list):
        return [_simplify(one) for one in rule]
    if not isinstance(rule, dict):
        return rule
    rule = {key: _simplify(value) for key, value in rule.items()}
    if "prefixItems" in rule and all(one == rule["prefixItems"][0] for one in rule["prefixItems"]):
        rule["items"] = rule.pop("prefixItems")[0]
    match rule.pop("anyOf", None):
        case None:
            return rule
        case [{"type": str(kind), **others}, {"type": "null"}]:
            return {"type": [kind, "null"], **others, **rule}
        case choice:
            return {"anyOf": choice, **rule}


def _read_docstring(kind: type) -> tuple[str, dict[str, str]]:
    """Return a class's description, and those of its fields, its own before those of its bases."""
    words = ""
    entries: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("runner."):
            head, _, listed = inspect.cleandoc(one.__doc__ or "").partition("\n\nAttributes:\n")
            words = " ".join(head.split())
            entries |= {name: _finish(text) for name, text in _ENTRY.findall(listed)}
    return words, entries


def _finish(text: str) -> str:
    """Return an entry of a docstring as a sentence of JSON."""
    joined = " ".join(text.split())
    return re.sub(r"\bNone\b", "null", joined[:1].upper() + joined[1:])
