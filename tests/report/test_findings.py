"""Findings: the sentences that say what the figures mean."""

from __future__ import annotations

from collections import Counter
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from runner.ledger.report_model import MessageTotals, PartialCount, name_parts
from runner.report.comparison import compare_arms, postpone_comparison
from runner.report.documents.findings import (
    list_findings,
    list_scores,
    write_analysis,
    write_cost,
    write_opt_outs,
    write_suppressed,
    write_verdict,
)
from runner.report.documents.page import write_html, write_markdown
from runner.report.documents.tables import (
    list_tiles,
    tabulate_reserved,
)
from runner.report.documents.wording import write_headline, write_message_headline
from runner.report.facts import CampaignFacts, MessageOutline, QuestionOutline
from runner.report.model import Audience, Caveat, CountedArm, Sessions, VariantAnalysis, Volume
from runner.report.scores import net_promoter_score
from tests.report.counted import report_rows
from tests.report.sample import (
    START,
    build_breakdown,
    build_sample,
    build_survey,
    build_text,
    replace,
)
from tests.report.sample_questions import build_questions

if TYPE_CHECKING:
    from runner.report.facts import Scale
    from runner.report.model import CampaignReport
    from runner.view.blocks import Tile


def test_findings_come_in_the_order_of_the_campaign(sample_report: CampaignReport) -> None:
    """Who answered, the scores with their intervals, and the arms; no plain numbers among them."""
    assert list(list_findings(sample_report)) == [
        "ask: 982 people were texted, 12 are still queued at the service; 402 answered (40.4 %, 95 % interval 37.4–43.5 %).",
        "nps: NPS +27.6 (95 % interval +19.9 to +35.0): promoters 48.0 %, passives 31.6 %, detractors 20.4 %, of 402 answers.",
        "service: CSAT 69.5 % (95 % interval 64.7–74.0 %): 258 of 371 chose one of the top two responses.",
        "friendly answers more than short: +7.6 points, 95 % interval +1.5 to +13.7.",
        "The verdict is of the 994 people asked, and of the answers that came, before 2026-11-20 (UTC).",
        "sorry: 82 people were texted; 37 answered (45.1 %, 95 % interval 34.8–55.9 %).",
    ]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([("A", 5, 10), ("B", 9, 10)], "Too few people to tell whether B or A answers more."),
        ([("A", 0, 0), ("B", 9, 100)], "Too few people to tell whether B or A answers more."),
        (
            [("A", 200, 500), ("B", 205, 500)],
            "No difference shown between B and A: +1.0 points, 95 % interval -5.1 to +7.1.",
        ),
        (
            [("A", 200, 500), ("B", 250, 500)],
            "B answers more than A: +10.0 points, 95 % interval +3.8 to +16.1.",
        ),
        (
            [("A", 250, 500), ("B", 200, 500)],
            "B answers less than A: -10.0 points, 95 % interval -16.1 to -3.8.",
        ),
    ],
)
def test_a_verdict_is_a_sentence(counts: list[tuple[str, int, int]], sentence: str) -> None:
    """Two arms are too few to tell, show no difference, or differ by so much."""
    (difference,) = compare_arms(counts)
    assert write_verdict(difference) == sentence


def test_it_is_too_early_for_a_verdict() -> None:
    """Before the day of the verdict no figure hints at it."""
    (difference,) = postpone_comparison([("A", 200, 500), ("B", 250, 500)])
    assert write_verdict(difference) == "Too early to tell whether B or A answers more."


@pytest.mark.parametrize(
    ("analysis", "sentence"),
    [
        (
            VariantAnalysis("sequential", None, None, is_due=True, arms=()),
            "A test for every look: of 100 experiments without a difference, at most 5 ever show one.",
        ),
        (
            VariantAnalysis("fixed", None, 1000, is_due=False, arms=()),
            "The verdict is taken 7 days after 1,000 people have been asked in each arm.",
        ),
        (
            VariantAnalysis("fixed", date(2026, 12, 15), None, is_due=False, arms=()),
            "The verdict is taken by the first report that is reconciled on 2026-12-15 (UTC) or later.",
        ),
        (
            VariantAnalysis("fixed", date(2026, 12, 15), 1, is_due=True, arms=(CountedArm("A", 1, 0),)),
            "The verdict is of the 1 person asked, and of the answers that came, before 2026-12-15 (UTC).",
        ),
    ],
)
def test_it_is_said_when_the_verdict_is_taken(analysis: VariantAnalysis, sentence: str) -> None:
    """A report says of whom the verdict is, or when it will be."""
    assert write_analysis(analysis) == sentence


