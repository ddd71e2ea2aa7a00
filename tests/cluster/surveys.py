"""A repository with two campaigns that were sent and answered, and a ledger on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.inside import run_inside

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = 150
SURVEY = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - csv: audience/people.csv
    phone_column: mobile
    region: US
messages:
  - id: ask
    introduction: "Hi {{ first_name }}, a word?"
    questions:
      - {tag: nps, text: "0 to 10, {{ first_name }}?", scale: nps,
         responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]}
      - {tag: reason, text: "Why?"}
  - id: again
    tag: pulse-2026-again
    after: {message: ask, wait: 0s}
    complete_existing_sessions: true
    questions:
      - {tag: age, text: "How old?", scale: number}
      - {tag: colour, text: "Which?", responses: ["Red", "Blue"], conclude_on: Red}
variants:
  seed: one
  of: ask
  arms:
    - id: warm
    - id: short
      questions:
        - {tag: nps, text: "0 to 10?", scale: nps,
           responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]}
"""
OTHER = """\
version: 1
name: other
tag: other-2026
recipients: [{phone: "+14155550199", vars: {city: Rome, first_name: Eve}}]
messages: [{id: notice, text: "Hello"}]
"""


def write_repository(folder: Path) -> None:
    """Write the campaigns, and an audience of few names, so that launches have several recipients."""
    (folder / "campaigns/audience").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "campaigns/pulse.yaml").write_text(SURVEY, encoding="utf-8")
    (folder / "campaigns/other.yaml").write_text(OTHER, encoding="utf-8")
    names, cities = ("Ada", "Bo", "Cy", "Dee"), ("Lyon", "Paris", "Nice")
    rows = [f"{names[n % 4]},{cities[n // 70]},{4155550200 + n}" for n in range(PEOPLE)]
    text = "\n".join(["first_name,city,mobile", *rows, ""])
    (folder / "campaigns/audience/people.csv").write_text(text, encoding="utf-8")


def do(folder: Path, ledger: str, *command: str) -> str:
    """Run a command that must succeed, and return what it wrote."""
    done = run_inside(*command, cwd=folder, env={"RUNNER_LEDGER": ledger})
    assert done.returncode == 0, done.stderr
    return done.stdout


def send_and_answer(folder: Path, ledger: str) -> None:
    """Send all messages; most recipients answer."""
    for seed in ("1", "2"):
        do(folder, ledger, "apply", "--auto-approve", "--quiet")
        do(folder, ledger, "sandbox", "simulate", "--response-rate", "0.9", "--seed", seed)
        do(folder, ledger, "reconcile", "--quiet")
