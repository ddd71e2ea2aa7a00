"""A campaign repository whose audience is edited and whose records get lost."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.torture.form import Form
from tests.torture.rules import write_language

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

_OFTEN = 0.75
"""How often an edit is to what the campaign's rules are about, if it has any."""
_LIMITS: Mapping[str, Any] = {"concurrency": 4}


@dataclass(slots=True)
class Audience:
    """Whom the campaign texts, and what.

    Attributes:
        people: numbers; each stands for a phone and a name.
        messages: ids.
        has_one_tag: whether the messages share a project tag.
        per_send: recipients a launch.
        version: of the texts.
        removed: people who were there before.
        form: the campaign beside that.
    """

    people: list[int]
    messages: tuple[str, ...]
    has_one_tag: bool
    per_send: int
    version: int = 0
    removed: list[int] = field(default_factory=list)
    form: Form = field(default_factory=Form)

    def edit(self, rng: random.Random) -> None:
        """Add people, remove some, put some back, or change their order or the size of a launch."""
        ways = ["reorder", "regroup"]
        if self.form.rules.is_about_everybody:
            ways += ["add", "remove", "restore"]
        match rng.choice(ways):
            case "add":
                self.add(rng.randint(1, 5))
            case "remove":
                for person in rng.sample(self.people, min(3, len(self.people) - 1)):
                    self.people.remove(person)
                    self.removed.append(person)
            case "restore":
                self.people += self.removed
                self.removed = []
            case "reorder":
                rng.shuffle(self.people)
            case _:
                self.per_send = rng.randint(1, 6)

    def rewrite(self, rng: random.Random, is_allowed: Callable[[], bool]) -> str | None:
        """Rewrite the campaign in one way, and return which; None if that is not allowed, and undone.

        Args:
            rng: chooses.
            is_allowed: returns whether the campaign may be as it is now.
        """
        form = self.form
        ways: dict[str, Callable[[], object]] = {
            "texts edited": lambda: setattr(self, "version", self.version + 1),
            "a name corrected": lambda: form.corrected.add(rng.choice(self.people)),
            "campaign renamed": form.rename_campaign,
            "message renamed": lambda: form.rename_message(rng.choice(self.messages)),
            "tag changed": form.change_tag,
        }
        rules, usual = form.rules, len(ways)
        if rules.waves:
            ways["wave raised"] = rules.raise_wave
        if rules.sizes:
            ways["sample enlarged"] = lambda: rules.enlarge(rng, self.people)
        if rules.cells is not None:
            ways["dates moved"] = lambda: rules.move(rng, self.people)
        what = rng.choice(tuple(ways)[usual if len(ways) > usual and rng.random() < _OFTEN else 0 :])
        version, before = self.version, copy.deepcopy(form)
        ways[what]()
        if is_allowed():
            return what
        self.version, self.form = version, before
        return None

    def add(self, number: int) -> None:
        """Add so many people who were never there."""
        first = max(self.people + self.removed) + 1
        self.people += range(first, first + number)

    @property
    def phones(self) -> list[str]:
        """Their phones."""
        return [phone_of(person) for person in self.people]

    def list_tags(self) -> dict[str, str]:
        """Return the project tag of each message."""
        return {x: self.form.tag_of(x, has_one_tag=self.has_one_tag) for x in self.messages}


def phone_of(person: int) -> str:
    """Return a person's phone, E.164."""
    return f"+1415555{person:04}"


def person_of(phone: str) -> int:
    """Return the person who has a phone."""
    return int(phone[-4:])


class Repository:
    """The campaign's folder.

    Args:
        folder: where it is made.
        audience: whom it texts.
        base_url: of the service.
        read_timeout_s: of the target.
        target: its name.
        limits: of the target, beside the timeout.
        lockfile: `full` or `summary`.
    """

    def __init__(
        self,
        folder: Path,
        audience: Audience,
        base_url: str,
        read_timeout_s: float,
        *,
        target: str = "torture",
        limits: Mapping[str, Any] = _LIMITS,
        lockfile: str = "full",
    ) -> None:
        self.folder = folder
        self.audience = audience
        self._kind = lockfile
        self.lockfile = folder / "campaigns" / f"pulse.{target}.lock.json"
        self.lockfiles: list[bytes | None] = [None]
        (folder / "campaigns" / "audience").mkdir(parents=True)
        timeout = f"{read_timeout_s * 1000:.0f}ms"
        targets = {target: {"base_url": base_url, "limits": {**limits, "read_timeout": timeout}}}
        document = {"version": 1, "default": target, "targets": targets}
        (folder / "campaigns" / "targets.yaml").write_text(json.dumps(document), encoding="utf-8")
        self.write()

    def write(self) -> None:
        """Write campaign and audience."""
        audience = self.audience
        rules = audience.form.rules
        rows = [
            f"{phone_of(p)},{'Eva' if p in audience.form.corrected else 'Ada'} {p},"
            f"{'even' if p % 2 == 0 else 'odd'},{write_language(p)},{rules.cell_of(p)}"
            for p in audience.people
        ]
        table = "\n".join(("phone,first_name,group,lang,due_at", *rows, ""))
        (self.folder / "campaigns/audience/people.csv").write_text(table, encoding="utf-8")
        campaign = {
            **audience.form.describe(
                audience.messages,
                version=audience.version,
                has_one_tag=audience.has_one_tag,
                per_send=audience.per_send,
            ),
            "recipients": [
                {"csv": "audience/people.csv", **({"language_column": "lang"} if rules.has_languages else {})}
            ],
            **({} if self._kind == "full" else {"lockfile": self._kind}),
        }
        # JSON is YAML.
        (self.folder / "campaigns/pulse.yaml").write_text(json.dumps(campaign, indent=1), encoding="utf-8")

    def clone(self, folder: Path, *, keeps_state: bool = False) -> None:
        """Check the campaign out a second time, as another machine does.

        Args:
            folder: where.
            keeps_state: whether that machine still has what it knew before, if it was there before.
        """
        if not keeps_state:
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "campaigns", folder / "campaigns", dirs_exist_ok=True)

    def read_lockfile(self) -> bytes | None:
        """Return the lockfile's content, if there is one."""
        return self.lockfile.read_bytes() if self.lockfile.exists() else None

    def keep_lockfile(self) -> None:
        """Remember this version of the lockfile."""
        content = self.read_lockfile()
        if content != self.lockfiles[-1]:
            self.lockfiles.append(content)

    def put_lockfile(self, content: bytes | None) -> bool:
        """Put back a version of the lockfile, or none, and return whether it was another one."""
        before = self.read_lockfile()
        if content is None:
            self.lockfile.unlink(missing_ok=True)
        else:
            self.lockfile.write_bytes(content)
        return content != before

    def forget_older_lockfiles(self) -> None:
        """Let no version of the lockfile before this one come back."""
        self.lockfiles = [self.read_lockfile()]

    def list_guids(self) -> list[str]:
        """Return the `project_launch_guid`s in the lockfile, which has to be a full one."""
        content = self.read_lockfile()
        launches = json.loads(content)["launches"] if content else []
        return [launch["project_launch_guid"] for launch in launches]

    def count_launches(self) -> int:
        """Return how many launches the lockfile has, or counts."""
        document = json.loads(self.read_lockfile() or b"{}")
        counted: list[int] = [line["launches"] for line in document.get("messages", ())]
        return len(document.get("launches", ())) + sum(counted)
