"""A person's word on launches that no record explains: which message they were, or that none of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.deliver.match import digest_definition
from runner.errors import UsageError
from runner.ledger.entry import enter_adopted
from runner.ledger.fingerprint import launch_key
from runner.ledger.model import LaunchRecord
from runner.ledger.unexplained import dismiss_launches, list_unexplained
from runner.service.model import StatRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runner.deliver.subject import Subject
    from runner.ledger.database import Ledger
    from runner.ledger.unexplained import UnexplainedLaunch


@dataclass(frozen=True, slots=True)
class UnexplainedGroup:
    """Launches under one project tag that no record explains, and that may have been the same messages.

    Attributes:
        tag: the project tag, as listed.
        messages: the ids of the messages that they may have been.
        launches: the launches, the earliest first.
    """

    tag: str
    messages: tuple[str, ...]
    launches: tuple[UnexplainedLaunch, ...]

    @property
    def people(self) -> set[str]:
        """The fingerprints of those who are held because of them."""
        return {fingerprint for launch in self.launches for fingerprint in launch.people}


def group_unexplained(
    ledger: Ledger, campaign_id: int, message_ids: Mapping[str, str]
) -> list[UnexplainedGroup]:
    """Return a campaign's launches that no record explains, by tag and messages.

    Args:
        ledger: is read.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    with ledger.reading() as connection:
        found = list_unexplained(connection, campaign_id, message_ids)
    groups: dict[tuple[str, tuple[str, ...]], list[UnexplainedLaunch]] = {}
    # One whose people another one holds comes into its own when that one is settled.
    for launch in (one for one in found if one.held):
        groups.setdefault((launch.tag, tuple(sorted(launch.held))), []).append(launch)
    return [UnexplainedGroup(tag, messages, tuple(some)) for (tag, messages), some in sorted(groups.items())]


def choose_message(group: UnexplainedGroup, message: str | None) -> str:
    """Return the message that the launches of a group are to be recorded as.

    Args:
        group: the launches.
        message: the id that the user names; None where there is no choice.

    Raises:
        UsageError: there are several, and the user names none of them.
    """
    if message in group.messages:
        return message
    if message is None and len(group.messages) == 1:
        return group.messages[0]
    known = ", ".join(group.messages)
    raise UsageError(
        f"the launches under the tag {group.tag!r} may have been several messages: {known}",
        hint="say which one with --message",
    )


def adopt_unexplained(subject: Subject, message: str, launches: Sequence[UnexplainedLaunch]) -> None:
    """Record launches as sent: the people whom they have reached have got a message.

    The service is asked for these people: where two launches have reached somebody, only one holds them.

    Args:
        subject: the campaign.
        message: the id of the message.
        launches: the launches.

    Raises:
        ServiceError: the service cannot be asked; nothing was recorded.
    """
    found = [_find_reached(subject, message, launch) for launch in launches]
    name, key = subject.campaign, subject.key
    with subject.ledger.writing() as connection:
        for launch, (reached, definition) in zip(launches, found, strict=True):
            people = tuple(sorted(reached))
            digest = digest_definition(definition)
            record = LaunchRecord(
                message=message,
                key=launch_key(key.lasting_name(name), message, digest, people),
                tag=launch.tag,
                payload_digest=digest,
                project_launch_guid=launch.project_launch_guid,
                sent_at=launch.started_at,
                recipients=people,
            )
            enter_adopted(connection, subject.campaign_id, record, definition)


def _find_reached(
    subject: Subject, message: str, launch: UnexplainedLaunch
) -> tuple[set[str], dict[str, Any]]:
    """Return the fingerprints of those whom a launch has reached, and what it sent.

    If the service doesn't say, they are those whom it may have reached. What a launch sent that another
    machine has told of is known to the service alone.
    """
    held = set(launch.held.get(message, launch.people))
    stat = subject.client.read_stat(launch.project_launch_guid)
    if not isinstance(stat, StatRecord):
        return held, launch.definition
    listed = set(map(subject.fingerprint, stat.recipients))
    return listed if stat.is_whole else held | listed, launch.definition or stat.project_definition


def dismiss_unexplained(ledger: Ledger, campaign_id: int, launches: Collection[UnexplainedLaunch]) -> None:
    """Record that launches are not the campaign's: they hold nobody back any more."""
    with ledger.writing() as connection:
        dismiss_launches(connection, campaign_id, [launch.project_launch_guid for launch in launches])
