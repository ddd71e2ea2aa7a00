"""Turns a campaign document that fits its schema into the model."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from runner.campaign.model import (
    After,
    Analysis,
    Arm,
    Campaign,
    Message,
    Question,
    TemplateText,
    Variants,
    ask_openly,
)
from runner.campaign.policy import FrequencyCap, Limits, Policy
from runner.campaign.position import Position
from runner.campaign.recipients import (
    Consent,
    ConsentColumns,
    FileFormat,
    FileRecipients,
    InlineRecipient,
    RecipientSource,
)
from runner.source.duration import parse_duration
from runner.source.rate import parse_rate
from runner.source.storage import is_url
from runner.timing.schedule import Schedule, read_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.source.document import Key, YamlDocument

_FILE_URL = "file://"
"""A path in the words of a URL: it is read as a path is."""


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
        self._completes = document.data.get("policy", {}).get("open_session") == "complete"

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
            recipients=tuple(map(self._source, data["recipients"])),
            exclude=tuple(map(self._source, data.get("exclude", ()))),
            vars=data.get("vars", {}),
            limits=_read_limits(data.get("limits", {})),
            renamed_from=tuple(data.get("renamed_from", ())),
            variants=self._variants(data["variants"]) if "variants" in data else None,
            schedule=_read_schedule(data.get("schedule", {})),
            policy=_read_policy(data.get("policy", {})),
            lockfile=data.get("lockfile", "full"),
            export_columns=tuple(self._export_columns(data.get("export_columns", []))),
            score=data["score"]["question"] if "score" in data else None,
        )

    def _export_columns(self, names: list[str]) -> Iterator[tuple[str, Position]]:
        for index, name in enumerate(names):
            yield name, self._position(names, index)

    def _position(self, container: dict[str, Any] | list[Any], key: Key) -> Position:
        line, column = self._document.place_of_value(container, key) or (0, 0)
        return Position(self._document.file, line + 1, column + 1)

    def _source(self, row: dict[str, Any]) -> RecipientSource:
        for key in get_args(FileFormat):
            if key in row:
                return self._file(row, key)
        return InlineRecipient(
            row["phone"],
            row.get("region"),
            row.get("vars", {}),
            self._position(row, "phone"),
            row.get("timezone"),
            Consent(**row["consent"]) if "consent" in row else None,
        )

    def _file(self, row: dict[str, Any], key: FileFormat) -> FileRecipients:
        written: str = row[key]
        has_path = written.startswith(_FILE_URL) or not is_url(written)
        path = self._document.file.parent / written.removeprefix(_FILE_URL) if has_path else Path(written)
        return FileRecipients(
            path,
            row.get("phone_column", "phone"),
            row.get("region"),
            self._position(row, key),
            row.get("timezone_column"),
            ConsentColumns(**row["consent"]) if "consent" in row else None,
            key,
            str(path.absolute()) if has_path else written,
            row.get("region_column"),
            row.get("encoding"),
            skips_invalid=row.get("invalid_rows") == "skip",
        )

    def _variants(self, item: dict[str, Any]) -> Variants:
        place = next(key for key in ("of", "holdout", "seed") if key in item)
        return Variants(
            item["seed"],
            item.get("of"),
            tuple(self._arm(arm) for arm in item.get("arms", [])),
            self._position(item, place),
            float(item.get("holdout", 0)),
            self._analysis(item["analysis"]) if "analysis" in item else None,
        )

    def _analysis(self, item: dict[str, Any]) -> Analysis:
        return Analysis(self._position(item, next(iter(item))), item.get("at"), item.get("per_arm"))

    def _arm(self, item: dict[str, Any]) -> Arm:
        return Arm(
            id=item["id"],
            weight=float(item.get("weight", 1)),
            position=self._position(item, "id"),
            tag=item.get("tag"),
            text=self._optional_text(item, "text"),
            introduction=self._optional_text(item, "introduction"),
            questions=self._questions(item) if "questions" in item else None,
            conclusion=self._optional_text(item, "conclusion"),
            method=item.get("method"),
            complete_existing_sessions=item.get("complete_existing_sessions"),
        )

    def _message(self, item: dict[str, Any], tag: str) -> Message:
        text = self._optional_text(item, "text")
        replies = item.get("replies", "ignored")
        questions = self._questions(item)
        if replies == "recorded" and text is not None:
            questions, text = ask_openly(text), None
        return Message(
            id=item["id"],
            tag=item.get("tag", tag),
            position=self._position(item, "id"),
            text=text,
            introduction=self._optional_text(item, "introduction"),
            questions=questions,
            conclusion=self._optional_text(item, "conclusion"),
            method=item.get("method", "SMS"),
            complete_existing_sessions=item.get("complete_existing_sessions", self._completes),
            renamed_from=tuple(item.get("renamed_from", ())),
            after=self._after(item["after"]) if "after" in item else None,
            to=item.get("to", "everyone"),
            replies=replies,
        )

    def _after(self, item: dict[str, Any]) -> After:
        return After(item["message"], parse_duration(item["wait"]), self._position(item, "message"))

    def _questions(self, item: dict[str, Any]) -> tuple[Question, ...]:
        return tuple(self._question(question) for question in item.get("questions", []))

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
    read = dict(limits)
    if "rate" in limits:
        read["rate"] = parse_rate(limits["rate"])
    if "settle_margin" in limits:
        read["settle_margin"] = parse_duration(limits["settle_margin"])
    if isinstance(limits.get("invalid_rows"), str):
        read["invalid_rows"] = _read_share(limits["invalid_rows"])
    return Limits(**read)


def _read_share(written: str) -> Fraction:
    return Fraction(written.removesuffix("%")) / 100


def _read_schedule(written: dict[str, Any]) -> Schedule:
    schedule = read_schedule(written)
    # What is wrong with it is said by the checks, with its place.
    return schedule if isinstance(schedule, Schedule) else Schedule()


def _read_policy(written: dict[str, Any]) -> Policy:
    read = {**written, "opt_out_words": tuple(written.get("opt_out_words", ()))}
    if "frequency_cap" in written:
        cap = written["frequency_cap"]
        read["frequency_cap"] = FrequencyCap(cap["messages"], parse_duration(cap["within"]))
    if "read_replies_within" in written:
        read["read_replies_within"] = parse_duration(written["read_replies_within"])
    if "review_margin" in written:
        read["review_margin"] = _read_share(written["review_margin"])
    return Policy(**read)
