"""Reading the body of a send: what is taken, and every problem of what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.definition import load_definition, normalise_phone, read_send
from runner.sandbox.model import Definition, Method, ServiceQuestion
from runner.sandbox.sandbox_errors import RefusalError

PHONE = "+14155550101"


def read(body: dict[str, Any]) -> Definition:
    return read_send(json.dumps(body).encode()).definition


def find_problems(raw: bytes) -> tuple[str, list[str]]:
    with pytest.raises(RefusalError) as refused:
        read_send(raw)
    assert refused.value.status == 400
    return refused.value.code, list(refused.value.problems)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("+14155550101", "+14155550101"),
        ("14155550101", "+14155550101"),
        (" +1 (415) 555-0101 ", "+14155550101"),
        ("+1.415.555.0101", "+14155550101"),
        ("+1\u00a0415\u2013555\u20110101", "+14155550101"),
        ("+1234567", "+1234567"),
        ("+123456", None),
        ("+1234567890123456", None),
        ("++14155550101", None),
        ("1415+5550101", None),
        ("+1415555010x", None),
        ("٠١٢٣٤٥٦٧", None),
        ("", None),
    ],
)
def test_phones_are_brought_to_e164(written: str, expected: str | None) -> None:
    """Blanks, punctuation and a missing plus are tolerated; anything but 7 to 15 digits is not."""
    assert normalise_phone(written) == expected


def test_survey_is_read_whole() -> None:
    """Every known field of the body becomes a part of the definition; null counts as left out."""
    body = {
        "phone": [PHONE],
        "text": None,
        "introduction": "Hi",
        "questions": [
            {"text": "Q1", "tag": "t1", "responses": ["Yes", "No"], "conclude_on": "No"},
            {"text": "Q2", "webhook": "https://example.org/hook", "responses": None},
        ],
        "conclusion": "Bye",
        "tag": "T",
        "method": "VOICE",
        "complete_existing_sessions": True,
    }
    document = json.dumps({name: value for name, value in body.items() if name != "phone"})
    assert read(body) == Definition(
        document=document,
        introduction="Hi",
        questions=(
            ServiceQuestion("Q1", "t1", ("Yes", "No"), "No"),
            ServiceQuestion("Q2", webhook="https://example.org/hook"),
        ),
        conclusion="Bye",
        tag="T",
        method=Method.VOICE,
        completes_existing=True,
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text().filter(lambda name: name not in {"phone", "text"}), json_values, max_size=4))
def test_definition_keeps_the_body_as_sent(extra: dict[str, Any]) -> None:
    """Whatever else a body holds, its definition is the body less its phones; or that is refused."""
    body = {"phone": [PHONE], "text": "Hi", **extra}
    try:
        definition = read(body)
    except RefusalError as refused:
        named = {problem.split(":")[0] for problem in refused.problems}
        assert named <= set(extra)
        return
    assert list(json.loads(definition.document).items()) == [
        item for item in body.items() if item[0] != "phone"
    ]
    assert load_definition(definition.document).document == definition.document


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No body whatever makes the reader fail in another way than refusing it."""
    with pytest.raises(RefusalError):
        read_send(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"text": NaN}',
        b'{"text": 1e999}',
        b'{"text": "\\ud83d"}',
        b"[]",
        b'"x"',
        b"1" * 5000,
    ],
    ids=[
        "empty",
        "cut",
        "no-text",
        "deep",
        "nan",
        "infinite",
        "half-surrogate",
        "array",
        "string",
        "huge-number",
    ],
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    """A body that is no JSON object of storable text is refused as invalid JSON."""
    assert find_problems(raw) == ("invalid_json", [])


@pytest.mark.parametrize("opening", ["[", '{"x": '])
def test_nesting_is_bounded(opening: str) -> None:
    """A body of a hundred levels is taken; one more is refused, though it could be parsed."""
    closing = "]" if opening == "[" else "}"

    def nest(levels: int) -> bytes:
        inner = opening * (levels - 1) + "1" + closing * (levels - 1)
        return f'{{"phone": "{PHONE}", "text": "Hi", "deep": {inner}}}'.encode()

    assert read_send(nest(100)).definition.text == "Hi"
    with pytest.raises(RefusalError, match="nested more than 100 levels deep"):
        read_send(nest(101))


