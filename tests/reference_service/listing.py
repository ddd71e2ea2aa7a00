"""Lists of launches and results: what is in them, in what order, and a page at a time."""

from __future__ import annotations

import csv
import io
import random
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from tests.reference_service.wire import write_result, write_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.reference_service.store import Launch, Result, Store
    from tests.reference_service.switches import Switches

USUAL_PAGE = 20
"""The records of a page where no limit is given."""
_Item = TypeVar("_Item")
_SHUFFLE = random.SystemRandom()


class BadQueryError(ValueError):
    """A query parameter cannot be read."""


def list_stats(store: Store, switches: Switches, query: dict[str, str], path: str) -> dict[str, Any]:
    """Return a page of the stats list."""
    tag = query.get("project_tag")
    launches = [launch for launch in _find_listed(store, switches) if _has_tag(launch, tag, switches)]
    ordered = _put_in_order(launches, lambda launch: launch.sent.guid, switches)
    page = _make_page(ordered, query, path, switches, lambda launch: write_stat(launch, switches))
    page["meta"] |= {"plan": _write_plan(store, switches), "totals": _sum_up(store)}
    return page


def list_results(store: Store, switches: Switches, query: dict[str, str], path: str) -> dict[str, Any]:
    """Return a page of the results list."""
    listed = {launch.sent.guid for launch in _find_listed(store, switches)}
    results = [
        result
        for result in store.results
        if result.launch.sent.guid in listed and _matches(result, query, switches)
    ]
    ordered = _put_in_order(results, lambda result: result.guid, switches)
    page = _make_page(
        ordered, query, path, switches, lambda result: store.rewrite(write_result(result, switches))
    )
    page["objects"] = [record for record in page["objects"] if record is not None]
    return page


def find_stat(store: Store, switches: Switches, guid: str) -> dict[str, Any] | None:
    """Return one stat record; guids match without case."""
    for launch in _find_listed(store, switches):
        if launch.sent.guid == guid.lower():
            return write_stat(launch, switches)
    return None


def find_result(store: Store, switches: Switches, guid: str) -> dict[str, Any] | None:
    """Return one result record."""
    for result in store.results:
        if result.guid == guid.lower():
            return write_result(result, switches)
    return None


def write_csv(records: Sequence[dict[str, Any]]) -> str:
    """Return records as CSV, whose layout the reference does not show."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, fieldnames=list(records[0]) if records else [])
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def _find_listed(store: Store, switches: Switches) -> list[Launch]:
    """Return the launches that the service owns up to at the moment, in the order in which they came."""
    now = time.monotonic()
    if switches.lists == "late":
        return [launch for launch in store.launches if now - launch.sent.monotonic >= switches.delay_s]
    if switches.lists == "empty" and store.accepted:
        return store.launches if now - store.accepted[-1].monotonic >= switches.delay_s else []
    if switches.lists == "forgetful":
        by_tag: dict[object, list[Launch]] = {}
        for launch in store.launches:
            by_tag.setdefault(launch.sent.definition.get("tag"), []).append(launch)
        kept = [
            launch.sent.guid for launches in by_tag.values() for launch in launches[-switches.remembers :]
        ]
        return [launch for launch in store.launches if launch.sent.guid in kept]
    return store.launches


def _has_tag(launch: Launch, tag: str | None, switches: Switches) -> bool:
    own = str(launch.sent.definition.get("tag"))
    if switches.tags == "lower":
        return tag is None or tag.lower() == own.lower()
    return tag in (None, own.lower() if switches.tags == "lower-alone" else own)


def _matches(result: Result, query: dict[str, str], switches: Switches) -> bool:
    guids = {
        "project_launch_guid": result.launch.sent.guid,
        "participant_guid": result.session.participant.guid,
    }
    return (
        all(query.get(name, own).lower() == own for name, own in guids.items())
        and _has_tag(result.launch, query.get("project_tag"), switches)
        and query.get("question_tag") in (None, result.question.get("tag"))
    )


def _put_in_order(items: list[_Item], guid: Callable[[_Item], str], switches: Switches) -> list[_Item]:
    if switches.order == "newest":
        return items[::-1]
    if switches.order == "guid":
        return sorted(items, key=guid)
    if switches.order == "random":
        return _SHUFFLE.sample(items, len(items))
    return items


def _make_page(
    items: list[_Item],
    query: dict[str, str],
    path: str,
    switches: Switches,
    write: Callable[[_Item], dict[str, Any] | None],
) -> dict[str, Any]:
    limit, offset = _read_count(query, "limit", USUAL_PAGE), _read_count(query, "offset", 0)
    if switches.limit == "ignored":
        limit = switches.page_cap or USUAL_PAGE
    elif switches.page_cap is not None:
        limit = min(limit, switches.page_cap)
    meta: dict[str, Any] = {
        "limit": limit,
        "offset": offset,
        "next": _write_next(query, path, offset + limit, limit, len(items), switches),
        "previous": None,
    }
    if switches.total != "missing":
        total: dict[str, Any] = {"null": None, "text": str(len(items)), "too-high": len(items) + 2}
        meta["total_count"] = total.get(switches.total, len(items))
    return {"meta": meta, "objects": [write(item) for item in items[offset : offset + limit]]}


def _write_next(
    query: dict[str, str], path: str, offset: int, limit: int, total: int, switches: Switches
) -> str | None:
    place = {"limit": str(limit), "offset": str(offset)}
    if switches.next == "whole":
        return f"{path}?{urlencode(query | place)}"
    if offset >= total:
        return "" if switches.next == "empty" else None
    return f"{path}?{urlencode(place)}"


def _read_count(query: dict[str, str], name: str, otherwise: int) -> int:
    text = query.get(name, str(otherwise))
    if not (text.isascii() and text.isdigit()):
        raise BadQueryError(f"{name} is no whole number from 0")
    return int(text)


def _write_plan(store: Store, switches: Switches) -> dict[str, Any]:
    renders = {"max": switches.renders_max, "used": store.count_renders()}
    return {"name": "reference", "price_usd": switches.price_usd, "renders": renders}


def _sum_up(store: Store) -> dict[str, Any]:
    """Return the counts over all launches, whatever is listed and whatever was asked for."""
    states = [launch.count_sessions() for launch in store.launches]
    questions = sum(launch.questions for launch in store.launches)
    return {
        "active_sessions": sum(count["ACTIVE"] for count in states),
        "complete_sessions": sum(count["COMPLETE"] for count in states),
        "launches": len(store.launches),
        "messages": sum(launch.messages for launch in store.launches),
        "question_result_rate": round(len(store.results) / questions, 2) if questions else 0.0,
        "questions": questions,
        "queued_sessions": sum(count["QUEUED"] for count in states),
        "renders": store.count_renders(),
        "results": len(store.results),
    }
