"""Texts by language: what each person's payload has, and whether a campaign reads as people mean it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.load import load_campaign
from runner.source.diagnostic import Problems
from runner.text.payload import compile_messages
from runner.text.preview import list_bubbles
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign

KNOWN = ("en", "pt-BR", "ar")
WORDS = st.text("abcdefé جيد1", min_size=1, max_size=8).filter(str.strip)
TEXTS = st.one_of(WORDS, st.fixed_dictionaries(dict.fromkeys(KNOWN, WORDS)))


def single(text: str | dict[str, str], language: str) -> str:
    return text if isinstance(text, str) else text[language]


def write(folder: Path, texts: list[Any], languages: str) -> Path:
    """Write a campaign with an introduction, a question, two responses and a conclusion."""
    introduction, question, first, second, conclusion = (
        json.dumps(text, ensure_ascii=False) for text in texts
    )
    file = folder / "campaign.yaml"
    file.write_text(
        f"version: 1\n{languages}recipients: [{{phone: '+14155550101'}}]\nmessages:\n  - id: ask\n"
        f"    introduction: {introduction}\n    conclusion: {conclusion}\n"
        f"    questions: [{{tag: q, text: {question}, responses: [{first}, {second}]}}]\n",
        encoding="utf-8",
    )
    return file


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=5, max_size=5), st.sampled_from(KNOWN))
def test_a_person_gets_what_a_campaign_in_their_language_would_send(
    tmp_path_factory: Any, texts: list[Any], language: str
) -> None:
    """Text, digest and segments are those of a campaign that is written in that language alone."""
    folder = tmp_path_factory.mktemp("campaign")
    whole, _ = load_campaign(
        write(folder, texts, f"languages: {{default: en, known: [{', '.join(KNOWN)}]}}\n"), current=folder
    )
    if whole is None:  # responses that read the same
        return
    (translated,) = compile_messages(whole, TextCompiler(folder), Problems())
    payload = translated.choose(None, language).render({})
    plain, _ = load_campaign(write(folder, [single(text, language) for text in texts], ""), current=folder)
    assert plain is not None
    (alone,) = compile_messages(plain, TextCompiler(folder), Problems())
    assert payload._replace(language=None) == alone.choose(None, None).render({})
    assert payload.language == language


def test_a_message_without_translations_stays_as_it_is(campaign: Callable[[str], Campaign]) -> None:
    """In every language it has the same texts."""
    (message,) = campaign(
        "version: 1\nlanguages: {default: en, known: [en, es]}\n"
        "recipients: [{phone: '+14155550101', language: es}]\nmessages: [{id: hello, text: Hello}]\n"
    ).messages
    assert message.in_language("es") == message


def test_included_texts_are_found_in_all_languages(
    campaign: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """`{% include %}` works in each text, with variables that only one language has."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "end.j2").write_text("شكرا {{ name }}", encoding="utf-8")
    loaded = campaign(
        "version: 1\nlanguages: {default: en, known: [en, ar]}\n"
        "recipients: [{phone: '+14155550101', language: ar, vars: {name: Ada}}]\n"
        "messages: [{id: hello, text: {en: Hi, ar: '{% include \"end.j2\" %}'}}]\n"
    )
    (compiled,) = compile_messages(loaded, TextCompiler(tmp_path), Problems())
    assert compiled.names == {"name"}
    (bubble,) = list_bubbles(compiled.choose(None, "ar").render({"name": "Ada"}).definition)
    assert (bubble.text, bubble.encoding) == ("شكرا Ada", "UCS-2")


def test_a_fault_in_one_text_for_all_is_said_once(
    campaign: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """However many languages it is compiled for."""
    loaded = campaign(
        "version: 1\nlanguages: {default: en, known: [en, ar]}\n"
        "recipients: [{phone: '+14155550101', language: ar}]\n"
        "messages: [{id: hello, text: '{% if %}'}]\n"
    )
    problems = Problems()
    assert list(compile_messages(loaded, TextCompiler(tmp_path), problems)) == []
    assert problems.error_count == 1
