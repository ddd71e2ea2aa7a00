"""Moves all records of a target to another state key: ledger, lockfiles, and what is on the state remote."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.audience import AudienceTally, iterate_audience
from runner.cli.campaigns import show_path
from runner.cli.circumstances import find_lockfiles
from runner.cli.console import count_words
from runner.cli.state_remote import campaign_of
from runner.errors import LockfileError, RunnerError
from runner.ledger.containment import require_contained
from runner.ledger.deliveries import find_campaign
from runner.ledger.lockfile import parse_lockfile, read_text
from runner.ledger.lockfile_writer import write_text
from runner.ledger.marks import list_lines
from runner.ledger.record_rotation import (
    LockfileMove,
    ReservationMove,
    open_lockfile,
    open_reservation,
    read_maker,
)
from runner.ledger.rotation import (
    find_makers,
    list_tags_on_record,
    needs_rotation,
    rotate_ledger,
    want_ledger,
)
from runner.service.listing import list_launches
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.state_remote import StateRemote
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger
    from runner.ledger.model import SummaryLine
    from runner.ledger.target_key import LedgerConnection
    from runner.ledger.translation import Maker, Translation

_LOCKFILE = ".lock.json"
_NAMED = 3


@dataclass(slots=True)
class Rotation:
    """One target's records on their way to another key.

    To be used under the locks of all of its campaigns, and of its ref.

    Attributes:
        workspace: names the target.
        ledger: open for writing.
        campaigns: those whose files are at hand.
        translation: of the target's fingerprints.
        lockfiles: those that are to be moved or signed, by file.
        shared: what of the ref is to be moved or signed, by the names of its files.
    """

    workspace: Workspace
    ledger: Ledger
    campaigns: Sequence[Campaign]
    translation: Translation
    lockfiles: dict[Path, LockfileMove] = field(default_factory=dict)
    shared: dict[str, LockfileMove | ReservationMove] = field(default_factory=dict)
    _moves_ledger: bool = False

    def gather(self) -> None:
        """Find all records, and everybody who is in them.

        Raises:
            RunnerError: one cannot be read, was changed, or its key is not at hand.
        """
        names = [name for one in self.campaigns for name in (one.name, *one.renamed_from)]
        makers: dict[str, Maker] = {}
        with self.ledger.reading() as connection:
            want_ledger(connection, self.translation)
            self._moves_ledger = needs_rotation(connection, self.translation)
            makers |= find_makers(connection, self.translation.target)
            for file in find_lockfiles(self.campaigns, self.translation.target):
                text = read_text(file)
                if text is not None and (move := open_lockfile(file, text, names, self.translation)):
                    self._require_summed(connection, move, text)
                    self.lockfiles[file] = move
        if self.workspace.state is not None:
            self._gather_shared(self.workspace.state, names, makers)

    def _gather_shared(self, state: StateRemote, names: Sequence[str], makers: dict[str, Maker]) -> None:
        texts, where = state.read_texts(), str(state.ref)
        for name, text in sorted(texts.items()):
            if name.endswith(_LOCKFILE):
                makers[name.removesuffix(_LOCKFILE)] = read_maker(Path(where, name), text)
                if lockfile := open_lockfile(Path(where, name), text, names, self.translation):
                    self.shared[name] = lockfile
        for name, text in sorted(texts.items()):
            campaign = campaign_of(name)
            if not campaign:
                continue
            place = f"the reservation {name} on {where}"
            if campaign not in makers:
                raise LockfileError(f"{place} is of no campaign on record", hint="nothing was changed")
            if move := open_reservation(place, campaign, text, makers[campaign], self.translation):
                self.shared[name] = move

    def _require_summed(self, connection: LedgerConnection, move: LockfileMove, text: str) -> None:
        """Make sure that the ledger has everybody whom a lockfile sums up: it alone can sum up anew."""
        if "messages" not in move.data or self.translation.is_moved(move.maker):
            return
        row = find_campaign(connection, self.translation.target, move.campaign)
        if row is None or row.key_fingerprint != self.translation.new.name:
            lockfile = parse_lockfile(move.file, text)
            require_contained(connection, row.id if row else None, {move.file: lockfile}, {}, set())
            return
        # The ledger was moved by a run that died then.
        lines = {one.message: (one.launches, one.recipients) for one in list_lines(connection, row.id)}
        told = {one["message"]: (one["launches"], one["recipients"]) for one in move.data["messages"]}
        if lines != told:
            raise LockfileError(
                f"the lockfile {move.file} does not sum up what the ledger has", hint="restore it with git"
            )

    def match(self, phones: Iterable[str]) -> None:
        """Find the phones of everybody on record.

        Args:
            phones: those that the user names, E.164.

        Raises:
            RunnerError: some cannot be found, or the service cannot be asked.
        """
        self.translation.offer(phones)
        for campaign in self.campaigns:
            if self.translation.count_missing():
                self.translation.offer(_list_phones(campaign))
        if self.translation.count_missing():
            self._ask_service()
        missing = self.translation.count_missing()
        if missing:
            who = [
                f"{count_words(count, 'person', 'people')} of {name}"
                if name
                else f"{count_words(count, 'person', 'people')} who opted out"
                for name, count in sorted(missing.items())
            ]
            raise RunnerError(
                f"nothing was changed: {' and '.join(who)} cannot be found, neither in audiences nor at the "
                "service",
                hint="name a CSV file that has their phones with --phones: fingerprints tell nothing",
            )

    def _ask_service(self) -> None:
        with self.ledger.reading() as connection:
            tags = list_tags_on_record(connection, self.translation.target)
        moves = [*self.lockfiles.values(), *self.shared.values()]
        for move in moves:
            tags |= set(move.list_tags())
        with self.workspace.open_service() as (client, _):
            for tag in sorted({form for one in tags for form in (one, one.casefold())}):
                listed = list_launches(client, tag).launches
                self.translation.offer(phone for launch in listed for phone in launch.recipients)
                if not self.translation.count_missing():
                    return

    def is_empty(self) -> bool:
        """Return whether there is nothing to move, and nothing to sign."""
        return not (self.lockfiles or self.shared or self._moves_ledger or self.translation.count_people())

    def describe(self) -> Iterator[str]:
        """Yield in sentences what is to be done."""
        places = [*map(show_path, self.lockfiles), *self.shared]
        people = count_words(self.translation.count_people(), "fingerprint")
        if not self.translation.is_signing_only:
            yield f"Move {people} on {self.translation.target} to the new key, in the ledger" + (
                f" and in {', '.join(places)}." if places else "."
            )
        for place, move in [*((show_path(f), m) for f, m in self.lockfiles.items()), *self.shared.items()]:
            lines = move.bare
            if lines:
                rest = f" and {len(lines) - _NAMED:,} more" if len(lines) > _NAMED else ""
                yield f"Sign what no key has signed in {place}: {', '.join(lines[:_NAMED])}{rest}."

    def write(self) -> list[Path]:
        """Move everything, and return the lockfiles that have changed.

        In an order in which it can be done again after it was broken off: what was moved is known by its key.

        Raises:
            RunnerError: something cannot be written. What was moved before stays so.
        """
        with self.ledger.writing() as connection:
            rotate_ledger(connection, self.translation)
        with self.ledger.reading() as connection:

            def sum_up(campaign: str) -> list[SummaryLine]:
                row = find_campaign(connection, self.translation.target, campaign)
                return [] if row is None else list_lines(connection, row.id)

            texts = {file: move.write(self.translation, sum_up) for file, move in self.lockfiles.items()}
            shared = {name: move.write(self.translation, sum_up) for name, move in self.shared.items()}
        changed = [file for file, text in texts.items() if write_text(file, text)]
        if shared and self.workspace.state is not None:
            self.workspace.state.rewrite(shared)
        return changed


def _list_phones(campaign: Campaign) -> Iterator[str]:
    """Yield the phones in a campaign's audience, as far as it can be read."""
    for recipient in iterate_audience(campaign, frozenset(), Problems(), AudienceTally()):
        yield recipient.phone
