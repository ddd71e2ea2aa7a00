"""`runner init`: a campaign repository that works, written over nothing."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = Path(__file__).parent.parent.parent
REQUIREMENT = "sms-campaign-runner @ git+https://git.example.com/acme/runner.git@" + "0123456789" * 4
KNOWN = ("--owner", "@acme/texting", "--requirement", REQUIREMENT)
FILES = [
    ".gitattributes",
    ".github/dependabot.yml",
    ".github/requirements.lock",
    ".github/workflows/campaigns-review.yml",
    ".github/workflows/campaigns-send.yml",
    ".gitignore",
    "campaigns/audience/first-orders.csv",
    "campaigns/first-order.yaml",
    "campaigns/tests/first-order.yaml",
]


@pytest.fixture(autouse=True)
def isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine reach git, and no repository above the test's folder."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def list_files(folder: Path) -> list[str]:
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(file.as_posix() for file in files if file.parts[0] not in {".git", ".runner"})


def test_an_empty_folder_becomes_a_campaign_repository(run: Run, tmp_path: Path) -> None:
    """What is written is listed, and what comes next is said."""
    done = run("init", "acme", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == (
        "Wrote 9 files to acme:\n"
        + "".join(f"  {name}\n" for name in FILES)
        + "Created a git repository on the branch main.\n"
        "\n"
        "Next:\n"
        "  in acme, look around, on the sandbox: `runner plan`, `runner preview campaigns/first-order.yaml`\n"
        "  where it is night, texts wait for the morning: `runner sandbox clock next` goes there\n"
        "  say where the service is: `runner init --base-url URL`; until then nothing is sent for real\n"
        "  say which runner CI installs: `runner init --requirement 'sms-campaign-runner @ "
        "git+https://HOST/PATH@COMMIT'`, from your own repository, or `'sms-campaign-runner @ "
        "https://HOST/FILE.whl --hash=sha256:DIGEST'`, from your own index; until then its jobs fail (runner "
        "was not installed from a commit or a file that CI can get)\n"
        "  say who has to agree to changes of workflows and targets: `runner init --owner @ORG/TEAM`\n"
        "  commit and push to a repository on GitHub: `git add .`, `git commit`, `git push`\n"
        "  there, make the settings that `runner ci --help` lists: secrets, and who may send\n"
        "  once, before the first job: `runner ci start --target live`, so that it does not wait for minutes\n"
    )
    assert list_files(tmp_path / "acme") == FILES
    assert (tmp_path / "acme/.git/HEAD").read_text() == "ref: refs/heads/main\n"


@pytest.mark.slow
def test_the_example_is_valid_and_works_on_the_sandbox(run: Run, tmp_path: Path) -> None:
    """It has no errors and no warnings, and everybody in it is planned for."""
    run("init", cwd=tmp_path)
    done = run("validate", cwd=tmp_path)
    assert done.stdout == "Valid: 1 campaign, 0 errors, 0 warnings.\n"
    # When it is day from New York to Hawaii.
    hours = (20 - datetime.now(UTC).hour) % 24 or 24
    assert run("sandbox", "clock", f"+{hours}h", cwd=tmp_path).returncode == 0
    assert run("apply", "--auto-approve", cwd=tmp_path).returncode == 0
    lockfile = (tmp_path / "campaigns/first-order.sandbox.lock.json").read_text(encoding="utf-8")
    assert lockfile.count('"message":"ask"') == 5


def test_the_workflows_are_those_of_this_repository(run: Run, tmp_path: Path) -> None:
    """What is written is what is used here; only where the program is from is another matter."""
    run("init", *KNOWN, cwd=tmp_path)
    for name in ("workflows/campaigns-review.yml", "workflows/campaigns-send.yml", "requirements.lock"):
        written = tmp_path / ".github" / name
        assert written.read_bytes() == (REPOSITORY / ".github" / name).read_bytes()
    pinned = (tmp_path / ".github/requirements.txt").read_text(encoding="utf-8")
    assert pinned == (
        f"# The runner that CI installs, named so that nobody else can supply it.\n{REQUIREMENT}\n"
    )
    assert (tmp_path / ".github/CODEOWNERS").read_text(encoding="utf-8") == (
        "# Who has to agree to what CI runs, where texts go, and the rules of all campaigns.\n"
        "/.github/ @acme/texting\n"
        "/**/targets.yaml @acme/texting\n"
    )


def test_the_target_is_described_with_its_address(run: Run, tmp_path: Path) -> None:
    """Credentials stay out of it; the runner reads what was written."""
    done = run("init", "--base-url", "https://sms.example.com", cwd=tmp_path)
    assert "campaigns/targets.yaml" in done.stdout
    assert "--base-url" not in done.stdout
    applied = run("apply", "--target", "live", "--auto-approve", cwd=tmp_path)
    assert applied.stderr == (
        "Error: the target 'live' has no credentials\n  set RUNNER_USERNAME and RUNNER_API_KEY\n"
    )


def test_the_address_can_be_said_later(run: Run, tmp_path: Path) -> None:
    """The same command again writes what is new, alone; and once more, nothing."""
    run("init", *KNOWN, cwd=tmp_path)
    later = run("init", "--base-url", "https://sms.example.com", cwd=tmp_path)
    assert later.stdout.startswith("Wrote 1 file to .:\n  campaigns/targets.yaml\n\nNext:\n  look around, on")
    again = run("init", "--base-url", "https://sms.example.com", cwd=tmp_path)
    assert again.stdout.startswith("Nothing to write: . has everything already.\n\nNext:\n")


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    """All that is in the way is named, and nothing is written."""
    (tmp_path / ".gitignore").write_text("ours\n")
    (tmp_path / ".github").write_text("a file where a folder should be\n")
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/first-order.yaml").symlink_to("nowhere.yaml")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: nothing was written to .: these are there already, and say something else\n"
        "  keep them and choose another folder, or move them away:\n"
        "    .github/dependabot.yml\n"
        "    .github/requirements.lock\n"
        "    .github/workflows/campaigns-review.yml\n"
        "    .github/workflows/campaigns-send.yml\n"
        "    .gitignore\n"
        "    campaigns/first-order.yaml\n"
    )
    assert list_files(tmp_path) == [".github", ".gitignore"]
    assert not (tmp_path / ".git").exists()


def test_a_repository_that_is_there_is_kept(run: Run, tmp_path: Path) -> None:
    """Its files stay; if its branch is not the one that is sent from, that is said."""
    subprocess.run(["git", "init", "--quiet", "-b", "trunk"], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").write_text("Ours.\n")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 0
    assert "Created a git repository" not in done.stdout
    assert done.stderr == "Warning: the workflows send from main, and this work tree is on trunk\n"
    assert (tmp_path / "notes.txt").is_file()


def test_what_is_not_known_yet_is_asked_for_and_filled_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owner and requirement can be said later, by the same command; what a person has written stays."""
    installed = tmp_path / "site/sms_campaign_runner-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: sms-campaign-runner\nVersion: 0.1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    first = run("init", "acme", cwd=tmp_path)
    assert (
        "  say which runner CI installs: `runner init --requirement 'sms-campaign-runner @ "
        "git+https://HOST/PATH@COMMIT'`, from your own repository, or `'sms-campaign-runner @ "
        "https://HOST/FILE.whl --hash=sha256:DIGEST'`, from your own index; until then its jobs fail (no "
        "installer has noted where runner came from)\n"
    ) in first.stdout
    requirements = tmp_path / "acme/.github/requirements.txt"
    assert not requirements.exists()
    assert (
        "  say who has to agree to changes of workflows and targets: `runner init --owner @ORG/TEAM`\n"
    ) in first.stdout
    assert not (tmp_path / "acme/.github/CODEOWNERS").exists()
    second = run("init", "acme", "--owner", "@acme/texting", "--owner", "bob@example.com", cwd=tmp_path)
    assert second.stdout.startswith("Wrote 1 file to acme:\n  .github/CODEOWNERS\n")
    owners = tmp_path / "acme/.github/CODEOWNERS"
    assert owners.read_text(encoding="utf-8").splitlines()[1:] == [
        "/.github/ @acme/texting bob@example.com",
        "/**/targets.yaml @acme/texting bob@example.com",
    ]
    named = run("init", "acme", "--requirement", REQUIREMENT, cwd=tmp_path)
    assert named.stdout.startswith("Wrote 1 file to acme:\n  .github/requirements.txt\n")
    assert requirements.read_text(encoding="utf-8").splitlines()[1:] == [REQUIREMENT]
    other = run("init", "acme", "--requirement", REQUIREMENT.replace("0", "f"), cwd=tmp_path)
    assert other.returncode == 1
    assert other.stderr.endswith("or move them away:\n    .github/requirements.txt\n")
    owners.write_text("/.github/ @acme/security\n", encoding="utf-8")
    third = run("init", "acme", "--owner", "@acme/texting", cwd=tmp_path)
    assert third.stdout.startswith("Nothing to write: acme has everything already.\n")
    assert (
        "  add to .github/CODEOWNERS, which is there already: /**/targets.yaml @acme/texting\n"
    ) in third.stdout
    assert owners.read_text(encoding="utf-8") == "/.github/ @acme/security\n"


