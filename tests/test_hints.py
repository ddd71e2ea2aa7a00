"""Remedies in hints, applied to the case that called them forth: they mend it, and bring nothing new.

What a hint writes out in backticks (`key: value`) takes the place of that key at the problem's line, or is added
to the mapping there. Hints that need a person's eye are applied by hand (`BY_HAND`).
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from runner.workflow.checking.validate import validate_campaigns
from runner.workflow.scope import Scope
from tests.test_cases import ALL_CASES, name_case

if TYPE_CHECKING:
    from pathlib import Path

    from runner.source.diagnostic import Diagnostic

LINE = re.compile(
    r"(?P<file>[^:\n]+yaml):(?P<line>\d+):(?P<column>\d+): \w+: (?P<said>.*)\n    (?P<hint>.*`.*)"
)
UNKNOWN = re.compile(r"`(?P<key>[^`]+)` is not a key")
PIECE = re.compile(r"`((?:- |[\w.-]+: ).+?|- \"[^`]+)`(?=$|[,:; ])")
NOT_ALONE = ("a campaign starts", "who answered", "write words, or", "write one of", "ask again", "before")
"""Hints whose examples need more than their line, or are a choice that is made by hand."""
ASKING = """\
    introduction: "We look forward to your answer!"
    questions:
      - {tag: q, text: "How was it?"}
"""
WHY = """\
  - id: why
    after: {message: ask, wait: 1h}
    to: {question: nps, values: 0-6}
    text: Why?
