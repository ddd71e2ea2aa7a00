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
from runner.report.columns.engine import quote
from runner.report.facts import ContactTally, PeopleTally
from runner.report.funnel import count_completed

if TYPE_CHECKING:
    from collections.abc import Collection

    from runner.report.columns.engine import Engine
    from runner.report.facts import MessageOutline, Paths

MOST_MESSAGES = 65536
"""More than a campaign has messages: a rank by time, then by message, is one number."""
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
  coalesce(ends.is_complete, false),
  coalesce(r.person IS NOT NULL OR (c.stopped AND (c.blocked OR {_WAS_TEXTED})), false),
  coalesce(r.is_opt_out, false) OR coalesce(c.stopped AND {_WAS_TEXTED}, false), p.first_us, p.path
FROM (FROM contacts WHERE message IN ({{names}})) c
FULL JOIN people p ON p.person = c.person
LEFT JOIN ends ON ends.arm = p.arm AND ends.path = p.path
LEFT JOIN (FROM refusing WHERE message = {{name}}) r ON r.person = coalesce(c.person, p.person)
"""
# A survey that has not ended, or of which nothing is known, may still be answered. Whose texts never left the
# service was not tried: AAPOR's unknown eligibility, too.
_PERSONS = """
CREATE OR REPLACE TEMP {kind} persons AS
SELECT * EXCLUDE (is_contact, is_survey, is_unsure, is_blocked, is_queued, is_surveyed, has_refused,
    is_pending, was_replaced),
  CASE WHEN is_texted THEN 'texted' WHEN is_unsure THEN 'uncertain' WHEN is_blocked THEN 'blocked'
    WHEN is_queued THEN 'queued' WHEN is_sent THEN 'withdrawn' WHEN is_contact THEN 'unresolved' END AS state,
  CASE WHEN NOT is_survey THEN NULL WHEN is_complete THEN 'complete' WHEN has_answered THEN 'partial'
    WHEN has_refused THEN 'refusal' WHEN is_pending OR NOT is_surveyed THEN 'unknown_eligibility'
    WHEN was_replaced THEN 'replaced' ELSE 'non_contact' END AS disposition
FROM (
  SELECT person, coalesce({most}(CASE WHEN message = {experiment} THEN arm END), '') AS arm,
    {any}(is_contact) AS is_contact, {any}(is_survey) AS is_survey, {any}(is_sent) AS is_sent,
    {all}(is_read OR NOT is_contact) AS is_read, {any}(is_texted) AS is_texted,
    {any}(is_unsure) AS is_unsure, {any}(is_sent AND blocked) AS is_blocked, {any}(is_queued) AS is_queued,
    {any}(is_survey AND is_texted) AS is_surveyed,
    {any}(has_answered) AS has_answered, {any}(is_complete) AS is_complete,
    {any}(has_opted_out) AS has_opted_out, {any}(has_refused) AS has_refused,
    {any}(is_survey AND is_open) AS is_open,
    {any}(is_survey AND (is_open OR NOT is_sent OR NOT is_listed OR is_unsure)) AS is_pending,
    coalesce({last}, false) AS was_replaced, {least}(began_us) AS began_us,
    {least}(CASE WHEN message = {experiment} THEN began_us END) AS arm_began_us, {least}(first_us) AS first_us
  FROM touches {group})
"""
# Of launches of one time, the later message's; numbers are compared faster than records.
_LAST = (
    f"arg_max(replaced::INTEGER, coalesce(began_us, 0)::HUGEINT * {MOST_MESSAGES} + message) "
    "FILTER (WHERE is_survey AND is_texted)::BOOLEAN"
)
_BY_PERSON = {
    "any": "bool_or",
    "all": "bool_and",
    "most": "max",
    "least": "min",
    "group": "GROUP BY person",
    "last": _LAST,
}
_OF_ONE_MESSAGE = {**dict.fromkeys(_BY_PERSON, ""), "last": "is_survey AND replaced"}
_STATES = """
SELECT state, disposition, count(*) AS n, count_if(has_answered) AS answered,
  count_if(is_complete) AS complete, count_if(has_opted_out) AS opted_out, count_if(is_open) AS open
