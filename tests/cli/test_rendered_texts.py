"""Every text of a campaign comes out of Jinja2, whatever command renders it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jinja2
import pytest
import requests

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jinja2.runtime import Context

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Root = Callable[[Context], Iterator[str]]

PEOPLE = ("Ada", "Bob", "Cy")
YAML = """\
version: 1
vars: {company: Acme}
recipients:
  - csv: people.csv
messages:
  - id: ask
    introduction: "Hi {{ name }}, a word about {{ company }}?"
    questions:
      - tag: how
        text: "How is {{ company }}{% if name == 'Ada' %}, dear {{ name }}{% endif %}?"
        responses: [Good, "{{ company }}?", "Ask {{ company }}"]
        conclude_on: "Ask {{ company }}"
      - {tag: why, text: "Why?"}
    conclusion: "Bye {{ nick | default('you') }}"
  - id: note
    text: "{% set days = 3 %}{{ name }}, {{ days }} days left, {{ '100%' }} of {{ company }}'s people know"
  - id: other
    text: "The same for everyone"
variants:
  seed: one
  of: other
  arms:
    - {id: short, weight: 1, text: "Short, {{ name }}"}
    - {id: long, weight: 1, text: "Longer, {{ name }}, by far"}
policy: {open_session: queue}  # all three are sent in one run
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one campaign: a survey, a text, and an experiment."""
    rows = "".join(f"+1415555010{number},{name},\n" for number, name in enumerate(PEOPLE))
    (tmp_path / "people.csv").write_text(f"phone,name,nick\n{rows}", encoding="utf-8")
    (tmp_path / "pulse.yaml").write_text(YAML, encoding="utf-8")
    return tmp_path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Have Jinja2 swap the case of everything that it renders, and tell whole texts as they should be."""
    rendered: set[str] = set()

    def keep(template: jinja2.Template, root: Root) -> None:
        vars(template)["root_render_func"] = root

    def read(template: jinja2.Template) -> Root:
        root: Root = vars(template)["root_render_func"]

        def render(context: Context) -> Iterator[str]:
            parts = []
            for part in root(context):
                parts.append(part)
                yield part.swapcase()
            rendered.add("".join(parts))

        return render

    monkeypatch.setattr(jinja2.Template, "root_render_func", property(read, keep), raising=False)
    return rendered


def collect_texts(value: Any) -> Iterator[str]:
    """Yield what people read of a definition, or of a conversation."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("text", "introduction", "conclusion", "conclude_on", "responses", "questions"):
                yield from collect_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from collect_texts(item)
    elif value:
        yield value


def list_expected(arms: dict[str, str]) -> list[str]:
    """Return all texts that are sent, by people's arms."""
    texts = []
    for name in PEOPLE:
        dear = ", dear Ada" if name == "Ada" else ""
        texts += [
            f"Hi {name}, a word about Acme?",
            f"How is Acme{dear}?",
            "Good",
            "Acme?",
            "Ask Acme",
            "Ask Acme",
        ]
        texts += ["Why?", "Bye you", f"{name}, 3 days left, 100% of Acme's people know"]
        texts.append(f"Short, {name}" if arms[name] == "short" else f"Longer, {name}, by far")
    return sorted(texts)


def plan(run: Run, folder: Path) -> list[dict[str, Any]]:
    done = run("plan", "pulse.yaml", "--launches", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    launches: list[dict[str, Any]] = json.loads(done.stdout)["campaigns"][0]["launches"]
    return launches


@pytest.fixture
def expected(run: Run, folder: Path) -> list[str]:
    """All texts of the campaign, sorted, as a plan has them with the engine as it is."""
    launches = plan(run, folder)
    arms = {
        name: launch["arm"]
        for launch in launches
        for name in PEOPLE
        if launch["message"] == "other" and name in launch["payload"]["text"]
    }
    texts = list_expected(arms)
    assert sorted(text for launch in launches for text in collect_texts(launch["payload"])) == texts
    return texts


def test_every_text_of_a_plan_is_jinjas(
    run: Run, folder: Path, expected: list[str], engine: set[str]
) -> None:
    """What Jinja2 makes of a text is what each planned launch carries, in each of its texts."""
    planned = [text for launch in plan(run, folder) for text in collect_texts(launch["payload"])]
    assert sorted(planned) == sorted(text.swapcase() for text in expected)
    assert engine >= set(expected)


def test_every_text_that_is_sent_is_jinjas(
    run: Run, serve: Callable[..., Any], folder: Path, expected: list[str], engine: set[str]
) -> None:
    """The service is given what Jinja2 has rendered, and nothing else."""
    with serve(folder, "--db", "service.sqlite") as environment:
        done = run("apply", "pulse.yaml", "--auto-approve", cwd=folder, env=environment)
        assert done.returncode == 0, done.stderr
        credentials = {
            "username": environment["RUNNER_USERNAME"],
            "api_key": environment["RUNNER_API_KEY"],
            "limit": "100",
        }
        listed = requests.get(f"{environment['RUNNER_BASE_URL']}/api/stats/", credentials, timeout=20)
    sent = [text for stat in listed.json()["objects"] for text in collect_texts(stat["project_definition"])]
    assert sorted(sent) == sorted(text.swapcase() for text in expected)
    assert engine >= set(expected)


def test_every_text_of_a_preview_is_jinjas(
    run: Run, folder: Path, expected: list[str], engine: set[str]
) -> None:
    """A conversation shows what Jinja2 has rendered, choices included."""
    shown = set()
    for number in range(len(PEOPLE)):
        phone = f"+1415555010{number}"
        done = run("preview", "pulse.yaml", "--phone", phone, "--format", "json", cwd=folder)
        assert done.returncode == 0, done.stderr
        for message in json.loads(done.stdout)["messages"]:
            for bubble in message["conversation"]:
                lines = bubble["text"].splitlines()
                shown |= {lines[0], *bubble["responses"], *filter(None, [bubble["conclude_on"]])}
    assert shown == {text.swapcase() for text in expected}
    assert engine >= set(expected)


def test_validation_renders_every_text_with_jinja(
    run: Run, folder: Path, expected: list[str], engine: set[str]
) -> None:
    """A campaign is valid once Jinja2 has rendered each of its texts for each of its recipients."""
    done = run("validate", "pulse.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert engine >= set(expected)