"""
AGAIN = """\
  - id: again
    after: {message: ask, wait: 1d}
    to: unanswered
    complete_existing_sessions: true
    questions:
      - tag: nps
        text: How likely?
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        scale: nps
"""
OTHER_FILE = {
    # The example names a message, column or variable that the case lacks.
    ("all-at-once", "after"),
    ("all-at-once", "type"),
    ("consent-incomplete", "source_column"),
    ("to-without-after", "after"),
    ("variants-analysis-without-arms", "arms"),
    ("variants-of-without-arms", "arms"),
    ("yaml-hash-cuts-order", "text"),
    # It stands at the file's top, not where texts and people are.
    ("languages-missing", "languages"),
    # A line for the file of the CI job, not for the campaign's.
    ("file-lfs-pointer-included", "lfs"),
    # The text goes on in the next line.
    ("yaml-hash-in-continued-text", "text"),
}
BY_HAND = [
    ("valid/reminder-that-ends-the-survey", '    text: "We look forward to your answer!"\n', ASKING),
    ("invalid/template-variable-blank-inline", "{{ first_name }}", "{{ first_name | default('…') }}"),
    ("invalid/placeholder-of-another-tool", "{name}", "{{ name }}"),
    ("invalid/template-curly-quotes", "{{ name | default(“there”) }}", "{{ name | default('there') }}"),
    ("invalid/template-blank-in-name", "{{ first name }}", "{{ first_name }}"),
    ("invalid/template-dash-in-name", "{{ first-name }}", "{{ first_name }}"),
    ("invalid/cell-as-truth", "if vip", "if vip | is_yes"),
    ("invalid/cell-as-truth", "if vip", "if vip == 'TRUE'"),
    ("invalid/cell-as-truth", "if vip", "if vip is defined"),
    ("invalid/vars-blank-after-colon", "name:Ada", "name: Ada"),
    ("invalid/yaml-hash-cuts-order", "Your order #{{ order }} is ready", '"Your order #{{ name }} is ready"'),
    ("invalid/yaml-star-in-text", "*bold* move", '"*bold* move"'),
    ("invalid/yaml-hash-in-a-list", "[Plan #1, Plan #2]", '["Plan #1", "Plan #2"]'),
    ("valid/responses-numbers", ', responses: ["2", "4", "6", "8"]', ", scale: number"),
    ("valid/text-lookalike-letter", "p\u0430rcel", "parcel"),
]

MENDED = [
    (
        "valid/legal-hours-unknown",
        "campaign.yaml",
        "  quiet_hours: legal\n",
        "  quiet_hours: legal\n  no_rule: schedule\n",
    ),
    ("invalid/after-asks-nothing", "campaign.yaml", "    to: answered\n", ""),
    ("valid/retention-short", "campaign.yaml", "wait: 90d", "wait: 30d"),
    ("valid/after-expires", "campaign.yaml", "message: soon, wait: 1d", "message: soon, wait: 12h"),
    ("invalid/after-itself", "campaign.yaml", "message: nudge,", "message: ask,"),
    ("invalid/renamed-from-claimed-twice", "second.yaml", "renamed_from: [pulse]\n", ""),
    ("invalid/names-two-campaigns", "winter.yaml", "name: pulse\n", "name: pulse-winter\n"),
    ("invalid/conclude-on-unknown", "campaign.yaml", "conclude_on: Confirmed", "conclude_on: Confirm"),
    ("invalid/csv-duplicate-column", "people.csv", "phone,First Name,", "phone,given_name,"),
    ("invalid/csv-header-missing", "people.csv", "+14155550101,Ada", "phone,name\n+14155550101,Ada"),
    ("invalid/csv-no-phone-column", "people.csv", "name,phones", "name,phone"),
    ("invalid/csv-no-such-region-column", "people.csv", "phone,home_province", "phone,province"),
    ("invalid/csv-no-such-timezone-column", "people.csv", "phone,time_zone_name", "phone,timezone"),
    ("invalid/csv-row-width", "people.csv", "+14155550102,Bo,Jr.", '+14155550102,"Bo, Jr."'),
    ("invalid/csv-quote-inside", "people.csv", '"Ada" Lovelace', '"""Ada"" Lovelace"'),
    ("invalid/duration-too-long", "campaign.yaml", "wait: 99999w", "wait: 9w"),
    ("invalid/csv-encoding-unknown", "campaign.yaml", "windows1251x", "windows-1251"),
    ("invalid/phone-excluded-invalid", "campaign.yaml", '"+1415555"', '"+14155550155"'),
    ("invalid/export-columns", "campaign.yaml", "[City, citty, Mobile]", "[City, Mobile]"),
    ("invalid/file-conflict", "pulse.yaml", "<<<<<<< HEAD\n", ""),
    (
        "invalid/languages-missing",
        "campaign.yaml",
        "name: p",
        "languages: {default: en, known: [en, es]}\nname: p",
    ),
    ("invalid/languages-list", "campaign.yaml", "default: fr", "default: en"),
    ("invalid/languages-list", "campaign.yaml", "es, ES", "es"),
    ("invalid/text-untranslated", "campaign.yaml", '{en: "Large"}', "Large"),
    ("invalid/text-language-unknown", "campaign.yaml", 'pt-br: "Bom dia", ', ""),
    ("invalid/text-language-unknown", "campaign.yaml", "[en, pt-BR]", "[en, pt-BR, fr]"),
    ("invalid/response-two-meanings", "campaign.yaml", 'it: "Sole"', 'it: "Dopo"'),
    ("invalid/response-two-meanings", "campaign.yaml", 'it: "5 stelle"', 'it: "1 stella"'),
    ("invalid/response-repeated-in-a-language", "campaign.yaml", 'es: "Bien"', 'es: "Muy bien"'),
    ("invalid/recipient-language-unknown", "people.csv", "es-MX", "es"),
    ("invalid/csv-no-such-language-column", "campaign.yaml", "_column: language", "_column: home_language"),
    ("valid/languages", "campaign.yaml", 'ar: "أهلا!"', 'ar: "أهلا {{ first_name }}!"'),
    ("invalid/limit-segments", "campaign.yaml", "segments_per_message: 1", "segments_per_message: 2"),
    (
        "invalid/message-renamed-from-claimed-twice",
        "campaign.yaml",
        "renamed_from: [question, ask]",
        "renamed_from: [question]",
    ),
    (
        "invalid/message-id-repeated",
        "campaign.yaml",
        "- id: hello\n    text: Hello again",
        "- id: again\n    text: Hello again",
    ),
    ("invalid/to-question-unknown", "campaign.yaml", "question: nsp", "question: nps"),
    ("invalid/to-question-late", "campaign.yaml", "message: hello, wait", "message: ask, wait"),
    ("invalid/to-open-question", "campaign.yaml", "to: {question: reason, values: bad}", "to: answered"),
    (
        "invalid/to-scales",
        "campaign.yaml",
        'responses: ["Likely", "Unlikely"]',
        'responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"], scale: nps',
    ),
    ("invalid/to-values", "campaign.yaml", "values: 0-12", "values: 0-10"),
    ("invalid/to-values", "campaign.yaml", "values: 6-0", "values: 0-6"),
    ("invalid/to-value-text", "campaign.yaml", "[Call mee]", "[Call me]"),
    ("valid/to-overlap-and-gap", "campaign.yaml", "[5, 6, 8]", "7-10"),
    ("valid/to-overlap-of-numbers", "campaign.yaml", "2.5-30", "4-30"),
    ("valid/to-question-below", "campaign.yaml", f"{WHY}{AGAIN}", f"{AGAIN}{WHY}"),
    ("valid/csv-spreadsheet-phones", "people.csv", "'+14155550101", "+14155550101"),
    ("valid/csv-spreadsheet-phones", "people.csv", " 415-555-0103 ", "415-555-0103"),
    ("valid/csv-spreadsheet-phones", "people.csv", "+14155550102.0", "+14155550102"),
    ("valid/phone-repairs", "people.csv", '"=""+14155550150"""', "+14155550150"),
    ("valid/phone-repairs", "people.csv", "\u202a+14155550153\u202c", "+14155550153"),
    ("valid/phone-repairs", "people.csv", "<+14155550155>", "+14155550155"),
    ("valid/phone-repairs", "people.csv", '"14,155,550,152"', "+14155550152"),
    ("invalid/policy-campaign-without-timezone", "campaign.yaml", "  timezone_unknown: campaign\n", ""),
    (
        "invalid/question-tag-repeated",
        "campaign.yaml",
        "- tag: nps\n        text: And",
        "- tag: friends\n        text: And",
    ),
    ("invalid/csv-consent-date", "people.csv", "05/01/2026", "2026-05-01"),
    ("invalid/csv-no-such-date-column", "campaign.yaml", "visit_at", "visits at"),
    ("invalid/when-date", "people.csv", "03/04/2026", "2026-04-03"),
    ("invalid/when-date", "people.csv", "3.4.26 9:30 pm", "2026-03-04T21:30"),
    ("invalid/when-date", "people.csv", "12/24/2026 10:00 AM", "2026-12-24T10:00"),
    ("invalid/when-date", "people.csv", "9999-12-31", ""),
    ("invalid/when-after-and-wave", "campaign.yaml", "5/6/2026", "2026-05-06"),
    ("invalid/when-after-and-wave", "campaign.yaml", "wave: 2026q4\n", ""),
    ("invalid/when-after-and-wave", "campaign.yaml", "    after: {message: remind, wait: 2d}\n", ""),
    ("valid/when", "people.csv", "+14155550101,2026-12-24T10:00\n", ""),
    ("valid/phone-toll-free", "people.csv", "(800) 555-0199", "(415) 555-0199"),
    ("invalid/recipient-state-unknown", "campaign.yaml", "region: US-XX", "region: US-NY"),
    ("invalid/csv-timezone-unknown", "people.csv", ",CST", ",America/Chicago"),
    ("invalid/value-region-other-name", "campaign.yaml", "region: UK", "region: GB"),
    ("valid/responses-yes-no", "c.yaml", "[yes, no]", '["Yes, please", "No, thanks"]'),
    ("invalid/responses-alike-in-unicode", "campaign.yaml", '["caf\u00e9", "cafe\u0301", ', '["caf\u00e9", '),
    (
        "invalid/schedule-expires-first",
        "campaign.yaml",
        "expires: 2026-12-01T09:00",
        "expires: 2026-12-12T09:00",
    ),
    ("valid/schedule-never-open", "campaign.yaml", "expires: 2026-12-07T08:00", "expires: 2026-12-11T08:00"),
    ("invalid/score-none", "campaign.yaml", "score: {question: why}\n", ""),
    ("invalid/score-unknown", "campaign.yaml", "question: nsp", "question: nps"),
    ("invalid/template-response-empty", "campaign.yaml", "\"{{ '' }}\"", '"No"'),
    ("invalid/message-empty", "campaign.yaml", "- id: hello\n", "- id: hello\n    text: Hello\n"),
    (
        "invalid/read-replies-within-zero",
        "campaign.yaml",
        "read_replies_within: 0h",
        "read_replies_within: 12h",
    ),
    ("invalid/value-responses-repeated", "campaign.yaml", '["Sure", "No", "Sure"]', '["Sure", "No"]'),
    ("invalid/recipient-timezone-empty", "campaign.yaml", '    timezone: ""\n', ""),
    ("invalid/variants-analysis-day", "campaign.yaml", "2026-02-30", "2026-02-28"),
    (
        "invalid/variants-arm-repeated",
        "campaign.yaml",
        "{id: short, text: Hello!}",
        "{id: long, text: Hello!}",
    ),
    ("invalid/variants-of-unknown", "campaign.yaml", "of: aks", "of: ask"),
    ("invalid/yaml-unknown-alias", "campaign.yaml", "*everyone", '[{phone: "+14155550101"}]'),
    ("invalid/yaml-control-character", "campaign.yaml", "Hel\x08lo", "Hello"),
    ("invalid/yaml-duplicate-key", "campaign.yaml", "    text: Good morning\n", ""),
    ("invalid/yaml-template-as-value", "campaign.yaml", "text: {{ first_name }}", 'text: "{{ first_name }}"'),
]
"""Cases and the change to a file that mends one of their problems: what `runner explain` shows."""


