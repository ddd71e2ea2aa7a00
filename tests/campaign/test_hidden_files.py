"""Files and folders whose name begins with a dot: campaigns read none, whatever leads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.campaign.load import load_campaign
from runner.service.target import read_targets
from runner.source.diagnostic import ProblemError
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.message_model import TemplateText
    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic

HIDDEN = "begins with a dot, or stands in such a folder: files like that are never read"
MOVE = "move it where no name begins with a dot"
YAML = "version: 1\n{}:\n  - {}: {}\nmessages: [{{id: hello, text: Hello}}]\n"
PHONE = "recipients: [{phone: '+14155550101'}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with secrets of its own, and links to them."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "campaigns").mkdir()
    for secret in (".env", ".git/config", "campaigns/.hidden.csv"):
        (tmp_path / secret).write_text("phone\n+14155550101\n", encoding="utf-8")
    (tmp_path / "campaigns/link.csv").symlink_to("../.env")
    (tmp_path / "campaigns/linked").symlink_to("../.git")
    return tmp_path


def load(folder: Path, yaml: str, *allowed: Path) -> tuple[Campaign | None, list[Diagnostic]]:
    file = folder / "campaigns/campaign.yaml"
    file.write_text(yaml, encoding="utf-8")
    return load_campaign(file, current=folder, allowed=allowed)


@pytest.mark.parametrize("key", ["recipients", "exclude"])
@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("../.env", "../.env"),
        ("../.git/config", "../.git/config"),
        ("../.git/*", "../.git/*"),
        ("../.e*", "../.env"),
        (".hidden.csv", ".hidden.csv"),
        ("link.csv", "link.csv"),
        ("linked/config", "linked/config"),
    ],
)
def test_an_audience_is_never_a_hidden_file(folder: Path, key: str, written: str, named: str) -> None:
    """Lists of people and of those to leave out are refused at their key, links and patterns followed."""
    loaded, problems = load(folder, (PHONE if key == "exclude" else "") + YAML.format(key, "csv", written))
    assert loaded is None
    hint = f"{MOVE}; --allow-path DIR allows to read below a folder"
    (found,) = problems
    line = 3 + (key == "exclude")
    assert (found.code, found.line, found.column) == ("path-hidden", line, 10)
    assert (found.message, found.hint) == (f"{named} {HIDDEN}", hint)


def test_a_hidden_folder_that_is_allowed_is_read(folder: Path) -> None:
    """A folder that `--allow-path` names is read, hidden or not."""
    loaded, problems = load(folder, YAML.format("recipients", "csv", "../.git/config"), folder / ".git")
    assert loaded is not None, problems


def test_a_text_never_includes_a_hidden_file(folder: Path, text: Callable[[str], TemplateText]) -> None:
    """`{% include %}` of a file or folder that begins with a dot is an error at the text."""
    for name in (".git/config", ".env", "campaigns/.hidden.csv", "campaigns/link.csv"):
        with pytest.raises(ProblemError) as caught:
            TextCompiler(folder).compile(text(f"{{% include '{name}' %}}"))
        (found,) = caught.value.diagnostics
        assert (found.code, found.line, found.column) == ("template-include", 3, 5)
        assert found.message.startswith(f"there is no file {name} to include")


def test_a_campaign_is_never_a_link_to_a_hidden_file(folder: Path) -> None:
    """A campaign that is a link to a hidden file is refused without a word of what stands in it."""
    (folder / "campaigns/campaign.yaml").symlink_to("../.env")
    loaded, (found,) = load_campaign(folder / "campaigns/campaign.yaml", current=folder)
    assert loaded is None
    assert (found.code, found.message) == (
        "path-hidden",
        f"this campaign is a link to a file that {HIDDEN}",
    )
    (folder / "campaigns/other").symlink_to("../.git")
    (folder / ".git/pulse.yaml").write_text("secret", encoding="utf-8")
    loaded, (found,) = load_campaign(folder / "campaigns/other/pulse.yaml", current=folder)
    assert (loaded, found.code) == (None, "path-hidden")


@pytest.mark.parametrize("linked", ["../.env", "../../secrets.txt"])
def test_targets_are_never_a_link_to_another_file(folder: Path, linked: str) -> None:
    """A link in a pull request shows nothing of a hidden file, nor of one outside of the repository."""
    (folder.parent / "secrets.txt").write_text("password: hunter2\n", encoding="utf-8")
    file = folder / "campaigns/targets.yaml"
    file.symlink_to(linked)
    with pytest.raises(ProblemError) as caught:
        read_targets(file, {})
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == (
        "targets-outside",
        "this is a link out of the repository, or to a hidden file, and is not read",
    )
    file.unlink()
    (folder / "shared.yaml").write_text("version: 1\ntargets: {}\n", encoding="utf-8")
    file.symlink_to("../shared.yaml")
    assert read_targets(file, {})["targets"] == {}


def test_a_hidden_campaign_that_is_named_is_read(folder: Path) -> None:
    """A campaign in a hidden folder is read when the command line names it."""
    file = folder / ".git/pulse.yaml"
    file.write_text(f"version: 1\n{PHONE}messages: [{{id: hello, text: Hello}}]\n", encoding="utf-8")
    loaded, problems = load_campaign(file, current=folder)
    assert loaded is not None, problems
