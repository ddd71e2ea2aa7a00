"""What changed against what was sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.model import Arm, Variants
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.ledger.record.deliveries import SentTexts
from runner.plan.difference import (
    SHOWN_CHANGES,
    compare_with_sent,
    compare_wordings,
    word_definition,
)
from runner.plan.documents import TextPart
from runner.source.diagnostic import Problems
from runner.text.include import include_folder
from runner.text.payload import compile_messages
from runner.text.template import TextCompiler
from tests.canonical import digest_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runner.campaign.model import Campaign
    from runner.plan.documents import PlanDifference

    Load = Callable[..., Campaign]

KEY = TargetKey.of("sandbox", None)
YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
messages:
  - id: ask
    text: "{text}"
"""


def phone_of(number: int) -> str:
    return f"+1415555{number:04}"


def fingerprint_of(number: int) -> str:
    return KEY.fingerprint(phone_of(number))


def write_people(names: dict[int, str]) -> str:
    return "phone,name\n" + "".join(f"{phone_of(number)},{name}\n" for number, name in names.items())


def compare(
    campaign: Campaign, sent: dict[int, str], *, lost: Collection[int] = (), unread: Collection[int] = ()
) -> PlanDifference:
    """Compare a campaign with texts that were sent, by the numbers of their recipients."""
    texts = SentTexts()
    definitions: dict[int, dict[str, Any]] = {}
    people = texts.launches.setdefault("ask", {})
    for launch, (number, text) in enumerate(sent.items(), start=1):
        definition = {"tag": "pulse", "text": text}
        texts.digests[launch] = digest_definition(definition)
        if number not in lost:
            definitions[launch] = definition
        if number not in unread:
            people[fingerprint_of(number)] = launch
    compiled = list(compile_messages(campaign, TextCompiler(include_folder(campaign)), Problems()))
    known = RecordedDeliveries({"ask": {fingerprint_of(number) for number in sent}}, {})

    def read(wanted: Collection[int]) -> dict[int, dict[str, Any]]:
        return {launch: definitions[launch] for launch in wanted if launch in definitions}

    return compare_with_sent(campaign, compiled, known, KEY, texts, read)["ask"]


def test_everyone_is_counted_once(campaign: Load) -> None:
    """Unchanged, changed, gone and new people add up to all there are."""
    loaded = campaign(
        YAML.format(text="Hello {{ name }}!"), people=write_people({1: "Ada", 2: "Bo", 3: "Cy", 4: "Di"})
    )
    found = compare(loaded, {1: "Hello Ada!", 2: "Hi Bo!", 3: "Hi Cy!", 9: "Hi Eve!"})
    assert (found.unchanged, found.changed, found.gone, found.new) == (1, 2, 1, 1)
    (group,) = found.groups
    assert group.recipients == 2
    assert group.old == (TextPart("text", "Hi Bo!"),)
    assert group.new == (TextPart("text", "Hello Bo!"),)
    assert group.is_example


def test_a_change_that_is_the_same_for_all_is_no_example(campaign: Load) -> None:
    """Texts that name nobody are shown as everyone's."""
    loaded = campaign(YAML.format(text="Hello"), people=write_people({1: "", 2: ""}))
    (group,) = compare(loaded, {1: "Hi", 2: "Hi"}).groups
    assert (group.recipients, group.is_example) == (2, False)


def test_what_is_not_in_the_ledger_is_counted_apart(campaign: Load) -> None:
    """A changed text of which the digest alone is known, and a delivery of which nothing is, are told apart."""
    loaded = campaign(YAML.format(text="Hello"), people=write_people({1: "", 2: "", 3: ""}))
    found = compare(loaded, {1: "Hi", 2: "Hello", 3: "Hi"}, lost=[1, 2], unread=[3])
    assert (found.changed, found.groups, found.more_recipients) == (1, (), 1)
    assert (found.unchanged, found.not_in_ledger) == (1, 1)


def test_a_text_that_cannot_be_rendered_any_more(campaign: Load) -> None:
    """Whoever was texted is not texted again: that their row has lost its name stops nothing."""
    loaded = campaign(YAML.format(text="Hello {{ name }}"), people=write_people({1: "", 2: "Bo"}))
    found = compare(loaded, {1: "Hello Ada", 2: "Hello Bo"})
    assert (found.failing, found.unchanged) == (1, 1)


