"""`runner resolve` for launches that no record explains: shown in groups, settled at once, for good."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.source.json_schema import load_validator
from tests.deliver.test_recovery import lose_records

if TYPE_CHECKING:
    from tests.deliver.conftest import FaultyService, Repository

YES = "--auto-approve"


def edit_text(repository: Repository) -> None:
    """Say something else than what was sent."""
    text = repository.campaign.read_text(encoding="utf-8").replace("how are you", "how do you do")
    repository.campaign.write_text(text, encoding="utf-8")


@pytest.fixture
def held(repository: Repository) -> tuple[str, ...]:
    """Phones of a campaign whose record was lost and whose text was edited: the first two are held."""
    phones = repository.write_campaign(3)
    # One by one: the first guid is the first person's.
    assert repository.apply("--limit", "2", "--concurrency", "1").code == 0
    lose_records(repository)
    edit_text(repository)
    assert repository.apply().code == 4
    return phones


def list_launches(repository: Repository) -> list[str]:
    """Return the guids of the launches in the lockfile, sorted."""
    launches = json.loads(repository.lockfile.read_text(encoding="utf-8"))["launches"]
    return sorted(launch["project_launch_guid"] for launch in launches)


@pytest.mark.slow
@pytest.mark.usefixtures("held")
def test_what_is_held_is_shown_with_what_settling_it_would_do(
    repository: Repository, faulty: FaultyService
) -> None:
    """The launches of one tag are one group, with their number, their people and the two ways out."""
    shown = repository.run("resolve")
    assert (shown.code, shown.err) == (4, "")
    lines = shown.out.splitlines()
    assert lines[:2] == [
        "pulse/ask: 2 texts that no record explains, 2 people held",
        "  under the tag 'pulse-2026', with another text, or to other people, than this campaign plans",
    ]
    assert [guid in shown.out for guid in faulty.guids] == [True, True, False]
    assert lines[-2:] == [
        "  --adopt-all: a run whose record is lost sent them; these people are not texted again",
        "  --not-sent-all: somebody else sent them; the next `runner apply` texts these people",
    ]


@pytest.mark.usefixtures("held")
def test_the_plan_says_why_people_are_held(repository: Repository) -> None:
    """People who are held count as unresolved, with the reason and the way out."""
    planned = repository.run("plan", "--format", "json")
    (message,) = json.loads(planned.out)["campaigns"][0]["messages"]
    assert (message["already_sent"], message["unresolved"], message["to_send"]) == (1, 2, 0)
    assert message["reasons"] == [
        {
            "reason": "held: a launch that no record explains has reached them; `runner resolve` shows it",
            "recipients": 2,
        }
    ]


def test_adopting_all_records_them_as_sent(
    repository: Repository, faulty: FaultyService, held: tuple[str, ...]
) -> None:
    """Launches that a person takes for the campaign's are in the lockfile, and nobody of them is texted."""
    adopted = repository.run("resolve", "--adopt-all", YES)
    assert (adopted.code, adopted.out) == (0, "Nothing is unresolved.\n")
    assert adopted.err == ("Recorded: pulse sent 2 texts (2 people).\n")
    assert list_launches(repository) == sorted(faulty.guids)
    again = repository.apply()
    assert (again.code, again.out) == (0, "pulse: nothing sent.\n")
    assert faulty.accepted == dict.fromkeys(held, 1)


@pytest.mark.slow
def test_dismissing_all_lets_people_be_texted_on_every_machine(
    repository: Repository, faulty: FaultyService, held: tuple[str, ...]
) -> None:
    """What a person takes for another's launches is in the lockfile: a new machine does not hold them again."""
    dismissed = repository.run("resolve", "--not-sent-all", YES)
    assert (dismissed.code, dismissed.out) == (0, "Nothing is unresolved.\n")
    assert dismissed.err == ("Recorded: pulse did not send 2 texts (2 people).\n")
    lines = json.loads(repository.lockfile.read_text(encoding="utf-8"))["dismissed"]
    assert [line["project_launch_guid"] for line in lines] == faulty.guids[:2]
    for file in repository.ledger.parent.glob("ledger*"):
        file.unlink()
    sent = repository.apply()
    assert (sent.code, sent.out) == (0, "pulse: 2 people texted.\n")
    assert faulty.accepted == {held[0]: 2, held[1]: 2, held[2]: 1}