def test_problems_are_named_up_to_a_hundred() -> None:
    """Of thousands of problems the first hundred are named."""
    _, problems = find_problems(json.dumps({"phone": [{}] * 5100, "text": "Hi"}).encode())
    assert problems[99:] == ["phone[99]: must be a string"]


@pytest.mark.parametrize(
    "webhook",
    [
        "my.webhook/listens/here",
        "hook",
        "localhost:8080/hook",
        "//my.webhook/listens/here",
        "somebody@my.webhook",
        "a b",
    ],
)
def test_webhook_without_scheme_is_taken(webhook: str) -> None:
    """A webhook that says nothing of how it is called is kept as it is: the vendor's own examples are written so."""
    definition = read({"phone": [PHONE], "questions": [{"text": "Q", "webhook": webhook}]})
    assert definition.questions == (ServiceQuestion("Q", webhook=webhook),)
    assert load_definition(definition.document) == definition


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({"phone": []}, ["phone: must hold at least one number"]),
        ({"phone": None}, ["phone: is required"]),
        ({"phone": {"a": 1}}, ["phone: must be an array of strings"]),
        ({"phone": [None]}, ["phone[0]: must be a string"]),
        ({"phone": [True, []]}, ["phone[0]: must be a string", "phone[1]: must be a string"]),
        ({"phone": False}, ["phone: must be an array of strings"]),
        ({"phone": ["5"]}, ["phone[0]: is no phone number of 7 to 15 digits"]),
        ({"phone": 14155550101}, ["phone: must be an array of strings"]),
        ({"phone": [14155550101]}, ["phone[0]: must be a string"]),
        ({"text": None}, ["text: is required, unless there are questions"]),
        ({"text": " "}, ["text: must not be empty"]),
        ({"text": 5}, ["text: must be a string"]),
        ({"questions": [{"text": "Q"}]}, ["text: must be left out where there are questions"]),
        ({"text": " ", "questions": [{"text": "Q"}]}, ["text: must be left out where there are questions"]),
        ({"text": None, "questions": []}, ["questions: must hold at least one question"]),
        ({"text": "", "questions": []}, ["text: must not be empty"]),
        ({"text": None, "questions": ""}, ["questions: must be an array of objects"]),
        ({"text": None, "questions": {"text": "Q"}}, ["questions: must be an array of objects"]),
        ({"text": None, "questions": ["Q"]}, ["questions[0]: must be an object"]),
        ({"text": None, "questions": [{}]}, ["questions[0].text: is required"]),
        ({"text": None, "questions": [{"text": ""}]}, ["questions[0].text: must not be empty"]),
        (
            {"text": None, "questions": [{"text": "Q", "responses": "a,b", "tag": 1, "conclude_on": []}]},
            [
                "questions[0].tag: must be a string",
                "questions[0].responses: must be an array of strings",
                "questions[0].conclude_on: must be a string",
            ],
        ),
        (
            {"text": None, "questions": [{"text": "Q", "responses": []}]},
            ["questions[0].responses: must hold at least one response; leave it out for a freeform question"],
        ),
        (
            {"text": None, "questions": [{"text": "Q", "responses": ["a", 2, " "]}]},
            ["questions[0].responses[1]: must be a string", "questions[0].responses[2]: must not be empty"],
        ),
        (
            {"text": None, "questions": [{"text": "Q", "webhook": "ftp://example.org"}]},
            ["questions[0].webhook: must be an http or https URL"],
        ),
        (
            {"introduction": 1, "conclusion": []},
            ["introduction: must be a string", "conclusion: must be a string"],
        ),
        ({"tag": 7}, ["tag: must be a string"]),
        ({"method": "FAX"}, ["method: must be SMS or VOICE"]),
        ({"method": ["SMS"]}, ["method: must be SMS or VOICE"]),
        ({"method": ""}, ["method: must be SMS or VOICE"]),
        (
            {"complete_existing_sessions": "yes"},
            ["complete_existing_sessions: must be true or false"],
        ),
    ],
)
def test_each_problem_is_named(change: dict[str, Any], problems: list[str]) -> None:
    """Every problem of a body is named by its place, and no other."""
    body = {"phone": [PHONE], "text": "Hi", **change}
    assert find_problems(json.dumps(body).encode()) == ("invalid_send", problems)