@pytest.mark.parametrize("name", ["CODEOWNERS", "docs/CODEOWNERS"])
def test_owners_who_are_named_elsewhere_stay(run: Run, tmp_path: Path, name: str) -> None:
    """GitHub reads one such file alone, and first the one that would be written: the others' rules would end."""
    make_repository(tmp_path / "acme")
    owners = tmp_path / "acme" / name
    owners.parent.mkdir(exist_ok=True)
    owners.write_text("* @acme/all\n", encoding="utf-8")
    done = run("init", "texts", *KNOWN, cwd=tmp_path / "acme")
    assert done.returncode == 0
    assert (
        f"  add to {name}, which is there already: /.github/ @acme/texting; "
        "/texts/**/targets.yaml @acme/texting\n"
    ) in done.stdout
    assert not (tmp_path / "acme/.github/CODEOWNERS").exists()


@pytest.mark.parametrize(
    "requirement",
    [
        "sms-campaign-runner",
        "sms-campaign-runner==0.1.0",
        "sms-campaign-runner @ git+https://git.example.com/acme/runner.git@main",
        "sms-campaign-runner @ git+https://git.example.com/acme/runner.git@v1.0",
        "sms-campaign-runner @ git+https://git.example.com/acme/runner.git@0123456",
        "sms-campaign-runner @ git+http://git.example.com/acme/runner.git@" + "0123456789" * 4,
        "sms-campaign-runner @ https://files.example.com/runner.whl",
        "-r other.txt",
    ],
)
def test_a_requirement_that_somebody_else_can_supply_is_refused(
    run: Run, tmp_path: Path, requirement: str
) -> None:
    """A name, a version, a branch, a tag, a part of a commit: none is the content."""
    done = run("init", "acme", f"--requirement={requirement}", cwd=tmp_path)
    assert done.returncode == 64
    assert done.stderr == (
        "Error: --requirement does not name runner by its content: anybody may own a name, and branches and tags "
        "can be moved\n"
        "  'sms-campaign-runner @ git+https://HOST/PATH@COMMIT' with the whole commit, or 'sms-campaign-runner @ "
        "https://HOST/FILE.whl --hash=sha256:DIGEST'\n"
    )
    assert not (tmp_path / "acme").exists()


