"""Classification of replies: opt-out (sure or doubtful), opt-in, or answer.

The words and patterns are those of `replies.yaml`. A pattern is words as `spell` leaves them, separated by
blanks:

- `(no more|enough)`: one of these
- `please?`, `(the|your)?`: optional; `(any|more)*`: none to four of these
- `text*`: a word with this beginning
- `..3`: up to three words of the same clause
- `~`: up to six words that change nothing (`fillers`)
- `{us}`: one of a set; `{digits}`: a number; `{name}`: a capitalised word (see `hide_names`)
- `^`, `$`: a clause begins, or ends; `^^`, `$$`: the text does
- `,`: the end of one clause, before the next
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runner.source.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Kind = Literal["sure", "doubtful", "opt_in", "answer"]

_LONGEST = 1600
"""Characters that are read: no SMS has more, ten segments of 160 (Twilio's limit, and most gateways')."""
_FEW_WORDS = 3
_WORD_AND_NAME = 2  # as in `BAJA ACME`


@dataclass(frozen=True, slots=True)
class ReplyReading:
    """The kind of a reply, and the rule that found a doubtful one or an opt-in.

    A `sure` opt-out is obeyed; on `doubtful` and `opt_in` ones a person decides; all others are an `answer`.
    """

    kind: Kind
    rule: str | None = None


_ANSWER = ReplyReading("answer")
_SURE = ReplyReading("sure")

_LATIN = "aаαᴀ bвβʙ cсᴄ dԁđᴅ eеεᴇ hнһηʜ iіιıɪ jјᴊ kкκᴋ lłʟӏ mмμᴍ nνɴ oоοøᴏ pрρᴘ rгʀ sѕꜱ tтτᴛ uυᴜ xхχ yуүʏ zᴢ"
"""Latin letters, each with those that look like it and are others to Unicode, in lower case: the small form
of a capital look-alike counts, since replies in capitals come here as small letters."""
_LOOK_ALIKES = str.maketrans({other: group[0] for group in _LATIN.split() for other in group[1:]})
# Two black series of 26 letters in circles and squares, which Unicode does not map to plain ones (its chart
# "Enclosed Alphanumeric Supplement").
_ENCLOSED = {start + n: chr(ord("a") + n) for start in (0x1F150, 0x1F170) for n in range(26)}

_SIGN, _INSULT = "🛑", "🖕"
# Quotes by phones and mail programs: three words or more in quotation marks, or after a `>`.
_WORDS = r"{0}\s*[^\s{1}]+(?:\s+[^\s{1}]+){{2,}}\s*{2}"
_QUOTED = re.compile(
    "|".join(
        (
            _WORDS.format('["“”„«‟]', '"“”„«»‟', '["“”»‟]'),
            _WORDS.format(r"(?<!\S)['‘‚]", "‘‚", r"['’](?![^\W_])"),
            r"(?<!\S)>\s+\S+(?:[^\S\n]+\S+){2,}",
        )
    )
)
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[\W_]{1,2}[^\W\d_]){2,}(?![^\W_])")
# In French and Italian, the short word before an apostrophe is separate.
_ELISION = re.compile(r"(?<![^\W_])([cdjlmnst]|qu|dell|nell|sull|all|un)['’‘ʼ´`](?=[^\W_])")
_APOSTROPHE = re.compile(r"['’‘ʼ´`]")
_NAME = re.compile(r"(?<=[^\W_] )(?=[^\W\d_a-z])[^\W\d_]{3,}")
_CLAUSE_END = re.compile(r"[.!?…;:,()\n–—]+|\s-+\s")
_BETWEEN = re.compile(r"[^\w,]+|_+")
_MARKS = re.compile(r"(?: ,)+ ")
_DRAWN_OUT = re.compile(r"([^\W\d_])\1{2,}")
# Digits for letters, within a word of letters.
_DIGITS = str.maketrans("01345", "oieas")
_WITH_DIGITS = re.compile(r"\b[a-z]+[01345][a-z]+\b")
_MIDDLING, _LONG_SPELLING = 5, 6
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
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


def spell(text: str) -> str:
    """Return a text's words in small Latin letters, separated by single blanks, with ` , ` between clauses.

    Letters that only look Latin are replaced. Removed are accents, blanks between letters (`S T O P`),
    repeated letters (`stoooop`), digits for letters, and quotations of three words and more.
    """
    plain = "".join(char for char in text if unicodedata.category(char) != "Cf").translate(_ENCLOSED)
    plain = unicodedata.normalize("NFKD", plain).casefold()
    unquoted = _QUOTED.sub(" , ", plain)
    plain = unquoted if unquoted.strip(" ,") else plain
    plain = (
        _APOSTROPHE.sub("", _ELISION.sub(r"\1 ", plain))
        .replace(_SIGN, " stop ")
        .replace(_INSULT, " fuck off ")
    )
    plain = unicodedata.normalize("NFKD", plain).translate(_LOOK_ALIKES)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = _SPACED.sub(lambda found: "".join(filter(str.isalpha, found[0])), plain)
    plain = _BETWEEN.sub(" ", _CLAUSE_END.sub(" , ", plain))
    plain = _DRAWN_OUT.sub(r"\1", plain)
    plain = _WITH_DIGITS.sub(lambda found: found[0].translate(_DIGITS), plain)
    return _MARKS.sub(" , ", f" {plain} ").strip(" ,")


def hide_names(text: str) -> str:
    """Return a text with `Somename` for each capitalised word that follows another word."""
    return _NAME.sub(lambda found: "Somename" if found[0][1:].islower() else found[0], text)


def is_slip(word: str, meant: str) -> bool:
    """Return whether a spelt word is a typing error of a word of at least four letters: a single edit.

    For short words, which have many neighbours, only two swapped letters, a doubled one, or the neighbour on
    the keyboard count.
    """
    if word == meant or abs(len(word) - len(meant)) > 1:
        return False
    pairs = zip(word, meant, strict=False)
    start = next(
        (place for place, (one, other) in enumerate(pairs) if one != other), min(len(word), len(meant))
    )
    rest, wanted = word[start:], meant[start:]
    if len(word) == len(meant):
        if rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]:
            return True
        is_near = rest[0] in _NEIGHBOURS.get(wanted[0], "")
        return rest[1:] == wanted[1:] and (is_near or len(meant) >= _LONG_SPELLING)
    if len(word) < len(meant):
        return rest == wanted[1:] and len(meant) >= _MIDDLING
    is_doubled = start > 0 and rest[0] == meant[start - 1]
    return rest[1:] == wanted and (is_doubled or (len(meant) >= _LONG_SPELLING and bool(wanted)))


def _find_neighbours() -> dict[str, str]:
    near: dict[str, str] = {}
    for number, row in enumerate(_ROWS):
        for place, letter in enumerate(row):
            above = _ROWS[number - 1][place : place + 2] if number else ""
            below = _ROWS[number + 1][max(place - 1, 0) : place + 1] if number + 1 < len(_ROWS) else ""
            near[letter] = row[max(place - 1, 0) : place] + row[place + 1 : place + 2] + above + below
    return near


_NEIGHBOURS = _find_neighbours()


class SlipIndex:
    """An index of words to find typing errors of, by their forms without one letter."""

    def __init__(self, words: Iterable[str]) -> None:
        self._near: dict[str, list[str]] = {}
        for word in sorted(words):
            for part in _leave_out_one(word):
                self._near.setdefault(part, []).append(word)

    def find(self, word: str) -> str | None:
        """Return the word that this one is a typing error of; None if there is none."""
        near = (meant for part in _leave_out_one(word) for meant in self._near.get(part, ()))
        return next((meant for meant in near if is_slip(word, meant)), None)


def _leave_out_one(word: str) -> list[str]:
    return [word, *(word[:place] + word[place + 1 :] for place in range(len(word)))]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to say something: a name with language and meaning, an example, and a pattern.

    The pattern is searched for in the spelt text with a blank appended.
    """

    name: str
    example: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Rules:
    """All words and patterns that replies are compared with.

    Attributes:
        fillers: words that change nothing.
        leading: words that opt out at the start of a sentence.
        words: replies that opt out as a whole, without blanks.
        opt_ins: replies that opt in as a whole, without blanks.
        negations: words that rule out an opt-in.
        harmless: other meanings of the words.
        returning: ways to opt in.
        doubtful: ways that sound like an opt-out.
        word_slips: finds typing errors of `leading` and `words`.
        vocabulary_slips: finds typing errors of words in patterns, of six letters and more.
        proper: words that are no typing errors.
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
    """Return the shipped rules."""
    data: dict[str, Any] = read_yaml(_FILE.read_text(encoding="utf-8"), _FILE).data
    fillers = frozenset(_fold(data["fillers"]).split())
    compiler = _Compiler(data["sets"], fillers)
    leading = frozenset(_fold(data["leading"]).split())
    words = frozenset(_join(_fold(each)) for row in data["words"].values() for each in row.split("|"))
    opt_ins = frozenset(
        _join(_fold(each)) for row in data["opt_in_words"].values() for each in row.split("|")
    )
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


class _Compiler:
    """A compiler of patterns to regular expressions; `words` collects the complete words it met."""

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
        """Return a regular expression that finds any of the patterns."""
        return re.compile(rf"(?<![^ ])(?:{'|'.join(map(self._compile, patterns))})")

    def _compile(self, pattern: str) -> str:
        return _TOKEN.sub(self._read_token, pattern)

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


def classify(text: str, *, offered: Iterable[str] = (), words: tuple[str, ...] = ()) -> ReplyReading:
    """Classify a reply.

    A carrier's opt-out word is sure as the whole reply; STOP and its kin also at the start of a sentence. A
    response that the question offers is an answer, even `end` or `cancel`.

    Args:
        text: the reply.
        offered: the responses of the question that it answers.
        words: the campaign's own opt-out words, as a whole reply or at its start.
    """
    read = _read(text[:_LONGEST], words)
    if read.kind == "answer":
        return read
    said = _join(spell(text[:_LONGEST]))
    return _ANSWER if any(_join(spell(response)) == said for response in offered) else read


@lru_cache(maxsize=4096)
def _read(text: str, own_words: tuple[str, ...]) -> ReplyReading:
    """Classify a text without its question. Results are cached, since most replies are alike."""
    rules = read_rules()
    spelt = spell(text)
    if not spelt:
        return _ANSWER
    own = tuple(filter(None, map(spell, own_words)))
    if _leads(spelt, own) or _join(spelt) in map(_join, own):
        return _SURE
    if _is_said(spelt, rules.opt_ins, rules):
        return ReplyReading("opt_in", "opt-in word")
    if _is_said(spelt, rules.words | rules.leading, rules):
        return _SURE
    return _read_sentence(text, spelt, rules)


def _read_sentence(text: str, spelt: str, rules: Rules) -> ReplyReading:
    left = rules.harmless.sub(", ", f"{spelt} ")
    clauses = [clause.strip() for clause in left.split(",") if clause.strip()]
    if _leads(left, rules.leading) or any(_is_said(clause, rules.leading, rules) for clause in clauses):
        return _SURE
    returning = next(_find(rules.returning, left), None)
    if returning is not None and rules.negations.isdisjoint(spelt.split()):
        return ReplyReading("opt_in", returning)
    doubt = next(_doubt(text, left, clauses, rules), None)
    if returning is not None and doubt is None:
        return ReplyReading("opt_in", returning)
    return ReplyReading("doubtful", doubt) if doubt else _ANSWER


def _doubt(text: str, left: str, clauses: list[str], rules: Rules) -> Iterator[str]:
    """Yield the rules that find an opt-out, the plainest first."""
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
    """Return whether a text consists of the given words and of fillers."""
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
    """Return a text with slips in its long words corrected, if each is a single edit away."""
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


def find_offered(definition: Mapping[str, Any], tag: str, text: str) -> tuple[str, ...]:
    """Return the responses of a question of the send body, and the one that concludes it.

    The question is found by its tag, else by its text; an unknown one gives none.
    """
    listed = definition.get("questions")
    questions = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    tagged = [one for one in questions if tag and one.get("tag") == tag]
    worded = [one for one in questions if one.get("text") == text]
    question = next(iter([one for one in tagged if one in worded] or tagged or worded), None)
    if question is None:
        return ()
    responses = question.get("responses")
    offered = [*(responses if isinstance(responses, list) else ()), question.get("conclude_on")]
    return tuple(response for response in offered if isinstance(response, str))
