"""Rotation of one target's records to a new key: ledger, lockfiles and reservations.

A fingerprint cannot be turned back into a phone, so all known phones are tried under the old keys of all
records. People whose phones are unknown cannot be moved. Lines without a MAC are signed on the way.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from runner.errors import LockfileError, MissingKeyError
from runner.ledger.bulk import divide
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.lockfile.checkpoints import add_checkpoints
from runner.ledger.lockfile.format import load_data, parse_lockfile
from runner.ledger.lockfile.integrity import LineMacs, find_unsigned, is_signed, without_mac
from runner.ledger.lockfile.merge import BLOCKS, dump_line
from runner.ledger.lockfile.writer import dump_data
from runner.ledger.record.renaming import list_campaigns
from runner.ledger.record.reservations import dump_reservation, is_signed_reservation, parse_reservation
from runner.ledger.record.unsettled import UNEXPLAINED
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import (
    campaigns,
    deliveries,
    forgotten_people,
    launches,
    lockfile_marks,
    opt_outs,
    results,
    sessions,
    target_keys,
)
from runner.ledger.target_key import TargetKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import ColumnElement, Row, Table

    from runner.ledger.model import SummaryLine


_GROUP = 1000


@dataclass(frozen=True, slots=True)
class Maker:
    """The origin of a record's fingerprints: campaign, salt and key.

    `campaign` is its first name, empty for the target's people. `salt` is None if the key was the user's
    secret. `name` is the fingerprint of the key.
    """

    campaign: str
    salt: str | None = field(repr=False)
    name: str


class Translation:
    """A translation of one target's fingerprints from the user's old secret, if any, to the new one."""

    def __init__(self, target: str, new: str, old: str | None) -> None:
        self.target = target
        self.new_secret = new
        self.old_secret = old
        self.new = FingerprintKey.from_secret(new)
        self.new_people = TargetKey.from_secret(target, new)
        self._found: defaultdict[Maker, dict[str, str]] = defaultdict(dict)
        self._wanted: defaultdict[Maker, set[str]] = defaultdict(set)
        self._keys: dict[Maker, FingerprintKey | TargetKey] = {}

    @property
    def is_signing_only(self) -> bool:
        """True if old and new key are the same, so that fingerprints stay as they are."""
        return self.new_secret == self.old_secret

    def is_moved(self, maker: Maker) -> bool:
        """Return whether a record is under the new key, or stays under its salt."""
        if maker.salt is not None:
            return self.is_signing_only
        return maker.name == (self.new if maker.campaign else self.new_people).name

    def want(self, maker: Maker, where: str, fingerprints: Iterable[str]) -> None:
        """Collect fingerprints of a record that is to be moved.

        Raises:
            MissingKeyError: the key that made them is missing.
        """
        if maker not in self._keys:
            self._keys[maker] = self._open(maker, where)
        self._wanted[maker].update(fingerprints)
        self._wanted[maker].difference_update(self._found[maker])

    def offer(self, phones: Iterable[str]) -> None:
        """Try phones, E.164."""
        waiting = {maker: wanted for maker, wanted in self._wanted.items() if wanted}
        for phone in phones:
            for maker, wanted in waiting.items():
                old = self._make(self._keys[maker], maker, phone)
                if old in wanted:
                    wanted.remove(old)
                    new = self.new if maker.campaign else self.new_people
                    self._found[maker][old] = self._make(new, maker, phone)

    def count_missing(self) -> dict[str, int]:
        """Return the number of people without a phone by campaign's first name; "" for the target."""
        found: defaultdict[str, int] = defaultdict(int)
        for maker, wanted in self._wanted.items():
            if wanted:
                found[maker.campaign] += len(wanted)
        return dict(found)

    def count_people(self) -> int:
        """Return the number of people that are moved, counted for each campaign."""
        return sum(map(len, self._found.values()))

    def list_pairs(self, maker: Maker) -> dict[str, str]:
        """Return new fingerprints by old ones."""
        return self._found[maker]

    def move(self, maker: Maker, fingerprints: Iterable[str]) -> list[str]:
        """Return known fingerprints under the new key, sorted."""
        found = self._found[maker]
        return sorted(found[one] for one in fingerprints)

    @staticmethod
    def _make(key: FingerprintKey | TargetKey, maker: Maker, phone: str) -> str:
        return (
            key.fingerprint(phone) if isinstance(key, TargetKey) else key.fingerprint(maker.campaign, phone)
        )

    def _open(self, maker: Maker, where: str) -> FingerprintKey | TargetKey:
        key: FingerprintKey | TargetKey | None
        if maker.campaign:
            key = FingerprintKey.reopen(maker.salt, self.old_secret, maker.name)
        else:
            key = TargetKey.reopen(self.target, maker.salt, self.old_secret, maker.name)
        if key is None:
            raise MissingKeyError(
                f"{where} was written with another key than the one in RUNNER_OLD_STATE_KEY"
                if self.old_secret
                else f"{where} was written with another key, and RUNNER_OLD_STATE_KEY is not set",
                hint="set RUNNER_OLD_STATE_KEY to the key that it was written with; nothing was changed",
            )
        return key


