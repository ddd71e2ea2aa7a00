"""Files that are no UTF-8: told to be Western, or what else they are likely to be written in.

Statistics by chardet. What they cannot know is looked at here: a word has the letters of one script, and no
signs in it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

WESTERN = "windows-1252"
_NAMES = {
    "cp1252": WESTERN,
    **{f"cp{number}": f"windows-{number}" for number in (1250, 1251, 1253, 1254, 1255, 1256, 1257)},
    "cp874": "cp874",
    "iso8859-2": "iso-8859-2",
    "iso8859-5": "iso-8859-5",
    "koi8-r": "koi8-r",
    "gb18030": "gb18030",
    "big5hkscs": "big5hkscs",
    "cp932": "cp932",
    "euc_jis_2004": "euc_jis_2004",
    "cp949": "cp949",
    "mac-roman": "macintosh",
    "cp437": "cp437",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
}
"""What programs save tables in, as chardet and Python call it, each with the name that people read."""
_NEIGHBOURS = ("cp1250", "iso8859-2", "cp1254", "cp1257")
"""Latin ones in which Western words read much the same: `Hélčne`, `Gaėl`."""
_RETIRED = ("mac-roman", "cp437", "cp850", "cp852")
"""What no program saves by itself any more: taken only where Windows-1252 is illegible."""
_MARGIN = 1.1
_FEW = 1.4
"""What neighbours have to be likelier by beside the margin, divided by the words that speak for them."""
_TELLING = re.compile("[øõæðþýãœÆØÐÞŒ]")
"""Letters that few Western languages have, and many a word of their neighbours when it is read as Western."""
_BALTIC = re.compile("[ðþÐÞ]")
"""The Baltic š and ž, as they read in Windows-1252."""
_ALMOST = 0.6
_SHOWN = 2
_SIGN = re.compile(
    r"(?<!\d)[©®¹²³ª£¥¦§¨¬¯±´¶¸º¼½¾×÷¤](?=[^\W\d_A-Z])|(?<=[^\W\d_])[¹³£¥¦§¬±¶¼½¾×÷¤](?=[^\W\d_]|\b|$)"
    r"|(?<=[^\W\d_])[¿¡‚„†‡‰ˆ](?=[^\W\d_]|\s|$)"
)
"""Signs where only letters belong: `Micha³`, `¼ubomír`, `Gra¿yna`, but not `1½h` or `Mª`."""
_UNIT = re.compile(r"\b[cdk]?m[²³]")
_CAPITAL = re.compile(r"(?<=[a-z])[À-ÖØ-ÞŠŽŒŸĀĄĆČĎĐĘĚŁŃŇŐŘŚŞŠŤŮŰŹŻŽ]|[A-Z]Ÿ[a-z]")
"""Capitals within words: `MŸller`, `CafÈ`."""
_TYPOGRAPHY = frozenset("‘’“”‹›«»–—…•·€£¥¢§©®™°±²³¹¼½¾×÷µªº¿¡´\N{NO-BREAK SPACE}")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_TOGETHER = {
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL"), "EAST ASIAN"),
    **dict.fromkeys(("FEMININE", "MASCULINE", "MICRO"), "LATIN"),  # ª, º and µ
}
_WORD = re.compile(r"[^\W\d_]+")


def find_likely(fields: list[bytes]) -> list[str]:
    """Return the likely encodings of texts, the likeliest first; Windows-1252 alone if they are Western.

    Args:
        fields: some with bytes beyond ASCII.
    """
    # Imported here: nearly all files are UTF-8.
    import chardet  # noqa: PLC0415

    sample = b"\n".join(fields)
    western = _decode(sample, "cp1252")
    if western is not None and _has_only_typography(western) and _is_written_by_people(western):
        return [WESTERN]
    found = chardet.detect_all(
        sample, ignore_threshold=True, prefer_superset=False, compat_names=False, include_encodings=_NAMES
    )
    scores = {one["encoding"]: one["confidence"] for one in reversed(found)}
    texts = {name: _decode(sample, name) for name in _NAMES}
    legible = {
        name: scores.get(name, 0.0)
        for name, text in texts.items()
        if text is not None and _is_written_by_people(text)
    }
    likelier = {
        name: score
        for name, score in legible.items()
        if texts[name] != western and score > legible.get("cp1252", -1.0) * _margin_of(name, legible, western)
    }
    if not likelier:
        return [WESTERN]
    ranked = sorted(likelier.items(), key=lambda pair: -pair[1])
    best = ranked[0][1]
    return [_NAMES[name] for name, score in ranked if score >= best * _ALMOST][:_SHOWN]


def show_field(field: bytes, encoding: str) -> str:
    """Return a field as it reads in an encoding, without its figures: they may be somebody's phone."""
    text = field.decode(encoding, errors="replace")
    return "".join("•" if character.isdigit() else character for character in text.strip())[:40]


def _decode(sample: bytes, encoding: str) -> str | None:
    try:
        return sample.decode(encoding)
    except UnicodeDecodeError:
        return None


def _margin_of(name: str, legible: dict[str, float], western: str | None) -> float:
    """Return what an encoding has to be likelier than Windows-1252 by."""
    if western is None or "cp1252" not in legible:
        return _MARGIN
    if name in _RETIRED or (name == "cp1257" and not _BALTIC.search(western)):
        return math.inf
    if name not in _NEIGHBOURS or _TELLING.search(western):
        return _MARGIN
    return _MARGIN + _FEW / max(sum(not word.isascii() for word in set(_WORD.findall(western))), 1)


def _has_only_typography(text: str) -> bool:
    """Return whether there are no letters beyond ASCII, but signs that people type in Western texts."""
    return all(character.isascii() or character in _TYPOGRAPHY for character in text)


def _is_written_by_people(text: str) -> bool:
    text = _UNIT.sub("m", text)
    if _SIGN.search(text) or _CAPITAL.search(text) or _CONTROL.search(text):
        return False
    return all(len(set(_list_scripts(word))) == 1 for word in _WORD.findall(text))


def _list_scripts(word: str) -> Iterator[str]:
    """Yield the scripts of a word's letters, as their names begin; joined ones as one."""
    for letter in word:
        name = unicodedata.name(letter, "?").partition(" ")[0]
        yield _TOGETHER.get(name, name)