def find_all(folder: Path) -> Counter[tuple[str, str]]:
    """Return the problems of a folder's campaigns, by code and message."""
    return Counter(map(_key, validate_campaigns(Scope(paths=(folder,))).problems))


def _key(problem: Diagnostic) -> tuple[str, str]:
    return problem.code, problem.message


@cache
def list_remedies() -> list[tuple[Path, str, int, int, str, str]]:
    """Return case, file, line, column, key to replace and text of each remedy that an output writes out."""
    found = []
    for case in ALL_CASES:
        for match in LINE.finditer((case / "expected.txt").read_text(encoding="utf-8")):
            pieces = [] if match["hint"].startswith(NOT_ALONE) else PIECE.findall(match["hint"])
            unknown = UNKNOWN.match(match["said"])
            place = match["file"], int(match["line"]), int(match["column"])
            for piece in pieces:
                key = unknown["key"] if unknown else piece.partition(":")[0]
                if (case.name, key) not in OTHER_FILE:
                    found.append((case, *place, key, piece))
    return found


def apply(text: str, line: int, column: int, key: str, piece: str) -> str:
    """Return a file's text with a remedy in place of a key's value there or near, or added."""
    lines = text.split("\n")
    starts = re.compile(rf"(?:^|(?<=[\s{{])){re.escape(key)}:(?=\s|$)" if piece[:2] != "- " else "- ")
    # These stand beside what they are about.
    is_beside = key in ("scale", "weight")
    for number in range(line, line + 1 + 3 * is_beside):
        written = lines[number - 1] if number <= len(lines) else ""
        found = [one for one in starts.finditer(written) if is_beside or one.start() < column]
        if found:
            end = _find_end(written, found[-1].end())
            lines[number - 1] = written[: found[-1].start()] + piece + written[end:]
            return "\n".join(lines)
    lines[line - 1] = _insert(lines[line - 1], column - 1, piece)
    return "\n".join(lines)


