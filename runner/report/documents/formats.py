"""The formats of a report. JSON has its values field by field (`schemas/report.schema.json`).

CSV, for spreadsheets and data frames, is the JSON document with a row for each of its values (RFC 4180):

- `campaign`, `target`, `message`, `question`: the subject of the row; `question` is a tag, and empty in rows
  about a whole message. Rows without a message are of the whole campaign, where each person counts once.
- `measure`: the value's keys in the document, as in `sent`, `sessions.queued`, `nps.score` or
  `distribution.count`: a filter on it gives a table of its own. Ends of intervals are `low` and `high`.
- `item`: of a value in a list, the name of its element: a response's label, an arm, a day, a reason;
  of a group the audience's column, and its name: `city / Oakland`.
- `value`: empty if it is not known, or not defined.

A template of the user (`--template`) gets the JSON document. Its author may not be the user: so it runs in
Jinja2's sandbox, cannot change its input, and cannot read other files. An unknown name is an error.
"""

from __future__ import annotations

import csv
import json
import traceback
from io import StringIO
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, TemplateSyntaxError, select_autoescape
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.document import PLACES, Part
from runner.errors import RunnerError
from runner.report.documents.page import write_html, write_markdown
from runner.report.documents.wording import defuse_formula, distinguish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.report.model import CampaignReport
    from runner.report.question_model import Interval


COLUMNS = ("campaign", "target", "message", "question", "measure", "item", "value")
_NAMES = "label tag name column date disposition arm message id campaign measure".split()  # noqa: SIM905  words
"""Keys whose value names an element of a list, the first that it has."""


def write_csv(report: CampaignReport) -> str:
    """Return the report as a CSV table (see the module): a header row, then one line a row.

    Lines end in LF, as in files of answers. Text cells that a spreadsheet would run as a formula start with
    an apostrophe (OWASP, "CSV injection").
    """
    document = describe_report(report).to_dict()
    messages, about = document.pop("messages"), [document.pop("campaign"), document.pop("target")]
    pooled = document.pop("questions")
    rows = list(_flatten(document, *about, "", ""))
    for one in pooled:
        tag = one["question"]["tag"]
        rows += [*_flatten(one.pop("question"), *about, "", tag), *_flatten(one, *about, "", tag)]
    for message in messages:
        questions = message.pop("questions")
        rows += _flatten(message, *about, message["id"], "")
        for question in questions:
            rows += _flatten(question, *about, message["id"], question["tag"])
    # With LF alone as line end, the writer would not quote a text that has a CR.
    lines = []
    for row in (COLUMNS, *rows):
        line = StringIO(newline="")
        csv.writer(line, lineterminator="\r\n").writerow((*map(defuse_formula, row[:-1]), row[-1]))
        lines.append(line.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def _flatten(value: Any, *about: str, measure: str = "", item: str = "") -> Iterator[tuple[str, ...]]:
    """Yield a row for each value of a document's part."""
    if isinstance(value, list) and measure.endswith("interval"):
        value = dict(zip(("low", "high"), value, strict=True))
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flatten(one, *about, measure=f"{measure}.{key}".removeprefix("."), item=item)
    elif isinstance(value, list):
        names = distinguish(_name(one) or str(number) for number, one in enumerate(value, start=1))
        for name, one in zip(names, value, strict=True):
            yield from _flatten(one, *about, measure=measure, item=f"{item} / {name}".removeprefix(" / "))
    elif isinstance(value, str):
        yield (*about, measure, item, defuse_formula(value))
    else:
        yield (*about, measure, item, "" if value is None else json.dumps(value))


def _name(element: Any) -> str:
    """Return the name of a list's element; empty for one without."""
    named = _NAMES if isinstance(element, dict) else ()
    return next((str(element[key]) for key in named if key in element), "")


def describe_report(report: CampaignReport) -> CampaignReport:
    """Return the report as documents have it."""
    rounded: CampaignReport = _round_floats(report)
    return rounded


def _round_floats(value: Any) -> Any:
    """Return a report's value with the ends of intervals and p-values as documents have them."""
    if isinstance(value, float):
        # A p-value: small ones differ by magnitudes.
        return float(f"{value:.4g}")
    if isinstance(value, tuple):
        is_interval = isinstance(next(iter(value), None), float)
        return round_ends(value) if is_interval else tuple(map(_round_floats, value))
    if isinstance(value, Part):
        return value.replace(
            **{name: _round_floats(getattr(value, name)) for name in value.__struct_fields__}
        )
    return value


def round_ends(interval: Interval) -> Interval:
    """Return an interval with its ends to four decimal places."""
    # Adding zero turns minus zero into zero.
    return round(interval[0], PLACES) + 0.0, round(interval[1], PLACES) + 0.0


def write_json(report: CampaignReport) -> str:
    """Return the report as JSON text, in UTF-8's characters, ending in a line break."""
    return describe_report(report).write() + "\n"


WRITERS: Mapping[str, tuple[str, Callable[[CampaignReport], str]]] = {
    "md": (".md", write_markdown),
    "html": (".html", write_html),
    "json": (".json", write_json),
    "csv": (".csv", write_csv),
}
"""The file suffix and the writer of each format. Files are UTF-8, written without translating line ends: the
CSV table has its own."""
_ESCAPED = ("html", "htm", "xml", "html.j2", "htm.j2", "xml.j2")


def write_with_template(report: CampaignReport, template_text: str, name: str) -> str:
    """Return the report as written by a user's template; the ending of its `name` decides on HTML escaping.

    Raises:
        RunnerError: the template is not valid, or fails; with its name and line.
    """
    environment = ImmutableSandboxedEnvironment(
        autoescape=select_autoescape(_ESCAPED),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        code = environment.compile(template_text, name=name, filename=name)
        template = environment.template_class.from_code(environment, code, environment.make_globals(None))
        return template.render(report=describe_report(report).to_dict())
    except Exception as error:  # noqa: BLE001  an expression of the template can raise anything
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == name), 1)
        line = error.lineno if isinstance(error, TemplateSyntaxError) else line
        raise RunnerError(
            f"{name}, line {line}: {str(error).partition(chr(10))[0] or type(error).__name__}",
            hint="docs/reference/report-templates.md says what a template can use",
        ) from None
