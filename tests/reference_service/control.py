"""The service as a process of its own, told what to do over its standard input.

Each line is a JSON object: `do` names one of `ORDERS`, the rest are its arguments. Each is answered by a line of
standard output: `{"ok": value}` or `{"error": words}`. The service ends when its standard input does, so that
it never outlives the process that started it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from tests.reference_service.service import ReferenceService
from tests.reference_service.store import NoSessionError
from tests.reference_service.switches import Switches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROOT = Path(__file__).parents[2]


def _list_accepted(service: ReferenceService) -> list[dict[str, Any]]:
    return [
        {
            "guid": sent.guid,
            "phones": list(sent.phones),
            "definition": sent.definition,
            "at": sent.at.isoformat(),
            "monotonic": sent.monotonic,
        }
        for sent in service.accepted
    ]


def _answer(service: ReferenceService, phone: str, text: str) -> str | None:
    result = service.answer(phone, text)
    return result.guid if result else None


def _list_replies(service: ReferenceService) -> list[tuple[str, str, str, str]]:
    with service.store.lock:
        return [
            (one.session.participant.phone, one.launch.sent.guid, one.question["tag"], one.response)
            for one in service.store.results
        ]


def _list_completed(service: ReferenceService) -> list[str]:
    with service.store.lock:
        sessions = [
            session for launch in service.store.launches if launch.asked for session in launch.sessions
        ]
        return sorted({one.participant.phone for one in sessions if one.status == "COMPLETE"})


def _edit_answer(service: ReferenceService, guid: str, phone: str, response: str) -> None:
    """Change somebody's first answer to a launch, as a person at the service can."""
    with service.store.lock:
        for number, one in enumerate(service.store.results):
            if (one.launch.sent.guid, one.session.participant.phone, one.place) == (guid, phone, 0):
                code = (
                    str(one.question["responses"].index(response) + 1)
                    if one.answer != one.response
                    else response
                )
                service.store.results[number] = replace(one, answer=code, response=response)


def _switch(service: ReferenceService, values: list[str]) -> None:
    service.switches = Switches.parse(values, service.switches)


def _accept(service: ReferenceService, body: dict[str, Any]) -> str:
    return service.accept(body).sent.guid


ORDERS: dict[str, Callable[..., Any]] = {
    "accepted": _list_accepted,
    "faults": lambda service: dict(service.faults),
    "strays": lambda service: service.strays,
    "answer": _answer,
    "replies": _list_replies,
    "completed": _list_completed,
    "edit_answer": _edit_answer,
    "accept": _accept,
    "switch": _switch,
    "plan_faults": lambda service, names: service.plan_faults(names),
    "calm": ReferenceService.calm,
    "come_to_rest": ReferenceService.come_to_rest,
    "shut": ReferenceService.shut,
    "open": ReferenceService.open,
}
"""Everything that a service can be told."""


def obey(service: ReferenceService, orders: Iterable[str], out: IO[str]) -> None:
    """Do what each line says, until there are no more."""
    for line in orders:
        order = json.loads(line)
        try:
            answer = {"ok": ORDERS[order.pop("do")](service, **order)}
        except (LookupError, TypeError, ValueError) as error:
            words = "has no active session" if isinstance(error, NoSessionError) else "cannot be done"
            answer = {"error": f"{words}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


class ReferenceProcess:
    """The service as a process.

    Args:
        switches: as `name=value`.

    Attributes:
        url: the base URL.
    """

    def __init__(self, *switches: str) -> None:
        options = [text for switch in switches for text in ("--switch", switch)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reference_service", "--control", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        assert self._process.stdout is not None
        self.url = dict(self._process.stdout.readline().strip().split(": ", 1) for _ in range(3))["url"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def tell(self, do: str, **arguments: Any) -> Any:
        """Give one of `ORDERS`, and return what comes of it.

        Raises:
            ValueError: it cannot be done.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["ok"]
