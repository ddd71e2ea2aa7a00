"""People whom a campaign's plan texts now: campaigns that come after it in the same run reckon with them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.campaign.audience import Recipient
    from runner.campaign.model import Campaign
    from runner.plan.assignment import Assignment
    from runner.plan.track import Track


class TextedPeople:
    """The people whom one campaign's plan texts now, by 8 bytes a message.

    Args:
        campaign: its name.
        texted: their phones as numbers, each as often as it gets a message.
        asked: of these, the phones that get a survey.

    Attributes:
        campaign: its name.
    """

    __slots__ = ("_asked", "_texted", "campaign")

    def __init__(self, campaign: str, texted: Iterable[int], asked: Iterable[int]) -> None:
        self.campaign = campaign
        self._texted = array("Q", sorted(texted))
        self._asked = array("Q", sorted(asked))

    @property
    def asks_anybody(self) -> bool:
        """Whether somebody gets a survey."""
        return bool(self._asked)

    def count(self, number: int) -> int:
        """Return how many messages a phone gets."""
        return bisect_right(self._texted, number) - bisect_left(self._texted, number)

    def asks(self, number: int) -> bool:
        """Return whether a phone gets a survey."""
        place = bisect_left(self._asked, number)
        return place < len(self._asked) and self._asked[place] == number


class TextedTally:
    """Keeps who comes by in a pass and gets something now.

    Args:
        tracks: the messages of the campaign.
    """

    def __init__(self, tracks: Sequence[Track]) -> None:
        self._asking = {
            (index, arm)
            for index, track in enumerate(tracks)
            for arm, renderer in track.renderers.items()
            if renderer.message.questions
        }
        self._texted = array("Q")
        self._asked = array("Q")

    def watch(
        self, assigned: Iterable[tuple[Recipient, list[Assignment]]]
    ) -> Iterator[tuple[Recipient, list[Assignment]]]:
        """Yield what comes by, and keep what is to be sent now."""
        for pair in assigned:
            recipient, assignments = pair
            for assignment in assignments:
                if assignment.payload is not None:
                    number = int(recipient.phone[1:])
                    self._texted.append(number)
                    if (assignment.message, assignment.arm) in self._asking:
                        self._asked.append(number)
            yield pair

    def finish(self, campaign: str) -> TextedPeople:
        """Return the people that were kept.

        Args:
            campaign: its name.
        """
        return TextedPeople(campaign, self._texted, self._asked)


def concerns(campaign: Campaign, later: Iterable[Campaign]) -> bool:
    """Return whether plans of later campaigns of a run go by whom a campaign texts.

    Args:
        campaign: the campaign.
        later: those that come after it.
    """
    asks = bool(campaign.list_surveys())
    return any(asks or each.policy.frequency_cap is not None for each in later)
