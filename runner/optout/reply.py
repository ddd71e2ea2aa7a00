"""Whether a reply opts out, surely or perhaps, asks to be texted again, or is an answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from runner.optout.rules import read_rules
from runner.optout.spelling import hide_names, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.optout.rules import Rule, Rules

Kind = Literal["sure", "doubtful", "opt_in", "answer"]

_LONGEST = 1600
"""Characters that are read: no SMS has more, ten segments of 160 (Twilio's limit, and most gateways')."""
_FEW_WORDS = 3
_WORD_AND_NAME = 2  # as in `BAJA ACME`


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says.

    Attributes:
        kind: `sure`: an opt-out, to be obeyed; `doubtful`: a person must decide whether it is one; `opt_in`:
            a person must decide whether it lets its author in again; `answer`: anything else.
        rule: which rule found a doubtful one, or one that asks to be let in.
    """

    kind: Kind
    rule: str | None = None


_ANSWER = Reading("answer")
_SURE = Reading("sure")


def classify(text: str, *, offered: Iterable[str] = (), words: tuple[str, ...] = ()) -> Reading:
    """Return whether a reply opts out.

    A word that carriers take for an opt-out does so at once when it is the whole reply, and STOP and its kin
    also at the start of a sentence. What the question offers as a response is an answer, whatever its word.

    Args:
        text: what the participant wrote.
        offered: the responses of the question that it answers.
        words: those that opt out besides, as the campaign has it: as a whole reply, or at its start.
    """
    read = _read(text[:_LONGEST], words)
    if read.kind == "answer":
        return read
    said = _join(spell(text[:_LONGEST]))
    return _ANSWER if any(_join(spell(response)) == said for response in offered) else read


@lru_cache(maxsize=4096)
def _read(text: str, own_words: tuple[str, ...]) -> Reading:
    """Read a text on its own. Most replies repeat one of a few responses, so what they say is remembered."""
    rules = read_rules()
    spelt = spell(text)
    if not spelt:
        return _ANSWER
    own = tuple(filter(None, map(spell, own_words)))
    if _leads(spelt, own) or _join(spelt) in map(_join, own):
        return _SURE
    if _is_said(spelt, rules.opt_ins, rules):
        return Reading("opt_in", "opt-in word")
    if _is_said(spelt, rules.words | rules.leading, rules):
        return _SURE
    return _read_sentence(text, spelt, rules)


def _read_sentence(text: str, spelt: str, rules: Rules) -> Reading:
    left = rules.harmless.sub(", ", f"{spelt} ")
    clauses = [clause.strip() for clause in left.split(",") if clause.strip()]
    if _leads(left, rules.leading) or any(_is_said(clause, rules.leading, rules) for clause in clauses):
        return _SURE
    returning = next(_find(rules.returning, left), None)
    if returning is not None and rules.negations.isdisjoint(spelt.split()):
        return Reading("opt_in", returning)
    doubt = next(_doubt(text, left, clauses, rules), None)
    if returning is not None and doubt is None:
        return Reading("opt_in", returning)
    return Reading("doubtful", doubt) if doubt else _ANSWER


def _doubt(text: str, left: str, clauses: list[str], rules: Rules) -> Iterator[str]:
    """Yield the rules that find an opt-out, the plainest first; the next ones are only tried if asked for."""
    if any(_is_said(clause, rules.words, rules) for clause in clauses):
        yield "opt-out word in a sentence"
    yield from _find(rules.doubtful, left)
    if any(_is_slip_of_word(clause, rules) for clause in clauses):
        yield "opt-out word with a typing error"
    corrected = _correct(left, rules)
    if corrected != left:
        yield from _find(rules.doubtful, rules.harmless.sub(", ", corrected))
    said = left.split()
    if text.isupper() and len(said) == _WORD_AND_NAME and said[0] in rules.words:
        yield "opt-out word and a name, in capitals"
    nameless = hide_names(text)
    if nameless != text:
        yield from _find(rules.doubtful, rules.harmless.sub(", ", f"{spell(nameless)} "))


def _leads(spelt: str, words: Iterable[str]) -> bool:
    return any(spelt == word or spelt.startswith((f"{word} ", f"{word},")) for word in words)


def _is_said(clause: str, words: frozenset[str], rules: Rules) -> bool:
    """Return whether a text is one of some words, or several of them, beside words that change nothing."""
    said = clause.replace(",", " ").split()
    if "".join(said) in words:
        return True
    telling = [word for word in said if word not in rules.fillers]
    if all(word.isdigit() or word in rules.leading for word in telling):
        telling = [word for word in telling if not word.isdigit()]
    return "".join(telling) in words or (bool(telling) and all(word in words for word in telling))


def _is_slip_of_word(clause: str, rules: Rules) -> bool:
    telling = [word for word in clause.split() if word not in rules.fillers]
    said = "".join(telling)
    return len(telling) <= _FEW_WORDS and said not in rules.proper and rules.word_slips.find(said) is not None


def _correct(spelt: str, rules: Rules) -> str:
    """Return a text with its long words as the rules have them, where a single edit makes them so."""
    return " ".join(
        [
            word if word in rules.proper else rules.vocabulary_slips.find(word) or word
            for word in spelt.split(" ")
        ]
    )


def _find(rules: Iterable[Rule], spelt: str) -> Iterator[str]:
    return (rule.name for rule in rules if rule.pattern.search(spelt))


def _join(spelt: str) -> str:
    return spelt.replace(" ", "").replace(",", "")
