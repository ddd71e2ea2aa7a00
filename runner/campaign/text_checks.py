"""Checks of a campaign's texts against what its recipients have: variables, scales, conditions on cells."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

from runner.audience.rows import read_header
from runner.audience.table import normalize_name
from runner.campaign.conditions import find_condition_problems
from runner.campaign.message_model import SCORED
from runner.campaign.model import FileRecipients
from runner.campaign.scales import find_scale_problem
from runner.source.normalize import suggest
from runner.source.quantity import read_leading_number
from runner.text.cells import find_bare_conditions, iterate_literal_text
from runner.text.include import include_folder
from runner.text.outgoing import question_as_asked
from runner.text.payload import describe_unknown
from runner.text.placeholders import find_foreign
from runner.text.template import TextCompiler, template_diagnostic, variable_diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.message_model import Message, Question, TemplateText
    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic

_MAY_DO_WITHOUT = re.compile(r"\bd(?:efault)?\b|\b(?:un)?defined\b|\bis_yes\b|\binclude\b")
_WORDING_HINT = (
    'write what all can read, as in "Gut / Good", or a campaign for each wording, with its words in `vars`'
)
_FOREIGN_MARKS = re.compile(r"[{\[<%*#«]")


def find_reference_problems(campaign: Campaign, *, knows_audience: bool = True) -> Iterator[Diagnostic]:
    """Yield problems of a campaign's texts that are the same for everybody.

    Without `knows_audience`, its recipients are not all known, and nothing is said of variables.
    """
    checker = _Checker(campaign, knows_audience=knows_audience)
    for message in campaign.messages:
        for varied in campaign.list_written(message):
            yield from checker.check(varied)
    yield from find_condition_problems(campaign, checker.compiler)


def find_unknown_variables(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield the variables that texts need and no recipient has, without looking at rows."""
    checker = _Checker(campaign, knows_audience=True)
    for message in campaign.messages:
        for sent in campaign.iterate_sent(message):
            yield from checker.find_unknown(sent)


