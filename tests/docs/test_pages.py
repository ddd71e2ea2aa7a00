"""README and docs, run as they stand there: files are written, commands run, and what they show is compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from markdown_it import MarkdownIt

from runner.cli.main import COMMANDS
from runner.errors import RunnerError
from runner.sandbox.web.server import running_service
from tests.docs.reference import render_pages
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.postgres import PostgresServer

    Run = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
README = REPOSITORY / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
GENERATED = {"campaign.md", "commands.md", "json.md", "python.md"}
PULSE = """\
version: 1
name: pulse
recipients:
  - phone: "+14155550101"
messages:
  - {id: ask, text: "We are open until nine. Reply STOP to opt out."}
"""
REMOTE = "git@github.com:acme/texts.git"
SERVICE = "https://sms.example.com"
DATABASE = "postgresql://ledger.example.com/campaigns"
RESTORED = "postgresql://ledger.example.com/restored"


class Block(NamedTuple):
    """A block of code: its language, the name of its file if it has one, and its content."""

    language: str
    file: str | None
    content: str


def read_blocks(page: Path) -> list[Block]:
    """Return a page's blocks of code in their order."""
    fences = [
        token for token in MarkdownIt().parse(page.read_text(encoding="utf-8")) if token.type == "fence"
    ]
    blocks = []
    for fence in fences:
        language, _, rest = fence.info.partition(" ")
        title = re.fullmatch(r'title="(.+)"', rest)
        assert title or not rest, fence.info
        blocks.append(Block(language, title[1] if title else None, fence.content))
    return blocks


