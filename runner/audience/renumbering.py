"""Numbers that a country has rewritten: old and new forms of one line (E.164).

One form is sent, the one that is valid today; older ones are looked up, so that a person who was texted, or
opted out, under one of them is known. Sources: the national numbering plans that the ITU-T publishes (E.164),
and the regulators' notices of the changes.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class _Change(NamedTuple):
    """One change of a country's numbers: a pattern of either form, and the templates of the others."""

    old: re.Pattern[str]
    to_new: str
    new: re.Pattern[str]
    to_old: tuple[str, ...]


def _change(old: str, to_new: str, new: str, *to_old: str) -> _Change:
    return _Change(re.compile(old, re.ASCII), to_new, re.compile(new, re.ASCII), to_old)


def _swap(start: str, old: str, new: str, rest: str) -> _Change:
    before, after = rf"\{start}{old}({rest})", rf"\{start}{new}({rest})"
    return _change(before, rf"{start}{new}\1", after, rf"{start}{old}\1")


_RENAMED = "120=70 121=79 122=77 126=76 128=78 123=83 124=84 125=85 127=81 129=82 186=56 188=58 199=59"
_VIETNAM = (
    *((old, new) for old, _, new in (pair.partition("=") for pair in _RENAMED.split())),
    *((f"16{digit}", f"3{digit}") for digit in "23456789"),
)
_CHANGES: dict[str, tuple[_Change, ...]] = {
    # Argentina: a mobile has a 9 behind the country code; at home it is left out (and 15 written).
    "+54": (_swap("+54", "", "9", r"[1-8]\d{9}"),),
    # Mexico, 3 August 2019 (IFT): the 1 before mobiles is gone.
    "+52": (_swap("+52", "1", "", r"[2-9]\d{9}"),),
    # Brazil, 2012 to 2016 (Anatel, resolution 553): mobiles have a ninth digit.
    "+55": (
        _change(r"\+55([1-9]{2})([689]\d{7})", r"+55\g<1>9\2", r"\+55([1-9]{2})9([689]\d{7})", r"+55\1\2"),
    ),
    # Gabon, 2019 (ARCEP): a second digit for the network; before, 0 and seven digits, or seven.
    "+241": tuple(
        _change(
            rf"\+2410?([{first}]\d{{6}})",
            rf"+241{put}\1",
            rf"\+241{put}([{first}]\d{{6}})",
            *(r"+2410\1", r"+241\1"),
        )
        for first, put in (("256", "6"), ("47", "7"), ("1", "1"))
    ),
    # Ivory Coast, 31 January 2021 (ARTCI): the network's two digits before a mobile's eight.
    "+225": tuple(
        _swap("+225", "", put, rf"[04-9][{second}]\d{{6}}")
        for second, put in (("1-3", "01"), ("4-6", "05"), ("7-9", "07"))
    ),
    # Benin, 30 November 2024 (ARCEP): 01 before all eight digits.
    "+229": (_swap("+229", "", "01", r"[24-9]\d{7}"),),
    # Vietnam, 15 September 2018 (MIC): mobiles of eleven digits have ten.
    "+84": tuple(_swap("+84", old, new, r"\d{7}") for old, new in _VIETNAM),
}
RENUMBERED_STARTS = frozenset(code[:3] for code in _CHANGES)
"""The first three characters of numbers that may have several forms."""


def _find_changes(phone: str) -> tuple[_Change, ...]:
    if phone[:3] not in RENUMBERED_STARTS:
        return ()
    return _CHANGES.get(phone[:3]) or _CHANGES.get(phone[:4]) or ()


def renumber(phone: str) -> str:
    """Return the form of today of a number in an old form; any other number as it is."""
    found = ((change.old.fullmatch(phone), change.to_new) for change in _find_changes(phone))
    return next((match.expand(template) for match, template in found if match), phone)


def list_forms(phone: str) -> tuple[str, ...]:
    """Return the numbers under which a number in the form of today may be on record: that form first."""
    if phone[:3] not in RENUMBERED_STARTS:
        return (phone,)
    return phone, *(
        match.expand(template)
        for change in _find_changes(phone)
        if (match := change.new.fullmatch(phone))
        for template in change.to_old
    )
