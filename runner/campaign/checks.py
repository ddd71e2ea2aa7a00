"""What a schema cannot say about a campaign: rules between its parts, and files that must be there."""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Literal

import phonenumbers

from runner.campaign.audience_files import check_file
from runner.campaign.consent_record import find_date_problem
from runner.campaign.encoding import is_text_encoding
from runner.campaign.flow import check_flow
from runner.campaign.position import Position
from runner.campaign.recipients import FileRecipients, RecipientSource
from runner.source.diagnostic import Diagnostic
from runner.source.folding import fold_to_word
from runner.source.schema import schema_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.campaign.model import Campaign, Message, Question, TemplateText
    from runner.source.document import Key, YamlDocument

COMMAND_WORDS = frozenset(
    [
        "stop",
        "stopall",
        "unsubscribe",
        "cancel",
        "end",
        "quit",
        "optout",
        "revoke",
        "start",
        "yes",
        "unstop",
        "help",
        "info",
    ]
)
"""Replies that carriers take for themselves (CTIA Messaging Principles and Best Practices 2023, 5.1.3), as
`fold_to_word` writes them: `Stop.` and `opt-out` opt out as well (47 CFR 64.1200(a)(10))."""

_ENCODINGS = (
    "utf-8",
    "utf-16",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "iso-8859-2",
    "gbk",
    "shift_jis",
)
_NAME = re.compile(json.loads(schema_text("campaign"))["$defs"]["name"]["pattern"])


def check_campaign(
    campaign: Campaign, document: YamlDocument, roots: tuple[Path, ...], urls: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with a campaign whose document fits the schema.

    Args:
        campaign: the campaign.
        document: gives the places.
        roots: the folders below which it may read files.
        urls: those below which it may read URLs.
    """
    if not _NAME.fullmatch(campaign.name):
        yield Diagnostic(
            "error",
            "campaign-name",
            f"the file's name gives no name for the campaign: {campaign.name!r}",
            campaign.file,
            1,
            1,
            "write `name:` with letters, digits, `.`, `_` and `-`",
        )
    yield from _check_messages(campaign)
    yield from check_flow(campaign, document)
    for key, sources in (("recipients", campaign.recipients), ("exclude", campaign.exclude)):
        for index, source in enumerate(sources):
            yield from _check_region(source, document, [key, index, "region"])
            if isinstance(source, FileRecipients):
                yield from _check_encoding(source, document, [key, index, "encoding"])
                yield from check_file(source, roots, urls)
            elif source.consent is not None and source.consent.date is not None:
                yield from _check_consent_date(source.consent.date, document, [key, index, "consent", "date"])


def _check_messages(campaign: Campaign) -> Iterator[Diagnostic]:
    seen: dict[str, int] = {}
    for message in campaign.messages:
        if message.id in seen:
            place = message.position
            text = f"the message id `{message.id}` stands twice; first in line {seen[message.id]}"
            yield Diagnostic(
                "error",
                "message-id-repeated",
                text,
                place.file,
                place.line,
                place.column,
                "rename one of them",
            )
        seen.setdefault(message.id, message.position.line)
        yield from _check_questions(message)
        for varied in campaign.list_arms(message.id).values():
            if varied.questions is not message.questions:
                yield from _check_questions(varied)
    yield from _check_message_renames(campaign)


def _check_message_renames(campaign: Campaign) -> Iterator[Diagnostic]:
    """Find ids whose record two messages would go by: the one would be taken for the other."""
    places = {message.id: message.position for message in campaign.messages}
    claims: dict[str, Message] = {}
    for message in campaign.messages:
        for name in dict.fromkeys(message.renamed_from):
            if name in places:
                words = f"which this campaign still has, in line {places[name].line}"
                hint = "take it out, or give the message its new id"
            elif name in claims:
                words = f"which `{claims[name].id}` claims, too"
                hint = "only one message can go on with it: take it out"
            else:
                claims[name] = message
                continue
            place = message.position
            text = f"`renamed_from` of the message `{message.id}` claims the record of `{name}`, {words}"
            yield Diagnostic("error", "message-id-in-use", text, place.file, place.line, place.column, hint)


def _check_questions(message: Message) -> Iterator[Diagnostic]:
    seen: dict[str, int] = {}
    for question in message.questions:
        place = question.text.position
        if question.tag in seen:
            text = f"the question tag `{question.tag}` stands twice in message `{message.id}`"
            yield Diagnostic(
                "error",
                "question-tag-repeated",
                text,
                place.file,
                place.line,
                place.column,
                "rename one of them",
            )
        seen[question.tag] = place.line
        yield from _check_scale(question)
        yield from _check_conclusion(question)
        for response in question.responses:
            if fold_to_word(response.source) in COMMAND_WORDS:
                yield _text_problem(
                    response,
                    "warning",
                    "response-command-word",
                    f"carriers read {response.source.strip()!r} as a command: "
                    "they may keep the answer, or opt the person out",
                    "choose another word",
                )


def _check_scale(question: Question) -> Iterator[Diagnostic]:
    if question.scale in ("nps", "csat", "ces") and not question.responses:
        text = f"the scale `{question.scale}` needs `responses`"
        yield _text_problem(question.text, "error", "scale-responses", text, "list the answers, lowest first")
    written = [response.source.strip() for response in question.responses]
    if question.scale == "nps" and written and written != [str(n) for n in range(11)]:
        text = 'the scale `nps` needs the responses "0" to "10", in this order'
        yield _text_problem(
            question.responses[0], "error", "scale-responses", text, "or use the scale `number` or `choice`"
        )


def _check_conclusion(question: Question) -> Iterator[Diagnostic]:
    ending = question.conclude_on
    texts = [response.source for response in question.responses]
    if ending is None or not texts or any("{" in text for text in (*texts, ending.source)):
        return
    if ending.source.strip().casefold() not in (text.strip().casefold() for text in texts):
        close = difflib.get_close_matches(ending.source, texts, n=1)
        text = f"`conclude_on` is {ending.source!r}, which is none of the responses"
        yield _text_problem(
            ending,
            "error",
            "conclude-on-unknown",
            text + (f": did you mean {close[0]!r}?" if close else ""),
            f"one of: {', '.join(texts)}",
        )


def _text_problem(
    text: TemplateText, severity: Literal["error", "warning"], code: str, message: str, hint: str | None
) -> Diagnostic:
    place = text.position
    return Diagnostic(severity, code, message, place.file, place.line, place.column, hint)


def _check_region(source: RecipientSource, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    if source.region is not None and source.region.partition("-")[0] not in phonenumbers.SUPPORTED_REGIONS:
        line, column = document.locate(path)
        text = f"there is no region {source.region}"
        yield Diagnostic(
            "error",
            "region-unknown",
            text,
            document.file,
            line,
            column,
            "use a code of ISO 3166-1, as in US, GB, DE",
        )


def _check_encoding(source: FileRecipients, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    name = source.encoding
    if name is not None and not is_text_encoding(name):
        line, column = document.locate(path)
        close = difflib.get_close_matches(name.lower(), _ENCODINGS, n=1)
        words = f"there is no encoding {name!r}" + (f": did you mean {close[0]!r}?" if close else "")
        hint = f"one of {', '.join(_ENCODINGS)}, or another name that Python knows"
        yield Diagnostic("error", "encoding-unknown", words, document.file, line, column, hint)


def _check_consent_date(written: str, document: YamlDocument, path: list[Key]) -> Iterator[Diagnostic]:
    problem = find_date_problem(written, Position(document.file, *document.locate(path)))
    if problem is not None:
        yield problem
