"""The page: what its open part says, in which words, and that it says it once."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest
from markdown_it import MarkdownIt

from runner.document import Part
from runner.reasons import REASONS
from runner.report.comparison_model import AnalysisReport, ArmShare, PairComparison, SplitReport
from runner.report.documents.comparisons import show_experiment, show_groups, write_analysis
from runner.report.documents.page import write_html, write_index, write_markdown
from runner.report.model import Audience, Caveat
from runner.view.blocks import Section, TableBlock
from tests.report.examples import (
    EXAMPLES,
    build_compared,
    build_everything,
    build_few,
    build_many,
    build_nps,
    build_regions,
    build_reminded,
    build_unsent,
    pool,
)
from tests.report.sample import START, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.report.comparison_model import Verdict
    from runner.report.model import CampaignReport

FOLDED = re.compile(r"<details.*", re.DOTALL)
HIDDEN = re.compile(r"<(style|svg|thead|title|caption|figcaption)\b.*?</\1>", re.DOTALL)
"""What is no text, or says what a chart shows."""
TWICE = re.compile(r'<span class="unseen">.*?</span>|<b class="inside">.*?</b>')
"""What is only read aloud, or only shown on a phone, where its other place is hidden."""


def read_open(report: CampaignReport) -> str:
    """Return the texts of the page's open part, one a line."""
    page = TWICE.sub("", HIDDEN.sub("", FOLDED.sub("", write_html(report))))
    return "\n".join(filter(None, (text.strip() for text in re.split(r"<[^>]+>", page))))


def read_sentences(section: Section) -> list[str]:
    return [text for block in section.blocks if (text := getattr(block, "text", ""))]


@pytest.mark.parametrize("name", ["reminded", "everything"])
def test_no_main_figure_stands_twice(name: str) -> None:
    """The figures of the tiles and the sizes of the main bar stand nowhere else, but what a score rests on."""
    shown = re.sub(r"[\d,]+ answers", "", read_open(EXAMPLES[name]()))
    figures = Counter(re.findall(r"[+−]?\d[\d,.]*", shown))
    tiles = re.findall(r"<dd>([^<]+)</dd>", write_html(EXAMPLES[name]()))
    bar = re.findall(r'<li class="\w*"><bdi>[^<]*</bdi> <b[^>]*>([^<]+)</b>', write_html(EXAMPLES[name]()))
    of = re.findall(r'<dd class="note">of ([\d,]+) people', write_html(EXAMPLES[name]()))
    main = [re.sub(r"[\u202f%$]", "", figure) for figure in (*tiles, *of, *bar[:3])]
    assert len(main) == 9
    assert {figure: figures[figure] for figure in main if figures[figure] != 1} == {}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_open_part_has_the_words_of_its_readers(name: str) -> None:
    """Texts, people and answers: no words of the machine."""
    words = (
        r"\b(launch(es)?|renders?|digest|tags?|recipients?|participants?|guid|message id|ledger|sessions?)\b"
    )
    assert re.findall(words, read_open(EXAMPLES[name]()), re.IGNORECASE) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_figures_are_set_as_english_is(name: str) -> None:
    """A true minus, a narrow blank before a per cent sign, an en dash between the ends of an interval."""
    report = EXAMPLES[name]()
    for text in (read_open(report), write_markdown(report)):
        assert re.findall(r"(?<![\w-])-\d", text) == []
        assert re.findall(r"\d[ \u00a0]?%", text) == []
        assert re.findall(r"\d-\d+(?:\.\d)?\u202f%", text) == []


def test_percentages_of_few_people_have_no_decimals() -> None:
    """Of 31 people 12 are 39 %, and so are the ends of the interval whole."""
    shown = read_open(build_few())
    assert "39\u202f%\nof 31 people texted, 95\u202f% interval 24\u2060–\u206056\u202f%" in shown
    assert "3\u202f% of the people texted" in shown
    assert "42.5\u202f%\nof 1,408 people texted" in read_open(build_reminded())


def test_a_page_begins_with_title_period_and_owner() -> None:
    """The campaign's own words stand first, then its days in its time zone."""
    lines = read_open(build_reminded()).split("\n")
    assert lines[:4] == [
        "Campaign report",
        "How customers see us, autumn 2026",
        "Sent 18\u2060–\u206020 November 2026 · Customer Experience, cx@acme.example",
        "Everybody who bought in the third quarter is asked once, and reminded once after two days.",
    ]


