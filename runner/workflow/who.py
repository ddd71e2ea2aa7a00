"""Everything about one person on a target: texts, answers, opt-outs, and what comes next."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from runner.audience.phone import mask_phone
from runner.audience.renumbering import list_forms
from runner.document import Document, Moment, Part, build
from runner.ledger.files.suppressions import Source, State
from runner.ledger.model import find_wave, format_moment, parse_moment
from runner.ledger.people.history import read_answers, read_texts
from runner.ledger.people.opt_outs import iterate_opt_outs
from runner.reasons import Disposition
from runner.workflow.campaigns import DEFAULT_FOLDER, show_path
from runner.workflow.failures import Failures
from runner.workflow.observer import hushing
from runner.workflow.plans.names import plan_on_record
from runner.workflow.records.phones import read_phones
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.plan.decisions import Decision
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope


class ReceivedText(Part, frozen=True):
    """A message that the person got, or may have got.

    Attributes:
        message: the message's id.
        wave: the wave that it was of; empty if it was of none.
        arm: of an experiment's message; null if it has no arms.
        is_certain: false if it is not known whether the service accepted it.
        at: when the service accepted it, or else when it was tried.
        project_launch_guid: the launch at the service; null if not known.
        texts: what was sent: the text, or introduction, questions and conclusion; null if this ledger does
            not have it.
        session: the state of their session as last reconciled; null if it was not.
    """

    message: str
    wave: str
    arm: str | None
    is_certain: bool
    at: Moment
    project_launch_guid: str | None
    texts: tuple[str, ...] | None
    session: str | None


class GivenAnswer(Part, frozen=True):
    """An answer of the person, as last reconciled.

    Attributes:
        message: the message's id.
        wave: the wave that it was of; empty if it was of none.
        question_tag: the question's tag; empty if the service gave none.
        question_text: the question.
        answer: the response, or the words of a freeform answer.
        created: the service's time of it: UTC, ISO 8601, or as the service wrote it if that is no time.
    """

    message: str
    wave: str
    question_tag: str
    question_text: str
    answer: str
    created: str


class NextText(Part, frozen=True):
    """The decision on a message that the person does not have.

    Attributes:
        message: the message's id.
        disposition: `to_send` if the next `apply` sends it, else the reason why not.
        due: the moment at which it will be sent, or before which it will not; null if that is open.
        reasons: more on the decision, in words.
    """

    message: str
    disposition: Disposition
    due: Moment | None
    reasons: tuple[str, ...]


class PersonCampaign(Part, frozen=True):
    """A campaign's texts to the person, and their answers.

    Attributes:
        name: the campaign's name.
        file: the campaign file; null if it is gone, or was not asked for.
        is_recipient: whether they are in its audience now; null if that could not be found out.
        received: what they got, the earliest first.
        answers: what they answered, the earliest first.
        next: one entry for each message that they do not have, in the file's order.
    """

    name: str
    file: str | None
    is_recipient: bool | None
    received: tuple[ReceivedText, ...]
    answers: tuple[GivenAnswer, ...]
    next: tuple[NextText, ...]


class OptOutEvidence(Part, frozen=True):
    """A piece of evidence that the person opted out.

    Attributes:
        source: where it comes from: a reply that reconciling found, a reply to a launch of which they are
            one recipient, an imported list, a person's word, or that their data was removed.
        state: `confirmed` counts; `doubtful` waits for a decision, and counts until then; `dismissed` does
            not count.
        at: when it was entered or last decided.
    """

    source: Source
    state: State
    at: Moment


class PersonDocument(Document, frozen=True):
    """The document that `runner who --format json` writes.

    Attributes:
        phone: masked.
        target: the target's name.
        is_complete: false if a campaign could not be planned: what it sends them next is not known.
        opted_out: whether no campaign on the target may text them.
        opt_outs: the evidence, the earliest first.
        campaigns: those that have something of them, or have them in their audience.
    """

    phone: str
    target: str
    is_complete: bool
    opted_out: bool
    opt_outs: tuple[OptOutEvidence, ...]
    campaigns: tuple[PersonCampaign, ...]


def find_person(
    scope: Scope, written: str, region: str | None = None, failures: Failures | None = None
) -> PersonDocument:
    """Return what is on record of a person on a target, and what its campaigns send them next.

    `written` is their phone, in E.164 form or that of `region` (ISO 3166-1 alpha-2); without one, of the
    regions of the campaigns' recipients. Reads only, and calls no service. What keeps campaigns from being
    planned goes to tolerant `failures`.
    """
    workspace = Workspace.open_known(scope)
    has_campaigns = bool(scope.paths) or DEFAULT_FOLDER.exists()
    (phone,) = read_phones(scope, [written], region)
    forms = list_forms(phone)
    fingerprints = [workspace.key.fingerprint(form) for form in forms]
    failures = failures or Failures(is_tolerant=True)
    with workspace.open_ledger_for_reading() as ledger:
        # What is on record of a person does not hang on a campaign's file.
        with hushing():
            planned = plan_on_record(workspace, scope, ledger, failures, forms) if has_campaigns else []
        with ledger.reading() as connection:
            target = workspace.target.name
            opt_outs = sorted(
                iterate_opt_outs(connection, target, people=fingerprints), key=attrgetter("at", "evidence")
            )
            texts = read_texts(connection, target, fingerprints)
            answers = read_answers(connection, target, fingerprints)
    campaigns = _join([_describe_planned(item) for item in planned], texts, answers)
    return PersonDocument(
        phone=mask_phone(phone),
        target=target,
        is_complete=not failures.found,
        opted_out=any(one.state != "dismissed" for one in opt_outs),
        opt_outs=tuple(OptOutEvidence(one.source, one.state, one.at) for one in opt_outs),
        campaigns=tuple(one for one in campaigns if one.received or one.answers or one.is_recipient),
    )


def _join(
    planned: Sequence[PersonCampaign], texts: Sequence[Any], answers: Sequence[Any]
) -> Iterator[PersonCampaign]:
    """Yield campaigns with what is on record of the person, those that are not planned last."""
    known = {one.name: one for one in planned}
    names = dict.fromkeys([*known, *(one.campaign for one in texts), *(one.campaign for one in answers)])
    for name in names:
        yield known.get(name, PersonCampaign(name, None, None, (), (), ())).replace(
            received=tuple(_describe_text(text) for text in texts if text.campaign == name),
            answers=tuple(_describe_answer(each) for each in answers if each.campaign == name),
        )


def _describe_planned(item: PlanResult) -> PersonCampaign:
    decisions = item.planner.watched if item.planner is not None else {}
    missing = [one for one in decisions.items() if one[1].disposition != "already_sent"]
    next_texts = tuple(_describe_decision(*one) for one in missing)
    return PersonCampaign(
        item.campaign.name, show_path(item.campaign.file), bool(decisions), (), (), next_texts
    )


def _describe_decision(message: str, decision: Decision) -> NextText:
    due = decision.due[0] if decision.due is not None else decision.earliest
    return NextText(
        message, decision.disposition, None if due is None else format_moment(due), decision.reasons
    )


def _describe_text(text: Any) -> ReceivedText:
    texts = None if text.definition is None else tuple(_list_texts(json.loads(text.definition)))
    return build(ReceivedText, text, wave=find_wave(text.occasion), texts=texts)


def _describe_answer(answer: Any) -> GivenAnswer:
    moment = parse_moment(answer.created)
    created = format_moment(moment) if moment else answer.created
    return build(GivenAnswer, answer, wave=find_wave(answer.occasion), created=created)


def _list_texts(definition: dict[str, Any]) -> Iterable[str]:
    """Yield the texts of a send body in the order in which they arrive."""
    questions = [one["text"] for one in definition.get("questions") or ()]
    texts = (definition.get("text"), definition.get("introduction"), *questions, definition.get("conclusion"))
    return (text for text in texts if text)
