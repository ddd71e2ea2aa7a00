"""Turns a campaign document that fits its schema into the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.campaign.model import (
    Campaign,
    CsvRecipients,
    InlineRecipient,
    Limits,
    Message,
    Position,
    Question,
    RecipientSource,
    TemplateText,
)
from runner.source.rate import parse_rate

if TYPE_CHECKING:
    from pathlib import Path

    from runner.source.document import Key, YamlDocument


def read_campaign(document: YamlDocument, root: Path) -> Campaign:
    """Return the campaign that a document describes.

    Args:
        document: fits the campaign schema.
        root: the folder below which the campaign may read files.
    """
    return _Reader(document, root).read()


class _Reader:
    def __init__(self, document: YamlDocument, root: Path) -> None:
        self._document = document
        self._root = root

    def read(self) -> Campaign:
        data = self._document.data
        name = data.get("name", self._document.file.stem)
        tag = data.get("tag", name)
        return Campaign(
            name=name,
            position=self._position(data, "name"),
            file=self._document.file,
            root=self._root,
            messages=tuple(self._message(item, tag) for item in data["messages"]),
            recipients=tuple(self._source(data["recipients"], i) for i in range(len(data["recipients"]))),
            exclude=tuple(self._source(data["exclude"], i) for i in range(len(data.get("exclude", [])))),
            vars=data.get("vars", {}),
            limits=_read_limits(data.get("limits", {})),
            renamed_from=tuple(data.get("renamed_from", ())),
        )

    def _position(self, container: dict[str, Any] | list[Any], key: Key) -> Position:
        place = self._document.place(container, key)
        line, column = (place.line, place.column) if place else (0, 0)
        return Position(self._document.file, line + 1, column + 1)

    def _source(self, rows: list[Any], index: int) -> RecipientSource:
        row = rows[index]
        if "csv" in row:
            path = self._document.file.parent / row["csv"]
            return CsvRecipients(
                path, row.get("phone_column", "phone"), row.get("region"), self._position(row, "csv")
            )
        return InlineRecipient(
            row["phone"], row.get("region"), row.get("vars", {}), self._position(row, "phone")
        )

    def _message(self, item: dict[str, Any], tag: str) -> Message:
        return Message(
            id=item["id"],
            tag=item.get("tag", tag),
            position=self._position(item, "id"),
            text=self._optional_text(item, "text"),
            introduction=self._optional_text(item, "introduction"),
            questions=tuple(self._question(question) for question in item.get("questions", [])),
            conclusion=self._optional_text(item, "conclusion"),
            method=item.get("method", "SMS"),
            complete_existing_sessions=item.get("complete_existing_sessions", False),
            renamed_from=tuple(item.get("renamed_from", ())),
        )

    def _question(self, item: dict[str, Any]) -> Question:
        responses: list[str] = item.get("responses", [])
        return Question(
            tag=item["tag"],
            text=self._text(item, "text"),
            responses=tuple(self._text(responses, index) for index in range(len(responses))),
            scale=item.get("scale", "choice" if responses else "text"),
            conclude_on=self._optional_text(item, "conclude_on"),
        )

    def _optional_text(self, container: dict[str, Any], key: str) -> TemplateText | None:
        return self._text(container, key) if key in container else None

    def _text(self, container: dict[str, Any] | list[Any], key: Key) -> TemplateText:
        source: str = container[key]  # type: ignore[index]
        position = self._position(container, key)
        place = self._document.place(container, key)
        if place is None or place.style != "|":
            return TemplateText(source, position, position.line, position.column, is_block=False)
        first = next((line for line in self._document.lines[position.line :] if line.strip()), "")
        indent = len(first) - len(first.lstrip(" ")) + 1
        return TemplateText(source, position, position.line + 1, indent, is_block=True)


def _read_limits(limits: dict[str, Any]) -> Limits:
    if "rate" not in limits:
        return Limits(**limits)
    return Limits(**{**limits, "rate": parse_rate(limits["rate"])})
