"""Where audiences are: patterns of paths, and URLs, which campaigns may read only where that was allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from runner.audience.audience import AudienceTally, iterate_audience
from runner.campaign.load import load_campaign
from runner.source.diagnostic import Problems
from runner.source.storage import is_below, stamp_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic

YAML = "version: 1\nrecipients:\n  - csv: {}\n    region: US\nmessages:\n  - {{id: hello, text: Hello}}\n"


def load(folder: Path, written: str, *allowed: Path | str) -> tuple[Campaign | None, list[Diagnostic]]:
    file = folder / "campaign.yaml"
    file.write_text(YAML.format(f'"{written}"'), encoding="utf-8")
    return load_campaign(file, current=folder, allowed=allowed)


def read(folder: Path, written: str, *allowed: Path | str) -> list[tuple[str, int, str]]:
    loaded, problems = load(folder, written, *allowed)
    assert loaded is not None, problems
    found = Problems()
    read = [
        (one.phone, one.line, one.file.name)
        for one in iterate_audience(loaded, frozenset(), found, AudienceTally())
    ]
    assert list(found) == []
    return read


def refuse(folder: Path, written: str, *allowed: Path | str) -> list[tuple[str, str, str | None]]:
    loaded, problems = load(folder, written, *allowed)
    assert loaded is None
    assert {(one.line, one.column) for one in problems} == {(3, 10)}
    return [(one.code, one.message, one.hint) for one in problems]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two parts of an audience, and something else beside them."""
    (tmp_path / "audience").mkdir()
    for number in (2, 1):
        (tmp_path / f"audience/part-{number}.csv").write_text(f"phone\n415555010{number}\n", encoding="utf-8")
    (tmp_path / "audience/other.csv").write_text("phone\n4155550109\n", encoding="utf-8")
    (tmp_path / "audience/part-3.csv").mkdir()
    return tmp_path


@pytest.fixture
def bucket() -> Iterator[str]:
    """Two parts of an audience where only fsspec finds them."""
    system = fsspec.filesystem("memory")
    for number in (2, 1):
        system.pipe_file(f"/bucket/part-{number}.csv", f"phone\n415555010{number}\n".encode())
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


@pytest.mark.parametrize("pattern", ["audience/part-*.csv", "audience/part-[12].csv", "**/part-?.csv"])
def test_a_pattern_stands_for_all_files_that_match_it(folder: Path, pattern: str) -> None:
    """They are read in the order of their names, each as a file of its own; folders are none."""
    assert read(folder, pattern) == [("+14155550101", 2, "part-1.csv"), ("+14155550102", 2, "part-2.csv")]


def test_a_file_may_be_named_like_a_pattern(folder: Path) -> None:
    """A file that is there by the very name is meant, and no other."""
    (folder / "audience/part-[12].csv").write_text("phone\n4155550105\n", encoding="utf-8")
    assert read(folder, "audience/part-[12].csv") == [("+14155550105", 2, "part-[12].csv")]


@pytest.mark.parametrize("pattern", ["../*.csv", "/etc/*.csv", "audience/link/*.csv"])
def test_a_pattern_does_not_lead_out(tmp_path: Path, folder: Path, pattern: str) -> None:
    """What a pattern matches outside of the repository is not even said to be there."""
    repository = folder / "repository"
    (repository / "audience").mkdir(parents=True)
    (repository / ".git").mkdir()
    (tmp_path / "secret.csv").write_text("phone\n4155550101\n", encoding="utf-8")
    (repository / "audience/link").symlink_to(tmp_path)
    ((code, message, hint),) = refuse(repository, pattern)
    assert (code, hint) == (
        "path-outside",
        "campaigns read below the repository's root alone; --allow-path DIR widens it",
    )
    assert "secret" not in message


def test_a_url_below_an_allowed_one_is_read(folder: Path, bucket: str) -> None:
    """A URL and a pattern of URLs are read as files are, where that was allowed."""
    assert read(folder, f"{bucket}/part-1.csv", bucket) == [("+14155550101", 2, "part-1.csv")]
    assert [one[0] for one in read(folder, f"{bucket}/part-*.csv", "memory://bucket/")] == [
        "+14155550101",
        "+14155550102",
    ]


def test_a_url_elsewhere_is_refused(folder: Path, bucket: str) -> None:
    """A campaign in a pull request must not read any bucket that the machine may."""
    hint = "--allow-path URL allows to read what is below it"
    url = f"{bucket}/part-1.csv"
    for allowed in ((), ("memory://other",), (folder,)):
        assert refuse(folder, url, *allowed) == [
            ("path-outside", f"{url} is below no URL that may be read", hint)
        ]


WHAT_ONLY_BEGINS_LIKE_AN_ALLOWED_URL_IS_NOT_BELO: list[str] = [
    "s3://bucket/a/../../b",
    "s3://bucket/..",
    "s3://bucketeer/a",
    "s3://bucket",
    "zip://a::s3://bucket/b",
    "s3://bucket/a::file:///etc",
    "S3://bucket/a",
    "s3://bucket\\a",
    "s3://bucket/%2e%2E/b",
    "s3://bucket/a?/../../b",
    "s3://bucket/a#/../../b",
    "s3://bucket/a%3A%3Afile:///etc",
]


def test_what_only_begins_like_an_allowed_url_is_not_below_it() -> None:
    """No way of writing a URL leads out of what is allowed."""
    for url in WHAT_ONLY_BEGINS_LIKE_AN_ALLOWED_URL_IS_NOT_BELO:
        assert is_below("s3://bucket/a/b.csv", ("s3://bucket",))
        assert not is_below(url, ("s3://bucket",))


def test_a_file_url_is_a_path(folder: Path) -> None:
    """`file://` gets nobody out of the repository."""
    assert read(folder, f"file://{folder}/audience/part-1.csv") == [("+14155550101", 2, "part-1.csv")]
    ((code, *_),) = refuse(folder, "file:///etc/passwd")
    assert code == "path-outside"


def test_a_url_that_is_not_there_is_said(folder: Path, bucket: str) -> None:
    """Nothing at a URL, nothing that matches one, or no library for it: each is said at its key."""
    hint = "check the URL, and what this machine may read"
    assert refuse(folder, f"{bucket}/x.csv", bucket) == [
        ("csv-not-found", f"there is no file {bucket}/x.csv", hint)
    ]
    assert refuse(folder, f"{bucket}/x*.csv", bucket) == [
        ("csv-not-found", f"no file matches {bucket}/x*.csv", hint)
    ]
    ((_, message, _),) = refuse(folder, "s3://a/x.csv", "s3://a")
    assert message.startswith("s3://a/x.csv cannot be read: Install s3fs")


def test_a_change_at_a_url_is_noticed(bucket: str) -> None:
    """What is planned of a file that changes meanwhile is not sent: at a URL, too."""
    url = f"{bucket}/part-1.csv"
    before = stamp_file(url)
    assert before == stamp_file(url)
    fsspec.filesystem("memory").pipe_file("/bucket/part-1.csv", b"phone\n4155550107\n")
    assert stamp_file(url) not in (before, None)
    assert stamp_file(f"{bucket}/x.csv") is None
