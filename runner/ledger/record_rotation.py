"""Moves lockfiles and reservations to a new key, and signs what has no MAC yet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.fingerprint import launch_key
from runner.ledger.line_macs import LineMacs, find_unsigned, is_signed, without_mac
from runner.ledger.lockfile import load_data, parse_lockfile
from runner.ledger.lockfile_writer import dump_data
from runner.ledger.merge import BLOCKS, dump_line
from runner.ledger.shared import dump_reservation, is_signed_reservation, parse_reservation
from runner.ledger.translation import Maker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from runner.ledger.model import SummaryLine
    from runner.ledger.translation import Translation


@dataclass(slots=True)
class LockfileMove:
    """A lockfile that is to be moved, or to be signed.

    Attributes:
        file: where it is kept.
        data: what it says.
        maker: made its fingerprints.
        bare: its lines that no key has signed.
    """

    file: Path
    data: dict[str, Any]
    maker: Maker
    bare: list[str]

    @property
    def campaign(self) -> str:
        """The campaign's name."""
        return str(self.data["campaign"])

    def list_tags(self) -> list[str]:
        """Return the project tags of its launches."""
        tags = [line["tag"] for line in self.data.get("launches", ())]
        return [*tags, *(tag for line in self.data.get("messages", ()) for tag in line["tags"])]

    def write(self, translation: Translation, list_lines: Callable[[str], list[SummaryLine]]) -> str:
        """Return the text under the new key, signed by it.

        Args:
            translation: knows everybody of whom `open_lockfile` has taken note.
            list_lines: returns what the ledger, which was moved, sums up of a campaign.
        """
        head = {name: value for name, value in self.data.items() if name not in (*BLOCKS, "macs")}
        blocks = {name: _list_once(self.data[name]) for name in BLOCKS if name in self.data}
        if not translation.is_moved(self.maker):
            head.pop("salt", None)
            head["key_fingerprint"] = translation.new.name
            if "forgotten" in head:
                head["forgotten"] = translation.move(self.maker, head["forgotten"])
            if "launches" in blocks:
                moved = [self._move(line, translation) for line in blocks["launches"]]
                blocks["launches"] = sorted(moved, key=lambda line: (line["message"], line["key"]))
            if "messages" in blocks:
                blocks["messages"] = [*map(asdict, list_lines(self.campaign))]
        macs = LineMacs(translation.new_secret, translation.target, self.maker.campaign)
        signed = {name: [macs.sign_line(name, line) for line in lines] for name, lines in blocks.items()}
        return dump_data({**head, "macs": macs.sign_head(head), **signed})

    def _move(self, line: dict[str, Any], translation: Translation) -> dict[str, Any]:
        people = translation.move(self.maker, line["recipients"])
        key = launch_key(self.maker.campaign, line["message"], line["payload_digest"], people)
        return {**line, "recipients": people, "key": key}


def open_lockfile(
    file: Path, text: str, names: Sequence[str], translation: Translation
) -> LockfileMove | None:
    """Return what is to be done about a lockfile, and take note of its people; None if nothing is.

    Args:
        file: where it is kept.
        text: what it holds.
        names: those that campaigns are known to have had.
        translation: takes note of them.

    Raises:
        LockfileError: it cannot be read, is of another target, or was changed since a key has signed it.
        MissingKeyError: the key that it was written with is not at hand.
    """
    parse_lockfile(file, text, names)
    data, _ = load_data(file, text)
    if data["target"] != translation.target:
        raise LockfileError(
            f"the lockfile {file} is of the target {data['target']!r}, not {translation.target!r}",
            hint="targets' names are for good: put it back",
        )
    maker = read_maker(file, text)
    bare = _find_bare(file, data, translation)
    if translation.is_moved(maker):
        return LockfileMove(file, data, maker, bare) if bare else None
    people = [one for line in data.get("launches", ()) for one in line["recipients"]]
    translation.want(maker, f"the lockfile {file}", [*people, *data.get("forgotten", ())])
    return LockfileMove(file, data, maker, bare)


