"""Settles launches of unknown outcome by asking the service.

One that is listed is adopted. One that is missing from two full lists, a settle window apart, each of which
shows what is known to have been sent, was not sent, and is free to be sent again. What only partly fits is
held for a person.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.deliver.evidence import Listing, ListReader
from runner.deliver.match import Verdict, is_same, judge_launches, make_candidates, parse_moment
from runner.errors import ServiceError
from runner.ledger.moment import format_moment
from runner.ledger.unexplained import drop_unexplained, read_dismissed
from runner.ledger.unsettled import (
    adopt_launch,
    dispute_launches,
    list_claimed,
    list_unsettled,
    read_recipients,
    release_launch,
)
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from runner.deliver.subject import Subject
    from runner.ledger.model import Unsettled

ABSENT = "the service did not list it in two full lists"
_LOOKS = 4
"""How often the lists are read before what is still unclear is left to the next run."""


@dataclass(frozen=True, slots=True)
class SettleSummary:
    """The findings of settling.

    Attributes:
        adopted: launches that were sent after all: the service's guid by the launch's key.
        released: the keys of launches that were not sent, and can be sent again.
        held: launches that a person has to resolve.
        waiting: launches that are missing from the lists, without a proof that they were not sent.
        doubt: why the lists are no such proof, in words.
        failure: what kept the service from being asked again.
    """

    adopted: dict[str, str] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    held: tuple[Verdict, ...] = ()
    waiting: int = 0
    doubt: str | None = None
    failure: ServiceError | None = None


class Settler:
    """Settles the launches of one campaign. The caller holds the campaign's lock.

    Args:
        subject: the campaign.
        window_s: the settle window, in seconds.
        wait: waits for so many seconds; returns whether the run was told to stop meanwhile. It must
            not trust a clock that can be set: the window is what keeps people from being texted twice.
    """

    def __init__(self, subject: Subject, *, window_s: float, wait: Callable[[float], bool]) -> None:
        self._subject = subject
        self._window_s = window_s
        self._wait = wait
        self._lists = ListReader(subject, window_s)

    def settle(self) -> SettleSummary:
        """Find out what became of every launch whose outcome is not known.

        Raises:
            ServiceError: the service cannot be asked; nothing has changed.
            RunLockedError: another run has got the campaign's lock.
            LedgerError: the ledger cannot be written.
        """
        adopted, released = dict[str, str](), set[str]()
        # Those that the latest list that proves something has lacked.
        lacked: set[int] = set()
        failure = None
        verdicts, listing = self._look(disputes=True)
        for look in range(_LOOKS):
            adopted |= self._adopt(verdicts)
            absent = [verdict.launch for verdict in verdicts if verdict.is_absent]
            if listing.doubt is None:
                gone = [launch for launch in absent if launch.id in lacked]
                self._release(gone)
                released.update(launch.key for launch in gone)
                absent = [launch for launch in absent if launch.id not in lacked]
                lacked = {launch.id for launch in absent}
            # A list that is never counted is read once more, for what was late: it is never a proof.
            is_last = look == _LOOKS - 1 or (look > 0 and listing.uncounted is not None)
            if not absent or is_last or self._wait(self._window_s):
                break
            try:
                verdicts, listing = self._look(disputes=True)
            except ServiceError as error:
                # What was found so far is on record: the caller has to hear of it, too.
                failure = error
                break
        held = tuple(verdict for verdict in verdicts if verdict.doubtful)
        return SettleSummary(adopted, frozenset(released), held, len(absent), listing.doubt, failure)

    def judge(self) -> list[Verdict]:
        """Return what one full list says of each unsettled launch, and change nothing."""
        return self._look()[0]

    def _look(self, *, disputes: bool = False) -> tuple[list[Verdict], Listing]:
        """Read the lists, and hold the unsettled launches against them.

        Args:
            disputes: take back guids that the service has named for a launch, and lists for another one.
        """
        subject = self._subject
        with subject.ledger.reading() as connection:
            launches = list_unsettled(connection, subject.campaign_id)
            claimed = list_claimed(connection, subject.target)
            claimed |= set(map(fold_guid, read_dismissed(connection, subject.campaign_id)))
        if not launches:
            return [], Listing(())
        tags = {launch.tag for launch in launches}
        listing = self._lists.read(tags, min(launch.intent_at for launch in launches))
        if disputes and (wrong := self._find_wrong_claims(launches, listing, claimed)):
            with subject.ledger.writing() as connection:
                dispute_launches(connection, subject.campaign_id, wrong)
            return self._look()
        candidates = make_candidates(listing.launches, claimed, subject.fingerprint)
        return judge_launches(launches, candidates), listing

    def _find_wrong_claims(
        self, launches: Sequence[Unsettled], listing: Listing, claimed: Collection[str]
    ) -> list[str]:
        """Return guids on record that the service lists for an unsettled launch.

        It named a launch by the guid of another one, whose own answer never came.
        """
        subject = self._subject
        others = [stat for stat in listing.launches if fold_guid(stat.project_launch_guid) in claimed]
        candidates = make_candidates(others, set(), subject.fingerprint)
        same = {
            fold_guid(one.stat.project_launch_guid): one.recipients
            for one in candidates
            if any(is_same(launch, one) for launch in launches)
        }
        with subject.ledger.reading() as connection:
            recorded = read_recipients(connection, subject.campaign_id, same)
        return [guid for guid, people in recorded.items() if people != same[guid]]

    def _adopt(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        matches = [(verdict.launch, verdict.match.stat) for verdict in verdicts if verdict.match]
        if matches:
            with self._subject.ledger.writing() as connection:
                guids = [stat.project_launch_guid for _, stat in matches]
                drop_unexplained(connection, self._subject.campaign_id, guids)
                for launch, stat in matches:
                    at = write_moment(stat.project_launch_start, self._subject.now())
                    adopt_launch(connection, launch.id, stat.project_launch_guid, at)
        return {launch.key: stat.project_launch_guid for launch, stat in matches}

    def _release(self, launches: Sequence[Unsettled]) -> None:
        if launches:
            with self._subject.ledger.writing() as connection:
                # Who has lost it meanwhile would set free what another run is about to send.
                self._subject.lock.require_held(connection)
                for launch in launches:
                    release_launch(connection, launch.id, self._subject.now(), ABSENT)


def write_moment(started: str, otherwise: str) -> str:
    """Return when the service started a launch, as records write it: UTC, ISO 8601.

    Args:
        started: as the service writes it.
        otherwise: what to write if that cannot be read.
    """
    moment = parse_moment(started)
    return format_moment(moment) if moment else otherwise