FROM persons GROUP BY ALL
"""
_CONTACTS = """
SELECT arm, count_if(is_sent) AS sent, count_if(is_sent AND is_listed) AS listed,
  count_if(has_opted_out) AS opted_out, count_if(is_texted) AS texted
FROM touches WHERE message = ? GROUP BY ALL ORDER BY arm
"""
_PATHS = """
SELECT arm, path, count(*) AS n FROM touches
WHERE message = ? AND has_answered GROUP BY ALL ORDER BY ALL
"""


def was_asked(outline: MessageOutline, place: int) -> str:
    """Return the expression for whether a row of `touches` was asked a question of its message."""
    places = {question.tag: number for number, question in enumerate(outline.questions)}
    cases = {}
    for way in outline.all_ways:
        own = [places[question.tag] for question in way.questions]
        if place not in own:
            cases[way.arm] = "false"
            continue
        before = own[: own.index(place)]
        led = f"substr(path, {before[-1] + 1}, 1) = 'a'" if before else "is_texted"
        cases[way.arm] = f"({led}) OR substr(path, {place + 1}, 1) <> '-'"
    whens = " ".join(f"WHEN {quote(arm)} THEN {case}" for arm, case in cases.items())
    # An arm that no longer exists is taken for the first one.
    return f"coalesce(CASE arm {whens} ELSE {next(iter(cases.values()))} END, false)"


def begin_touches(engine: Engine) -> None:
    """Make the empty table `touches`."""
    engine.run(_TOUCHES)


def add_touches(engine: Engine, number: int, outline: MessageOutline, names: Collection[str]) -> None:
    """Add the recipients and participants of a message, whose answers are in the table `people`.

    `number` is its place in the campaign, `names` are its ids in the ledger.
    """
    paths = engine.rows("SELECT DISTINCT arm, path FROM people ORDER BY ALL")
    engine.fill(
        "ends",
        {"arm": "VARCHAR", "path": "VARCHAR", "is_complete": "BOOLEAN"},
        [(*path, count_completed(outline, {path: 1}) > 0) for path in paths],
    )
    engine.run(
        _ADD_TOUCHES.format(
            number=number,
            is_survey=bool(outline.questions),
            names=", ".join(map(quote, sorted(names))),
            name=quote(outline.id),
        )
    )


def count_contacts(engine: Engine, number: int) -> ContactTally:
    """Return the recipients of a message in `touches`."""
    rows = engine.rows(_CONTACTS, [number])
    sent, listed, opted_out = (sum(row[place] for row in rows) for place in range(1, 4))
    return ContactTally(sent, listed, opted_out, {arm: count for arm, *_, count in rows if count})


def count_paths(engine: Engine, number: int) -> Paths:
    """Return the participants of a message by arm and path."""
    return {(arm, path): count for arm, path, count in engine.rows(_PATHS, [number])}


def gather_persons(engine: Engine, messages: int, experiment: int | None) -> PeopleTally:
    """Make the table `persons` of `touches`, of so many messages, and count it.

    `experiment` is the place of the message that has arms.
    """
    # Of one message, there is a row for each person already.
    ways = {"kind": "TABLE", **_BY_PERSON} if messages > 1 else {"kind": "VIEW", **_OF_ONE_MESSAGE}
    engine.run(_PERSONS.format(experiment=-1 if experiment is None else experiment, **ways))
    rows = engine.rows(_STATES)
    states = ("texted", "uncertain", "blocked", "queued", "withdrawn", "unresolved")
    counted = {state: sum(row[2] for row in rows if row[0] == state) for state in states}
    dispositions = {name: sum(row[2] for row in rows if row[1] == name) for name in {row[1] for row in rows}}
    answered, completed, opted_out, is_open = (sum(row[number] for row in rows) for number in range(3, 7))
    return PeopleTally(
        **counted,
        sent=sum(counted[state] for state in states[:-1]),
        answered=answered,
        completed=completed,
        opted_out=opted_out,
        open=is_open,
        dispositions={name: count for name, count in dispositions.items() if name is not None},
    )
