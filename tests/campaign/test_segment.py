"""Segments, held against a slow packer and against vectors that carriers publish."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.text.segment import count_segments

# 3GPP TS 23.038, 6.2.1, row by row from 0x00 to 0x7F; \x1b is the escape to the extension table.
DEFAULT_ALPHABET = (
    "@£$¥èéùìòÇ\nØø\rÅå"
    "Δ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ"
    " !\"#¤%&'()*+,-./"
    "0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNO"
    "PQRSTUVWXYZÄÖÑÜ§"
    "¿abcdefghijklmno"
    "pqrstuvwxyzäöñüà"
)
# 6.2.1.1: code after the escape, and the character.
EXTENSION_TABLE = {
    0x0A: "\f",
    0x14: "^",
    0x28: "{",
    0x29: "}",
    0x2F: "\\",
    0x3C: "[",
    0x3D: "~",
    0x3E: "]",
    0x40: "|",
    0x65: "€",
}


def encode_gsm(character: str) -> list[int] | None:
    """Return a character's septets; None if GSM 03.38 lacks it."""
    if character != "\x1b" and character in DEFAULT_ALPHABET:
        return [DEFAULT_ALPHABET.index(character)]
    return next(([0x1B, code] for code, found in EXTENSION_TABLE.items() if found == character), None)


def encode_ucs2(character: str) -> list[int]:
    raw = character.encode("utf-16-be", errors="surrogatepass")
    return [raw[index] << 8 | raw[index + 1] for index in range(0, len(raw), 2)]


def pack_slowly(text: str) -> tuple[str, list[list[int]]]:
    """Return the encoding and the units of every segment, by filling one after the other."""
    septets = [encode_gsm(character) for character in text]
    gsm = [codes for codes in septets if codes is not None]
    if len(gsm) == len(septets):
        encoding, characters, single, several = "GSM-7", gsm, 160, 153
    else:
        encoding, characters, single, several = "UCS-2", [encode_ucs2(c) for c in text], 70, 67
    whole = [unit for codes in characters for unit in codes]
    if len(whole) <= single:
        return encoding, [whole] if whole else []
    segments: list[list[int]] = []
    while characters:
        segment: list[int] = []
        while characters and len(segment) + len(characters[0]) <= several:
            segment += characters.pop(0)
        segments.append(segment)
    return encoding, segments


CHARACTERS = st.sampled_from([*"aä@\n", *"€[^", "ç", "ё", "—", "👍", "🇩", "\x1b", "\uffff", "\U00010000"])
TEXTS = st.one_of(
    st.text(max_size=400),
    st.lists(st.tuples(CHARACTERS, st.integers(1, 160)), max_size=5).map(
        lambda runs: "".join(character * count for character, count in runs)
    ),
)


@given(TEXTS)
def test_counts_like_the_slow_packer(text: str) -> None:
    """Encoding, units and segments are those of a packer that really fills segments."""
    encoding, segments = pack_slowly(text)
    found = count_segments(text)
    assert found.encoding == encoding
    assert found.units == sum(map(len, segments)) == len([unit for s in segments for unit in s])
    assert found.segments == len(segments)


@given(TEXTS)
def test_names_the_first_character_that_costs(text: str) -> None:
    """The costly character is the first that GSM 03.38 lacks; without one there is none."""
    costly = [character for character in text if encode_gsm(character) is None]
    assert count_segments(text).costly == (costly[0] if costly else None)


PUBLISHED_VECTORS: list[tuple[str, str, int, int]] = [
    ("", "GSM-7", 0, 0),
    ("a", "GSM-7", 1, 1),
    ("a" * 160, "GSM-7", 160, 1),
    ("a" * 161, "GSM-7", 161, 2),
    ("a" * 306, "GSM-7", 306, 2),
    ("a" * 307, "GSM-7", 307, 3),
    ("a" * 459, "GSM-7", 459, 3),
    ("a" * 460, "GSM-7", 460, 4),
    ("€" * 80, "GSM-7", 160, 1),
    ("a" * 159 + "€", "GSM-7", 161, 2),
    # 152 septets and an escape sequence: the sequence moves to the next segment as a whole.
    ("a" * 152 + "€" + "a" * 152, "GSM-7", 306, 3),
    ("a" * 151 + "€" + "a" * 153, "GSM-7", 306, 2),
    ("€" * 77, "GSM-7", 154, 1),
    ("€" * 153, "GSM-7", 306, 3),
    ("\n" * 160, "GSM-7", 160, 1),
    ("ç", "UCS-2", 1, 1),
    ("`", "UCS-2", 1, 1),
    ("ё" * 70, "UCS-2", 70, 1),
    ("ё" * 71, "UCS-2", 71, 2),
    ("ё" * 134, "UCS-2", 134, 2),
    ("ё" * 135, "UCS-2", 135, 3),
    ("👍" * 35, "UCS-2", 70, 1),
    ("👍" * 36, "UCS-2", 72, 2),
    # 66 units and a surrogate pair: the pair moves to the next segment as a whole.
    ("ё" * 66 + "👍" + "ё" * 66, "UCS-2", 134, 3),
    ("ё" * 65 + "👍" + "ё" * 67, "UCS-2", 134, 2),
    ("👍" * 67, "UCS-2", 134, 3),
    # Every character of the basic alphabet is one septet, the Greek capitals and line breaks too.
    (DEFAULT_ALPHABET.replace("\x1b", ""), "GSM-7", 127, 1),
    # Every character of the extension table is two.
    ("".join(EXTENSION_TABLE.values()) * 8, "GSM-7", 160, 1),
    ("".join(EXTENSION_TABLE.values()) * 8 + "a", "GSM-7", 161, 2),
    # Capitals that the alphabet lacks beside their small letters, and the other way round.
    ("àÀ", "UCS-2", 2, 1),
    ("Çç", "UCS-2", 2, 1),
    # What word processors write by themselves (Twilio, “smart encoding”): each makes a text UCS-2.
    *((character, "UCS-2", 1, 1) for character in "“”‘’–—…«»•\u00a0\u200b\t"),
    # A family joined by zero widths is seven characters and eleven units; a flag four units.
    ("👨‍👩‍👧‍👦", "UCS-2", 11, 1),
    ("🇩🇪", "UCS-2", 4, 1),
    # One curly apostrophe makes the whole text UCS-2.
    ("a" * 69 + "’", "UCS-2", 70, 1),
    ("a" * 159 + "’", "UCS-2", 160, 3),
]


def test_published_vectors() -> None:
    """The limits are 160 and 153 septets, 70 and 67 units, and no character is torn."""
    for text, encoding, units, segments in PUBLISHED_VECTORS:
        found = count_segments(text)
        assert (found.encoding, found.units, found.segments) == (encoding, units, segments)
