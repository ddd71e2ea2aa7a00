"""Magic numbers: phones whose owners do what the table says, so that a rehearsal has its cast.

They are +1 302 555 01xx. The North American plan keeps 555-0100 to 555-0199 of every area code for fiction,
so nobody is ever reached by them, and phone number libraries take them for valid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.sandbox.errors import RefusalError
from runner.sandbox.rehearsal import scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

AT_ONCE = timedelta()
A_DAY = timedelta(days=1)
PREFIX = "+130255501"


@dataclass(frozen=True, slots=True)
class MagicNumber:
    """A phone and what its owner, or the service, does.

    Attributes:
        phone: in E.164.
        name: in a word or two.
        does: in a sentence.
        script: gives what the owner writes next, if anything.
        delay: what passes by the service's clock before they write.
        refusal: status, code and message that every send to them is answered with instead.
        fault: name of the fault that befalls every send to them.
    """

    phone: str
    name: str
    does: str
    script: Callable[[scripts.Situation], str | None] = scripts.say_nothing
    delay: timedelta = AT_ONCE
    refusal: tuple[int, str, str] | None = None
    fault: str | None = None


_CAST = (
    MagicNumber("00", "silent", "Never answers."),
    MagicNumber("01", "prompt", "Answers every question at once and rightly.", scripts.answer),
    MagicNumber(
        "02",
        "muddled",
        "Answers each choice with nonsense first, then rightly.",
        scripts.answer_after_nonsense,
    ),
    MagicNumber("03", "stop", "Opts out: writes STOP to whatever comes.", scripts.opt_out),
    MagicNumber("04", "first only", "Answers the first question and no other.", scripts.answer_first),
    MagicNumber("05", "help", "Writes HELP to the first question, then answers.", scripts.ask_for_help),
    MagicNumber("06", "slow", "Answers each question a day after it, by the clock.", scripts.answer, A_DAY),
    MagicNumber(
        "07", "stop later", "Answers the first question, writes STOP to the second.", scripts.opt_out_half_way
    ),
    MagicNumber(
        "08",
        "come and go",
        "Writes STOP a day after whatever comes, and START a day after that.",
        scripts.come_and_go,
        A_DAY,
    ),
    MagicNumber("09", "lost", "Answers each choice with nonsense, three times.", scripts.never_understand),
    MagicNumber("10", "brief", "Answers so that the survey concludes, if it can be.", scripts.conclude),
    MagicNumber(
        "11", "talkative", "Writes at length, in several scripts, where they may.", scripts.write_at_length
    ),
    MagicNumber(
        "40",
        "refused",
        "A send to it is refused with 400.",
        refusal=(400, "phone_refused", "One of the numbers cannot be texted (a magic number)."),
    ),
    MagicNumber(
        "43",
        "forbidden",
        "A send to it is refused with 403.",
        refusal=(403, "send_refused", "The account may not send this (a magic number)."),
    ),
    MagicNumber("50", "fails", "A send to it is accepted and answered with 500.", fault="500"),
    MagicNumber("51", "drops", "A send to it is accepted; the connection closes unanswered.", fault="drop"),
)


def _complete(number: MagicNumber) -> MagicNumber:
    return replace(number, phone=PREFIX + number.phone)


MAGIC_NUMBERS: Mapping[str, MagicNumber] = {
    number.phone: number for number in (_complete(each) for each in _CAST)
}
"""Every magic number, by its phone; any other number is an ordinary one."""
_PHONES = frozenset(MAGIC_NUMBERS)


def refuse_magic(phones: Collection[str]) -> None:
    """Refuse a send to a number that is there to be refused.

    Raises:
        RefusalError: as the number's row in the table says.
    """
    refusal = next((number.refusal for number in _find_all(phones) if number.refusal), None)
    if refusal is not None:
        raise RefusalError(*refusal)


def find_fault_name(phones: Collection[str]) -> str | None:
    """Name the fault that befalls a send to these phones, if one of them is there for that."""
    return next((number.fault for number in _find_all(phones) if number.fault), None)


def _find_all(phones: Collection[str]) -> list[MagicNumber]:
    # Almost every send has none: the quickest way to know that.
    if _PHONES.isdisjoint(phones):
        return []
    return [MAGIC_NUMBERS[phone] for phone in phones if phone in MAGIC_NUMBERS]
