"""A repository of two campaigns, a survey and a plain text, and commands that run in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from tests.cli.inside import run_inside

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.reference_service.service import ReferenceService

ADA, BOB, CY, DEE, EVE = PHONES = tuple(f"+1415555010{number}" for number in range(1, 6))
SURVEY_TAG, TEXT_TAG = "Pulse-2026", "Notice-2026"
SURVEY = """\
version: 1
name: pulse
tag: Pulse-2026
recipients:
{recipients}
limits: {{recipients_per_send: 2}}
messages:
  - id: ask
    introduction: "Hi, it's the Café \\"Zoë\\" again.\\nTwo questions: "
    questions:
      - tag: nps
        text: "How likely are you to recommend \\"Zoë's\\", from 0 to 10?\\nA number will do "
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        scale: nps
      - {{tag: reason, text: "What's the main reason for that?"}}
    conclusion: "Thank you, it's all we wanted to know."
"""
# Nobody ends a survey here, and everybody is to get both.
TEXT = """\
version: 1
name: notice
tag: Notice-2026
recipients:
{recipients}
policy: {{open_session: queue}}
messages:
  - id: tell
    text: "{{{{ first_name }}}}, the Café \\"Zoë\\" won't open on Monday.\\nIt's closed for good reasons "
"""
TAGS = {"pulse": SURVEY_TAG, "notice": TEXT_TAG}
"""The project tag of each campaign."""
EVERYBODY_ONCE = dict.fromkeys(product((SURVEY_TAG, TEXT_TAG), PHONES), 1)
_NAMES = ("Ada", "Bob", "Cy", "Dee", "Eve")


@dataclass(frozen=True, slots=True)
class Campaigns:
    """The campaigns `pulse` and `notice`, each to five people, in a repository of their own.

    Launches of `pulse` have two, two and one recipients; each of `notice` has one.

    Attributes:
        folder: the repository's root.
        service: where commands send to.
    """

    folder: Path
    service: ReferenceService

    def write(self) -> None:
        """Write the campaign files."""
        place = self.folder / "campaigns"
        place.mkdir()
        people = "\n".join(
            f'  - {{phone: "{phone}", vars: {{first_name: {name}}}}}'
            for phone, name in zip(PHONES, _NAMES, strict=True)
        )
        (place / "pulse.yaml").write_text(SURVEY.format(recipients=people), encoding="utf-8")
        (place / "notice.yaml").write_text(TEXT.format(recipients=people), encoding="utf-8")

    def write_timeout(self, read_timeout: str) -> None:
        """Say how long an answer may take."""
        target = {"base_url": self.service.url, "limits": {"read_timeout": read_timeout}}
        document = {"version": 1, "targets": {"live": target}}
        (self.folder / "campaigns/targets.yaml").write_text(json.dumps(document), encoding="utf-8")

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """Run a command, and hold it to what no command ever shows."""
        ended = run_inside(*arguments, cwd=self.folder)
        for text in (ended.stdout, ended.stderr):
            assert "Traceback" not in text, text
            assert "Internal error" not in text, text
            assert not any(secret in text for secret in self.service.credentials.values()), text
        return ended

    def apply(self, *arguments: str) -> CompletedProcess[str]:
        """Send what is planned, one launch after the other."""
        return self.run("apply", "--auto-approve", "--concurrency", "1", *arguments)

    def lose_records(self) -> None:
        """Leave nothing on this machine of what was sent."""
        for file in (*self.folder.glob(".runner/ledger*"), *self.folder.glob("campaigns/*.lock.json")):
            file.unlink()

    def list_guids(self) -> set[str]:
        """Return the guids of all lockfiles, in lower case."""
        files = self.folder.glob("campaigns/*.lock.json")
        return {
            launch["project_launch_guid"].lower()
            for file in files
            for launch in json.loads(file.read_bytes())["launches"]
        }

    def count_texts(self) -> Counter[tuple[str, str]]:
        """Return how often each phone was texted by each campaign, as the service knows it."""
        return self.service.store.count_texts()

    def read_status(self) -> dict[str, dict[str, Any]]:
        """Return the one message of each campaign as `status` has it, by campaign."""
        document = json.loads(self.run("status", "--format", "json").stdout)
        return {campaign["name"]: campaign["messages"][0] for campaign in document["campaigns"]}

    def read_report(self) -> dict[str, dict[str, Any]]:
        """Return the one message of each campaign as its report has it, by campaign."""
        ended = self.run("report", "--format", "json", "--out", "reports")
        assert ended.returncode == 0, ended.stderr
        files = {name: self.folder / "reports" / f"{name}.json" for name in TAGS}
        return {name: json.loads(file.read_bytes())["messages"][0] for name, file in files.items()}
