"""Says once what is wrong with a text, and row by row what is wrong with rows."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

from runner.campaign.audience import known_names
from runner.campaign.recipients import FileRecipients
from runner.campaign.table import fold_name
from runner.campaign.text_place import variable_diagnostic
from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from runner.campaign.audience import Recipient
    from runner.campaign.model import Campaign, Message, TemplateText
    from runner.campaign.template import MissingVariablesError, TemplateProblemError
    from runner.source.diagnostic import Problems


class RowReporter:
    """Reports what fails while texts are rendered for one recipient after the other.

    Args:
        campaign: whose texts.
        problems: receives what is wrong.
        said_once: receives what is said once; None for the same as the rest.

    Attributes:
        said: what was said once: the place in the audience of the first whom it is about, source and line,
            and the words. The keys tell what is the same elsewhere.
    """

    def __init__(self, campaign: Campaign, problems: Problems, said_once: Problems | None = None) -> None:
        self._campaign = campaign
        self._problems = problems
        self._said_once = problems if said_once is None else said_once
        self.said: dict[Diagnostic, tuple[tuple[int, int], Diagnostic]] = {}
        self._names: dict[int, list[str]] = {}
        self._folded: dict[int, frozenset[str]] = {}

    def report_failure(self, error: TemplateProblemError, recipient: Recipient | None) -> None:
        """Report a text that cannot be rendered; said once, however many recipients it fails for.

        Args:
            error: what fails.
            recipient: the first one for whom it fails; None if it is the same for everyone.
        """
        for diagnostic in error.diagnostics:
            hint = diagnostic.hint
            if recipient is not None:
                source = self._campaign.recipients[recipient.source]
                unit = source.unit if isinstance(source, FileRecipients) else "line"
                hint = f"first for the recipient in {unit} {recipient.line} of {recipient.file.name}"
            self._say_once(diagnostic, recipient, replace(diagnostic, hint=hint))

    def report_missing(self, recipient: Recipient, message: Message, error: MissingVariablesError) -> None:
        """Report a recipient's missing variables; one that no row of its source can have is said once."""
        source = recipient.source
        if source not in self._names:
            # Once a source: its file is opened for it.
            self._names[source] = known_names(self._campaign, source)
            self._folded[source] = frozenset(map(fold_name, self._names[source]))
        names, folded = self._names[source], self._folded[source]
        for name, needed_by in error.missing:
            if fold_name(name) in folded:
                text = f"`{name}` is blank here, and the message `{message.id}` needs it"
                hint = f'fill it in, or write {{{{ {name} | default("…") }}}} in the text'
                self._problems.add(
                    Diagnostic(
                        "error", "recipient-variable-missing", text, recipient.file, recipient.line, 1, hint
                    )
                )
            else:
                diagnostic = self._unknown(recipient, name, names, needed_by)
                self._say_once(diagnostic, recipient, diagnostic)

    def _unknown(self, recipient: Recipient, name: str, names: list[str], text: TemplateText) -> Diagnostic:
        source = self._campaign.recipients[recipient.source]
        where = (
            f"in {source.path.name}"
            if isinstance(source, FileRecipients)
            else f"for the recipient in line {recipient.line}"
        )
        close = difflib.get_close_matches(name, names, n=1)
        words = f"there is no variable `{name}` {where}" + (f": did you mean `{close[0]}`?" if close else "")
        hint = f"known here: {', '.join(names)}" if names else "give it in `vars`"
        return variable_diagnostic("template-variable-unknown", words, text, name, hint=hint)

    def _say_once(self, key: Diagnostic, recipient: Recipient | None, words: Diagnostic) -> None:
        if key not in self.said:
            place = (0, 0) if recipient is None else (recipient.source, recipient.line)
            self.said[key] = place, words
            self._said_once.add(words)
