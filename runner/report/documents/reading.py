"""The part "How to read this" of a report: what its figures mean, with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.documents.questions import find_main_question
from runner.report.documents.wording import SCORE_FORMATS
from runner.view.blocks import ListItem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.model import CampaignReport

_EXPLANATIONS = """\
people: People
Everybody counts once, however many texts they got, and in rates only if a text reached them. If somebody
answered a question twice, the later answer counts.

questions: Response and its 95 % interval
People with at least one answer, of the people texted. Another draw of as many people like these would give a
somewhat different rate; 95 of 100 such intervals hold the true one. Wilson (1927).

questions: To the end
People who answered the last question, or ended the survey early by an answer that does so, of those who
answered at all.

nps: NPS (Net Promoter Score)
Percentage of 9 and 10 less percentage of 0 to 6, from −100 to +100. Reichheld (2003).

csat: CSAT (customer satisfaction)
Share of the answers that are one of the two best, with its Wilson interval.

mean: Mean and its 95 % interval
Student’s interval, with the skewness taken off: where most answers are near one end of the scale, it reaches
further to where the few are. Hall (1992).

groups: Groups
Groups differ by chance, too: where two intervals overlap by more than half, do not rank them.

experiment: Texts compared
“No difference shown” does not mean that there is none: there may be too few people to show it. P-values and
intervals allow for the number of comparisons. The verdict is the test’s; where an interval says otherwise, as
it may by a person or two, it is left out (Fay 2010). Newcombe (1998), Dunn (1961), Johari et al. (2022).

series: Surveys compared
The change since the last survey has an interval of its own, unless test and interval disagree (Fay 2010). Of
three surveys or more some differ from the one before by chance, so one test is of all of them together.

rates: Outcome rates
As the American Association for Public Opinion Research defines them (AAPOR, Standard Definitions, 10th
edition, 2023). RR1 to RR6 differ in whether partial interviews count, from the first answer on, and in how
many of the people of whom nothing is known are taken to be eligible (e).

people: What is not here
Phone numbers, and groups so small that a rate may tell of one person."""
"""The entries of "How to read this", each with what a report needs for it. Sources: docs/statistics.md."""


def list_explanations(report: CampaignReport) -> Iterator[ListItem]:
    """Yield the explanations of a report's content."""
    main, questions = find_main_question(report), [one.question for one in report.questions]
    # Of the main question only its main score is shown.
    shown = {score.measure for one in questions for score in (one.scores[:1] if one is main else one.scores)}
    topics = {
        "people": True,
        "questions": bool(questions),
        **{measure: measure in shown for measure in SCORE_FORMATS},
        "groups": bool(report.groups),
        "experiment": report.experiment is not None,
        "series": report.series is not None,
        "rates": report.people.rates is not None,
    }
    for entry in _EXPLANATIONS.replace(" %", "\u202f%").split("\n\n"):
        head, *lines = entry.split("\n")
        topic, term = head.split(": ", 1)
        if topics[topic]:
            yield ListItem(term=term, text=" ".join(lines))