def test_the_first_row_is_of_people() -> None:
    """Score with its change, response, answers, opt-outs and cost, each with what it is of."""
    lines = read_open(build_reminded()).split("\n")
    assert lines[4:20] == [
        "NPS", "+32.8", "▲ +8.3 since June 2026",
        "of 598 answers, 95\u202f% interval of the NPS +26.6\u00a0to\u00a0+38.7, target +40",
        "Response", "42.5\u202f%", "of 1,408 people texted, 95\u202f% interval 39.9\u2060–\u206045.1\u202f%",
        "Answered", "598", "people, 81.8\u202f% of them to the end",
        "Opted out", "19", "1.3\u202f% of the people texted",
        "Cost", "$67.82", "at the service’s price",
    ]  # fmt: skip


def test_a_campaign_that_was_not_sent_is_one_sentence() -> None:
    """It says so, and when it may be sent; there are no zeros."""
    lines = read_open(build_unsent()).split("\n")
    assert (
        lines[-1]
        == "Nobody has been texted yet. Texts will go out from 11 January 2027, 10:00 (America/New_York)."
    )
    assert "<section" not in write_html(build_unsent())
    assert read_open(replace(build_unsent(), next_send_at=None)).endswith("\nNobody has been texted yet.")


def test_few_answers_make_no_score() -> None:
    """A score of 7 answers is a dash with a caution, and its question has counts instead of shares."""
    page = write_html(build_few())
    assert '<dt>NPS</dt><dd>–</dd><dd class="note">7 answers, too few to go by</dd>' in page
    question = page.split("<h2>")[1]
    assert '<span class="share good"' in question
    assert "%" not in re.sub(r"<[^>]+>", "", question)


def test_no_answers_are_none_yet() -> None:
    """Where nobody answered, no score is shown and no chart is drawn."""
    report = replace(build_few(), questions=pool(replace(build_nps([0] * 11), answers=0)), score=None)
    shown = read_open(report)
    assert "NPS\n–\nno answers yet" in shown
    assert "No answers yet." in shown


def test_what_is_not_known_is_no_zero() -> None:
    """As long as not all answers were read, what rests on them is not known."""
    report = build_reminded()
    unread = replace(
        report.people, texted=None, answered=None, response_rate=None, completion_rate=None, opted_out=None
    )
    shown = read_open(replace(report, people=unread, reconciled_launches=7))
    assert "Not all answers have been read yet, so some figures are not known." in shown
    for name in ("Response", "Answered", "Opted out"):
        assert f"\n{name}\nnot known\n" in shown
    assert "with the answers to 7 of 8 batches of texts" in write_html(replace(report, reconciled_launches=7))


def forget(value: Any, name: str) -> Any:
    """Return a part of a report in which every field of that name is None."""
    if isinstance(value, tuple):
        return tuple(forget(one, name) for one in value)
    if not isinstance(value, Part):
        return value
    fields = {field: forget(getattr(value, field), name) for field in value.__struct_fields__}
    return value.replace(**{**fields, **({name: None} if name in list_optional(value.__class__) else {})})


@cache
def list_optional(kind: Any) -> frozenset[str]:
    """Return the names of a part's fields that may be None."""
    hints = get_type_hints(kind)
    return frozenset(name for name in kind.__struct_fields__ if type(None) in get_args(hints[name]))


def list_fields(value: Any) -> set[str]:
    """Return the names of all fields of a report's parts that may be None."""
    parts = value if isinstance(value, tuple) else ()
    if isinstance(value, Part):
        parts = tuple(getattr(value, field) for field in value.__struct_fields__)
    found = {name for part in parts for name in list_fields(part)}
    return found | (list_optional(value.__class__) if isinstance(value, Part) else set())


@pytest.mark.slow
def test_whatever_is_not_known_the_page_is_written() -> None:
    """Any figure may be unknown: the page and the index say the rest, and never None."""
    whole = build_everything()
    report = replace(whole, series=build_reminded().series, groups=whole.groups[:1])
    for field in sorted(list_fields(report)):
        unknown = forget(report, field)
        assert "None" not in write_html(unknown) + write_index([unknown], {}), field