def test_arms_are_compared_with_what_their_people_got(campaign: Load) -> None:
    """Whoever would be in another arm now is shown with that arm's text."""
    loaded = campaign(YAML.format(text="Hello"), people=write_people({1: ""}))
    message = loaded.messages[0]
    assert message.text is not None
    arm = Arm("warm", 1, message.position, {"text": replace(message.text, source="Dear you")})
    varied = replace(loaded, variants=Variants("seed", "ask", (arm,), message.position))
    (group,) = compare(varied, {1: "Hello"}).groups
    assert group.new == (TextPart("text", "Dear you"),)


def test_whoever_gets_nothing_is_not_new(campaign: Load) -> None:
    """Excluded people are not new, and neither are those who are in the control group."""
    exclude = f'exclude:\n  - phone: "{phone_of(1)}"\n'
    loaded = campaign(
        YAML.format(text="Hello") + exclude, people=write_people(dict.fromkeys(range(1, 50), ""))
    )
    assert compare(loaded, {}).new == 48
    half = replace(loaded, variants=Variants("seed", "ask", (), loaded.messages[0].position, holdout=0.5))
    assert 0 < compare(half, {}).new < 48


def test_nothing_was_sent(campaign: Load) -> None:
    """A campaign that was never sent differs in nothing; everyone is new."""
    loaded = campaign(YAML.format(text="Hello"), people=write_people({1: "", 2: ""}))
    found = compare(loaded, {})
    assert found.is_empty
    assert found.new == 2


WORDS = st.sampled_from(["Hi", "Hello", "Ada", "Bo", "!", ""])


@given(st.lists(st.tuples(WORDS, WORDS), max_size=12))
def test_groups_are_of_equal_changes(campaign: Load, pairs: list[tuple[str, str]]) -> None:
    """However texts change, the groups are those that comparing each person's texts by itself gives."""
    people = {n: f"{new} {n}" for n, (_, new) in enumerate(pairs)}
    loaded = campaign(YAML.format(text="{{ name }}"), people=write_people(people))
    found = compare(loaded, {n: f"{old} {n}".strip() for n, (old, _) in enumerate(pairs)})
    expected: Counter[int] = Counter()
    for n, (old, new) in enumerate(pairs):
        texts = [word_definition({"text": f"{word} {n}".strip()}) for word in (old, new)]
        if texts[0] != texts[1]:
            expected[compare_wordings(texts[0], texts[1]).key] += 1
    assert sorted(group.recipients for group in found.groups) == sorted(expected.values())[-SHOWN_CHANGES:]
    assert found.unchanged == sum(old == new for old, new in pairs)


def test_every_part_of_a_definition_is_compared() -> None:
    """A change of choices, tags or method is one, too; so are questions in another order."""
    first = {"tag": "a", "text": "How?", "responses": ["Good", "Bad"], "conclude_on": "Bad"}
    second = {"tag": "b", "text": "Why?"}
    old = {"tag": "pulse", "introduction": "Hi", "questions": [first, second]}
    new = {
        "tag": "pulse-2",
        "questions": [{**first, "responses": ["Good", "So so"], "conclude_on": "So so"}],
        "conclusion": "Bye",
        "method": "VOICE",
        "complete_existing_sessions": True,
    }
    change = compare_wordings(word_definition(old), word_definition(new))
    assert change.old == (
        ("tag", "pulse"),
        ("introduction", "Hi"),
        ("question a, responses", "Good\nBad"),
        ("question a, conclude_on", "Bad"),
        ("question b", "Why?"),
    )
    assert change.new == (
        ("tag", "pulse-2"),
        ("question a, responses", "Good\nSo so"),
        ("question a, conclude_on", "So so"),
        ("conclusion", "Bye"),
        ("method", "VOICE"),
        ("complete_existing_sessions", "true"),
    )
    turned = compare_wordings(
        word_definition({"questions": [first, second]}), word_definition({"questions": [second, first]})
    )
    assert [name for name, _ in turned.new][:2] == ["question b", "question a"]


def test_a_text_of_one_word_many_times_is_compared_whole() -> None:
    """A text that would take minutes to match word by word counts as replaced: a pull request may hold it."""
    old, new = "word " * 2_000, "term " + "word " * 1_999
    change = compare_wordings((("text", old),), (("text", new),))
    assert (change.old, change.new) == ((("text", old),), (("text", new),))
    assert change.key == compare_wordings((("text", old),), (("text", new),)).key
