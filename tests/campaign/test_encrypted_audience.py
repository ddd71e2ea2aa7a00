"""Audiences that are encrypted with age, read as a stream; and what is said where they cannot be."""

from __future__ import annotations

import threading
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyrage import encrypt, x25519

from runner.audience.phone_search import find_phones
from runner.audience.table import open_table
from runner.source.diagnostic import ProblemError
from runner.source.encrypted import EncryptedFileError, open_plain

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = x25519.Identity.generate(), x25519.Identity.generate()
TEXT = f"# created: 2026-11-27T09:00:00Z\n# public key: {KEY.to_public()}\n{KEY}\n"


def write(folder: Path, plain: bytes, *, armored: bool = False) -> Path:
    file = folder / "people.csv.age"
    file.write_bytes(encrypt(plain, [KEY.to_public()], armored=armored))
    return file


def write_rows(count: int) -> bytes:
    return b"phone,name\n" + b"".join(
        b"+1415%07d,Ada\n" % number for number in range(2_000_000, 2_000_000 + count)
    )


@pytest.mark.parametrize("armored", [False, True])
@pytest.mark.parametrize(
    "identity", [TEXT, str(KEY), f"{OTHER}\r\n{KEY}\r\n"], ids=["file", "line", "several"]
)
def test_it_is_read_with_any_of_the_keys(tmp_path: Path, identity: str, *, armored: bool) -> None:
    """A file of age-keygen, one line, or several keys decrypt it, in armor or not."""
    with open_table(write(tmp_path, b"phone,name\n+1,Ada\n", armored=armored), identity=identity) as table:
        assert (table.header, list(table.rows)) == (["phone", "name"], [(2, ["+1", "Ada"])])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200_000), st.lists(st.integers(1, 100_000), max_size=5))
def test_what_is_read_is_what_was_encrypted(tmp_path: Path, plain: bytes, sizes: list[int]) -> None:
    """Bytes come as they were, in pieces of any size, also after going back to the start."""
    with open_plain(str(write(tmp_path, plain)), TEXT) as stream:
        for size in sizes:
            stream.read(size)
            stream.seek(0)
        assert stream.read() == plain


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True), st.booleans())
def test_a_changed_or_cut_file_is_an_error(tmp_path: Path, place: float, is_cut: bool) -> None:  # noqa: FBT001  hypothesis
    """Wherever a byte is changed, or the file ends early, reading to the end fails."""
    file = write(tmp_path, write_rows(6_000))
    content = bytearray(file.read_bytes())
    index = int(place * len(content))
    content[index] ^= 1
    file.write_bytes(content[:index] if is_cut else content)
    with pytest.raises(ProblemError) as caught, open_table(file, identity=TEXT) as table:
        list(table.rows)
    codes = {"audience-not-age", "audience-not-opened", "audience-damaged"}
    assert caught.value.diagnostics[0].code in codes


@pytest.mark.parametrize(
    ("identity", "code", "words"),
    [
        ("", "audience-identity", "this file is encrypted, and RUNNER_AGE_IDENTITY has no key of age in it"),
        ("AGE-SECRET-KEY-1NO", "audience-identity", "line 1 of RUNNER_AGE_IDENTITY is no key of age"),
        (f"{KEY}\nAGE-SECRET-KEY-1NO", "audience-identity", "line 2 of RUNNER_AGE_IDENTITY is no key"),
        (str(OTHER), "audience-not-opened", "it is for another key than RUNNER_AGE_IDENTITY has, or damaged"),
    ],
    ids=["none", "broken", "one-broken", "another"],
)
def test_a_wrong_key_is_said_without_it(tmp_path: Path, identity: str, code: str, words: str) -> None:
    """What is wrong is said, and no key is in the words."""
    file = write(tmp_path, b"phone\n")
    with pytest.raises(ProblemError) as caught, open_table(file, identity=identity) as table:
        list(table.rows)
    problem = caught.value.diagnostics[0]
    assert problem.code == code
    assert words in problem.message
    assert "SECRET-KEY-1" not in problem.message
    assert str(OTHER) not in f"{problem.hint}{problem}"


