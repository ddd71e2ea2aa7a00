"""How a campaign says what it says: surveys and texts, arms, a follow-up; and its names, ids and tags through time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.torture.rules import DETRACTORS, Rules

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

MESSAGES = ("ask", "hello", "nudge")
_TEXTS = {
    "ask": '[ask] How are you? It\'s the Café "Zoë" ({})\n',
    "hello": '[hello] Dear {{{{ first_name }}}}, it\'s the Café "Zoë":\nhow are you? ({})',
    "nudge": "[nudge] Still there, {{{{ group }}}}? ({}) ",
}
"""To everyone the same, to everyone another one, and the same to everyone of a group."""


@dataclass(slots=True)
class Form:
    """The campaign beside its audience.

    Messages are known by what stands in brackets in their texts, whatever their ids are.

    Attributes:
        surveys: the messages that ask; the others are plain texts.
        introduced: the surveys that begin with an introduction, not with a question.
        follows: the `to` of the last message, which then follows the first one, `detractors` for those whose
            answer is one of them; None for no follow-up.
        has_arms: whether the first message has two versions.
        names: of the campaign, the present one last.
        ids: of each message that was renamed, the present one last.
        tags: of the campaign, the present one last; None for the default.
        corrected: people whose first name was corrected.
        rules: on whom it texts, when and in which words.
        dated: the message that goes by dates, if there are any.
    """

    surveys: frozenset[str] = frozenset()
    introduced: frozenset[str] = frozenset()
    follows: str | None = None
    has_arms: bool = False
    names: list[str] = field(default_factory=lambda: ["pulse"])
    ids: dict[str, list[str]] = field(default_factory=dict)
    tags: list[str | None] = field(default_factory=lambda: ["pulse"])
    corrected: set[int] = field(default_factory=set)
    rules: Rules = field(default_factory=Rules)
    dated: str = ""

    @classmethod
    def draw(cls, rng: random.Random, messages: Sequence[str], *, reads_answers: bool) -> Form:
        """Return any form that a campaign can have.

        Args:
            rng: chooses.
            messages: of the campaign.
            reads_answers: whether a follow-up may be for those who have not answered.
        """
        surveys = frozenset(message for message in messages if rng.random() < (0.8 if reads_answers else 0.5))
        follows = None
        if len(messages) > 1 and rng.random() < 0.5:
            asks = messages[0] in surveys and reads_answers
            follows = (
                rng.choice(("everyone", "unanswered", "detractors", "detractors")) if asks else "everyone"
            )
        return cls(
            surveys=surveys,
            introduced=frozenset(message for message in messages if rng.random() < 0.6),
            follows=follows,
            has_arms=rng.random() < 0.3,
            tags=[rng.choice(("pulse", None))],
        )

    def name_of(self, message: str) -> str:
        """Return a message's present id."""
        return self.ids.get(message, [message])[-1]

    def message_of(self, name: str) -> str:
        """Return the message that has, or had, an id."""
        return next((message for message, ids in self.ids.items() if name in ids), name)

    def tag_of(self, message: str, *, has_one_tag: bool) -> str:
        """Return a message's project tag as it is sent."""
        tag, wave = self.write_tag(message, has_one_tag=has_one_tag), self.rules.wave
        return f"{tag}-{wave}" if wave else tag

    def write_tag(self, message: str, *, has_one_tag: bool) -> str:
        """Return a message's project tag as the campaign has it."""
        tag = self.tags[-1] or self.names[-1]
        return tag if has_one_tag else f"{tag}-{message}"

    def rename_campaign(self) -> None:
        """Give it a name that it never had."""
        self.names.append(f"{self.names[0]}-{len(self.names) + 1}")

    def rename_message(self, message: str) -> None:
        """Give a message an id that it never had."""
        ids = self.ids.setdefault(message, [message])
        ids.append(f"{message}-{len(ids) + 1}")

    def change_tag(self) -> None:
        """Give the campaign a tag that it never had."""
        self.tags.append(f"{self.names[0]}-again-{len(self.tags)}")

    def describe(
        self, messages: Sequence[str], *, version: int, has_one_tag: bool, per_send: int
    ) -> dict[str, Any]:
        """Return the campaign file's content, less its recipients.

        Args:
            messages: of the campaign.
            version: of their texts.
            has_one_tag: whether they share a project tag.
            per_send: recipients a launch.
        """
        written = [self._write_message(message, version, has_one_tag=has_one_tag) for message in messages]
        if self.follows:
            by_answer = {"question": "nps", "values": list(map(int, DETRACTORS))}
            to = by_answer if self.follows == "detractors" else self.follows
            written[-1] |= {"after": {"message": written[0]["id"], "wait": "0s"}, "to": to}
        if self.dated:
            written[-1]["when"] = {"column": "due_at", "before": "24h"}
        own = self.tags[-1]
        return {
            "version": 1,
            "name": self.names[-1],
            "renamed_from": self.names[:-1],
            **({} if own is None else {"tag": own}),
            **self.rules.describe(),
            "limits": {
                "recipients_per_send": per_send,
                **({} if self.rules.completes is None else {"completes": self.rules.completes}),
            },
            # Nobody ends a survey here, and everybody is to get every message.
            "policy": {"open_session": "queue"},
            "messages": written,
            **({"variants": self._write_arms(written[0])} if self.has_arms else {}),
        }

    def _write_message(self, message: str, version: int, *, has_one_tag: bool) -> dict[str, Any]:
        text = _TEXTS[message].format(version)
        head: dict[str, Any] = {"id": self.name_of(message), "renamed_from": self.ids.get(message, [])[:-1]}
        if not has_one_tag:
            head["tag"] = self.write_tag(message, has_one_tag=False)
        said = self.rules.translate(
            f"{text} <{{{{ due_at | default('') }}}}>" if message == self.dated else text
        )
        if message not in self.surveys:
            return {**head, "text": said}
        scored = {"tag": "nps", "text": "From 0 to 3?", "responses": ["0", "1", "2", "3"], "scale": "number"}
        if message not in self.introduced:
            return {**head, "questions": [{**scored, "text": said}]}
        why = {"tag": "why", "text": "What's the reason for that? "}
        return {**head, "introduction": said, "questions": [scored, why], "conclusion": "That's all."}

    def _write_arms(self, message: dict[str, Any]) -> dict[str, Any]:
        changed = next(
            name for name in ("text", "introduction", "conclusion") if name in (*message, "conclusion")
        )
        said = message.get(changed, "Thanks.")
        texts = said if isinstance(said, dict) else {"": said}
        other: dict[str, Any] = {changed: {code: f"{text} (b)" for code, text in texts.items()}}
        if texts is not said:
            other[changed] = other[changed][""]
        return {"seed": "torture", "of": message["id"], "arms": [{"id": "a"}, {"id": "b"} | other]}
