"""Messages with all that their texts are rendered by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.campaign.payload import MessageRenderer
from runner.campaign.template import TemplateProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign, Message
    from runner.campaign.template import TextCompiler
    from runner.source.diagnostic import Problems


@dataclass(slots=True)
class Track:
    """A message with all that its texts are rendered by: one renderer an arm.

    Attributes:
        message: as it stands in the campaign.
        renderers: by arm; under None for a message without arms.
    """

    message: Message
    renderers: dict[str | None, MessageRenderer] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The variables that its texts refer to."""
        return frozenset[str]().union(*(renderer.names for renderer in self.renderers.values()))

    @property
    def has_arms(self) -> bool:
        """Whether recipients get it in one of several ways."""
        return None not in self.renderers


def compile_tracks(campaign: Campaign, compiler: TextCompiler, problems: Problems) -> Iterator[Track]:
    """Yield a campaign's messages, compiled; those whose texts are no templates are left out.

    Args:
        campaign: whose messages.
        compiler: compiles their texts.
        problems: receives what is wrong with texts.
    """
    for message in campaign.messages:
        track = Track(message)
        sent: list[tuple[str | None, Message]] = [*campaign.list_arms(message.id).items()]
        sent = sent or [(None, message)]
        for arm, varied in sent:
            try:
                track.renderers[arm] = MessageRenderer(varied, compiler)
            except TemplateProblemError as error:
                problems.extend(error.diagnostics)
        if len(track.renderers) == len(sent):
            yield track
