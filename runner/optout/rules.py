"""The words and patterns of `replies.yaml`, ready to be looked for.

A pattern is words as `spell` leaves them, apart by blanks:

- `(no more|enough)`: one of these
- `please?`, `(the|your)?`: may be missing; `(any|more)*`: up to four of these, or none
- `text*`: a word that begins so
- `..3`: up to three words of the same clause, whichever
- `~`: words that change nothing (`fillers`), up to six
- `{us}`: one of a set; `{digits}`: a number; `{name}`: a capitalised word (see `hide_names`)
- `^`, `$`: a clause begins, or ends; `^^`, `$$`: the text does
- `,`: the end of one clause, before the next
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.optout.spelling import SlipIndex, spell
from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FILE = Path(__file__).with_name("replies.yaml")

_TOKEN = re.compile(
    r"(?P<open>\()|(?P<close>\)(?P<times>[?*]?))|(?P<or>\|)|(?P<plain>[^ ()|?]+)(?P<maybe>\??)| +"
)
_WORD = re.compile(r"[a-z0-9]+")
_EDGES = {"^^": r"\A", "$$": r"\Z", "^": r"(?:\A|(?<=, ))", "$": r"(?=,|\Z)", ",": ", "}
_ANY = re.compile(r"\.\.(\d)")
_TIMES = {"": "", "?": "?", "*": "{0,4}"}
_SHORTEST, _LONG = 4, 6
"""Letters of a word of which slips are known: of a reply alone, and of one in a sentence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to say something.

    Attributes:
        name: language and what is said; shown beside the reply, so that a person sees why it is listed.
        example: a text that the rule finds.
        pattern: is searched for in the spelt text, with a blank behind it.
    """

    name: str
    example: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that replies are compared with.

    Attributes:
        fillers: words that change nothing.
        leading: words that opt out where a sentence begins with them.
        words: replies that opt out as a whole, without blanks.
        opt_ins: replies that ask to be texted again as a whole, without blanks.
        negations: with one of these, what sounds like both is no wish to be texted again.
        harmless: other meanings of the words.
        returning: ways to ask to be texted again.
        doubtful: ways that sound like an opt-out.
        word_slips: finds slips of `leading` and `words`.
        vocabulary_slips: finds slips of words in patterns, of six letters and more.
        proper: words that are no slip of any.
    """

    fillers: frozenset[str]
    leading: frozenset[str]
    words: frozenset[str]
    opt_ins: frozenset[str]
    negations: frozenset[str]
    harmless: re.Pattern[str]
    returning: tuple[Rule, ...]
    doubtful: tuple[Rule, ...]
    word_slips: SlipIndex
    vocabulary_slips: SlipIndex
    proper: frozenset[str]


@lru_cache(maxsize=1)
def read_rules() -> Rules:
    """Return the rules that come with the program."""
    data: dict[str, Any] = read_yaml(_FILE.read_text(encoding="utf-8"), _FILE).data
    fillers = frozenset(_fold(data["fillers"]).split())
    compiler = _Compiler(data["sets"], fillers)
    leading = frozenset(_fold(data["leading"]).split())
    words = frozenset(_join(each) for row in data["words"].values() for each in row.split("|"))
    opt_ins = frozenset(_join(each) for row in data["opt_in_words"].values() for each in row.split("|"))
    harmless = compiler.compile(data["harmless"])
    returning = tuple(compiler.compile_rules(data["returning"]))
    doubtful = tuple(compiler.compile_rules(data["doubtful"]))
    return Rules(
        fillers,
        leading,
        words,
        opt_ins,
        frozenset(_fold(data["negations"]).split()),
        harmless,
        returning,
        doubtful,
        SlipIndex(word for word in words | leading if len(word) >= _SHORTEST),
        SlipIndex(word for word in compiler.words if len(word) >= _LONG),
        frozenset(compiler.words) | frozenset(_fold(data["proper"]).split()),
    )


def _fold(text: str) -> str:
    return " ".join(spell(word) for word in text.split())


def _join(text: str) -> str:
    return _fold(text).replace(" ", "")


class _Compiler:
    """Turns patterns into regular expressions.

    Attributes:
        words: those that were met, without the ones that only begin so.
    """

    def __init__(self, sets: dict[str, str], fillers: Iterable[str]) -> None:
        self.words: set[str] = set()
        self._sets: dict[str, str] = {}
        self._fillers = "|".join(sorted(fillers, key=len, reverse=True))
        for name, members in sets.items():
            self._sets[name] = self._compile(f"({members})")

    def compile_rules(self, items: Iterable[dict[str, Any]]) -> Iterator[Rule]:
        """Yield the rules of a part of the file."""
        for item in items:
            yield Rule(item["name"], item["example"], self.compile(item["patterns"]))

    def compile(self, patterns: Iterable[str]) -> re.Pattern[str]:
        """Return what finds any of some patterns."""
        return re.compile(rf"(?<![^ ])(?:{'|'.join(map(self._compile, patterns))})")

    def _compile(self, pattern: str) -> str:
        parts, end, depth = [], 0, 0
        while end < len(pattern):
            found = _TOKEN.match(pattern, end)
            depth += bool(found and found["open"]) - bool(found and found["close"])
            if found is None or depth < 0 or (found["or"] and not depth):
                break
            parts.append(self._read_token(found))
            end = found.end()
        if end < len(pattern) or depth:
            raise ValueError(f"{pattern!r} is no pattern: see {pattern[end:]!r}")
        return "".join(parts)

    def _read_token(self, found: re.Match[str]) -> str:
        if found["open"]:
            return "(?:"
        if found["close"]:
            return f"){_TIMES[found['times']]}"
        if found["or"]:
            return "|"
        plain = found["plain"] or ""
        if plain in _EDGES or not plain:
            return _EDGES.get(plain, "")
        part = self._read_plain(plain)
        return f"(?:{part})?" if found["maybe"] else part

    def _read_plain(self, plain: str) -> str:
        if plain == "~":
            return rf"(?:(?:{self._fillers}) ){{0,6}}"
        if count := _ANY.fullmatch(plain):
            return rf"(?:[^ ,]+ ){{0,{count[1]}}}"
        if plain == "{digits}":
            return "[0-9]+ "
        if plain.startswith("{"):
            return self._sets[plain[1:-1]]
        word = spell(plain.removesuffix("*"))
        if not _WORD.fullmatch(word):
            raise ValueError(f"{plain!r} is no word of a pattern")
        if plain.endswith("*"):
            return f"{word}[^ ,]* "
        self.words.add(word)
        return f"{word} "
