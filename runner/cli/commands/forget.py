"""`runner forget`: removal of a person's data, with a lasting block against texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from runner.audience.phone import mask_phone
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.console import print_json, print_prose
from runner.cli.options import LOCK_TIMEOUT, Command, format_option, target_scope
from runner.wording import count_words
from runner.workflow.campaigns import show_path
from runner.workflow.records.forgetting import ForgottenPerson, forget
from runner.workflow.records.phones import parse_phones

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(
    cls=Command,
    epilog="\b\nExamples:\n  runner forget +14155550101\n"
    "  runner forget +14155550101 campaigns/customer-pulse.yaml --target live",
)
@click.argument("phone", metavar="PHONE")
@target_scope
@format_option("human", "json")
@LOCK_TIMEOUT
@APPROVAL
def command(scope: Scope, phone: str, format_: str, lock_timeout: float, auto_approve: bool) -> int:
    """Delete a person's data from the ledger and the lockfiles, and never text them again.

    Deletes their deliveries, their answers, and texts that went to them alone, of all campaigns and targets
    in the ledger. The lockfiles of the campaigns at PATH, and their copies on a state remote, are rewritten
    without them. One keyed entry per target stays, in the ledger and in campaigns/<target>.suppressions.json,
    and one in each of these lockfiles: so no campaign on any machine texts them again, even if a file still
    lists them.

    Finished reports, git's history and the service are out of reach: the output ends with what to do about
    them. `runner optouts remove` lets the person in again, as a newcomer.
    """
    (person,) = parse_phones([phone])
    done = forget(
        scope,
        person,
        lock_timeout,
        lambda: require_approval(
            f"Remove everything on record of {mask_phone(person)}, for good, and never text them again?",
            is_approved=auto_approve,
        ),
    )
    document = _describe(person, done)
    if format_ == "json":
        print_json(document)
    else:
        _write_human(document)
    return int(done.is_behind)


def _describe(phone: str, person: ForgottenPerson) -> dict[str, Any]:
    return {
        "phone": mask_phone(phone),
        "targets": list(person.done.targets),
        "opt_outs": person.done.opt_outs,
        "campaigns": [asdict(one) for one in person.done.campaigns],
        "lockfiles": [show_path(file) for file in person.rewritten],
        "unreached": list(person.unreached),
    }


def _write_human(document: dict[str, Any]) -> None:
    if not document["campaigns"]:
        print_prose(f"Nothing was on record of {document['phone']} except perhaps opt-outs.")
    for one in document["campaigns"]:
        removed = (
            count_words(one["deliveries"], "delivery", "deliveries"),
            count_words(one["results"], "answer"),
            count_words(one["texts"], "text"),
        )
        shared = one["shared_texts"]
        kept = f"; {count_words(shared, 'text')} that others got, too, kept" if shared else ""
        print_prose(f"{one['campaign']} on {one['target']}: {', '.join(removed)} removed{kept}.")
    for file in document["lockfiles"]:
        print_prose(f"{file}: rewritten; commit it.")
    print_prose(f"{document['phone']} is never texted again on {', '.join(document['targets'])}.")
    print_prose("Out of reach:")
    for sentence in document["unreached"]:
        print_prose(f"  - {sentence}")
