"""Plans by partitions: whatever one process finds, they find, and nothing else."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.cluster import audience_scatter
from runner.cluster.audience_scatter import choose_partitions
from runner.cluster.campaign_plan import plan_on_cluster, read_launches
from runner.cluster.folder import PlanJob, SharedFolder
from runner.ledger.model import RecordedDeliveries, on_occasion
from runner.plan.digest import SHARDS, partition_of, shard_of
from runner.plan.limits.cost import list_countries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems
from runner.source.money import Prices
from tests.cluster.in_process import InProcess
from tests.plan.worlds import KEY, NOON, WORLDS, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.campaign.model import Campaign
    from runner.execution import Executor
    from runner.plan.model import CampaignPlan, PlannedLaunch


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the rows of a source scattered to several files."""
    monkeypatch.setattr(audience_scatter, "_FILE_ROWS", 64)


QUICK = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def read_problems(problems: Problems) -> tuple[Any, ...]:
    counts = problems.error_count, problems.warning_count, problems.note_count
    return list(problems), problems.omitted(), counts


def list_deliveries(planned: Iterator[PlannedLaunch]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return what everyone gets, by message and phone."""
    return {
        (launch.message.id, phone): (
            launch.payload.digest,
            launch.payload.definition,
            launch.arm,
            launch.until,
        )
        for launch in planned
        for phone in launch.phones
    }


def plan_in_partitions(
    workers: Executor, request: Callable[..., PlanJob], folder: Path, problems: Problems
) -> CampaignPlan | None:
    whole = request(choose_partitions([request(1).campaign]))
    folder.mkdir(exist_ok=True)
    return plan_on_cluster(workers, SharedFolder(str(folder)), whole, problems)


def require_equal(
    planner: Planner,
    request: Callable[..., PlanJob],
    folder: Path,
    *,
    workers: Executor | None = None,
) -> None:
    """Require that partitions come to the plan of one process, its launches and its problems."""
    expected, found = Problems(), Problems()
    plan = planner.make_plan(expected)
    made = plan_in_partitions(workers or InProcess(), request, folder, found)
    assert read_problems(found) == read_problems(expected)
    if plan is None:
        assert made is None
        return
    assert made is not None
    assert made.digest == plan.digest
    assert made.refusals == plan.refusals
    assert made.recipients_to_send == plan.recipients_to_send
    assert made.recipients_later == plan.recipients_later
    for theirs, ours in zip(made.messages, plan.messages, strict=True):
        assert theirs.launches >= ours.launches
        assert theirs.replace(launches=ours.launches) == ours
    launches = read_launches(made.parts)
    assert list_deliveries(launches) == list_deliveries(planner.iterate_launches())


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.slow
@given(world=WORLDS)
@settings(max_examples=12, suppress_health_check=QUICK, deadline=None)
def test_partitions_plan_what_one_process_plans(world: World, campaign: Callable[..., Campaign]) -> None:
    """In every situation that a plan tells apart, the same people get the same for the same reasons."""
    # No other campaign of the run: those are told by files.
    alone = tuple(replace(one, planned=0) for one in world.people)
    world = replace(world, people=alone, limit=None)
    loaded, planner = world.load(campaign), world.plan(campaign)
    options, context = PlanOptions(), replace(world.context(), planned=())
    with scratch() as folder:

        def request(partitions: int) -> PlanJob:
            known = world.list_known()
            return PlanJob(loaded, "sandbox", options, context, partitions, known, KEY, keeps_launches=True)

        require_equal(planner, request, folder)


BAD_ROWS = """\
phone,name,tz,source
+14155550101,Ada,,shop
12,Bo,,shop
+14155550101,Twice,,shop
+14155550102,,,shop
+14155550103,Cy,Mars/Base,shop
4.15556E+10,Di,,shop
"""
LACKING = """\
version: 1
name: lacking
vars: {{shop: Corner}}
recipients:
  - {{phone: "+14155550100", vars: {{name: Zoe, seats: 3}}}}
  - {{phone: "+14155550199", vars: {{}}}}
  - csv: people.csv
    timezone_column: tz
  - csv: more.csv
exclude:
  - csv: out.csv
messages:
  - id: hello
    text: Hi {{{{ name }}}} of {{{{ shop }}}}{more}
policy: {{timezone_unknown: campaign}}
schedule: {{timezone: America/New_York}}
"""


def make_rows(count: int) -> str:
    """Return a table in which every third name is blank, and every fifth phone is mentioned twice."""
    numbers = [number - 1 if number % 5 == 0 else number for number in range(count)]
    names = ["" if number % 3 == 0 else f"Name{number}" for number in range(count)]
    rows = (f"+1415555{number % 10000:04},{name}" for number, name in zip(numbers, names, strict=True))
    return "phone,name\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    "more",
    ["", ", {{ plan }}", "{{ 1 // (name | length - 3) }}", "{% include 'sign.txt' %}"],
    ids=["blank", "unknown", "failing", "included"],
)
def test_partitions_find_the_problems_of_one_process(
    more: str, campaign: Callable[..., Campaign], tmp_path: Path
) -> None:
    """Problems come by line, the first twenty of a kind, what is said once is said once, all are counted."""
    (tmp_path / "sign.txt").write_text(", yours {{ name }}", encoding="utf-8")
    tables = {"people": BAD_ROWS, "more": make_rows(200), "out": "phone\n+14155550102\nnobody\n"}
    loaded = campaign(LACKING.format(more=more), **tables)
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext())

    def request(partitions: int) -> PlanJob:
        return PlanJob(loaded, "sandbox", PlanOptions(), PlanContext(NOON), partitions, keeps_launches=True)

    require_equal(planner, request, tmp_path / "scratch")


CONSENT = """\
version: 1
name: agreed
recipients:
  - {phone: "+14155550101", consent: {source: form}}
  - {phone: "+14155550102"}
  - csv: people.csv
    consent: {source_column: source, date_column: day}
  - csv: plain.csv
  - csv: more.csv
    consent: {source_column: source}
  - {phone: "+14155550103", consent: {source: "no"}}
policy: {consent: required}
messages: [{id: hello, text: Hi}]
"""
FEW_PHONES = st.integers(101, 125).map(lambda number: f"+14155550{number}")
SOURCES = st.sampled_from(("web", "", "no", "shop"))
DAYS = st.sampled_from(("2026-03-01", "2026-04-01", "", "2999-01-01"))


@given(
    people=st.lists(st.tuples(FEW_PHONES, SOURCES, DAYS), max_size=80),
    plain=st.lists(FEW_PHONES, max_size=10),
    more=st.lists(st.tuples(FEW_PHONES, SOURCES), max_size=40),
)
@settings(max_examples=12, suppress_health_check=QUICK, deadline=None)
def test_partitions_take_the_consent_of_the_last_rows(
    people: list[tuple[str, str, str]],
    plain: list[str],
    more: list[tuple[str, str]],
    campaign: Callable[..., Campaign],
) -> None:
    """Rows that contradict each other give the plan, the reasons and the notes that one process gives."""
    loaded = campaign(
        CONSENT,
        people="phone,source,day\n" + "".join(f"{','.join(row)}\n" for row in people),
        plain="phone\n" + "".join(f"{phone}\n" for phone in plain),
        more="phone,source\n" + "".join(f"{','.join(row)}\n" for row in more),
    )
    options = PlanOptions()
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, options, PlanContext(NOON))
    with scratch() as folder:

        def request(partitions: int) -> PlanJob:
            return PlanJob(loaded, "sandbox", options, PlanContext(NOON), partitions, keeps_launches=True)

        require_equal(planner, request, folder)


DATES = """\
version: 1
name: visits
recipients:
  - {phone: "+14155550101", vars: {visit: "2026-11-21T10:00"}}
  - csv: people.csv
messages:
  - {id: remind, when: {column: visit, before: 24h}, text: "Hi {{ name | default('you') }}"}
  - {id: thanks, after: {message: remind, wait: 1d}, text: Thanks}
schedule: {send_between: ["09:00", "20:00"]}
"""
CELLS = st.sampled_from(("", "2026-11-21T10:00", "2026-11-21 10:00:00", "2026-11-22", "2026-11-01", "3/4/26"))


@given(
    people=st.lists(st.tuples(FEW_PHONES, CELLS, st.sampled_from(("", "Ada"))), max_size=60),
    texted=st.sets(st.tuples(FEW_PHONES, CELLS.filter(lambda cell: "T" in cell)), max_size=20),
)
@settings(max_examples=12, suppress_health_check=QUICK, deadline=None)
def test_partitions_know_the_dates_of_all_rows(
    people: list[tuple[str, str, str]], texted: set[tuple[str, str]], campaign: Callable[..., Campaign]
) -> None:
    """A phone with several dates gets what comes next, with the warnings and launches of one process."""
    loaded = campaign(DATES, people="phone,visit,name\n" + "".join(f"{','.join(row)}\n" for row in people))
    options, context = PlanOptions(), PlanContext(NOON)
    sent = {on_occasion(KEY.fingerprint(phone), KEY.name_occasion(cell)) for phone, cell in texted}
    known = RecordedDeliveries({"remind": sent}, {})
    planner = Planner(loaded, "sandbox", known, KEY, options, context)
    with scratch() as folder:

        def request(partitions: int) -> PlanJob:
            return PlanJob(loaded, "sandbox", options, context, partitions, known, KEY, keeps_launches=True)

        require_equal(planner, request, folder)


LANGUAGES = """\
version: 1
name: several
languages: {default: en, known: [en, es, ar]}
recipients:
  - {phone: "+14155550100", language: ar}
  - {csv: people.csv, language_column: lang, invalid_rows: skip}
variants: {seed: a, of: hello, arms: [{id: x}, {id: y, text: {en: "Hey", es: "Hola, {{ name }}", ar: "أهلا"}}]}
messages:
  - {id: hello, text: {en: "Hi {{ name | default('you') }}", es: "Hola", ar: "مرحبا"}}
"""


def test_partitions_know_people_s_languages(campaign: Callable[..., Campaign], tmp_path: Path) -> None:
    """Texts, counts by language, and rows of unknown languages are those of one process."""
    rows = "".join(
        f"+1415555{number:04},{('en', 'ES', 'ar', '', 'fr')[number % 5]},N{number}\n"
        for number in range(200, 400)
    )
    loaded = campaign(LANGUAGES, people=f"phone,lang,name\n{rows}")
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext())

    def request(partitions: int) -> PlanJob:
        return PlanJob(loaded, "sandbox", PlanOptions(), PlanContext(NOON), partitions, keeps_launches=True)

    require_equal(planner, request, tmp_path / "scratch")
    plan = planner.make_plan(Problems())
    assert plan is not None
    counted = {one.language: one.recipients for one in plan.messages[0].languages}
    assert counted == {"en": 80, "es": 40, "ar": 41}


SEVERAL_COUNTRIES = """\
version: 1
name: abroad
recipients: [{csv: people.csv}]
messages: [{id: hello, text: Hello}]
"""


def test_launches_are_of_one_country_where_there_are_prices(
    campaign: Callable[..., Campaign], tmp_path: Path
) -> None:
    """Equal texts to two countries go in launches of their own, from one process and from partitions."""
    rows = "".join(f"+1415555{number:04}\n+49151123{number:05}\n" for number in range(100, 180))
    loaded = campaign(SEVERAL_COUNTRIES, people=f"phone\n{rows}")
    countries = {"US": "0.01", "DE": "0.11"}
    prices = Prices.read({"currency": "USD", "as_of": "2026-11-01", "countries": countries})
    options, context = PlanOptions(prices=prices), PlanContext(NOON)
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, options, context)

    def request(partitions: int) -> PlanJob:
        return PlanJob(loaded, "sandbox", options, context, partitions, keeps_launches=True)

    require_equal(planner, request, tmp_path / "scratch")
    made = plan_in_partitions(InProcess(), request, tmp_path / "again", Problems())
    assert made is not None
    assert [list_countries(one.phones) for one in planner.iterate_launches()] == ["US", "DE"]
    assert {list_countries(one.phones) for one in read_launches(made.parts)} == {"US", "DE"}


def test_an_empty_audience_is_said_as_by_one_process(
    campaign: Callable[..., Campaign], tmp_path: Path
) -> None:
    """Lists without a row are warnings and, with `change`, stop a plan of nobody."""
    yaml = LACKING.format(more="\nlimits: {recipients: {change: 30%}}").replace("  - {phone", "  # - {phone")
    loaded = campaign(yaml, people="phone,name,tz\n", more="phone,name\n", out="phone\n")
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext())
    plan = planner.make_plan(Problems())
    assert plan is not None
    assert [one.split(":")[1] for one in plan.refusals] == [
        " people.csv has no phone",
        " more.csv has no phone",
        " out.csv has no phone",
    ]

    def request(partitions: int) -> PlanJob:
        return PlanJob(loaded, "sandbox", PlanOptions(), PlanContext(NOON), partitions)

    require_equal(planner, request, tmp_path / "scratch")


@given(number=st.integers(1, 10**15), power=st.integers(0, 9))
def test_partitions_are_made_of_neighbouring_shards(number: int, power: int) -> None:
    """Whatever their number, each partition has whole shards, so their digests come together."""
    shard = shard_of(number)
    assert 0 <= shard < SHARDS
    assert partition_of(number, 1 << power) == shard >> (9 - power)
