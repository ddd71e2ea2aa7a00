"""Waves, over any sequence of new waves, killed runs and lost records: each person gets a text once a wave."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cli.inside import run_inside

VICTIM = Path(__file__).parents[1] / "torture/victim.py"
PHONES = tuple(f"+1415555{number:04}" for number in range(101, 106))
QUICK = {"RUNNER_SETTLE_WINDOW": "10ms"}
CAMPAIGN = """\
version: 1
wave: w{wave}
recipients: [{people}]
limits: {{recipients_per_send: 2}}
messages:
  - {{id: hello, text: Hello!}}
  - {{id: news, text: News!}}
"""


class Story:
    """A repository with a campaign in its first wave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wave = 0
        (folder / "campaigns").mkdir()
        self.raise_wave()

    def raise_wave(self) -> None:
        """Begin the next wave."""
        self.wave += 1
        people = ", ".join(f'{{phone: "{phone}"}}' for phone in PHONES)
        text = CAMPAIGN.format(wave=self.wave, people=people)
        (self.folder / "campaigns/pulse.yaml").write_text(text, encoding="utf-8")

    def apply(self) -> None:
        """Send what there is to send: nobody is held."""
        done = run_inside("apply", "--auto-approve", cwd=self.folder, env=QUICK)
        assert done.returncode == 0, done.stderr

    def kill(self, number: int) -> bool:
        """Send, and die at the n-th commit of the ledger, if there are as many; return whether it died."""
        death = json.dumps({"step": "commit", "phase": "after" if number % 2 else "before", "number": number})
        command = [sys.executable, str(VICTIM), death, "apply", "--auto-approve"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **QUICK},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode in (0, -9), done.stderr
        return done.returncode != 0

    def lose(self, *, lockfile: bool) -> None:
        """Lose the ledger, and the lockfile if that was not committed."""
        lost = list((self.folder / ".runner").glob("ledger*"))
        lost += self.folder.glob("campaigns/*.lock.json") if lockfile else ()
        for file in lost:
            file.unlink()

    def count(self) -> Counter[tuple[str, str, str]]:
        """Return how often the service texted a person, by phone, tag and text."""
        query = (
            "SELECT phone, json_extract(definition, '$.tag'), json_extract(definition, '$.text') FROM session "
            "JOIN participant ON participant.id = participant_id JOIN launch ON launch.id = launch_id"
        )
        with closing(sqlite3.connect(self.folder / ".runner/sandbox/service.sqlite")) as connection:
            return Counter(connection.execute(query).fetchall())


ACTIONS = st.one_of(
    st.sampled_from(["raise", "apply", "lose ledger", "lose both"]), st.integers(min_value=1, max_value=14)
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=st.lists(ACTIONS, max_size=9))
@example(actions=["apply", "lose both", "raise", 8, "lose ledger", "raise", "apply", "lose both"])
@example(actions=[8, "raise", 9, "lose both"])
def test_everybody_gets_each_message_once_a_wave(actions: list[str | int]) -> None:
    """No kill and no lost record texts anybody twice in a wave, or leaves anybody out of the last one."""
    with TemporaryDirectory() as folder:
        story = Story(Path(folder))
        for action in actions:
            if isinstance(action, int):
                story.kill(action)
            elif action == "raise":
                story.raise_wave()
            elif action == "apply":
                story.apply()
            else:
                story.lose(lockfile=action == "lose both")
        story.apply()
        story.apply()
        found = story.count()
        assert set(found.values()) == {1}, found
        last = {(phone, text) for phone, tag, text in found if tag == f"pulse-w{story.wave}"}
        assert last == {(phone, text) for phone in PHONES for text in ("Hello!", "News!")}


@pytest.mark.slow
def test_a_killed_run_texts_nobody_twice_in_its_wave(tmp_path: Path) -> None:
    """A run of the second wave dies with launches in flight: the next one finds them at the service."""
    story = Story(tmp_path)
    story.apply()
    story.raise_wave()
    assert story.kill(9)
    story.apply()
    assert story.count() == {
        (phone, f"pulse-w{wave}", text): 1
        for phone in PHONES
        for wave in (1, 2)
        for text in ("Hello!", "News!")
    }