def test_a_requirement_with_a_password_is_refused(run: Run, tmp_path: Path) -> None:
    """It would be committed; it is not shown either."""
    for user in ("ghp_s3cret", "x:ghp_s3cret"):
        requirement = REQUIREMENT.replace("https://", f"https://{user}@")
        done = run("init", "acme", "--requirement", requirement, cwd=tmp_path)
        assert done.returncode == 64
        assert done.stderr == (
            "Error: the address in --requirement has a password in it, which would be committed\n"
            "  take it out; CI can get it from git's own settings\n"
        )
        short = run("init", "acme", "--requirement", requirement[:-1], cwd=tmp_path)
        assert "s3cret" not in short.stderr


@pytest.mark.parametrize("owner", ["acme", "@", "@acme/texting @mallory", "@a/b/c", "*"])
def test_what_is_no_owner_is_refused(run: Run, tmp_path: Path, owner: str) -> None:
    """Before anything is written."""
    done = run("init", "acme", "--owner", owner, cwd=tmp_path)
    assert done.returncode == 64
    assert done.stderr == (
        f"Error: {owner!r} is no owner\n  @NAME, @ORG/TEAM or an address, as CODEOWNERS has them\n"
    )
    assert not (tmp_path / "acme").exists()


def make_repository(folder: Path) -> None:
    """A repository of something else, with a workflow of its own."""
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", "-b", "main"], cwd=folder, check=True)
    (folder / ".github/workflows").mkdir(parents=True)
    (folder / ".github/workflows/ci.yml").write_text("on: push\n", encoding="utf-8")
    (folder / "README.md").write_text("Ours.\n", encoding="utf-8")