def test_a_file_that_is_not_encrypted_is_refused(tmp_path: Path) -> None:
    """A plain file with such a name is not taken for an encrypted one."""
    (tmp_path / "people.csv.age").write_text("phone\n", encoding="utf-8")
    with pytest.raises(EncryptedFileError, match="not encrypted with age, as its name says"):
        open_plain(str(tmp_path / "people.csv.age"), TEXT)


def test_a_reader_that_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    """Whoever has enough closes the file, and the decryption ends with it."""
    file, before = write(tmp_path, write_rows(100_000)), threading.active_count()
    with open_table(file, identity=TEXT) as table:
        next(table.rows)
    assert threading.active_count() == before


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """200,000 rows are never in memory together."""
    file = write(tmp_path, write_rows(200_000))
    tracemalloc.start()
    try:
        with open_table(file, identity=TEXT) as table:
            assert sum(1 for _ in table.rows) == 200_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


PHONE = "4152010711"
WRITINGS = (
    *("+14152010711", "14152010711", "4152010711", "(415) 201-0711", "415-201-0711", "415.201.0711"),
    *(
        "+1 415 201 07 11",
        "+1\u00a0415\u00a0201\u00a00711",
        "+1\u202f415\u202f201\u202f0711",
        "001 415 201 0711",
    ),
    *("tel:+1-415-201-0711", "guests_14152010711.csv", "+1–415–201–0711", "4 1 5 2 0 1 0 7 1 1"),
    *("+1&nbsp;415&nbsp;201&nbsp;0711", r"\u002b14152010711", "415_201_0711", "Tel:4152010711Ada"),
    *("https://wa.me/14152010711", "https://acme.com/?p=%2B14152010711&b=1", "tel://4152010711"),
    *("+1.4152010711", "2026-11-27 4152010711", "27.11.2026 415 201 0711", "1, 2, 3, 4, 5: 4152010711"),
)
NO_PHONES = (
    *("2026-11-27 05:44:40", "2026-11-27T05:44:40.123456Z", "12,345,678.90 USD", "+1 (415) 555-0101"),
    *("5d41402a-1234-5678-9012-123456789012", "d4152010711a", "sha256:41520107114152010711abcdef0123456789"),
    *("order 1234567890123456789", "07700 900123", "1.2.3.4, 10.0.0.1", "$4152010711"),
    *("27.11.2026", "20261127", "20261127054440", "11-27-2026 09:00", "27.11.26 09:00", "27/11/2026"),
    *("52.520008, 13.404954", "37.7749295,-122.4194155", "INV-2026-000123", "0 1 2 3 4 5 6 7 8 9 10"),
    *("Call 1-800-273-8255", "+49 800 1234567", "https://acme.com/p?id=14152010711", "1764237942123"),
)


@pytest.mark.parametrize("writing", WRITINGS)
def test_a_phone_is_found_in_each_usual_writing(writing: str) -> None:
    """Phones are found wherever they stand in a line, once each."""
    for text in (writing, f"# ask {writing}, please", f'{{"note": "{writing}"}}'):
        assert [phone for *_, phone in find_phones(text, ["US"])] == [f"+1{PHONE}"]


@pytest.mark.parametrize("text", NO_PHONES)
def test_what_is_no_phone_is_not_taken_for_one(text: str) -> None:
    """Dates, places, ids, digests, prices, addresses, and numbers of services and for fiction are no phones."""
    for regions in (["GB", "US"], ["DK"]):
        assert list(find_phones(text, regions)) == []


@pytest.mark.parametrize("writing", ["447911123456", "4917123456789", "5511912345678"])
def test_a_mobile_of_any_country_is_found_by_its_code(writing: str) -> None:
    """Digits that are a mobile's with its country code need neither `+` nor the region."""
    assert [phone for *_, phone in find_phones(f"a,{writing},b", ["US"])] == [f"+{writing}"]
