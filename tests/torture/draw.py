"""What a scenario is about: a service and a campaign, drawn by its schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.torture.form import MESSAGES, Form
from tests.torture.launcher import API_KEY, USERNAME
from tests.torture.reference import ReferenceTorture
from tests.torture.repository import Audience
from tests.torture.rules import Rules
from tests.torture.sandbox import SandboxService
from tests.torture.service import READ_TIMEOUT_S, Service, Temper

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.torture.launches import CountingService

_LISTS_LATE_S = 0.2


def make_service(seed: int, rng: random.Random, folder: Path) -> CountingService:
    """Return the service of the reference every second time, else the sandbox, or one that is less reliable."""
    if seed % 2:
        return ReferenceTorture(rng, hangs_s=READ_TIMEOUT_S * 1.5, lists_late_s=_LISTS_LATE_S)
    if seed % 4:
        return SandboxService(
            folder / "service.sqlite",
            rng,
            seed=seed,
            username=USERNAME,
            api_key=API_KEY,
            slow_for_s=READ_TIMEOUT_S * 1.5,
            lists_late_s=_LISTS_LATE_S,
        )
    temper = Temper(
        seed,
        send_faults=rng.choice((0.0, 0.3, 0.3, 0.5)),
        list_faults=rng.choice((0.0, 0.1)),
        lists_late_s=_LISTS_LATE_S,
        page_size=rng.randint(3, 12),
        skew_s=rng.uniform(-60, 60),
        odd_lists=rng.choice((0.0, 0.0, 0.15, 0.4)),
    )
    return Service(temper)


def make_audience(rng: random.Random, service: CountingService) -> Audience:
    """Return any campaign that can be sent to a service."""
    messages = tuple(rng.sample(MESSAGES, rng.randint(1, 2)))
    people = list(range(100, 100 + rng.randint(8, 24)))
    knows_answers = isinstance(service, ReferenceTorture) and service.lists_sessions
    form = Form.draw(rng, messages, reads_answers=knows_answers)
    if service.is_ahead:
        # A follow-up to what was adopted waits until that moment has come here, too.
        form.follows = None
    form.rules = Rules.draw(rng, people, form=form, is_read=knows_answers)
    form.dated = messages[-1] if form.rules.cells is not None else ""
    has_one_tag, per_send = rng.random() < 0.5, rng.randint(1, 4)
    return Audience(people, messages, has_one_tag=has_one_tag, per_send=per_send, form=form)