def test_folders_of_a_repository_have_workflows_of_their_own_at_its_top(run: Run, tmp_path: Path) -> None:
    """What several share is written once; what the repository has stays; twice is as good as once."""
    top = tmp_path / "acme"
    make_repository(top)
    first = run("init", "teams/x", *KNOWN, cwd=top)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith(
        "Wrote 11 files to .:\n"
        "  .github/CODEOWNERS\n"
        "  .github/dependabot.yml\n"
        "  .github/requirements.lock\n"
        "  .github/requirements.txt\n"
        "  .github/workflows/campaigns-review-teams--x.yml\n"
        "  .github/workflows/campaigns-send-teams--x.yml\n"
        "  teams/x/.gitattributes\n"
        "  teams/x/.gitignore\n"
        "  teams/x/campaigns/audience/first-orders.csv\n"
        "  teams/x/campaigns/first-order.yaml\n"
        "  teams/x/campaigns/tests/first-order.yaml\n"
        "\nNext:\n  in teams/x, look around"
    )
    (top / "teams/für uns").mkdir()
    second = run("init", "--base-url", "https://sms.example.com", cwd=top / "teams/für uns")
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout.startswith(
        "Wrote 8 files to ../..:\n  .github/workflows/campaigns-review-teams--f_r_uns-"
    )
    assert "  teams/für uns/campaigns/tests/first-order.yaml\n\nNext:\n  look around, on" in second.stdout
    assert (
        "  add to .github/CODEOWNERS, which is there already: /teams/für\\ uns/**/targets.yaml @ORG/TEAM\n"
    ) in second.stdout
    before = list_files(top)
    again = run("init", "teams/x", cwd=top)
    assert again.stdout.startswith("Nothing to write: . has everything already.\n")
    assert list_files(top) == before
    assert (top / "README.md").read_text(encoding="utf-8") == "Ours.\n"
    assert run("validate", cwd=top / "teams/für uns").stdout == "Valid: 1 campaign, 0 errors, 0 warnings.\n"


def test_a_linked_work_tree_is_a_repository_too(run: Run, tmp_path: Path) -> None:
    """Its top is where workflows go."""
    top = tmp_path / "acme"
    make_repository(top)
    for words in (("add", "."), ("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "Start")):
        subprocess.run(["git", *words], cwd=top, check=True)
    subprocess.run(["git", "worktree", "add", "--quiet", "-b", "beside", "../beside"], cwd=top, check=True)
    done = run("init", "beside/teams", *KNOWN, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "Warning: the workflows send from main, and this work tree is on beside\n"
    assert (tmp_path / "beside/.github/workflows/campaigns-send-teams.yml").is_file()
    assert not (top / "teams").exists()


@pytest.mark.parametrize(
    "name", [".hidden", "a/.b", "-x", "a*", "x y ", "a'b", "$HOME", "a[b]", "a\nb", "é\\x"]
)
def test_a_folder_whose_name_means_something_else_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    """Filters of workflows, shells and CODEOWNERS would read another name, or nothing would be read there."""
    make_repository(tmp_path / "acme")
    done = run("init", "--", name, cwd=tmp_path / "acme")
    assert done.returncode == 64
    assert done.stderr == (
        f"Error: {name!r} is no name for a folder of campaigns in a repository\n"
        "  letters, digits and `_`, inside also blanks, `-` and `.`: filters and shells read others as "
        "something else\n"
    )
    assert list_files(tmp_path / "acme") == [".github/workflows/ci.yml", "README.md"]


def test_an_address_that_cannot_be_used_is_refused(run: Run, tmp_path: Path) -> None:
    """Before anything is written."""
    done = run("init", "--base-url", "http://sms.example.com", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the base URL http://sms.example.com would send credentials")
    assert list_files(tmp_path) == []


def test_without_git_the_files_are_written_all_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder can become a repository later."""
    monkeypatch.setenv("PATH", "/nonexistent")
    done = run("init", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "Warning: git is not installed: the folder is no repository yet\n"
    assert list_files(tmp_path) == FILES


def test_a_folder_that_cannot_be_written_to_is_an_error(run: Run, tmp_path: Path) -> None:
    """The file is named."""
    (tmp_path / "full").symlink_to("/proc/self")
    done = run("init", "full", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "cannot be written" in done.stderr