class _Checker:
    def __init__(self, campaign: Campaign, *, knows_audience: bool) -> None:
        self._campaign = campaign
        self._knows_audience = knows_audience
        self._seen: set[TemplateText] = set()
        self._checked: set[TemplateText] = set()
        self._warned: set[str] = set()

    def check(self, message: Message) -> Iterator[Diagnostic]:
        """Yield the problems of a message or arm, in all languages; scales are the default language's."""
        languages = self._campaign.languages
        if languages is None:
            yield from self._check_sent(message, message.questions)
            return
        for code in sorted(languages.known, key=languages.default.__ne__):
            scored = message.questions if code == languages.default else ()
            yield from self._check_sent(message.in_language(code), scored)
        for text in message.iterate_texts():
            yield from self._compare_languages(text)

    def _compare_languages(self, text: TemplateText) -> Iterator[Diagnostic]:
        """Yield the variables that a text has in some languages only."""
        if text in self._checked:
            return
        self._checked.add(text)
        used = {code: self.compiler.find_references(one).names for code, one in text.by_language}
        for code, translation in text.by_language:
            lacking = sorted(frozenset().union(*used.values()) - used[code])
            if lacking:
                others = ", ".join(f"`{other}`" for other, names in used.items() if lacking[0] in names)
                words = f"the text in `{code}` does without `{lacking[0]}`, which it has in {others}"
                hint = "if that is not meant, write it there too"
                yield translation.position.problem("text-variables-differ", words, hint, "warning")

    def _check_sent(self, message: Message, scored: Sequence[Question]) -> Iterator[Diagnostic]:
        """Yield the problems of a message as it is sent; `scored` are its questions as written, if read."""
        for question, written in zip_longest(message.questions, scored):
            yield from self._check_choices(question)
            yield from self._check_responses(question, written)
        for text in message.iterate_texts():
            if text not in self._checked and not text.is_plain:
                yield from self._check_conditions(text)
            if text not in self._checked:
                yield from self._check_foreign(text)
            self._checked.add(text)
            if text not in self._seen and _MAY_DO_WITHOUT.search(text.source):
                self._seen.add(text)
                yield from self._check_defaults(text)

    def find_unknown(self, message: Message) -> Iterator[Diagnostic]:
        if self._has_unread_file:
            return
        for text in message.iterate_texts():
            needed = self.compiler.find_references(text)
            for name in sorted(needed.names - needed.optional - self._warned):
                if name not in self._campaign.vars and normalize_name(name) not in self._given:
                    self._warned.add(name)
                    yield describe_unknown(name, self._known, "for any recipient", text)

    def _check_choices(self, question: Question) -> Iterator[Diagnostic]:
        """Yield choices that a report cannot count, because they differ from person to person."""
        for text in question.responses:
            yield from self._refuse_personal(text, "a response", "no report could count the answers together")
        if question.conclude_on is not None:
            lost = "no report could tell who has come to the end"
            yield from self._refuse_personal(question.conclude_on, "`conclude_on`", lost)

    def _check_responses(self, question: Question, whole: Question | None) -> Iterator[Diagnostic]:
        """Yield responses without a sure value on the scale, and numbers that stand at another's line."""
        if self._checked.issuperset(question.responses):
            return
        names = (self.compiler.find_references(text).names for text in question.responses)
        if not frozenset().union(*names) <= self._campaign.vars.keys():
            return
        texts = [self.compiler.outline(text, self._campaign.vars) for text in question.responses]
        if question.scale in SCORED and whole is not None:
            written = [
                {code: one.source for code, one in text.by_language} or text.source
                for text in whole.responses
            ]
            problem = find_scale_problem(question.scale, texts, question.values, written)
            if problem is not None:
                place = question.responses[problem.place].position
                yield place.problem("scale-responses", problem.words, problem.hint)
        yield from self._check_lines(question, texts)

    def _check_lines(self, question: Question, texts: Sequence[str]) -> Iterator[Diagnostic]:
        """Yield the first response whose number is the line of another one in the list on the phone."""
        if not question_as_asked("", texts).startswith("\n1. "):
            return
        numbers = [read_leading_number(text) or 0 for text in texts]
        for index, number in enumerate(numbers):
            if 1 <= number <= len(texts) and number != index + 1:
                words = (
                    f'{texts[index]!r} is listed as "{index + 1}. {texts[index]}", and line {number} is '
                    f"{texts[number - 1]!r}: the answer {number} may be taken for either"
                )
                place = question.responses[index].position
                hint = "put each number at its own line, or write words in their place"
                yield place.problem("response-other-line", words, hint, "warning")
                return

    def _check_conditions(self, text: TemplateText) -> Iterator[Diagnostic]:
        """Yield conditions that cells, which are texts, do not fit."""
        for tree in self.compiler.iterate_trees(text):
            for name in [tested.name for tested in find_bare_conditions(tree)]:
                if normalize_name(name) in self._columns:
                    words = f"`{name}` is a column, and its cells are texts: FALSE, 0 and no are true"
                    quote = text.inner_quote
                    hint = (
                        f"write `{name} | is_yes`, or `{name} == {quote}TRUE{quote}`; "
                        f"`{name} is defined` asks whether it is filled in"
                    )
                    yield variable_diagnostic("template-cell-truth", words, text, name, hint=hint)

    def _check_foreign(self, text: TemplateText) -> Iterator[Diagnostic]:
        """Yield the placeholders of other tools, which would be sent as they stand."""
        if not (self._known and _FOREIGN_MARKS.search(text.source)):
            return
        for tree in self.compiler.iterate_trees(text):
            for line, written in iterate_literal_text(tree):
                for found in find_foreign(written, self._known):
                    words = f"{found.written} would be sent as it stands: it is no placeholder here"
                    hint = f"write {{{{ {found.name} }}}}{'' if found.is_sure else ' if it is to be one'}"
                    problem = template_diagnostic("template-foreign", words, text, line, hint=hint)
                    yield problem if found.is_sure else replace(problem, severity="warning")

    def _refuse_personal(self, text: TemplateText, what: str, lost: str) -> Iterator[Diagnostic]:
        if text.is_plain or text in self._seen:
            return
        names = self.compiler.find_references(text).names
        personal = sorted(name for name in names if normalize_name(name) in self._given)
        if personal:
            self._seen.add(text)
            words = f"{what} refers to `{personal[0]}`, which differs from person to person: {lost}"
            yield variable_diagnostic("choice-personal", words, text, personal[0], hint=_WORDING_HINT)

    def _check_defaults(self, text: TemplateText) -> Iterator[Diagnostic]:
        """Yield variables that have a default and that no recipient has."""
        if not self._knows_audience or self._has_unread_file:
            return
        for name in sorted(self.compiler.find_references(text).optional - self._warned):
            if name in self._campaign.vars or normalize_name(name) in self._given:
                continue
            self._warned.add(name)
            known = self._known
            words = f"no recipient has a variable `{name}`, so that all get what stands in for it"
            words += suggest(name, known)
            hint = f"known here: {', '.join(known)}" if known else "give it in `vars`"
            problem = variable_diagnostic("template-default-for-all", words, text, name, hint=hint)
            yield replace(problem, severity="warning")

    @cached_property
    def compiler(self) -> TextCompiler:
        """The compiler of the campaign's texts."""
        return TextCompiler(include_folder(self._campaign))

    @cached_property
    def _has_unread_file(self) -> bool:
        """Return whether the columns of a file are unknown."""
        files = [source for source in self._campaign.recipients if isinstance(source, FileRecipients)]
        return not all(map(read_header, files))

    @cached_property
    def _columns(self) -> dict[str, str]:
        """The columns of audience files as written, by their normalized names."""
        return {
            normalize_name(name): name
            for source in self._campaign.recipients
            if isinstance(source, FileRecipients)
            for name in read_header(source)
        }

    @cached_property
    def _given(self) -> dict[str, str]:
        """The recipients' own variables as written, by their normalized names."""
        given = dict(self._columns)
        for source in self._campaign.recipients:
            for name in () if isinstance(source, FileRecipients) else source.vars:
                given.setdefault(normalize_name(name), name)
        return given

    @cached_property
    def _known(self) -> list[str]:
        return [*self._campaign.vars, *self._given.values()]