def _list_once(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what lines say; git keeps one twice that both sides have added."""
    return list({dump_line(said): said for said in map(without_mac, lines)}.values())


def read_maker(file: Path, text: str) -> Maker:
    """Return how the fingerprints in the text of a lockfile were made.

    Raises:
        LockfileError: it cannot be read.
    """
    data, _ = load_data(file, text)
    return Maker(data.get("first_name", data["campaign"]), data.get("salt"), data["key_fingerprint"])


def _find_bare(file: Path, data: dict[str, Any], translation: Translation) -> list[str]:
    """Return the lines that no key has signed.

    Raises:
        LockfileError: some were changed since one has.
    """
    secrets = [one for one in (translation.new_secret, translation.old_secret) if one]
    found = min((find_unsigned(data, one) for one in secrets), key=lambda one: len(one.wrong))
    if found.wrong and is_signed(data):
        raise LockfileError(
            f"the lockfile {file} was changed without the key: {', '.join(found.wrong[:3])} "
            f"{'does' if len(found.wrong) == 1 else 'do'} not fit the MAC",
            hint="restore it with git; nothing was changed",
        )
    return found.bare


@dataclass(slots=True)
class ReservationMove:
    """A reservation that is to be moved, or to be signed.

    Attributes:
        campaign: the name under which it is kept.
        text: as it is.
        maker: made its fingerprints.
        is_bare: whether no key has signed it.
    """

    campaign: str
    text: str
    maker: Maker
    is_bare: bool

    @property
    def bare(self) -> list[str]:
        """Its lines that no key has signed: it has one MAC for all."""
        return ["all of it"] if self.is_bare else []

    def list_tags(self) -> list[str]:
        """Return the project tags of its launches."""
        return [launch["tag"] for launch in json.loads(self.text)["launches"]]

    def write(self, translation: Translation, _: object) -> str:
        """Return the text under the new key, signed by it."""
        reservation = parse_reservation(self.text)
        if reservation is None:
            raise ValueError("this text was read before")
        if not translation.is_moved(self.maker):
            moved = []
            for one in reservation.launches:
                people = tuple(translation.move(self.maker, one.recipients))
                key = launch_key(self.maker.campaign, one.message, one.payload_digest, people)
                moved.append(replace(one, recipients=people, key=key))
            reservation = replace(reservation, launches=tuple(moved))
        return dump_reservation(
            reservation, LineMacs(translation.new_secret, translation.target, self.campaign)
        )


def open_reservation(
    where: str, campaign: str, text: str, maker: Maker, translation: Translation
) -> ReservationMove | None:
    """Return what is to be done about a reservation, and take note of its people; None if nothing is.

    Args:
        where: it is kept, for errors.
        campaign: the name under which it is kept.
        text: what it holds.
        maker: made its fingerprints.
        translation: takes note of them.

    Raises:
        LockfileError: it cannot be read, or was changed since a key has signed it.
        MissingKeyError: the key that it was written with is not at hand.
    """
    reservation = parse_reservation(text)
    if reservation is None:
        raise LockfileError(f"{where} cannot be read", hint="nothing was changed")
    secrets = [one for one in (translation.new_secret, translation.old_secret) if one]
    makers = [LineMacs(one, translation.target, campaign) for one in secrets]
    is_bare = "mac" not in json.loads(text)
    if not is_bare and not any(is_signed_reservation(text, macs) for macs in makers):
        raise LockfileError(
            f"{where} was changed without the key: it does not fit its MAC", hint="nothing was changed"
        )
    if translation.is_moved(maker):
        return ReservationMove(campaign, text, maker, is_bare) if is_bare else None
    people = [one for launch in reservation.launches for one in launch.recipients]
    translation.want(maker, where, people)
    return ReservationMove(campaign, text, maker, is_bare)