def test_figures_that_may_change_or_do_not_add_up_are_said_to() -> None:
    """Open surveys and contradictions are notices; the contradictions themselves are folded."""
    shown = read_open(build_everything())
    assert "Interim: 62 people still have an open survey, so figures may change." in shown
    assert "1 figure does not add up: see “How it was sent”." in shown
    assert "ask: Results that the service counts: 1,601; in the ledger: 1,597." in write_html(
        build_everything()
    )


def test_replaced_people_are_said() -> None:
    """Whoever a later text kept from answering is counted apart, with the response without them."""
    ended = "96 people got another text from us before they had answered, which ended their survey."
    assert f"{ended} Without them, the response is 45.6\u202f%." in read_open(build_reminded())
    assert "Without them" not in read_open(build_few())


@pytest.mark.parametrize("name", EXAMPLES)
def test_markdown_is_the_same_page(name: str) -> None:
    """Every text of the open part stands in the Markdown as well."""
    report = EXAMPLES[name]()
    parsed = MarkdownIt("commonmark").enable("table").parse(write_markdown(report))
    said = "\n".join(
        "".join(child.content for child in token.children or ()) for token in parsed if token.children
    )
    said = re.sub(r"[\u2060\u200b]", "", said).replace("\u00a0to\u00a0", " to ")
    texts = re.sub(r"\u2060", "", read_open(report)).replace("\u00a0to\u00a0", " to ").split("\n")
    assert [text for text in texts[1:] if text not in said and not text.startswith("Share as a bar")] == []


def test_many_messages_are_a_table_below_a_fold() -> None:
    """60 messages stand in one folded table, each leads to a section of its own; the open part has scores."""
    page = write_html(build_many())
    opened = FOLDED.sub("", page)
    assert opened.count('class="dot"') == 60
    assert opened.count("<section") == 1
    links, anchors = (
        set(re.findall(pattern, page)) for pattern in (r'href="#([^"]+)"', r'<article id="([^"]+)"')
    )
    assert len(links) == 60
    assert links == anchors


def test_groups_are_dots_beside_everybody() -> None:
    """Each group has its people, response and scores with their intervals, and a line for everybody."""
    page = write_html(replace(build_everything(), groups=(build_regions(),), experiment=None))
    assert page.count('<tbody>\n<tr><th scope="row"><bdi>Aberystwyth') == 1
    assert page.count('class="everybody"') == page.count('class="dot"') > 100
    said = read_sentences(show_groups(build_regions()))
    assert said == [
        "Left out: 3 groups with 14 people in all, so that nobody in a group of fewer than 10 can be recognised.",
        "Scores of fewer than 10 answers are left out (–).",
    ]
    empty = replace(build_regions(), groups=(), suppressed=0, suppressed_texted=0)
    assert read_sentences(show_groups(empty)) == ["Nobody has been texted yet."]


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("too_early", "too_early"), ["It is too early to tell which text does better."]),
        (("too_few", "too_few"), ["There are too few people to tell which text does better."]),
        (("too_few", "no_difference_shown"), ["No text clearly does better than another."]),
        (("differs", "no_difference_shown"), ["More people answered “B” than “A”."]),
        (("no_difference_shown", "differs"), ["“A” has a higher NPS than “B”."]),
    ],
)
def test_a_verdict_is_a_sentence(verdicts: Sequence[Verdict], said: list[str]) -> None:
    """It names the text that did better, in the words of the people who got it."""
    pairs = (
        PairComparison("response", "B", "A", Fraction(1, 10), (0.01, 0.2), 0.01, verdicts[0]),
        PairComparison("score", "B", "A", Fraction(-9), (-17.0, -1.0), 0.01, verdicts[1]),
    )
    compared = replace(build_compared(), comparisons=pairs, analysis=None, split=None)
    assert read_sentences(show_experiment(compared, "nps")) == said


DATED_VERDICT = "Texts and answers before 15 December 2026 count here."


@pytest.mark.parametrize(
    ("analysis", "sentence"),
    [
        (
            AnalysisReport("sequential", None, None, is_due=True),
            "Tested at every report: of 100 experiments without a difference, at most 5 ever show one.",
        ),
        (
            AnalysisReport("fixed", None, 1000, is_due=False),
            "The texts are compared 7 days after 1,000 people got each of them.",
        ),
        (
            AnalysisReport("fixed", date(2026, 12, 15), None, is_due=False),
            "The first report with all answers of 15 December 2026 compares the texts.",
        ),
        (
            AnalysisReport("fixed", date(2026, 12, 15), 1, is_due=True),
            DATED_VERDICT,
        ),
        (
            AnalysisReport("fixed", date(2026, 12, 15), 1, is_due=True, answered_later=12),
            f"{DATED_VERDICT} 12 people answered later.",
        ),
    ],
)
def test_it_is_said_when_the_verdict_is_taken(analysis: AnalysisReport, sentence: str) -> None:
    """A report says of whom the verdict is, or when it will be."""
    assert write_analysis(analysis) == sentence


