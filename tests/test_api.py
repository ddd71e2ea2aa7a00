"""The Python API: it does the same as the commands, returns values, and is as careful."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import runner
from runner.errors import (
    CampaignError,
    ConfigurationError,
    LimitError,
    MissingKeyError,
    PlanChangedError,
    RunnerError,
    UsageError,
)
from runner.sandbox.web.server import running_service
from runner.view.html import embed_page
from runner.workflow.observer import Observer, observing
from tests.cli.conftest import PEOPLE, SURVEY
from tests.cli.inside import run_inside
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.api import Project

DOCS = (Path(__file__).parent.parent / "docs/python-api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", DOCS, re.DOTALL | re.MULTILINE)
OTHER = SURVEY.replace("name: pulse", "name: other").replace("pulse-2026", "other-2026")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one campaign of four recipients."""
    (tmp_path / "campaigns/audience").mkdir(parents=True)
    (tmp_path / "campaigns/pulse.yaml").write_text(SURVEY, encoding="utf-8")
    (tmp_path / "campaigns/audience/people.csv").write_text(PEOPLE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project() -> Project:
    """The folder's campaigns, sent to the sandbox."""
    return runner.open("campaigns", target="sandbox")


def say(*command: str) -> dict[str, Any]:
    """Return a command's JSON."""
    done = run_inside(*command, "--format", "json", cwd=Path.cwd())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Ears(Observer):
    """An observer that keeps all it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.left_out: list[str] = []
        self.titles: list[str] = []
        self.steps = 0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def leave_out(self, words: str, error: RunnerError) -> None:
        assert error.message in words
        self.left_out.append(words)

    def advance(self, steps: int) -> None:
        self.steps += steps

    def show_progress(self, title: str, total: int | None) -> nullcontext[Ears]:
        del total
        self.titles.append(title)
        return nullcontext(self)


@pytest.mark.slow
def test_the_whole_loop_prints_nothing(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    """Validate, plan, send, answer, reconcile and report in values, without output."""
    assert project.validate().is_valid
    plan = project.plan()
    assert [(one.campaign.name, one.recipients_to_send) for one in plan] == [("pulse", 4)]
    assert str(plan).startswith("## pulse → sandbox (campaigns/pulse.yaml)\n\n| message | rows |")
    assert f"\n**{plan.summary}**\n" in str(plan)
    assert plan.summary == "To send to sandbox: 4 people now, 8 to 16 segments; 1 excluded, 1 duplicate."
    applied = project.apply(plan)
    assert [(one.name, one.sent, one.recipients_sent) for one in applied] == [("pulse", 4, 4)]
    assert (applied.exit_code, applied.is_interrupted, applied.left_out) == (0, False, ())
    assert not project.resolve()
    assert project.simulate(seed=1, response_rate=1.0).participants == 4
    (reconciled,) = project.reconcile()
    assert reconciled.launches == 4
    report = project.report()
    assert report["pulse"].write().startswith("# pulse")
    (message,) = report.to_dict()["messages"]
    assert message["questions"][0]["nps"]["score"] is not None
    # Of fewer than ten answers a campaign has no score.
    assert (report.score, report["pulse"].score) == (None, None)
    (status,) = project.status()
    assert status.messages[0].answered == 4
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_documents_are_those_of_the_commands(project: Project) -> None:
    """`to_dict` returns the same as `--format json` writes."""
    now = "2026-11-23T18:00:00Z"
    assert project.validate().to_dict() == say("validate")
    plan = project.plan(now=datetime.fromisoformat(now), launches=True)
    assert plan.to_dict() == say("plan", "--now", now, "--launches")
    assert project.preview().to_dict() == say("preview", "campaigns/pulse.yaml")
    applied = project.apply(project.plan(limit=3)).to_dict()
    rest = say("apply", "--auto-approve")
    assert applied.keys() == rest.keys()
    assert [one.keys() for one in applied["campaigns"]] == [one.keys() for one in rest["campaigns"]]
    assert [one["recipients_sent"] for d in (applied, rest) for one in d["campaigns"]] == [3, 1]
    project.simulate()
    assert project.resolve().to_dict() == say("resolve")
    project.reconcile()
    assert project.reconcile(full=True).to_dict() == say("reconcile", "--full")
    assert project.status().to_dict() == say("status")
    assert project.report(by=["first_name"]).to_dict() == say("report", "--by", "first_name")
    assert plan.to_dict()["format_version"] == "1.0"


def test_a_document_is_a_copy(project: Project) -> None:
    """Changes to a plan's document don't change the approved plan."""
    plan = project.plan()
    plan.to_dict()["campaigns"][0]["digests"]["record"] = "0" * 32
    assert [one.sent for one in project.apply(plan)] == [4]


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("campaigns/pulse.yaml", "Thank you!", "Thanks.", "the campaign file has changed"),
        ("campaigns/audience/people.csv", "Bob", "Bo", "audience, template, option or who may be texted"),
    ],
)
def test_a_plan_that_has_changed_is_refused(
    project: Project, file: str, old: str, new: str, words: str
) -> None:
    """A plan whose campaign or audience has changed since is not sent."""
    plan = project.plan()
    text = Path(file).read_text(encoding="utf-8")
    Path(file).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(PlanChangedError, match=words):
        project.apply(plan)
    assert project.plan().planned[0].plan.recipients_to_send == 4


def test_a_plan_is_sent_once(project: Project) -> None:
    """With a record the plan is out of date: sent again, it reaches nobody."""
    plan = project.plan()
    project.apply(plan)
    with pytest.raises(PlanChangedError, match=r"of 20..-..-..T.* is out of date: pulse: something"):
        project.apply(plan)


def test_a_plan_whose_file_is_gone_is_refused(project: Project) -> None:
    """The approved campaign has to be there."""
    plan = project.plan()
    Path("campaigns/pulse.yaml").unlink()
    with pytest.raises(PlanChangedError, match=r"campaigns that are not there: campaigns/pulse\.yaml"):
        project.apply(plan)


def test_another_digest_than_the_approved_one_is_refused(project: Project) -> None:
    """Only a plan with the digest that people approved is sent."""
    plan = project.plan()
    with pytest.raises(PlanChangedError, match="not the one that is expected"):
        project.apply(plan, expect_digest="0" * 32)
    assert project.apply(plan, expect_digest=plan.digest).exit_code == 0


@pytest.mark.slow
def test_a_plan_goes_through_a_file(project: Project) -> None:
    """A plan that the API saves is sent by the command; one that the command saves, by the API."""
    project.plan(only="ask", limit=1, out="plan.json")
    assert run_inside("apply", "--plan", "plan.json", cwd=Path.cwd()).returncode == 0
    assert run_inside("plan", "--limit", "1", "--out", "next.json", cwd=Path.cwd()).returncode == 0
    saved = project.read_plan("next.json")
    assert [one.sent for one in project.apply(saved)] == [1]
    assert [one.recipients_to_send for one in project.plan()] == [2]


def test_a_campaign_that_fails_is_left_out(project: Project) -> None:
    """Of several campaigns the others go on; the result names those that are left out, with reasons."""
    Path("campaigns/other.yaml").write_text(OTHER.replace("first_name }}", "nick_name }}"), encoding="utf-8")
    ears = Ears()
    with observing(ears):
        plan = project.plan()
        applied = project.apply(plan)
    assert [one.campaign.name for one in plan] == ["pulse"]
    ((failure,), (words,)) = (plan.left_out, ears.left_out)
    assert failure.name == "other"
    assert isinstance(failure.error, CampaignError)
    assert failure.error.message in words
    assert [one.sent for one in applied] == [4]


def test_a_missing_report_points_to_what_was_left_out(project: Project) -> None:
    """A report asked for by name is not missing without a reason."""
    project.apply(project.plan())
    Path("campaigns/other.yaml").write_text(OTHER + "nonsense: 1\n", encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        _ = project.report()["other"]
    assert refused.value.message == "there is no report of 'other'"
    assert refused.value.hint == "known: pulse; `left_out` says why others are missing"


def test_a_campaign_alone_raises_its_error(project: Project) -> None:
    """A single campaign has no others that could go on."""
    Path("campaigns/pulse.yaml").write_text(SURVEY + "nonsense: 1\n", encoding="utf-8")
    assert [problem.code for problem in project.validate()] == ["key-unknown"]
    with pytest.raises(CampaignError) as refused:
        project.plan()
    assert refused.value.message == "1 error: nothing was done"


def test_a_plan_beyond_its_limit_is_a_value_and_is_not_sent(project: Project) -> None:
    """It can be looked at; apply refuses it."""
    limits = "limits: {recipients: 2}\n"
    Path("campaigns/pulse.yaml").write_text(SURVEY + limits, encoding="utf-8")
    plan = project.plan()
    assert plan.planned[0].plan.refusals
    with pytest.raises(LimitError, match=r"pulse: .*Nothing was sent"):
        project.apply(plan)


def test_a_plan_of_no_campaign_sends_nothing(folder: Path) -> None:
    """An empty plan must not be taken for one of the default folder."""
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/targets.yaml").write_text("version: 1\ntargets: {}\n", encoding="utf-8")
    project = runner.open("elsewhere", target="sandbox")
    plan = project.plan()
    assert (len(plan), plan.summary) == (0, "Nothing to send.")
    assert project.apply(plan).to_dict() == {"format_version": "1.0", "campaigns": [], "failures": []}


@pytest.mark.slow
def test_the_observer_hears_progress(project: Project) -> None:
    """Notes and progress go to the project's observer, and to no other."""
    ears, other = Ears(), Ears()
    own = runner.open("campaigns", target="sandbox", observer=ears, verbose=True)
    with observing(other):
        own.apply(own.plan())
        own.reconcile()
    assert ears.titles == ["Sending pulse", "Reconciling pulse"]
    assert ears.steps >= 4
    assert "sent: 1 recipient" in ears.notes
    assert (other.notes, other.titles) == ([], [])
    with observing(other):
        project.settle()
        project.reconcile()
    assert other.titles == ["Reconciling pulse"]


def test_the_environment_is_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the process are not read; those of the mapping are, and parameters beat them."""
    monkeypatch.setenv("RUNNER_BASE_URL", "https://sms.example.com")
    monkeypatch.setenv("RUNNER_TARGET", "live")
    monkeypatch.setenv("RUNNER_LEDGER", "sqlite:////nowhere/at/all.sqlite")
    assert runner.open().plan().planned[0].target.name == "sandbox"
    with pytest.raises(ConfigurationError) as refused:
        runner.open(environ=os.environ).reconcile()
    assert refused.value.hint == "set RUNNER_USERNAME and RUNNER_API_KEY"
    given = {"RUNNER_LEDGER": "sqlite:///own.sqlite", "RUNNER_TARGET": "live"}
    project = runner.open(target="sandbox", environ=given)
    project.apply(project.plan())
    assert Path("own.sqlite").is_file()


def test_a_targets_own_key_comes_from_the_mapping(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that only the process has is missing."""
    text = (
        "version: 1\ndefault: ours\ntargets:\n"
        "  ours: {base_url: 'http://127.0.0.1:9', state_key_env: RUNNER_OUR_STATE_KEY}\n"
    )
    (folder / "campaigns/targets.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("RUNNER_OUR_STATE_KEY", STATE_KEY)
    with pytest.raises(MissingKeyError):
        runner.open().plan()
    assert len(runner.open(environ={"RUNNER_OUR_STATE_KEY": STATE_KEY}).plan()) == 1


def test_a_real_service_is_reached_with_the_mappings_credentials(folder: Path) -> None:
    """Address and credentials are read from the mapping, as for the command."""
    with running_service(folder / "service.sqlite") as service:
        environ = {
            "RUNNER_BASE_URL": service.url,
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "RUNNER_SETTLE_WINDOW": "100ms",
        }
        project = runner.open(environ=environ)
        plan = project.plan()
        assert [one.target for one in plan] == ["live"]
        assert [one.sent for one in project.apply(plan)] == [4]
        with pytest.raises(UsageError) as refused:
            project.simulate()
    assert (
        refused.value.message
        == "the target 'live' is no built-in sandbox: its participants are not simulated"
    )


def run_script(text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own in the current folder."""
    Path("script.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "script.py"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


BLOCK = """
import builtins, sys
real = builtins.__import__
def refuse(name, *rest, **named):
    importer = (rest[0] if rest and rest[0] else {}).get("__name__", "")
    if importer.split(".")[0] == "runner" and (name == "click" or name.startswith("runner.cli")):
        raise ImportError(f"{importer} imports {name}")
    return real(name, *rest, **named)
builtins.__import__ = refuse
"""


@pytest.mark.slow
def test_the_loop_runs_without_click() -> None:
    """Ten lines of the docs run on the sandbox; no module of the program asks for Click or the command line.

    The sandbox's web server has a command line of its own, and imports Click for that.
    """
    assert len([line for line in EXAMPLES[0].splitlines() if line and not line.startswith("import")]) <= 10
    done = run_script(f"{BLOCK}{EXAMPLES[0]}\nprint(answers.num_rows, [c.sent for c in result])")
    assert done.stderr == ""
    assert done.stdout.startswith("## pulse → sandbox (campaigns/pulse.yaml)\n")
    assert "\n# pulse\n" in done.stdout
    assert done.stdout.endswith("4 [4]\n")


def test_importing_the_package_is_light() -> None:
    """`import runner` imports nothing else of the program but its version."""
    done = run_script("import runner, sys; print(sorted(m for m in sys.modules if m.startswith('runner')))")
    assert done.stdout == "['runner', 'runner.version']\n"
    with pytest.raises(AttributeError, match="module 'runner' has no attribute 'close'"):
        _ = runner.close


def test_names_can_be_completed_before_they_are_imported() -> None:
    """A notebook offers `runner.open` when nothing of the API has been used."""
    done = run_script("import runner; print({'Project', 'open'} <= {*dir(runner)})")
    assert done.stdout == "True\n"


@pytest.mark.slow
def test_the_loop_runs_on_a_cluster() -> None:
    """Twenty lines of the docs run on two processes, and come to the same as one process does."""
    body = EXAMPLES[1][EXAMPLES[1].index("    project =") : EXAMPLES[1].index("\n\n\nif __name__")]
    assert len(body.splitlines()) <= 20
    done = run_script(EXAMPLES[1])
    assert done.stderr == ""
    assert done.stdout.startswith("pulse 4 0\npulse ")
    assert "\n# pulse\n" in done.stdout


def test_the_other_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The docs' examples of errors, environment and observers run unchanged."""
    names: dict[str, Any] = {"runner": runner, "project": runner.open()}
    for example in EXAMPLES[2:]:
        exec(compile(example, "docs/python-api.md", "exec"), names)  # noqa: S102  our own examples
    assert [one.sent for one in names["result"]] == [4]
    assert names["project"].observer.note("") is None
    assert capsys.readouterr().out == ""


def test_nothing_is_sent_without_a_plan(project: Project) -> None:
    """`apply` refuses what is no plan, None above all, and records nothing."""
    for given, name in ((None, "NoneType"), ("plan.json", "str"), ([], "list")):
        with pytest.raises(UsageError) as refused:
            project.apply(given)  # type: ignore[arg-type]
        assert refused.value.message == f"`apply` takes a plan, not {name}"
    assert [one.recipients_to_send for one in project.plan()] == [4]


def test_an_empty_list_of_campaigns_is_not_all_of_them() -> None:
    """A project of no campaign is refused: without paths a command means the whole folder."""
    with pytest.raises(UsageError) as refused:
        runner.open([])
    assert refused.value.message == "no campaign is named"


def test_a_number_that_commands_refuse_is_refused(project: Project) -> None:
    """Limits of numbers are those of the command line."""
    plan = project.plan()
    mistakes: dict[str, Callable[[], object]] = {
        "`limit` must be at least 1, not -1": lambda: project.plan(limit=-1),
        "`concurrency` must be from 1 to 1024, not 0": lambda: project.apply(plan, concurrency=0),
        "`concurrency` must be from 1 to 1024, not 1025": lambda: project.apply(plan, concurrency=1025),
        "`settle_window_s` must be at least 0, not -1": lambda: project.apply(plan, settle_window_s=-1),
        "`settle_window_s` must be at least 0, not nan": lambda: project.settle(settle_window_s=float("nan")),
        "`lock_timeout_s` must be at least 0, not -1": lambda: project.apply(plan, lock_timeout_s=-1),
        "`min_group` must be at least 1, not 0": lambda: project.report(min_group=0),
        "`response_rate` must be from 0 to 1, not 60": lambda: project.simulate(response_rate=60),
    }
    for message, call in mistakes.items():
        with pytest.raises(UsageError) as refused:
            call()
        assert refused.value.message == message
    assert [one.sent for one in project.apply(plan)] == [4]


@pytest.mark.slow
def test_one_name_stands_for_a_list_of_one(project: Project) -> None:
    """A text is one column or one folder, not a list of letters."""
    assert runner.open(allowed="shared").scope.allowed == (Path("shared"),)
    project.apply(project.plan())
    assert project.report(by="first_name").to_dict() == project.report(by=["first_name"]).to_dict()


@pytest.mark.slow
def test_logged_values_show_no_phone(project: Project) -> None:
    """The `repr` of results, which schedulers log, has no phone of campaign file, audience or preview."""
    plan = project.plan(launches=True)
    values = [plan, *plan, project.preview(), project.apply(plan), project.status(), project.reconcile()]
    assert not [value for value in values if "415555" in repr(value)]


@pytest.mark.slow
def test_what_notebooks_show_is_escaped(project: Project) -> None:
    """Texts of campaigns and people are no markup in the notebook's page."""
    text = SURVEY.replace("id: ask", 'id: "ask"').replace("tag: reason", 'tag: "<script>"')
    Path("campaigns/pulse.yaml").write_text(text, encoding="utf-8")
    html = project.plan()._repr_html_()
    assert "<h2><bdi>pulse → sandbox" in html
    project.apply(project.plan())
    project.simulate(response_rate=1.0)
    project.reconcile()
    assert (
        '<bdi>pulse</bdi></th><td data-name="message"><bdi>ask</bdi></td>' in project.status()._repr_html_()
    )
    shown = (project.preview(), project.status(), project.report())
    assert [str(one).splitlines()[0] for one in shown] == [
        "**pulse, worst cases first**",
        "**Target: sandbox**",
        "# pulse",
    ]
    page = project.report()._repr_html_()
    assert page.count("<iframe sandbox ") == 1
    assert "<script>" not in page
    assert embed_page('<p class="x">').endswith('srcdoc="&lt;p class=&quot;x&quot;&gt;"></iframe>')


@pytest.mark.slow
def test_answers_are_tables(project: Project) -> None:
    """A row a person asked; phones are included only on request."""
    project.apply(project.plan())
    project.simulate(response_rate=1.0)
    project.reconcile()
    frame = project.answers()
    assert len(frame) == 4
    assert "participant_phone_number" not in frame.columns
    table = project.answers("pulse", library="arrow", include_pii=True)
    assert "+14155550101" in table.column("participant_phone_number").to_pylist()
    results = project.answers("campaigns/pulse.yaml", shape="results", library="arrow")
    assert results.num_rows == sum(one.results for one in project.reconcile())


def test_a_missing_library_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data frames are optional; the error names the missing package."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError) as refused:
        project.answers()
    assert refused.value.message == "answers as a table need pandas, which is not installed"
    assert refused.value.hint == "pip install pyarrow pandas"
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigurationError) as refused:
        project.answers(library="arrow")
    assert refused.value.hint == "pip install pyarrow"


@pytest.mark.slow
def test_what_cannot_be_is_refused_in_words(project: Project) -> None:
    """Mistakes of the caller are UsageErrors that list the possible values."""
    Path("campaigns/other.yaml").write_text(OTHER, encoding="utf-8")
    mistakes: dict[str, Callable[[], object]] = {
        "there are several campaigns": project.preview,
        "there is no campaign 'puls'": lambda: project.answers("puls"),
        "there are no answers as 'polars'": lambda: project.answers("pulse", library="polars"),
        "there is no table 'rows'": lambda: project.answers("pulse", shape="rows"),  # type: ignore[arg-type]
        "there is no report of 'puls'": lambda: project.report()["puls"],
        "there is no report as 'pdf'": lambda: project.report()["pulse"].write("pdf"),
        "there are 2 reports: each has a document of its own": lambda: project.report().to_dict(),
        "`now` has no offset from UTC": lambda: project.plan(now=datetime(2026, 11, 23)),  # noqa: DTZ001
        "the plan cannot be saved to campaigns: it is a folder": lambda: project.plan(out="campaigns"),
        "--adopt and --not-sent contradict each other": lambda: project.resolve(adopt="x", not_sent=True),
    }
    for message, call in mistakes.items():
        with pytest.raises(UsageError) as refused:
            call()
        assert refused.value.message == message
    settled = runner.open(environ={"RUNNER_SETTLE_WINDOW": "soon"})
    with pytest.raises(UsageError) as refused:
        settled.settle()
    assert refused.value.message == "RUNNER_SETTLE_WINDOW: 'soon' is not a duration"
