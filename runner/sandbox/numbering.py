"""Rows that are numbered as they come, so that any page of any list costs the same.

Rows of launch and result are never deleted. Each carries its number, from 1 and without gaps, among all rows
(its id) and in every series that lists are filtered by: the highest number is the count, and a page is a
range of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

Key = str | int

# By table: which columns make a series, and the column that numbers its rows.
_SERIES: dict[str, dict[frozenset[str], str]] = {
    "launch": {frozenset({"project_tag"}): "tag_number"},
    "result": {
        frozenset({"launch_id"}): "launch_number",
        frozenset({"launch_id", "question_tag"}): "launch_question_number",
        frozenset({"participant_id"}): "participant_number",
        frozenset({"project_tag"}): "project_tag_number",
        frozenset({"question_tag"}): "question_tag_number",
        frozenset({"project_tag", "question_tag"}): "tags_number",
    },
}


def write_insert(table: str, columns: Collection[str]) -> str:
    """Write the statement that inserts a row and numbers it, with a named parameter for each of `columns`.

    It must run inside a write transaction, whose lock keeps others from taking the same numbers.
    """
    values = [f":{column}" for column in columns]
    for keys, number in _SERIES[table].items():
        values.append(f"(SELECT COALESCE(max({number}), 0) + 1 FROM {table} WHERE {_match(sorted(keys))})")
    names = [*columns, *_SERIES[table].values()]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"


def select_page(
    connection: sqlite3.Connection, table: str, keys: Mapping[str, Key], limit: int, offset: int
) -> tuple[int, Sequence[int]]:
    """Choose the ids of a page.

    Args:
        connection: inside a read transaction.
        table: `launch` or `result`.
        keys: values of columns that the rows must have. Without a series of their own, `participant_id` must
            be among them: one person's results are few enough to be walked.
        limit: rows on the page.
        offset: rows before it.

    Returns:
        How many rows there are in all, and the ids in order of creation.
    """
    if not keys:
        (total,) = connection.execute(f"SELECT COALESCE(max(id), 0) FROM {table}").fetchone()
        return total, range(offset + 1, min(offset + limit, total) + 1)
    number = _SERIES[table].get(frozenset(keys))
    rows = f"WHERE {_match(keys)}"
    if number is None:
        walk = f"SELECT id FROM {table} INDEXED BY result_by_participant {rows} ORDER BY participant_number"
        ids = [row_id for (row_id,) in connection.execute(walk, keys)]
        return len(ids), ids[offset : offset + limit]
    (total,) = connection.execute(f"SELECT COALESCE(max({number}), 0) FROM {table} {rows}", keys).fetchone()
    page = f"SELECT id FROM {table} {rows} AND {number} > :first AND {number} <= :last ORDER BY {number}"
    found = connection.execute(page, {**keys, "first": offset, "last": offset + limit})
    return total, [row_id for (row_id,) in found]


def _match(columns: Collection[str]) -> str:
    return " AND ".join(f"{column} = :{column}" for column in columns)