def test_pairs_of_too_few_people_are_listed() -> None:
    """A table of pairs has each that was compared, without the figures of a few."""
    pairs = (
        PairComparison("response", "B", "A", Fraction(1, 10), None, 0.06, "no_difference_shown"),
        PairComparison("score", "B", "A", Fraction(-9), None, 0.2, "too_few"),
        PairComparison("response", "C", "A", None, None, None, "too_few"),
    )
    blocks = show_experiment(replace(build_compared(), comparisons=pairs), "nps").blocks
    (folded,) = (one for one in blocks if isinstance(one, Section))
    assert folded.is_folded
    (table,) = (one for one in folded.blocks if isinstance(one, TableBlock))
    few = ("–", "–", "–", "too few people to tell")
    assert list(table.rows) == [
        ("B against A", "Response", "+10.0 points", "–", "0.060", "no difference shown"),
        ("B against A", "NPS", *few),
        ("C against A", "Response", *few),
    ]


def test_what_waves_show_is_said_once() -> None:
    """A change that is not shown is no change in the tile; its sentence has no interval that says otherwise."""
    report = build_reminded()
    assert report.series is not None
    assert "95\u202f% interval of the NPS" in read_open(report)
    response, score = report.series.changes
    for verdict, said in (
        ("no_difference_shown", "The NPS has not clearly changed since June 2026."),
        ("too_few", "There are too few people to tell whether the NPS has changed since June 2026."),
    ):
        changes = (response, replace(score, verdict=verdict, interval=None))
        tests = (replace(report.series.tests[0], verdict="too_few"), replace(report.series.tests[1], waves=4))
        shown = read_open(replace(report, series=replace(report.series, changes=changes, tests=tests)))
        assert said in shown
        assert "▲" not in shown
        assert "There are too few people to tell whether the NPS has changed over all 5 surveys." in shown
        assert "The response has not clearly changed over 4 surveys." in shown


def test_a_split_that_was_not_planned_is_a_notice() -> None:
    """Shares of the arms that chance does not give are said to."""
    arms = (
        ArmShare("A", 700, Fraction(7, 10), Fraction(1, 2)),
        ArmShare("B", 300, Fraction(3, 10), Fraction(1, 2)),
    )
    compared = replace(build_compared(), split=SplitReport(arms, 0.0, is_as_planned=False))
    said = read_sentences(show_experiment(compared, "nps"))
    shares = "A 70.0\u202f% (planned 50\u202f%), B 30.0\u202f% (planned 50\u202f%)"
    words = "Something other than chance decided who got which text, so the differences mean little."
    assert said[-1] == f"Not split as planned: {shares}. {words}"


def test_a_reason_that_is_not_known_keeps_its_name() -> None:
    """Reasons of the plan have names for people; a new one has the plan's."""
    audience = Audience(START, 10, (Caveat("capped", 2), Caveat("new_rule", 1)))
    report = build_reminded()
    page = write_html(replace(report, messages=(replace(report.messages[0], audience=audience),)))
    assert f"<bdi>{REASONS['capped'].label}</bdi></th>" in page
    assert "<bdi>new_rule</bdi></th>" in page


def test_the_index_has_a_row_a_campaign() -> None:
    """Each with its people, its response, its score with its interval or a caution, and its series."""
    page = write_index([make() for make in EXAMPLES.values()], {"pilot": "pilot.html"})
    rows = [
        [re.sub(r"<[^>]+>|\u2060", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(<th scope=\"row\">.*?)</tr>", page)
    ]
    assert ["Pilot of the customer survey", "18 November 2026", "31", "39\u202f%", "24–56\u202f%", "NPS –",
            "7 answers, too few to go by", ""] in rows  # fmt: skip
    assert rows[-1] == ["A year with us", "not sent yet", "", "", "", "", "", ""]
    assert page.count('class="spark"') == 1
    assert '<a href="pilot.html">' in page
