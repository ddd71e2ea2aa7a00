"""Audience files that people meet: what their cells, columns and numbers mean, and what is said of them."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from pathlib import Path

PHONES = [f"+1415555{number:04}" for number in range(100, 150)]


class Desk:
    """A folder with one campaign and one audience, in which commands run inside this process."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capture = folder, capture

    def write(
        self, rows: str, *, text: str = "Hello", source: str = "", more: str = "", file: str = "p.csv"
    ) -> None:
        (self._folder / "campaigns").mkdir(exist_ok=True)
        (self._folder / "campaigns" / file).write_text(rows, encoding="utf-8")
        composed = unicodedata.normalize("NFC", file)
        (self._folder / "campaigns/c.yaml").write_text(
            f"version: 1\nname: c\nrecipients:\n  - {{csv: {composed}{source}}}\n{more}"
            f'messages:\n  - id: hi\n    text: "{text}"\n',
            encoding="utf-8",
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = run_command(arguments)
        return code, *self._capture.readouterr()

    def plan(self) -> dict[str, Any]:
        """Return the plan of the message."""
        code, out, err = self.run("plan", "--format", "json")
        assert code == 0, out + err
        message: dict[str, Any] = json.loads(out)["campaigns"][0]["messages"][0]
        return message

    def find(self, code: str) -> dict[str, Any]:
        """Return the only problem with a code."""
        _, out, _ = self.run("validate", "--format", "json")
        (found,) = [one for one in json.loads(out)["diagnostics"] if one["code"] == code]
        return dict(found)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """An empty desk."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys)


def test_unknown_words_are_no_consent(desk: Desk) -> None:
    """A status counts if its word is known for a yes, or named; all words are listed as they were read."""
    words = [
        "checkout",
        "TRUE",
        "yes",
        "1",
        "Opted out",
        "do not contact",
        "DNC",
        "bounced",
        "None given",
        "нет",
        "gold",
    ]
    rows = "".join(f"{phone},{word}\n" for word, phone in zip(words, PHONES, strict=False))
    policy = "policy: {consent: required}\n"
    desk.write(f"phone,status\n{rows}", source=", consent: {source_column: status}", more=policy)
    message = desk.plan()
    assert (message["to_send"], message["no_consent"]) == (4, 7)
    assert desk.find("consent-words")["message"] == (
        "the words of consent were read so: consent: 1 (1), TRUE (1), checkout (1), yes (1); no consent: DNC (1), "
        "None given (1), Opted out (1), bounced (1), do not contact (1), нет (1); unknown, so no consent: gold (1)"
    )
    desk.write(f"phone,status\n{rows}", source=", consent: {column: status, yes: [Gold]}", more=policy)
    assert desk.plan()["to_send"] == 5


def test_an_opt_out_list_without_plus_holds(desk: Desk, tmp_path: Path) -> None:
    """A gateway's list of digits keeps out people whose numbers are written with +."""
    desk.write("name,phone\nAda,+49 171 5550101\nBob,+49 171 5550102\n")
    (tmp_path / "stops.csv").write_text("phone\n491715550101\n", encoding="utf-8")
    code, _, err = desk.run("optouts", "import", "stops.csv", "--region", "DE")
    assert code == 0, err
    message = desk.plan()
    assert (message["opted_out"], message["to_send"]) == (1, 1)