def want_ledger(connection: Connection, translation: Translation) -> None:
    """Collect a target's people that a ledger has under an older key.

    Raises:
        MissingKeyError: a key is missing.
    """
    for row, maker in _iterate_campaigns(connection, translation):
        where = f"the record of {row.name} in the ledger"
        for table, name, of_it in _list_places(row.id):
            query = select(table.c[name]).where(of_it).distinct().execution_options(yield_per=_GROUP)
            translation.want(maker, where, connection.execute(query).scalars())
    people = _find_people(connection, translation)
    if people is not None:
        query = select(opt_outs.c.fingerprint).where(opt_outs.c.target == translation.target).distinct()
        where = f"the opt-outs of {translation.target} in the ledger"
        translation.want(people, where, connection.execute(query).scalars())


def needs_rotation(connection: Connection, translation: Translation) -> bool:
    """Return whether anything of a target is under an older key, even without people."""
    has_campaign = next(_iterate_campaigns(connection, translation), None) is not None
    return has_campaign or _find_people(connection, translation) is not None


def list_tags_on_record(connection: Connection, target: str) -> set[str]:
    """Return the project tags of all launches of a target."""
    query = select(launches.c.tag).join(campaigns, campaigns.c.id == launches.c.campaign_id)
    return set(connection.execute(query.where(campaigns.c.target == target).distinct()).scalars())


def find_makers(connection: Connection, target: str) -> dict[str, Maker]:
    """Return the origins of fingerprints by the names of a target's campaigns."""
    return {row.name: maker for row, maker in _list_makers(connection, target)}


def _list_makers(connection: Connection, target: str) -> list[tuple[Row[Any], Maker]]:
    rows = list_campaigns(connection, campaigns.c.target == target)
    return [(row, Maker(row.first_name, row.salt, row.key_fingerprint)) for row in rows]


def rotate_ledger(connection: Connection, translation: Translation) -> int:
    """Move a target to the new key, and return the number of moved campaigns."""
    moved = 0
    for row, maker in list(_iterate_campaigns(connection, translation)):
        pairs = translation.list_pairs(maker)
        for table, name, of_it in _list_places(row.id):
            _replace(connection, table, name, of_it, pairs)
        _renew_launch_keys(connection, row.id, maker.campaign)
        _renew_marks(connection, row.id)
        is_it = campaigns.c.id == row.id
        named = {"salt": None, "key_fingerprint": translation.new.name}
        connection.execute(update(campaigns).where(is_it).values(**named))
        moved += 1
    maker_of_people = _find_people(connection, translation)
    if maker_of_people is not None:
        is_theirs = opt_outs.c.target == translation.target
        _replace(connection, opt_outs, "fingerprint", is_theirs, translation.list_pairs(maker_of_people))
        is_it = target_keys.c.target == translation.target
        named = {"salt": None, "key_fingerprint": translation.new_people.name}
        connection.execute(update(target_keys).where(is_it).values(**named))
    if moved:
        renew_edition(connection)
    return moved


def _iterate_campaigns(connection: Connection, translation: Translation) -> Iterator[tuple[Row[Any], Maker]]:
    for row, maker in _list_makers(connection, translation.target):
        if not translation.is_moved(maker):
            yield row, maker


def _find_people(connection: Connection, translation: Translation) -> Maker | None:
    query = select(target_keys).where(target_keys.c.target == translation.target)
    row = connection.execute(query).first()
    maker = None if row is None else Maker("", row.salt, row.key_fingerprint)
    return None if maker is None or translation.is_moved(maker) else maker


