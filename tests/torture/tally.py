"""What scenarios add up to, and how it is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.torture.gauge import Gauge
    from tests.torture.launches import CountingService


@dataclass(slots=True)
class Tally:
    """What scenarios add up to.

    Attributes:
        faults: how often each was met.
        commands: processes that ran.
        accepted: texts that the service accepted.
        twice: texts beyond the first one of the same message to the same phone.
        skipped: texts that a recipient should have got and didn't.
        metered: requests to send that were held against the target's limits.
        above: those of them above one.
        resolved: texts that were held until a person said what became of them.
        violations: what is wrong, with the seed to see it again.
    """

    faults: Counter[str] = field(default_factory=Counter)
    commands: int = 0
    accepted: int = 0
    twice: int = 0
    skipped: int = 0
    metered: int = 0
    above: int = 0
    resolved: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add another one."""
        self.faults += other.faults
        self.commands += other.commands
        self.accepted += other.accepted
        self.twice += other.twice
        self.skipped += other.skipped
        self.metered += other.metered
        self.above += other.above
        self.resolved += other.resolved
        self.violations += other.violations

    def judge(
        self, service: CountingService, due: Sequence[tuple[str, str, str]], recorded: Sequence[str]
    ) -> None:
        """Compare, after everything has come to rest, what was accepted with what was due and is recorded.

        Args:
            service: has accepted.
            due: messages, each with the phone of somebody who was to get it, and the occasion.
            recorded: the `project_launch_guid`s on record.
        """
        texts = service.count_texts()
        twice = [text for text, count in texts.items() if count > 1]
        skipped = [text for text in due if text not in texts]
        self.accepted += texts.total()
        self.twice += sum(texts[text] - 1 for text in twice)
        self.skipped += len(skipped)
        self.faults += service.faults
        # Nothing is asked of launches to people who are no longer in the audience, and of earlier waves: where
        # records were lost, those are left alone.
        phones = {phone for _, phone, _ in due}
        occasions = {occasion for *_, occasion in due}
        ours = [launch for launch in service.launches if launch.is_ours]
        due_guids = {
            launch.guid.lower()
            for launch in ours
            if phones & set(launch.phones) and (launch.cell is not None or launch.occasion in occasions)
        }
        accepted = {launch.guid.lower() for launch in ours}
        recorded = [guid.lower() for guid in recorded]
        self._note("texted twice", twice)
        self._note("skipped", skipped)
        self._note("accepted, not on record", due_guids - set(recorded))
        self._note("on record, not accepted", set(recorded) - accepted)
        self._note("on record twice", [g for g, n in Counter(recorded).items() if n > 1])

    def _note(self, what: str, which: Iterable[object]) -> None:
        found = sorted(map(str, which))
        if found:
            self.violations.append(f"{what}: {len(found)}, first: {found[0]}")

    def judge_limits(self, gauge: Gauge) -> None:
        """Add what a service saw of the target's limits."""
        self.metered += gauge.requests
        self.above += len(gauge.overruns)
        self._note("above the limits", gauge.overruns)

    def describe(self, name: str, kinds: Iterable[str] = ()) -> str:
        """Return it in words.

        Args:
            name: of the ledger.
            kinds: of faults that are named even if they were never met.
        """
        lines = [f"{name}: {self.faults.total():,} faults in {self.commands:,} runs of the program"]
        met = [*self.faults.most_common(), *((kind, 0) for kind in kinds if not self.faults[kind])]
        lines += [f"  {number:6,}  {kind}" for kind, number in met]
        lines += [f"  {self.sum_up()}", *self.violations]
        return "\n".join(lines)

    def sum_up(self) -> str:
        """Return what became of the recipients, in a line."""
        limits = f"above the limits: {self.above:,} of {self.metered:,} sends, " if self.metered else ""
        return (
            f"texts accepted: {self.accepted:,}, texted twice: {self.twice:,}, "
            f"skipped: {self.skipped:,}, {limits}held and resolved: {self.resolved:,}, violations: {len(self.violations):,}"
        )
