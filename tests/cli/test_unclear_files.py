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


def test_programs_words_for_nothing_are_blank(desk: Desk) -> None:
    """Errors of spreadsheets, databases' nothing and unseen characters are read as blank, and counted."""
    cells = [
        "#N/A",
        "NULL",
        "nan",
        "#REF!",
        "None",
        "\\N",
        "undefined",
        "-",
        "(null)",
        "#BEZUG!",
        "\u200b",
        "Null",
        "Nan",
    ]
    rows = "".join(f"{cell},{phone}\n" for cell, phone in zip(cells, PHONES, strict=False))
    desk.write(f"name,phone\n{rows}", text="Hi {{ name | default('you') }}")
    assert desk.plan()["blanked"] == 11
    found = desk.find("cell-blank")
    assert (found["severity"], found["line"]) == ("warning", 2)
    assert found["message"].endswith("read as blank, lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 12")


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("RenÃ©", "cell-encoding"),
        ("?ukasz", "cell-encoding"),
        ("Tom &amp; Jo", "cell-markup"),
        ("<b>Al</b>", "cell-markup"),
    ],
)
def test_garbled_cells_are_warned_of(desk: Desk, cell: str, code: str) -> None:
    """A wrong encoding and HTML are warned of, with their line."""
    desk.write(f"name,phone\nZoë & Søn <3,{PHONES[1]}\n{cell},{PHONES[0]}\n", text="Hi {{ name }}")
    assert (desk.find(code)["severity"], desk.find(code)["line"]) == ("warning", 3)


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


@pytest.mark.parametrize(
    ("rule", "code", "landlines"), [("warn", "phone-landline", 5), ("refuse", "recipient-phone-invalid", 0)]
)
def test_landlines_go_by_the_policy(desk: Desk, rule: str, code: str, landlines: int) -> None:
    """Landlines, and personal numbers, are counted and warned of, or refused."""
    rows = "phone\n+442079460000\n+441174960001\n+493023125000\n+33199001234\n+447034567890\n+447725234567\n"
    desk.write(rows, source=", invalid_rows: skip", more=f"policy: {{landlines: {rule}}}\n")
    message = desk.plan()
    assert (message["landlines"], message["invalid"]) == (landlines, 5 - landlines)
    _, out, _ = desk.run("validate", "--format", "json")
    assert {one["code"] for one in json.loads(out)["diagnostics"]} == {code}


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("What is your first name?", "what_is_your_first_name"),
        ("Order #", "order"),
        ("2nd name", "_2nd_name"),
        ("First Name (preferred)", "first_name_preferred"),
        ("E-Mail", "email"),
        (unicodedata.normalize("NFD", "prénom"), "prénom"),
        ("Ｎａｍｅ１", "name1"),
    ],
)
def test_every_column_has_a_name_for_templates(desk: Desk, header: str, name: str) -> None:
    """Marks, digits and normal forms of a column's name are no obstacle."""
    desk.write(f"phone,{header}\n{PHONES[0]},Ada\n", text=f"Hi {{{{ {name} }}}}")
    assert desk.plan()["to_send"] == 1


def test_columns_that_differ_in_marks_have_two_names(desk: Desk) -> None:
    """`Order` and `Order #` are two columns, and the error for an unknown one names both."""
    rows = f"phone,Order,Order #\n{PHONES[0]},tea,7\n"
    desk.write(rows, text="{{ order }}, no. {{ order_2 }}")
    assert desk.plan()["to_send"] == 1
    desk.write(rows, text="{{ ordre }}")
    assert desk.find("template-variable-unknown")["hint"] == "known here: phone, Order, Order_2"


def test_normal_forms_of_file_columns_and_variables_are_one(desk: Desk) -> None:
    """A file, a column of phones and a variable are found whatever form their letters are in."""
    decomposed = [unicodedata.normalize("NFD", name) for name in ("société", "téléphone", "clients é.csv")]
    desk.write(
        f"name,{decomposed[1]}\nAda,{PHONES[0]}\n",
        text="Hi {{ société }}",
        source=", phone_column: téléphone",
        more=f"vars:\n  {decomposed[0]}: Acme\n",
        file=decomposed[2],
    )
    assert desk.plan()["to_send"] == 1


def test_a_header_below_titles_is_named(desk: Desk) -> None:
    """A title above the header is found, and the error names the header's line."""
    desk.write(f"Customers 2026,\n,\nname,phone\nAda,{PHONES[0]}\n")
    found = desk.find("csv-phone-column")
    assert found["message"] == "there is no column `phone` in this row: the header seems to be line 3"


def test_an_opt_out_list_without_plus_holds(desk: Desk, tmp_path: Path) -> None:
    """A gateway's list of digits keeps out people whose numbers are written with +."""
    desk.write("name,phone\nAda,+49 171 5550101\nBob,+49 171 5550102\n")
    (tmp_path / "stops.csv").write_text("phone\n491715550101\n", encoding="utf-8")
    code, _, err = desk.run("optouts", "import", "stops.csv", "--region", "DE")
    assert code == 0, err
    message = desk.plan()
    assert (message["opted_out"], message["to_send"]) == (1, 1)
