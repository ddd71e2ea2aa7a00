"""A client that a generator makes of the OpenAPI description alone is whole: it sends, lists, pages and reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.sandbox.model import ServiceAddress

DESCRIPTION = Path(__file__).parents[3] / "schemas" / "service.openapi.yaml"
ADA, BOB = "+14155550101", "+14155550102"

# What every program does: the client is a package beside it, and credentials go out with each request.
CONNECT = """
import json, os
from service_client import Client, models
from service_client.api.results import list_results, show_result
from service_client.api.sends import send
from service_client.api.stats import list_stats, show_stat

credentials = {"username": os.environ["SERVICE_USERNAME"], "api_key": os.environ["SERVICE_KEY"]}
client = Client(
    base_url=os.environ["SERVICE_URL"],
    httpx_args={"params": credentials, "trust_env": False},
    raise_on_unexpected_status=True,
)

def read_pages(read, **filters):
    objects = []
    while True:
        page = read.sync(client=client, limit=2, offset=len(objects), **filters)
        objects += page.objects
        if not page.meta.next_:
            assert page.meta.total_count == len(objects)
            return objects, page.meta
"""
SEND = """
text = send.sync(client=client, body=models.Send(phone=[ADA, BOB], text="Hello", tag="note"))
questions = [
    models.Question(text="Tea or coffee?", tag="drink", responses=["Tea", "Coffee"], conclude_on="Tea"),
    models.Question(text="Why?", tag="why", webhook="my.webhook/listens/here"),
]
body = models.Send(phone=ADA, questions=questions, tag="drinks", introduction="Hi", conclusion="Bye", method="sms")
survey = send.sync(client=client, body=body)
send.sync(client=client, body=models.Send(phone=14155550102, questions=questions[1:], tag="drinks"))
refused = send.sync(client=client, body=models.Send(phone=["x"], text="Hello"))
print(json.dumps([text.project_launch_guid, survey.project_launch_guid, refused.error.problems]))
"""
READ = """
stats, meta = read_pages(list_stats)
results, _ = read_pages(list_results, project_tag="drinks")
asked = stats[1].project_definition.questions
alone = [
    show_stat.sync(stats[1].project_launch_guid.upper(), client=client) == stats[1],
    show_result.sync(results[0].result_guid, client=client) == results[0],
    show_stat.sync("none", client=client).error.code,
]
print(json.dumps({
    "launches": [stat.project_launch_guid for stat in stats],
    "texts": [stat.project_definition.text for stat in stats],
    "questions": [[each.text, each.tag, each.responses or None, each.webhook or None] for each in asked],
    "introduction": stats[1].project_definition.introduction,
    "sessions": [[session.to, session.status.value, session.sub_status] for session in stats[1].sessions],
    "counts": [stats[1].num_questions, stats[1].num_results, stats[1].num_renders],
    "plan": [meta.plan.name, meta.plan.renders.max_, meta.plan.renders.used],
    "totals": [meta.totals.launches, meta.totals.results, meta.totals.question_result_rate],
    "paging": [meta.limit, meta.offset, meta.total_count],
    "answers": [[each.question_display_order, each.question_tag, each.result_response] for each in results],
    "alone": alone,
}))
"""


def run_python(*arguments: str | Path, folder: Path, **settings: str) -> str:
    """Run Python in a folder and return what it prints; no proxy can be used, and no other client found."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def use_client(address: ServiceAddress, tmp_path: Path) -> Callable[[str], Any]:
    """Run a program with a client that was generated without a warning, and return the JSON that it prints."""
    settings = tmp_path / "generator.yaml"
    # Nothing formats the code: that needs a tool which may be missing.
    settings.write_text("post_hooks: []\n", encoding="utf-8")
    run_python(
        "-m", "openapi_python_client", "generate", "--path", DESCRIPTION, "--config", settings,
        "--meta", "none", "--output-path", tmp_path / "service_client", "--fail-on-warning",
        folder=tmp_path,
    )  # fmt: skip

    def run(program: str) -> Any:
        whole = f"{CONNECT}\nADA, BOB = {ADA!r}, {BOB!r}\n{program}"
        environment = {"SERVICE_URL": address.url, "SERVICE_USERNAME": address.username}
        return json.loads(
            run_python("-c", whole, folder=tmp_path, SERVICE_KEY=address.api_key, **environment)
        )

    return run


@pytest.mark.slow
def test_generated_client_is_whole(
    use_client: Callable[[str], Any], reply: Callable[[str, str], None]
) -> None:
    """A generated client sends a text and surveys, pages through stats and results, and reads one of each."""
    text, survey, problems = use_client(SEND)
    assert problems == ["phone[0]: is no phone number of 7 to 15 digits"]
    for phone, words in ((ADA, "2"), (BOB, "It is calm"), (ADA, "It is warm")):
        reply(phone, words)
    read = use_client(READ)
    assert read.pop("launches")[:2] == [text, survey]
    assert read == {
        "texts": ["Hello", "", ""],
        "questions": [
            ["Tea or coffee?", "drink", ["Tea", "Coffee"], None],
            ["Why?", "why", None, "my.webhook/listens/here"],
        ],
        "introduction": "Hi",
        "sessions": [[ADA, "COMPLETE", None]],
        "counts": [2, 2, 4],
        "plan": ["sandbox", 1_000_000, 7],
        "totals": [3, 3, 1.0],
        "paging": [2, 2, 3],
        "answers": [["0", "drink", "Coffee"], ["0", "why", "It is calm"], ["1", "why", "It is warm"]],
        "alone": [True, True, "not_found"],
    }
