"""Query parameters of the lists (sections 4.2 and 4.4) and the paging part of `meta` (section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from runner.sandbox.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

DEFAULT_LIMIT = 20
MAX_LIMIT = 1000
_FORMATS = ("json", "csv")
# Signs, blanks and other scripts' digits are refused, which int() would take.
_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list request asks for.

    Attributes:
        limit: records on the page, from 1 to `MAX_LIMIT`.
        offset: index of the first record, from 0.
        is_csv: whether the answer is CSV, else JSON.
        filters: the filters that were given, by the names of their parameters.
    """

    limit: int
    offset: int
    is_csv: bool
    filters: Mapping[str, str]


def read_list_query(parameters: Mapping[str, str], filters: Collection[str]) -> ListQuery:
    """Read the query parameters of a list; those that it does not know change nothing.

    An empty parameter counts as not given. A limit above `MAX_LIMIT` is lowered to it.

    Raises:
        RefusalError: 400, with every parameter that is wrong.
    """
    problems: list[str] = []
    limit = _read_number(parameters, "limit", DEFAULT_LIMIT, 1, problems)
    offset = _read_number(parameters, "offset", 0, 0, problems)
    layout = parameters.get("format") or "json"
    if layout not in _FORMATS:
        problems.append("format: must be json or csv")
    if problems:
        raise RefusalError(400, "invalid_query", "The query parameters are not valid.", problems)
    given = {name: parameters[name] for name in filters if parameters.get(name)}
    return ListQuery(min(limit, MAX_LIMIT), offset, layout == "csv", given)


def make_meta(
    path: str, parameters: Sequence[tuple[str, str]], query: ListQuery, total_count: int
) -> dict[str, Any]:
    """Build `meta`: `next` is "" on the last page, `previous` is None on the first.

    Where there is another page, its value is a path with the whole query, credentials included: the reference
    shows no format, and this is what services of this family do.
    """
    limit, offset = query.limit, query.offset
    kept = [(name, value) for name, value in parameters if name not in {"limit", "offset"}]

    def link(start: int) -> str:
        return f"{path}?{urlencode([*kept, ('limit', limit), ('offset', start)])}"

    return {
        "limit": limit,
        "offset": offset,
        "total_count": total_count,
        "next": link(offset + limit) if offset + limit < total_count else "",
        "previous": link(max(0, offset - limit)) if offset else None,
    }


def _read_number(
    parameters: Mapping[str, str], name: str, default: int, minimum: int, problems: list[str]
) -> int:
    written = parameters.get(name)
    if not written:
        return default
    if _WHOLE_NUMBER.fullmatch(written) and int(written) >= minimum:
        return int(written)
    problems.append(f"{name}: must be a whole number from {minimum}")
    return default