def _insert(written: str, column: int, piece: str) -> str:
    if written[column : column + 1] == "{":
        return f"{written[: column + 1]}{piece}, {written[column + 1 :]}"
    return f"{written[:column]}{piece}\n{' ' * column}{written[column:]}"


def _find_end(written: str, start: int) -> int:
    """Return where a value ends that starts at `start`: at its bracket, its comma, or the line's end."""
    depth, quote = 0, ""
    is_flow = "{" in re.sub(r"\{\{.*?\}\}", "", written[:start])
    for index in range(start, len(written)):
        character = written[index]
        if quote or character in "\"'":
            quote = "" if character == quote else quote or character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
            if depth < 0:
                return index
        elif character == "," and is_flow and not depth:
            return index
    return len(written)


@pytest.mark.parametrize(
    ("case", "file", "line", "column", "key", "piece"),
    [pytest.param(*one, id=f"{one[0].name}-{one[2]}-{one[5][:20]}") for one in list_remedies()],
)
def test_a_remedy_mends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: Path,
    file: str,
    line: int,
    column: int,
    key: str,
    piece: str,
) -> None:
    """With the remedy in place a problem is gone, and no other has come."""
    folder = shutil.copytree(case, tmp_path / "repository", symlinks=True)
    monkeypatch.chdir(folder)
    before = find_all(folder)
    written = (folder / file).read_text(encoding="utf-8")
    (folder / file).write_text(apply(written, line, column, key, piece), encoding="utf-8")
    after = find_all(folder)
    # Beside errors a file is not asked for its name, nor an audience for its key.
    hidden = ("campaign-name-derived", "audience-sealed")
    new = [problem for problem in after - before if problem[0] not in hidden]
    assert not new, (folder / file).read_text(encoding="utf-8")
    assert before - after


@pytest.mark.parametrize(("name", "old", "new"), BY_HAND)
def test_a_remedy_by_hand_mends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> None:
    """What a hint says in words mends its case as well."""
    case = next(case for case in ALL_CASES if name_case(case) == name)
    folder = shutil.copytree(case, tmp_path / "repository")
    monkeypatch.chdir(folder)
    (file,) = folder.glob("*.yaml")
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    assert not find_all(folder)


@pytest.mark.parametrize(("name", "file", "old", "new"), MENDED)
def test_an_explained_change_mends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str, old: str, new: str
) -> None:
    """The change that is shown for a code takes the problem away."""
    case = next(case for case in ALL_CASES if name_case(case) == name)
    folder = shutil.copytree(case, tmp_path / "repository", symlinks=True)
    monkeypatch.chdir(folder)
    before = find_all(folder)
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert before - find_all(folder)