def test_one_launch_is_settled_by_its_guid(
    repository: Repository, faulty: FaultyService, held: tuple[str, ...]
) -> None:
    """`--adopt GUID` and `--launch GUID --not-sent` settle one launch of a group, in either case of its letters."""
    first, second = faulty.guids[:2]
    adopted = repository.run("resolve", "--adopt", first.upper())
    assert adopted.code == 4
    assert adopted.err == ("Recorded: pulse sent 1 text (1 person).\n")
    dismissed = repository.run("resolve", "--launch", second, "--not-sent")
    assert dismissed.code == 0
    assert dismissed.err == ("Recorded: pulse did not send 1 text (1 person).\n")
    assert repository.apply().out == "pulse: 1 person texted.\n"
    assert faulty.accepted == {held[0]: 1, held[1]: 2, held[2]: 1}


@pytest.mark.usefixtures("held")
def test_an_invalid_campaign_does_not_keep_the_others(repository: Repository) -> None:
    """It is left out with its problem, the others are settled, and the exit code is 3."""
    broken = repository.campaign.with_name("broken.yaml")
    broken.write_text("version: 1\nname: broken\n", encoding="utf-8")
    adopted = repository.run("resolve", "--adopt-all", YES, "--format", "json")
    assert adopted.code == 3
    assert "Recorded: pulse sent 2 texts (2 people).\n" in adopted.err
    shown = json.loads(adopted.out)
    assert (shown["unexplained"], [one["exit_code"] for one in shown["failures"]]) == ([], [1])


@pytest.mark.usefixtures("held")
def test_settling_all_asks_first(repository: Repository, faulty: FaultyService) -> None:
    """Without a terminal to ask at, and without an approval, nothing is changed."""
    refused = repository.run("resolve", "--not-sent-all")
    assert (refused.code, refused.out) == (64, "")
    assert refused.err == (
        "Error: there is no terminal to ask, and nothing was changed\n"
        "  continue without asking with --auto-approve\n"
    )
    assert repository.apply().code == 4
    assert len(faulty.requests) == 3


@pytest.mark.usefixtures("held")
def test_another_message_has_nothing_to_settle(repository: Repository) -> None:
    """`--message` narrows what is meant; with nothing left, nothing is done."""
    refused = repository.run("resolve", "--message", "nudge", "--adopt-all", YES)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == ("Error: there is nothing to resolve\n  `runner resolve` lists what there is\n")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--adopt-all", "--not-sent-all"], "--adopt-all and --not-sent-all"),
        (["--adopt", "g", "--adopt-all"], "--adopt and --adopt-all"),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    repository: Repository, words: list[str], names: str
) -> None:
    """A launch was sent or it was not."""
    repository.write_campaign(1)
    refused = repository.run("resolve", *words)
    assert (refused.code, refused.err) == (64, f"Error: {names} contradict each other\n")


def test_messages_of_one_tag_are_told_apart_by_a_person(
    repository: Repository, faulty: FaultyService
) -> None:
    """A launch that may have been one of two messages is recorded as the one that is named."""
    repository.write_campaign(1)
    text, _, _ = repository.campaign.read_text(encoding="utf-8").partition("messages:")
    messages = (
        "messages:\n  - {id: monday, tag: w, text: Hello?}\n  - {id: friday, tag: w, text: Hello again?}\n"
    )
    repository.campaign.write_text(text + messages, encoding="utf-8")
    assert repository.apply("--only", "monday").code == 0
    lose_records(repository)
    repository.campaign.write_text((text + messages).replace("Hello", "Hi"), encoding="utf-8")
    assert repository.apply().code == 4
    refused = repository.run("resolve", "--adopt-all", YES)
    assert refused.code == 64
    assert refused.err == (
        "Error: the texts under the tag 'w' may have been several messages: friday, monday\n"
        "  say which one with --message\n"
    )
    assert repository.run("resolve", "--adopt-all", "--message", "monday", YES).code == 0
    assert repository.apply().out == "pulse: 1 person texted.\n"
    assert [request.data["text"] for request in faulty.requests] == ["Hello?", "Hi again?"]


