"""Rollouts: nested shares of the audience, texted one step after the other, and the guards that stop them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from runner.source.quantity import write_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.campaign.message_model import Message
    from runner.campaign.model import Rollout, RolloutStep
    from runner.source.diagnostic import Diagnostic


def find_rollout_problems(
    rollout: Rollout, former: Sequence[str], messages: Iterable[Message]
) -> Iterator[Diagnostic]:
    """Yield the problems of a rollout; `former` are the campaign's former names."""
    for message in messages:
        if message.when is not None:
            yield rollout.position.problem(
                "rollout-when",
                f"`{message.id}` goes to each person at a time of their own (`when`): no step would end",
                "take the rollout out, or put the message into a campaign of its own",
            )
    if former and not rollout.is_seeded:
        yield rollout.position.problem(
            "rollout-seed",
            "the steps are drawn from the campaign's name, which has changed: others would be in each step",
            f"write `seed: {former[-1]}` to keep everybody in their step, or another seed to draw anew",
        )
    yield from _find_step_problems(rollout.steps)
    for guard in rollout.guards:
        if not 0 < guard.limit < 1:
            words = f"`{guard.name}` is {write_share(guard.limit)}, which stops "
            words += "everything" if not guard.limit else "nothing"
            yield guard.position.problem("rollout-guard-limit", words, "write a share such as 2%")
        elif len(rollout.steps) == 1:
            words = f"`{guard.name}` is judged before the next step opens, and there is only one step"
            hint = "add a smaller step before it, as in {share: 10%, hold: 1d}"
            yield guard.position.problem("rollout-guard-idle", words, hint)


def _find_step_problems(steps: Sequence[RolloutStep]) -> Iterator[Diagnostic]:
    for before, step in pairwise(steps):
        if step.share <= before.share:
            yield step.position.problem(
                "rollout-shares",
                f"steps grow, and {write_share(step.share)} is not more than {write_share(before.share)}",
                "each share counts the people of the steps before it, too: write a larger one",
            )
        if before.hold is None:
            yield before.position.problem(
                "rollout-hold-missing",
                f"the step of {write_share(before.share)} does not say how long it is watched",
                "add the time in which people may opt out, as in {share: 1%, hold: 2h}",
            )
    last = steps[-1]
    if not steps[0].share > 0 or last.share > 1:
        step = last if last.share > 1 else steps[0]
        words = f"{write_share(step.share)} is no share of the audience"
        yield step.position.problem("rollout-shares", words, "write shares above 0% and up to 100%")
    elif last.share < 1:
        yield last.position.problem(
            "rollout-part",
            f"the last step is {write_share(last.share)}: the others are never texted",
            "add `{share: 100%}` for everybody; to text a part of the audience only, use `sample`",
            "warning",
        )
    if last.hold is not None:
        words = "the `hold` of the last step changes nothing: no step comes after it"
        yield last.position.problem("rollout-hold-last", words, "take it out", "warning")
