"""Checks of texts by language: declared languages, missing translations, and answers that stay the same."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from runner.campaign.message_model import SCORED
from runner.campaign.model import FileRecipients, InlineRecipient
from runner.source.json_schema import schema_text
from runner.source.normalize import fold_answer, suggest
from runner.source.quantity import read_leading_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.message_model import Languages, Message, Question, TemplateText
    from runner.campaign.model import Campaign, RecipientSource
    from runner.source.diagnostic import Diagnostic
    from runner.source.yaml import YamlDocument


_TAG = re.compile(json.loads(schema_text("campaign"))["$defs"]["language"]["pattern"])


def is_language_tag(written: str) -> bool:
    """Return whether a text is a BCP 47 tag, as the schema has it."""
    return _TAG.fullmatch(written) is not None


def find_translation_problems(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    """Yield what is wrong with a campaign's languages, and with texts by language."""
    messages = [one for message in campaign.messages for one in campaign.list_written(message)]
    texts: dict[object, TemplateText] = {}
    for text in (text for message in messages for text in message.iterate_texts() if text.by_language):
        # The texts of `conclude_on` may be those of a response.
        texts.setdefault(text.by_language, text)
    if campaign.languages is None:
        if "languages" not in document.data:  # refused ones are None
            yield from _find_undeclared(campaign, document, list(texts.values()))
        return
    yield from _check_languages(campaign, campaign.languages, document)
    for text in texts.values():
        yield from _check_text(text, campaign.languages)
    yield from dict.fromkeys(_iterate_unequal(messages))


def _find_undeclared(
    campaign: Campaign, document: YamlDocument, texts: list[TemplateText]
) -> Iterator[Diagnostic]:
    """Yield the first text by language, and the first person with a language, without `languages`."""
    codes = ", ".join(dict.fromkeys(code for text in texts for code, _ in text.by_language)) or "en, es"
    hint = f"write `languages: {{default: {codes.partition(',')[0]}, known: [{codes}]}}` at the file's top"
    for text in texts[:1]:
        words = "this text is given by language, and the campaign has no `languages`"
        yield text.position.problem("languages-missing", words, hint)
    keys = enumerate(map(_find_key, campaign.recipients))
    for index, key in [(index, key) for index, key in keys if key is not None][:1]:
        words = f"`{key}` says who gets which language, and the campaign has no `languages`"
        place = document.position(["recipients", index, key], at_key=True)
        yield place.problem("languages-missing", words, hint)


def _find_key(source: RecipientSource) -> str | None:
    if isinstance(source, InlineRecipient):
        return None if source.language is None else "language"
    return None if source.language_column is None else "language_column"


def _check_languages(
    campaign: Campaign, languages: Languages, document: YamlDocument
) -> Iterator[Diagnostic]:
    known = languages.known
    if languages.default not in known:
        words = f"the default language `{languages.default}` is not among those `known`"
        words += suggest(languages.default, known)
        yield languages.position.problem("languages-default", words, f"one of: {', '.join(known)}")
    for index, code in enumerate(known):
        first = next(place for place, other in enumerate(known) if other.casefold() == code.casefold())
        if first != index and known[first] != code:
            place = document.position(["languages", "known", index])
            words = f"`{code}` and `{known[first]}` are one language: case makes no difference"
            yield place.problem("languages-repeated", words, "remove one of them")
    if len(known) > 1 and not any(map(_find_key, campaign.recipients)):
        has_file = any(isinstance(source, FileRecipients) for source in campaign.recipients)
        key = "language_column" if has_file else "language"
        words = f"no recipient has a language: everybody gets the texts in `{languages.default}`"
        hint = f"say who reads what with `{key}` in `recipients`"
        yield languages.position.problem("languages-of-nobody", words, hint, "warning")


def _check_text(text: TemplateText, languages: Languages) -> Iterator[Diagnostic]:
    """Yield unknown, repeated and missing languages of one text."""
    known, seen = ", ".join(languages.known), set[str]()
    for code, translation in text.by_language:
        if code in seen:
            words = f"this text is given twice in `{code}`"
            yield translation.position.problem("text-language-repeated", words, "remove one of them")
        elif code not in languages.known:
            words = f"`{code}` is none of the campaign's languages{suggest(code, languages.known)}"
            hint = f"known: {known}; add it to `known` in `languages`, or remove this text"
            yield translation.position.problem("text-language-unknown", words, hint)
        seen.add(code)
    missing = [code for code in languages.known if code not in seen]
    if missing:
        words = f"this text has no translation into {', '.join(f'`{code}`' for code in missing)}"
        hint = "write it beside the others, or one text for all"
        yield text.position.problem("text-untranslated", words, hint)


def _iterate_unequal(messages: list[Message]) -> Iterator[Diagnostic]:
    for message in messages:
        for question in message.questions:
            yield from _find_shared_wording(question)
            if question.scale in SCORED:
                values = question.values or (None,) * len(question.responses)
                for response, value in zip(question.responses, values, strict=True):
                    yield from _compare_numbers(response) if value is None else ()


def _find_shared_wording(question: Question) -> Iterator[Diagnostic]:
    """Yield a response that reads as another one does, in the same language or in a second one."""
    read: dict[str, tuple[int, str]] = {}
    for place, response in enumerate(question.responses):
        for code, text in response.by_language:
            if not text.is_plain:
                continue
            written, hint = text.source.strip(), "word one of them differently"
            first, language = read.setdefault(fold_answer(written), (place, code))
            if first == place:
                continue
            if language == code:
                words = f"two responses read {written!r} in `{code}`"
                yield text.position.problem("response-repeated", words, hint)
                continue
            words = (
                f"{written!r} is response {place + 1} in `{code}`, and response {first + 1} "
                f"in `{language}`: an answer in these words would mean either"
            )
            yield text.position.problem("response-two-meanings", words, hint)


def _compare_numbers(response: TemplateText) -> Iterator[Diagnostic]:
    """Yield a response without a value that begins with different numbers in different languages."""
    first: tuple[int, str] | None = None
    for code, text in response.by_language:
        number = read_leading_number(text.source)
        if number is None:
            continue
        first = first or (number, code)
        if number != first[0]:
            words = (
                f"this response begins with {number} in `{code}`, and with {first[0]} in `{first[1]}`: "
                "it would count as either"
            )
            hint = "begin it with the same number in all languages, or give it a `value`"
            yield text.position.problem("response-numbers-differ", words, hint)