@pytest.mark.usefixtures("held")
def test_what_is_held_as_json(repository: Repository, faulty: FaultyService) -> None:
    """The groups are data: tag, messages, people, launches."""
    shown = json.loads(repository.run("resolve", "--format", "json").out)
    load_validator("resolve").validate(shown)
    (group,) = shown["unexplained"]
    launches = group.pop("launches")
    assert group == {"campaign": "pulse", "tag": "pulse-2026", "messages": ["ask"], "recipients": 2}
    assert [launch["project_launch_guid"] for launch in launches] == faulty.guids[:2]
    assert [(launch["recipients"], launch["is_survey"]) for launch in launches] == [(1, False)] * 2


@pytest.mark.slow
def test_a_text_that_is_put_back_explains_its_launches(
    repository: Repository, faulty: FaultyService, held: tuple[str, ...]
) -> None:
    """Launches that fit the plan again are adopted by themselves, and nobody has to say anything."""
    text = repository.campaign.read_text(encoding="utf-8").replace("how do you do", "how are you")
    repository.campaign.write_text(text, encoding="utf-8")
    again = repository.apply()
    assert (again.code, again.out) == (0, "pulse: nothing sent.\n")
    assert again.err == "pulse: adopted 2 launches that the service knows and the record had lost.\n"
    assert faulty.accepted == dict.fromkeys(held, 1)


def test_a_lockfile_that_is_restored_explains_its_launches(
    repository: Repository, faulty: FaultyService
) -> None:
    """The natural mend of a lost record is to restore it, also after people were held under another salt."""
    repository.write_campaign(1)
    assert repository.apply().code == 0
    kept = repository.lockfile.read_bytes()
    lose_records(repository)
    edit_text(repository)
    assert repository.apply().code == 4
    repository.lockfile.write_bytes(kept)
    phones = repository.write_campaign(2)
    assert repository.apply().code == 0
    assert faulty.accepted == dict.fromkeys(phones, 1)


@pytest.mark.slow
def test_an_adopted_launch_counts_for_all_whom_it_has_reached(
    repository: Repository, faulty: FaultyService
) -> None:
    """Of a person whom two launches of one tag have reached only one of them holds, and both count."""
    first, second, third = phones = repository.write_campaign(3)
    head = "version: 1\nname: pulse\nrecipients:\n"
    messages = "messages:\n  - {id: ask, tag: w, text: Hello?}\n  - {id: nudge, tag: w, text: Hello again?}\n"

    def apply(some: tuple[str, ...], *words: str, greeting: str = "Hello") -> int:
        people = "".join(f'  - phone: "{phone}"\n' for phone in some)
        repository.campaign.write_text(head + people + messages.replace("Hello", greeting), encoding="utf-8")
        return repository.apply(*words).code

    assert apply(phones[:1], "--only", "ask") == 0
    assert apply(phones[:2], "--only", "nudge") == 0
    assert apply(phones, "--only", "ask") == 0
    one, two, three = faulty.guids[:3]
    lose_records(repository)
    assert apply(phones, greeting="Hi") == 4
    for guid, message in ((three, "ask"), (two, "nudge"), (one, "ask")):
        if repository.run("resolve", "--adopt", guid, "--message", message).code == 1:
            # Held by another one until then: the next look has it.
            assert repository.apply().code == 4
            assert repository.run("resolve", "--adopt", guid, "--message", message).code == 0
    assert repository.apply().code == 0
    texts = [
        (phone, "again" in sent.data["text"]) for sent in faulty.requests for phone in sent.data["phone"]
    ]
    assert sorted(texts) == [
        (phone, is_nudge) for phone in (first, second, third) for is_nudge in (False, True)
    ]
