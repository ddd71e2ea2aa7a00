"""Holds what texts refer to against what recipients have: choices that differ, and defaults that all get."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.recipients import FileRecipients
from runner.campaign.source_table import read_header
from runner.campaign.table import fold_name
from runner.campaign.template import TextCompiler
from runner.campaign.text_place import variable_diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign, Message, Question, TemplateText
    from runner.source.diagnostic import Diagnostic

_SCORED = ("nps", "csat", "ces", "number")
_MAY_DO_WITHOUT = re.compile(r"\bd(?:efault)?\b|\b(?:un)?defined\b|\binclude\b")
_WORDING_HINT = (
    'write what all can read, as in "Gut / Good", or a campaign for each wording, with its words in `vars`'
)


def find_reference_problems(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield what is wrong with the variables of texts, as far as it is the same for everybody.

    Args:
        campaign: has no errors so far.
    """
    checker = _Checker(campaign)
    for message in campaign.messages:
        for varied in (message, *campaign.list_arms(message.id).values()):
            yield from checker.check(varied)


class _Checker:
    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._seen: set[TemplateText] = set()
        self._warned: set[str] = set()

    def check(self, message: Message) -> Iterator[Diagnostic]:
        for question in message.questions:
            yield from self._check_choices(question)
        texts = [message.text, message.introduction, message.conclusion]
        for question in message.questions:
            texts += [question.text, *question.responses, question.conclude_on]
        for text in texts:
            if text is not None and text not in self._seen and _MAY_DO_WITHOUT.search(text.source):
                self._seen.add(text)
                yield from self._check_defaults(text)

    def _check_choices(self, question: Question) -> Iterator[Diagnostic]:
        """Find choices that a report cannot count, as they differ from person to person."""
        if question.scale in _SCORED:
            lost = "no report could score the answers together"
            for text in question.responses:
                what = f"a response of a question with `scale: {question.scale}`"
                yield from self._refuse_personal(text, what, lost)
        if question.conclude_on is not None:
            lost = "no report could tell who has come to the end"
            yield from self._refuse_personal(question.conclude_on, "`conclude_on`", lost)

    def _refuse_personal(self, text: TemplateText, what: str, lost: str) -> Iterator[Diagnostic]:
        if "{" not in text.source or text in self._seen:
            return
        names = self._compiler.find_references(text).names
        personal = sorted(name for name in names if fold_name(name) in self._given)
        if personal:
            self._seen.add(text)
            words = f"{what} refers to `{personal[0]}`, which differs from person to person: {lost}"
            yield variable_diagnostic("choice-personal", words, text, personal[0], hint=_WORDING_HINT)

    def _check_defaults(self, text: TemplateText) -> Iterator[Diagnostic]:
        """Find variables that nobody has, and that nobody would miss."""
        for name in sorted(self._compiler.find_references(text).optional - self._warned):
            if name in self._campaign.vars or fold_name(name) in self._given:
                continue
            self._warned.add(name)
            known = [*self._campaign.vars, *self._given.values()]
            close = difflib.get_close_matches(name, known, n=1)
            guess = f": did you mean `{close[0]}`?" if close else ""
            words = f"no recipient has a variable `{name}`, so that all get what stands in for it{guess}"
            hint = f"known here: {', '.join(known)}" if known else "give it in `vars`"
            problem = variable_diagnostic("template-default-for-all", words, text, name, hint=hint)
            yield replace(problem, severity="warning")

    @cached_property
    def _compiler(self) -> TextCompiler:
        return TextCompiler(include_folder(self._campaign))

    @cached_property
    def _given(self) -> dict[str, str]:
        """The variables that recipients have of their own, as they are written, by how they are compared."""
        given: dict[str, str] = {}
        for source in self._campaign.recipients:
            names = read_header(source) if isinstance(source, FileRecipients) else source.vars
            for name in names:
                given.setdefault(fold_name(name), name)
        return given
