"""Everybody who was sent something, as tables of the engine: what all figures of people are counted from.

`touches` has a row a person and message, `persons` a row a person:

- `person`: the participant's number (`runner.report.columns.dataset.number_person`);
- `message`: the message's place in the campaign; `arm`: of the experiment, empty without one;
- `is_sent`: whether a launch was accepted; else the outcome of all is not known;
- `is_read`: whether all launches to the person were read;
- `began_us`, `arm_began_us`, `first_us`: when a launch began, that of the experiment's message, and when the
  first answer came, in microseconds since 1970;
- `is_open`: whether a session has not ended; `has_answered`, `is_complete`, `has_opted_out`: what came back;
- `state`: `texted` (some text has left the service), `uncertain` (it is not known whether one has), `blocked`
  (an earlier opt-out kept every text back), `queued` (all wait), `withdrawn` (all waited until their sessions
  were ended), `unresolved`; null for people whom the ledger does not know as sent to;
- `disposition`: the name of one of `runner.report.people_model.Dispositions`, over all surveys: null for
  people who were only sent texts that ask nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.model import ENDED, QUEUED
from runner.report.columns.engine import Engine, quote
from runner.report.people_model import Dispositions, PeopleReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.report.facts import AnswerReading, MessageOutline

_PEOPLE = """
CREATE OR REPLACE TEMP TABLE people AS
SELECT *, concat('', {steps}) AS path, coalesce({is_complete}, false) AS is_complete FROM (
  SELECT person, min(arm) AS arm, min(started_us) AS started_us,
    min(created_us) FILTER (WHERE created_us > 0) AS first_us{latest}
  FROM read_answers WHERE message = {number} GROUP BY person)
"""
_TOUCHES = """
CREATE OR REPLACE TEMP TABLE touches (person UUID, message INTEGER, is_survey BOOLEAN, arm VARCHAR,
  is_contact BOOLEAN, is_sent BOOLEAN, is_read BOOLEAN, is_listed BOOLEAN, is_open BOOLEAN, is_queued BOOLEAN,
  is_texted BOOLEAN, is_unsure BOOLEAN, blocked BOOLEAN, replaced BOOLEAN,
  began_us BIGINT, has_answered BOOLEAN, is_complete BOOLEAN, has_refused BOOLEAN,
  has_opted_out BOOLEAN, first_us BIGINT, path VARCHAR)
"""
# Who has replied got the text, whatever the sessions leave open.
_WAS_TEXTED = "coalesce(c.was_texted, if(p.person IS NULL AND r.person IS NULL, NULL, true))"
_ADD_TOUCHES = f"""
INSERT INTO touches
SELECT coalesce(c.person, p.person), {{number}}, {{is_survey}}, coalesce(p.arm, c.arm),
  c.person IS NOT NULL, coalesce(c.is_sent, false), coalesce(c.is_sent AND c.is_read, false),
  coalesce(c.is_listed, false),
  coalesce(c.is_sent AND c.is_listed AND c.status <> '{ENDED}', false),
  coalesce(c.is_sent AND c.status = '{QUEUED}', false), coalesce(c.is_sent AND {_WAS_TEXTED}, false),
  coalesce(c.is_sent AND {_WAS_TEXTED} IS NULL, false), coalesce(c.blocked, false),
  coalesce(c.replaced AND {_WAS_TEXTED}, false), c.began_us, p.person IS NOT NULL,
  coalesce(p.is_complete, false),
  coalesce(r.person IS NOT NULL OR (c.stopped AND (c.blocked OR {_WAS_TEXTED})), false),
  coalesce(r.is_opt_out, false) OR coalesce(c.stopped AND {_WAS_TEXTED}, false), p.first_us, p.path
FROM (FROM reached WHERE message = {{number}}) c
FULL JOIN people p ON p.person = c.person
LEFT JOIN (FROM refusing WHERE message = {{number}}) r ON r.person = coalesce(c.person, p.person)
"""
# A survey that has not ended, or of which nothing is known, may still be answered. Whose texts never left the
# service was not tried: AAPOR's unknown eligibility, too. Of launches of one time, that of the later message
# is the last, of 65,536 at most; numbers are compared faster than records.
_PERSONS = """
CREATE OR REPLACE TEMP TABLE persons AS
SELECT * EXCLUDE (is_contact, is_survey, is_unsure, is_blocked, is_queued, is_surveyed, has_refused,
    is_pending, was_replaced),
  CASE WHEN is_texted THEN 'texted' WHEN is_unsure THEN 'uncertain' WHEN is_blocked THEN 'blocked'
    WHEN is_queued THEN 'queued' WHEN is_sent THEN 'withdrawn' WHEN is_contact THEN 'unresolved' END AS state,
  CASE WHEN NOT is_survey THEN NULL WHEN is_complete THEN 'complete' WHEN has_answered THEN 'partial'
    WHEN has_refused THEN 'refusal' WHEN is_pending OR NOT is_surveyed THEN 'unknown_eligibility'
    WHEN was_replaced THEN 'replaced' ELSE 'non_contact' END AS disposition