def iterate_steps(session: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console session, each with the output that is shown."""
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        yield command, output


def has_commands(page: Path) -> bool:
    """Tell whether there is something to run on a page."""
    return page.name not in GENERATED and any(
        block.language == "console" or (block.language == "sh" and block.file is None)
        for block in read_blocks(page)
    )


def name_page(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unhurried_processes: None) -> Path:  # noqa: ARG001  for what it does
    """A repository with a campaign and a remote, on a machine whose git knows who commits."""
    remote, folder, settings = tmp_path / "remote.git", tmp_path / "work", tmp_path / "gitconfig"
    settings.write_text(
        f"[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
        f'[url "{remote}"]\n\tinsteadOf = {REMOTE}\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "1s")
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    folder.mkdir()
    return folder


def write_repository(folder: Path) -> None:
    """Give a page what it takes for granted: a repository with a campaign, pushed."""
    (folder / "campaigns").mkdir()
    (folder / "campaigns/pulse.yaml").write_text(PULSE, encoding="utf-8")
    (folder / ".gitignore").write_text(".runner/\n*.sandbox.lock.json\n", encoding="utf-8")
    script = (
        f"git init --quiet && git add . && git commit --quiet --message Start && git remote add origin {REMOTE}\n"
        "git push --quiet --set-upstream origin main"
    )
    run_script(script, folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [
        # The first page that people follow is looked at by each run of `make test`.
        pytest.param(page, marks=[] if page.name == "README.md" else [pytest.mark.slow])
        for page in PAGES
        if has_commands(page)
    ],
    ids=name_page,
)
def test_what_a_page_shows_is_true(
    page: Path, world: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Its files, commands and outputs, from the first to the last, in one folder."""
    blocks = read_blocks(page)
    words = "".join(block.content for block in blocks)
    databases = {}
    if DATABASE in words:
        server: PostgresServer = request.getfixturevalue("postgres")
        for url, name in ((DATABASE, server.create_ledger()), (RESTORED, server.create_database())):
            # As the database's own programs want it, too.
            databases[url] = server.url(name, scheme="postgresql")
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    if "runner init" not in words and not any(block.file and "campaigns/" in block.file for block in blocks):
        write_repository(world)
        if "runner apply" not in words:
            run_script("runner apply --auto-approve", world)
    with running_service(world.parent / "service.sqlite") as service:
        replaced = {
            **databases,
            SERVICE if page.name == "settings.md" else "\0": service.url,
            "http://127.0.0.1:8025": service.url,
            "=acme ": f"={service.username} ",
            "=secret": f"={service.api_key}",
            "/srv/scratch": str(world.parent / "scratch"),
        }
        folder = world
        for block in blocks:
            content = block.content
            for old, new in replaced.items():
                content = content.replace(old, new)
            if block.file is not None:
                (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.file).write_text(content, encoding="utf-8")
            elif block.language == "sh":
                # What installs is tested in test_wheel.py, which runs the demo of that, too.
                lines = [
                    line for line in content.splitlines() if not re.match(r"pipx? install|runner demo", line)
                ]
                run_script("\n".join(lines), folder)
                folder /= "".join(line.partition(" ")[2] for line in lines if line.startswith("cd "))
            elif block.language == "console":
                run_session(content, folder)


def run_script(script: str, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=folder,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"


def run_session(session: str, folder: Path) -> None:
    """Run a console session: each command must write what is shown below it."""
    for command, output in iterate_steps(session):
        name, *arguments = shlex.split(command)
        assert name == "runner"
        # Notes such as "Wrote …" go to standard error.
        done = subprocess.run([name, *arguments], cwd=folder, check=False, capture_output=True, text=True)
        shown = done.stdout + done.stderr
        assert [line.rstrip() for line in shown.splitlines()] == output.splitlines(), command


def test_pushing_what_init_wrote_is_all_there_is_to_do(world: Path) -> None:
    """The way from an empty folder to the forge ends with the workflows on its main."""
    page = DOCS / "how-to" / "github.md"
    (script,) = [
        block.content for block in read_blocks(page) if block.content.startswith("cd acme-texts\ngit add")
    ]
    (session,) = [block.content for block in read_blocks(page) if block.language == "console"]
    run_session(session, world)
    run_script(script, world)
    listed = ["git", "ls-tree", "-r", "--name-only", "main", ".github/workflows"]
    remote = world.parent / "remote.git"
    pushed = subprocess.run(listed, cwd=remote, check=True, capture_output=True, text=True).stdout.split()
    assert pushed == [".github/workflows/campaigns-review.yml", ".github/workflows/campaigns-send.yml"]


@pytest.mark.parametrize("page", [*render_pages()], ids=lambda page: page.name)
def test_a_generated_page_is_current(page: Path) -> None:
    """`make reference` would write what is there."""
    assert page.read_text(encoding="utf-8") == render_pages()[page], "make reference"


def test_the_commands_of_a_clone_are_targets_of_make() -> None:
    """Each `make TARGET` that README or docs name exists, and `make help` names it."""
    helped = subprocess.run(
        ["make", "help"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    named = {
        name for page in PAGES for name in re.findall(r"`make ([a-z-]+)`", page.read_text(encoding="utf-8"))
    }
    assert {"demo", "test", "docs"} <= named
    for target in named - {"help"}:
        assert f"make {target} " in helped


def test_the_exit_codes_are_those_of_the_program() -> None:
    """Each error's code stands in the table, beside those that are no error's: all, some, or nothing is done."""
    page = (DOCS / "reference/exit-codes.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    errors, waiting = set(), [RunnerError]
    while waiting:
        error = waiting.pop()
        errors.add(error.exit_code)
        waiting += error.__subclasses__()
    assert listed == errors | {0, 2, 3}


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_two_commands_of_a_clone_say_how_to_go_on(target: str) -> None:
    """What they install is not on the terminal's path: their last line puts it there."""
    # As at a terminal, also where these tests are themselves run by make.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", target]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True
    )
    steps = done.stdout.splitlines()
    last = subprocess.run(["sh", "-c", steps[-1]], check=True, capture_output=True, text=True).stdout
    assert last == "\nTo use runner in this terminal: . .venv/bin/activate\n"


def read_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link leads to a file of the repository, and to a heading that it has."""
    for target, _, anchor in re.findall(
        r"\]\((?!https?:)([^)#]*)(#([^)]*))?\)", page.read_text(encoding="utf-8")
    ):
        found = (page.parent / target) if target else page
        assert found.exists(), target
        if anchor:
            assert anchor in read_anchors(found), f"{target}#{anchor}"


def test_the_readme_can_be_read_in_five_minutes() -> None:
    """It has at most nine kilobytes."""
    assert len(README.read_bytes()) <= 9_000


def test_commands_that_are_named_exist() -> None:
    """README and docs name no command that the program doesn't have."""
    for page in PAGES:
        shown = [line for block in read_blocks(page) for line in block.content.splitlines()]
        named = re.findall(r"`runner ([a-z]+)\b", page.read_text(encoding="utf-8"))
        named += [found[1] for line in shown if (found := re.match(r"(?:\$ )?runner ([a-z]+)\b", line))]
        assert set(named) <= COMMANDS.keys(), page
