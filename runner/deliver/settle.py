"""Settles launches of unknown outcome by asking the service (design: delivery, step 4).

One that is listed is adopted. One that is missing from two full lists, a settle window apart, was
not sent, and is free to be sent again. What only partly fits is held for a person to resolve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.deliver.match import Verdict, judge_launches, make_candidates, parse_moment
from runner.errors import ServiceError
from runner.ledger.moment import format_moment
from runner.ledger.unsettled import adopt_launch, list_claimed, list_unsettled, release_launch
from runner.service.listing import list_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.deliver.match import Candidate
    from runner.deliver.subject import Subject
    from runner.ledger.model import Unsettled

ABSENT = "the service did not list it in two full lists"


@dataclass(frozen=True, slots=True)
class SettleSummary:
    """What settling found.

    Attributes:
        adopted: launches that were sent after all: the service's guid by the launch's key.
        released: the keys of launches that were not sent, and can be sent again.
        held: launches that a person has to resolve.
        waiting: launches that are missing from a first list, and that no second one was read for.
        failure: what kept the service from being asked a second time.
    """

    adopted: dict[str, str] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    held: tuple[Verdict, ...] = ()
    waiting: int = 0
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

    def settle(self) -> SettleSummary:
        """Find out what became of every launch whose outcome is not known.

        Raises:
            ServiceError: the service cannot be asked; nothing has changed.
            RunLockedError: another run has got the campaign's lock.
            LedgerError: the ledger cannot be written.
        """
        verdicts = self.judge()
        adopted = self._adopt(verdicts)
        absent = {verdict.launch.id for verdict in verdicts if verdict.is_absent}
        if not absent:
            return SettleSummary(adopted, held=_held(verdicts))
        if self._wait(self._window_s):
            return SettleSummary(adopted, held=_held(verdicts), waiting=len(absent))
        try:
            verdicts = self.judge()
        except ServiceError as error:
            # What the first list has told is on record: whoever asked has to hear of it, too.
            return SettleSummary(adopted, held=_held(verdicts), waiting=len(absent), failure=error)
        adopted |= self._adopt(verdicts)
        missing = [v.launch for v in verdicts if v.is_absent and v.launch.id in absent]
        self._release(missing)
        return SettleSummary(adopted, frozenset(launch.key for launch in missing), _held(verdicts))

    def judge(self) -> list[Verdict]:
        """Return what one full list says of each unsettled launch, and change nothing."""
        with self._subject.ledger.reading() as connection:
            launches = list_unsettled(connection, self._subject.campaign_id)
            claimed = list_claimed(connection, self._subject.target)
        return judge_launches(launches, self._list_candidates(launches, claimed)) if launches else []

    def _list_candidates(self, launches: Sequence[Unsettled], claimed: set[str]) -> list[Candidate]:
        tags = sorted({launch.tag for launch in launches})
        listed = [stat for tag in tags for stat in list_launches(self._subject.client, tag).launches]
        return make_candidates(listed, claimed, self._subject.fingerprint)

    def _adopt(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        matches = [(verdict.launch, verdict.match.stat) for verdict in verdicts if verdict.match]
        if matches:
            with self._subject.ledger.writing() as connection:
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


def _held(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in verdicts if verdict.doubtful)