FROM (
  SELECT person, coalesce(max(CASE WHEN message = {experiment} THEN arm END), '') AS arm,
    bool_or(is_contact) AS is_contact, bool_or(is_survey) AS is_survey, bool_or(is_sent) AS is_sent,
    bool_and(is_read OR NOT is_contact) AS is_read, bool_or(is_texted) AS is_texted,
    bool_or(is_unsure) AS is_unsure, bool_or(is_sent AND blocked) AS is_blocked,
    bool_or(is_queued) AS is_queued, bool_or(is_survey AND is_texted) AS is_surveyed,
    bool_or(has_answered) AS has_answered, bool_or(is_complete) AS is_complete,
    bool_or(has_opted_out) AS has_opted_out, bool_or(has_refused) AS has_refused,
    bool_or(is_survey AND is_open) AS is_open,
    bool_or(is_survey AND (is_open OR NOT is_sent OR NOT is_listed OR is_unsure)) AS is_pending,
    coalesce(arg_max(replaced, coalesce(began_us, 0)::HUGEINT * 65536 + message)
      FILTER (WHERE is_survey AND is_texted), false) AS was_replaced,
    min(began_us) AS began_us, min(CASE WHEN message = {experiment} THEN began_us END) AS arm_began_us,
    min(first_us) AS first_us
  FROM touches GROUP BY person)
"""
_STATES = "texted", "uncertain", "blocked", "queued", "withdrawn", "unresolved"
_PEOPLE_COUNTED = f"""
SELECT count_if(state IS NOT NULL) AS recipients, count_if(state <> 'unresolved') AS sent,
  {", ".join(f"count_if(state = '{state}') AS {state}" for state in _STATES)},
  count_if(has_answered) AS answered, count_if(is_complete) AS completed,
  count_if(has_opted_out) AS opted_out, count_if(is_open) AS open
FROM persons
"""


def gather_people(
    engine: Engine, number: int, outline: MessageOutline, readings: Sequence[AnswerReading]
) -> None:
    """Make the table `people`, a row a participant of the message at this place in the campaign.

    `latest_0` and so on are the numbers of the readings of the latest answers to its questions. The `path`
    has a character for each question: `-` not answered, `a` answered, `c` answered in a way that ends the
    survey.
    """
    ending = [number for number, reading in enumerate(readings) if reading.concludes]
    places = range(len(outline.questions))
    steps = [
        f"CASE WHEN latest_{place} IS NULL THEN '-' "
        f"WHEN list_contains({ending}::INTEGER[], latest_{place}) THEN 'c' ELSE 'a' END"
        for place in places
    ]
    latest = [
        f", arg_max(reading, rank) FILTER (WHERE place = {place}) AS latest_{place}" for place in places
    ]
    engine.run(
        _PEOPLE.format(
            steps=", ".join(steps) or "''",
            is_complete=_write_by_arm(outline, _write_end),
            latest="".join(latest),
            number=number,
        )
    )


def _write_end(places: Sequence[int]) -> str:
    """Return whether a path over these places answers the last question, or ends the survey early."""
    ends = [f"substr(path, {place + 1}, 1) = 'c'" for place in places]
    return " OR ".join([f"substr(path, {places[-1] + 1}, 1) <> '-'", *ends]) if places else "false"


def was_asked(outline: MessageOutline, tag: str) -> str:
    """Return the expression for whether a row of `touches` was asked a question of its message.

    The first question reaches all who were texted; each further one, those who answered the one before
    without ending the survey. A participant who answered counts as asked, so no rate exceeds 1.
    """
    place = [question.tag for question in outline.questions].index(tag)

    def write(own: Sequence[int]) -> str:
        if place not in own:
            return "false"
        before = own[: own.index(place)]
        led = f"substr(path, {before[-1] + 1}, 1) = 'a'" if before else "is_texted"
        return f"({led}) OR substr(path, {place + 1}, 1) <> '-'"

    return f"coalesce({_write_by_arm(outline, write)}, false)"


def _write_by_arm(outline: MessageOutline, write: Callable[[Sequence[int]], str]) -> str:
    """Return the expression that is written for the places of the questions of each arm."""
    places = {question.tag: number for number, question in enumerate(outline.questions)}
    cases = {arm: write([places[one.tag] for one in way]) for arm, way in outline.all_ways.items()}
    whens = " ".join(f"WHEN {quote(arm)} THEN {case}" for arm, case in cases.items())
    # An arm that no longer exists is taken for the first one.
    return f"CASE arm {whens} ELSE {next(iter(cases.values()))} END"


def begin_touches(engine: Engine) -> None:
    """Make the empty table `touches`."""
    engine.run(_TOUCHES)


def add_touches(engine: Engine, number: int, outline: MessageOutline) -> None:
    """Add the recipients of a message, and its participants, who are in the table `people`."""
    engine.run(_ADD_TOUCHES.format(number=number, is_survey=bool(outline.questions)))


def gather_persons(engine: Engine, experiment: int | None) -> PeopleReport:
    """Make the table `persons` of `touches`, and return its counts.

    `experiment` is the place of the message that has arms.
    """
    engine.run(_PERSONS.format(experiment=-1 if experiment is None else experiment))
    rows = engine.rows("SELECT disposition, count(*) FROM persons WHERE disposition IS NOT NULL GROUP BY ALL")
    dispositions = Dispositions(**dict(rows))
    people = engine.count(_PEOPLE_COUNTED)
    return PeopleReport(**people, replaced=dispositions.replaced, dispositions=dispositions)
