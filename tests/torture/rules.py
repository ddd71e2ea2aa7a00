"""Rules on whom a campaign texts, when and in which words: languages, waves, dates, samples, completes, rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Collection

    from tests.torture.form import Form

LANGUAGES = ("en", "es", "ar")
DETRACTORS = ("0", "1")
"""Answers that the follow-up by an answer is for."""
HOLD_S = 1.0
"""How long a step of a rollout is held."""
_FAR = timedelta(days=20)


@dataclass(slots=True)
class Rules:
    """What a campaign has beside its texts. People are known by their numbers.

    Attributes:
        has_languages: whether each person gets the text of their language.
        waves: the names of its waves, the present one last; empty if it has none.
        cells: of each person the date in their cell, if the last message goes by dates; None without it.
        sizes: of its sample, the present one last; empty if it has none.
        completes: after so many nobody is texted any more; None for no such limit.
        first_step: the share of the first of two steps, percent; None without a rollout.
        have_moved: whether a date was moved.
    """

    has_languages: bool = False
    waves: list[str] = field(default_factory=list)
    cells: dict[int, str] | None = None
    sizes: list[int] = field(default_factory=list)
    completes: int | None = None
    first_step: int | None = None
    have_moved: bool = False

    @classmethod
    def draw(cls, rng: random.Random, people: Collection[int], *, form: Form, is_read: bool) -> Rules:
        """Return any rules that a campaign can have.

        Args:
            rng: chooses.
            people: of its audience.
            form: the campaign beside that.
            is_read: whether its service tells who was texted, and what they have answered.
        """
        rules = cls(has_languages=rng.random() < 0.4)
        kinds = ["", "wave", "sample"]
        if is_read:
            kinds += ["rollout", *(["completes"] if form.surveys else [])]
        if not form.follows:
            kinds.append("dates")
        match rng.choice(kinds):
            case "wave":
                rules.waves = ["2026q1"]
            case "sample":
                rules.sizes = [rng.randint(1, len(people))]
            case "completes":
                rules.completes = rng.randint(1, 4)
            case "rollout":
                rules.first_step = rng.choice((20, 40, 60))
            case "dates":
                rules.cells = {person: _draw_cell(rng) for person in people}
            case _:
                pass
        return rules

    @property
    def is_about_everybody(self) -> bool:
        """Whether each person's texts are independent of who else is in the audience."""
        return not self.sizes and self.first_step is None

    @property
    def has_changes(self) -> bool:
        """Whether they are changed between runs: a wave is raised, a sample enlarged, a date moved."""
        return bool(self.waves or self.sizes or self.cells is not None)

    @property
    def is_read(self) -> bool:
        """Whether they depend on what is reconciled."""
        return self.completes is not None or self.first_step is not None

    @property
    def wave(self) -> str:
        """The present wave; empty if it has none."""
        return self.waves[-1] if self.waves else ""

    def raise_wave(self) -> None:
        """Begin a wave that there never was."""
        self.waves.append(f"2026q{len(self.waves) + 1}")

    def enlarge(self, rng: random.Random, people: Collection[int]) -> None:
        """Enlarge the sample, perhaps to everybody."""
        self.sizes.append(rng.randint(self.sizes[-1], len(people)))

    def move(self, rng: random.Random, people: Collection[int]) -> None:
        """Move some people's dates."""
        assert self.cells is not None
        self.have_moved = True
        for person in rng.sample(sorted(people), min(3, len(people))):
            self.cells[person] = _draw_cell(rng)

    def cell_of(self, person: int) -> str:
        """Return a person's date, far away for newcomers; empty if they have none."""
        return (self.cells or {}).get(person, _write(_FAR, person))

    def is_due(self, person: int) -> bool:
        """Return whether a message that goes by dates is due for a person."""
        return is_near(self.cell_of(person))

    def describe(self) -> dict[str, Any]:
        """Return the keys of the campaign file, but those of single messages."""
        found: dict[str, Any] = {}
        if self.has_languages:
            found["languages"] = {"default": LANGUAGES[0], "known": list(LANGUAGES)}
        if self.waves:
            found["wave"] = self.wave
        if self.sizes:
            found["sample"] = {"size": self.sizes[-1], "seed": "torture"}
        if self.first_step is not None:
            steps = [{"share": f"{self.first_step}%", "hold": f"{HOLD_S:.0f}s"}, {"share": "100%"}]
            found["rollout"] = {"steps": steps, "seed": "torture"}
        return found

    def translate(self, text: str) -> str | dict[str, str]:
        """Return a text, by language if there are any; the language is in the text."""
        if not self.has_languages:
            return text
        return {code: mark(text, code) for code in LANGUAGES}


def language_of(person: int) -> str:
    """Return a person's language."""
    return LANGUAGES[person % len(LANGUAGES)]


def write_language(person: int) -> str:
    """Return the cell of a person's language, which may be blank for the default."""
    return "" if person % (2 * len(LANGUAGES)) == 0 else language_of(person)


def mark(text: str, code: str) -> str:
    """Return a text that says which language it is in."""
    head, bracket, rest = text.partition("]")
    return f"{head}{bracket} |{code}|{rest}" if bracket else f"{text} |{code}|"


def is_near(cell: str) -> bool:
    """Return whether a date is so near that its message is due."""
    return bool(cell) and datetime.fromisoformat(cell) - datetime.now(UTC) < timedelta(days=2)


def _draw_cell(rng: random.Random) -> str:
    near = timedelta(hours=rng.choice((6, 9, 12)))
    return rng.choice((_write(near, 0), _write(near, 0), _write(_FAR, rng.randint(0, 9)), ""))


def _write(ahead: timedelta, days: int) -> str:
    moment = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + ahead + timedelta(days=days)
    return f"{moment:%Y-%m-%dT%H:%M}+00:00"