def _list_places(campaign_id: int) -> list[tuple[Table, str, ColumnElement[bool]]]:
    """Return tables, columns and conditions of the rows that have a campaign's fingerprints."""
    own = select(launches.c.id).where(launches.c.campaign_id == campaign_id)
    return [
        (deliveries, "fingerprint", deliveries.c.campaign_id == campaign_id),
        (forgotten_people, "fingerprint", forgotten_people.c.campaign_id == campaign_id),
        (results, "participant", results.c.launch_id.in_(own)),
        (sessions, "participant", sessions.c.launch_id.in_(own)),
    ]


def _replace(
    connection: Connection, table: Table, name: str, of_it: ColumnElement[bool], pairs: Mapping[str, str]
) -> None:
    column = table.c[name]
    statement = update(table).where(of_it, column == bindparam("b_old")).values({name: bindparam("b_new")})
    _run(connection, statement, ({"b_old": old, "b_new": new} for old, new in sorted(pairs.items())))


def _renew_launch_keys(connection: Connection, campaign_id: int, first_name: str) -> None:
    """Renew the keys of launches from the people that they hold, or held if they hold nobody."""
    held: defaultdict[int, list[str]] = defaultdict(list)
    freed: defaultdict[int, list[str]] = defaultdict(list)
    query = select(deliveries.c.launch_id, deliveries.c.fingerprint, deliveries.c.released)
    for row in connection.execute(query.where(deliveries.c.campaign_id == campaign_id)):
        (freed if row.released else held)[row.launch_id].append(row.fingerprint)
    own = select(launches.c.id, launches.c.message, launches.c.payload_digest)
    is_ours = (launches.c.campaign_id == campaign_id) & (launches.c.state != UNEXPLAINED)
    changed = [
        {"b_id": one.id, "b_key": launch_key(first_name, one.message, one.payload_digest, people)}
        for one in connection.execute(own.where(is_ours))
        if (people := held.get(one.id) or freed.get(one.id))
    ]
    statement = update(launches).where(launches.c.id == bindparam("b_id"))
    _run(connection, statement.values(launch_key=bindparam("b_key")), changed)


def _renew_marks(connection: Connection, campaign_id: int) -> None:
    is_its = lockfile_marks.c.campaign_id == campaign_id
    if connection.execute(select(func.count()).select_from(lockfile_marks).where(is_its)).scalar_one():
        connection.execute(delete(lockfile_marks).where(is_its))
        connection.execute(update(launches).where(launches.c.campaign_id == campaign_id).values(mark=None))
        add_checkpoints(connection, campaign_id)


def _run(connection: Connection, statement: Any, rows: Iterable[dict[str, Any]]) -> None:
    for group in divide(rows, _GROUP):
        connection.execute(statement, group)


@dataclass(slots=True)
class LockfileMove:
    """A lockfile to be moved or signed; `bare` has its unsigned lines."""

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

        `list_lines` returns the sums of a campaign in the rotated ledger.
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
    """Return the move of a lockfile, and collect its people; None if nothing has to change.

    Raises:
        LockfileError: it is invalid, of another target, or was changed after signing.
        MissingKeyError: the key that it was written with is missing.
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
    """Return each line once, without its MAC: git keeps one twice that both sides have added."""
    return list({dump_line(said): said for said in map(without_mac, lines)}.values())


def read_maker(file: Path, text: str) -> Maker:
    """Return the origin of the fingerprints in the text of a lockfile.

    Raises:
        LockfileError: it is invalid.
    """
    data, _ = load_data(file, text)
    return Maker(data.get("first_name", data["campaign"]), data.get("salt"), data["key_fingerprint"])


def _find_bare(file: Path, data: dict[str, Any], translation: Translation) -> list[str]:
    """Return the unsigned lines.

    Raises:
        LockfileError: lines were changed after signing.
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
    """A reservation to be moved, or to be signed if it `is_bare`."""

    campaign: str
    text: str
    maker: Maker
    is_bare: bool

    @property
    def bare(self) -> list[str]:
        """Its unsigned lines: it has one MAC for all."""
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
    """Return the move of a reservation, and collect its people; None if nothing has to change.

    Raises:
        LockfileError: it is invalid, or was changed after signing.
        MissingKeyError: the key that it was written with is missing.
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
