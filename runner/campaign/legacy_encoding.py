"""Files that are no UTF-8: told to be Western, or what else they are likely to be written in.

Statistics by chardet. What they cannot know is looked at here: a word has the letters of one script, and no
signs in it.
"""

from __future__ import annotations

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
_MARGIN = 1.1
"""What another encoding has to be likelier by: Western words read much the same in some of them."""
_ALMOST = 0.6
_SHOWN = 2
_SIGN = re.compile(
    r"(?<!\d)[¹²³ª£¥¦§¨¬¯±´¶¸º¼½¾×÷¤](?=[^\W\d_A-Z])|(?<=[^\W\d_])[¹³£¥¦§¬±¶¼½¾×÷¤](?=[^\W\d_]|\b|$)"
)
"""Signs where only letters belong: `Micha³`, `¼ubomír`, but not `1½h` or `Mª`."""
_CAPITAL = re.compile(r"(?<=[a-z])[À-ÖØ-ÞŠŽŒŸĀĄĆČĎĐĘĚŁŃŇŐŘŚŞŠŤŮŰŹŻŽ]")
"""Capitals within words: `MŸller`, `CafÈ`."""
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
    others = {name: score for name, score in legible.items() if texts[name] != western}
    best = max(others.values(), default=0.0)
    if not others or best <= legible.get("cp1252", -1.0) * _MARGIN:
        return [WESTERN]
    ranked = sorted(others.items(), key=lambda pair: -pair[1])
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


def _has_only_typography(text: str) -> bool:
    """Return whether there are no letters beyond ASCII: curly quotes and dashes are all that there is."""
    beyond = [character for character in text if not character.isascii()]
    return all(unicodedata.category(character) in ("Pi", "Pf", "Pd", "Po", "Sc") for character in beyond)


def _is_written_by_people(text: str) -> bool:
    if _SIGN.search(text) or _CAPITAL.search(text) or _CONTROL.search(text):
        return False
    return all(len(set(_list_scripts(word))) == 1 for word in _WORD.findall(text))


def _list_scripts(word: str) -> Iterator[str]:
    """Yield the scripts of a word's letters, as their names begin; joined ones as one."""
    for letter in word:
        name = unicodedata.name(letter, "?").partition(" ")[0]
        yield _TOGETHER.get(name, name)
