"""What a campaign file says, as values: no file is read and nothing is rendered here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

Variable: TypeAlias = str | int | float | bool | list["Variable"] | dict[str, "Variable"] | None
Variables: TypeAlias = Mapping[str, Variable]
Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
Method = Literal["SMS", "VOICE"]

DEFAULT_RECIPIENTS_PER_SEND = 500
"""Phones in one send when nobody says otherwise; the reference shows no maximum (section 8)."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file. `line` and `column` count from 1."""

    file: Path
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A Jinja2 template as it stands in the campaign file.

    Attributes:
        source: the template's text.
        position: where the value starts in the file.
        first_line: the line of the file that holds the template's first line.
        indent: the column of the file at which the template's lines start, from 1.
        is_block: whether one line of the template is one line of the file (a `|` scalar).
    """

    source: str
    position: Position
    first_line: int
    indent: int
    is_block: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a survey; `responses` is empty for a freeform one."""

    tag: str
    text: TemplateText
    responses: tuple[TemplateText, ...] = ()
    scale: Scale = "choice"
    conclude_on: TemplateText | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a campaign: a plain `text`, or a survey of `questions`.

    `renamed_from` holds the ids that it had before.
    """

    id: str
    tag: str
    position: Position
    text: TemplateText | None = None
    introduction: TemplateText | None = None
    questions: tuple[Question, ...] = ()
    conclusion: TemplateText | None = None
    method: Method = "SMS"
    complete_existing_sessions: bool = False
    renamed_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InlineRecipient:
    """A recipient written in the campaign file, its phone not yet parsed."""

    phone: str
    region: str | None
    vars: Variables
    position: Position


@dataclass(frozen=True, slots=True)
class CsvRecipients:
    """An audience file: every column is a variable, one column is the phone."""

    path: Path
    phone_column: str
    region: str | None
    position: Position


RecipientSource = InlineRecipient | CsvRecipients


@dataclass(frozen=True, slots=True)
class Limits:
    """The safety limits of a campaign; `None` means unlimited.

    Attributes:
        recipients: the most people one plan may text.
        renders: the most renders one plan may cost.
        recipients_per_send: the most phones in one launch.
        rate: the most sends a second.
    """

    recipients: int | None = None
    renders: int | None = None
    recipients_per_send: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Campaign:
    """A whole campaign file.

    Attributes:
        name: unique in the repository; one third of a delivery's identity.
        position: where the name stands; the file's start when the file's own name is the name.
        file: the campaign file.
        root: the folder below which this campaign may read files.
        vars: template variables for every recipient.
        recipients: the audience's sources, in order: the first mention of a phone wins.
        exclude: phones that this campaign never texts.
        messages: in the order of the file.
        limits: the campaign's safety limits.
        renamed_from: names that it had before.
    """

    name: str
    position: Position
    file: Path
    root: Path
    messages: tuple[Message, ...]
    recipients: tuple[RecipientSource, ...]
    exclude: tuple[RecipientSource, ...] = ()
    vars: Variables = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    renamed_from: tuple[str, ...] = ()

    @property
    def message_ids(self) -> dict[str, str]:
        """The ids of the messages, by those that they have and those that they had before."""
        return {name: message.id for message in self.messages for name in (*message.renamed_from, message.id)}