def test_cost_is_said_where_it_is_known() -> None:
    """Renders are a part of the service's plan and of its price, as far as these are known."""
    for volume, sentence in (
        (Volume(9), ""),
        (Volume(9, Fraction(1, 100)), "Together the renders are 1.0 % of the service’s plan."),
        (
            Volume(9, Fraction(1, 100), Fraction(5, 2)),
            "Together the renders are 1.0 % of the service’s plan, 2.50 US dollars of its price.",
        ),
    ):
        assert write_cost(replace(build_survey(), volume=volume)) == sentence


def test_small_groups_are_counted_not_shown() -> None:
    """How many groups are left out is said, and of how many people where that tells nothing of one."""
    breakdown = build_breakdown()
    rest = "so that no group of fewer than 10 people can be made out."
    assert write_suppressed(breakdown) == f"Left out: 3 groups, 17 people together, {rest}"
    one = replace(breakdown, suppressed=1, suppressed_sent=None)
    assert write_suppressed(one) == f"Left out: 1 group, {rest}"
    assert write_suppressed(replace(breakdown, suppressed=0)) == ""
    assert write_suppressed(replace(breakdown, groups=(), suppressed=0)) == "Nobody was texted yet."


def test_opt_outs_that_are_not_known_are_no_zero() -> None:
    """Where some launches were not read, so it says of opt-outs and of doubtful replies."""
    known = {"opt_outs": PartialCount(3, 1), "doubtful": PartialCount(0, 1)}
    survey = replace(
        build_survey(),
        launches=2,
        reconciled_launches=1,
        opt_outs=None,
        doubtful=None,
        partly_known=name_parts(known),
    )
    assert write_opt_outs(survey) == (
        "How many opted out: not known (3 in 1 of 2 launches); how many doubtful replies wait for a decision: "
        "not known (0 in 1 of 2 launches)."
    )


@pytest.mark.parametrize(
    ("answers", "sentence", "note"),
    [
        (0, "NPS: no answers yet.", "no answers yet"),
        (
            1,
            "NPS +100.0: promoters 100.0 %, passives 0.0 %, detractors 0.0 %, of 1 answer: too few to go by.",
            "1 answer, too few to go by",
        ),
    ],
)
def test_few_answers_make_no_large_figure(answers: int, sentence: str, note: str) -> None:
    """No answers are said to be none yet; fewer than ten have a caution, and are neither bold nor in a tile."""
    report, line, tile = show_score(answers)
    assert (line, tile.figure, tile.note) == (sentence, "–", note)
    assert f"\n{line}\n" in write_markdown(report)
    assert '<p class="strong"><bdi>NPS' not in write_html(report)


def show_score(answers: int) -> tuple[CampaignReport, str, Tile]:
    """Return a report of that many promoters, the sentence of the score, and its tile."""
    question = replace(build_questions()[0], nps=net_promoter_score(Counter({Fraction(10): answers})))
    report = replace(build_sample(), messages=(replace(build_survey(), questions=(question,)),))
    (line,) = list_scores(question)
    tiles = list_tiles(report.messages[0])
    return report, line, next(tile for tile in tiles if tile.name.startswith("NPS"))


@pytest.mark.parametrize("scale", ["csat", "number"])
def test_no_answers_to_other_scales_are_said_to_be_none_yet(scale: Scale) -> None:
    """A satisfaction score and a mean of nothing are no dashes."""
    outline = QuestionOutline("q", "Q?", ("1", "2", "3"), scale)
    outlined = MessageOutline("ask", "tag", (outline,))
    totals = MessageTotals("ask", launches=1, sent=1, complete=1, reconciled_at="2026-11-20T12:34:56Z")
    (message,) = report_rows(CampaignFacts("pulse", "live", ((outlined, totals),)), ()).messages
    said = ["CSAT: no answers yet."] if scale == "csat" else []
    assert list(list_scores(message.questions[0])) == [*said, "Mean: no answers yet."]


def test_queued_texts_are_counted_apart() -> None:
    """Texts that wait at the service for an earlier session did not go out, whoever asks."""
    ask = replace(build_survey(), sessions=Sessions(queued=1, active=0, complete=993))
    report = replace(build_sample(), messages=(ask, build_text("reminder", 6, START)))
    assert write_headline(report) == (
        "999 texts went out in 2 messages, 1 is still queued at the service; 402 people answered."
    )
    assert write_message_headline(ask, is_simulated=False).startswith(
        "993 people were texted, 1 is still queued at the service; 402 answered"
    )
    assert next(list_tiles(ask)).note == "of 998 recipients, 1 still queued"


def test_a_reason_that_is_not_known_keeps_its_name() -> None:
    """Reasons of the plan have names for people; a new one has the plan's."""
    audience = Audience(START, 10, 0, (Caveat("capped", 2), Caveat("new_rule", 1)))
    names = [row[0] for row in tabulate_reserved(audience).rows]
    assert names == ["Texted as often as allowed", "new_rule"]
