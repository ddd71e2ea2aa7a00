"""A team, its repository on the forge, and the service that it texts with."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from runner.sandbox.rehearsal.faults import FAULTS, FaultPlace, Faults
from tests.cli.inside import run_inside
from tests.gitops.actions import run_workflow
from tests.gitops.forge import Event
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.sandbox.rehearsal.faults import Fault
    from tests.forge.github_server import GitHub
    from tests.gitops.forge import Forge, Job, Waiting

NUMBER = 7
REVIEWER = "grace"
LIMITS = """\
    limits:
      settle_window: 1s
"""
LATER = """\
import datetime
import freezegun
later = datetime.timedelta(seconds={seconds})
freezegun.freeze_time(datetime.datetime.now(datetime.UTC) + later, tick=True).start()
"""
LEASE = "--state-lease 6"
"""Seconds instead of minutes, in which the next machine watches the remote's lock."""
PROTECTION = """\
#!/bin/sh
[ "$1" != refs/heads/main ] || [ -z "$GITHUB_ACTIONS" ]
"""
"""A hook of the remote: jobs may not push to main."""

REQUIREMENT = "sms-campaign-runner @ git+https://git.example.com/acme/runner.git@" + "0123456789" * 4


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


class HeldSends(Faults):
    """Sends that the service accepts without an answer when it is told to: a run stays amid them, as long as it takes."""

    def __init__(self) -> None:
        super().__init__()
        self._left: int | None = None

    @contextmanager
    def hold_after(self, count: int) -> Iterator[None]:
        """Answer so many sends, and no more while the block lasts."""
        self._left = count
        try:
            yield
        finally:
            self._left = None

    def decide(self, place: FaultPlace) -> Fault | None:
        if place is FaultPlace.SEND and self._left is not None:
            if not self._left:
                return FAULTS["slow"]
            self._left -= 1
        return super().decide(place)


@dataclass
class Team:
    """A team, its repository on the forge, and the service that it texts with.

    Attributes:
        folder: all of it is below.
        forge: where the repository is.
        github: the forge's REST API.
        service_url: where the service is.
        credentials: for it, as a query.
        sends: what the service does with them.
        place: the folder of the repository that the campaigns' folder is in.
        asked: the jobs that reviewers were asked to approve, by the names that they were shown.
        passed: the time that was let pass.
    """

    folder: Path
    forge: Forge
    github: GitHub
    service_url: str
    credentials: str
    sends: HeldSends
    place: str = "."
    asked: list[str] = field(default_factory=list)
    passed: timedelta = timedelta()

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def campaigns(self) -> Path:
        return self.clone / self.place / "campaigns"

    def start(self, *, is_protected: bool = False) -> None:
        """Make a repository that sends at once, on a forge where somebody has sent before."""
        self.clone.mkdir()
        git(self.clone, "init", "--quiet", "--initial-branch=main")
        git(self.clone, "remote", "add", "origin", f"file://{self.forge.remote}")
        known = ("--base-url", self.service_url, "--requirement", REQUIREMENT)
        done = run_inside("init", self.place, *known, cwd=self.clone)
        assert done.returncode == 0, done.stderr
        for name in ("first-order.yaml", "tests/first-order.yaml"):
            (self.campaigns / name).unlink()
        self.shorten_settling()
        self.shorten_lease()
        self.commit("Start campaigns")
        git(self.clone, "push", "--quiet", "--set-upstream", "origin", "main")
        leave_free_ref(self.clone)
        if is_protected:
            self.protect_main()

    def protect_main(self) -> None:
        """Have main take no push from jobs."""
        hook = self.forge.remote / "hooks/update"
        hook.write_text(PROTECTION, encoding="utf-8")
        hook.chmod(0o755)

    def write_campaign(self, name: str, text: str) -> None:
        (self.campaigns / f"{name}.yaml").write_text(text, encoding="utf-8")

    def write_audience(self, phones: Sequence[str], name: str = "guests") -> None:
        rows = "".join(f"Guest {number},{phone}\n" for number, phone in enumerate(phones))
        (self.campaigns / "audience").mkdir(exist_ok=True)
        file = self.campaigns / f"audience/{name}.csv"
        file.write_text(f"name,phone\n{rows}", encoding="utf-8")

    def commit(self, message: str) -> str:
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "--message", message)
        return git(self.clone, "rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        git(self.clone, "checkout", "--quiet", "main")
        git(self.clone, "pull", "--quiet", "--ff-only")
        git(self.clone, "checkout", "--quiet", "-b", name)

    def review(self) -> Job:
        """Push the current branch to its pull request, and run the review on it."""
        ref = f"refs/pull/{NUMBER}/merge"
        git(self.clone, "push", "--quiet", "--force", "origin", f"HEAD:{ref}")
        sha = git(self.clone, "rev-parse", "HEAD")
        repository = {"full_name": self.github.repository}
        request = {"number": NUMBER, "head": {"sha": sha, "repo": repository}, "base": {"repo": repository}}
        self.github.head = sha
        event = Event("pull_request", ref, sha, payload={"pull_request": request})
        jobs = run_workflow(self.workflow("review"), event, self.forge)
        assert jobs is not None
        return jobs["review"]

    def merge(self, branch: str, title: str) -> Event:
        """Merge a branch on the forge, as its pull request was reviewed, and return what that starts."""
        head = git(self.clone, "rev-parse", branch)
        git(self.clone, "checkout", "--quiet", "main")
        event = self._push(lambda: git(self.clone, "merge", "--quiet", "--no-ff", "--message", title, branch))
        self.github.add_pull(NUMBER, event.sha, ref=branch)["head"]["sha"] = head
        self.github.add_review(NUMBER, REVIEWER, sha=head)
        return event

    def push(self, message: str) -> Event:
        """Commit what is in the work tree to main, and return what that starts."""
        return self._push(lambda: self.commit(message))

    def _push(self, make_commit: Callable[[], object]) -> Event:
        git(self.clone, "pull", "--quiet", "--ff-only")
        before = git(self.clone, "rev-parse", "HEAD")
        make_commit()
        git(self.clone, "push", "--quiet", "origin", "main")
        after = git(self.clone, "rev-parse", "HEAD")
        paths = git(self.clone, "diff", "--name-only", before, after).splitlines()
        return Event("push", "refs/heads/main", after, tuple(paths))

    def send(
        self,
        event: Event,
        review: Callable[[Waiting], None] | None = None,
        during: Mapping[str, Callable[[int], None]] | None = None,
        rerun: tuple[int, int] | None = None,
    ) -> dict[str, Job]:
        def wait(waiting: Waiting) -> None:
            assert review is not None, f"nobody was to be asked, and is: {waiting.name}"
            self.github.waiting[waiting.run] = waiting.name
            try:
                review(waiting)
            finally:
                del self.github.waiting[waiting.run]

        has_reviewers = self.forge.environments["campaigns-approval"].has_reviewers
        self.github.reviewers = [REVIEWER] if has_reviewers else []
        self.github.before = lambda _, path: self.list_commits() if "/commits?" in path else None
        jobs = run_workflow(self.workflow("send"), event, self.forge, during, wait, rerun)
        assert jobs is not None
        return jobs

    def list_commits(self) -> None:
        """Have the REST API list the commits of main, the latest first."""
        log = git(self.forge.remote, "log", "--format=%H %B%x00", "main").split("\0")
        pairs = (entry.strip().partition(" ") for entry in log if entry.strip())
        self.github.commits = [{"sha": sha, "commit": {"message": message}} for sha, _, message in pairs]

    def hour(self) -> Event:
        """Return what happens every hour."""
        return Event("schedule", "refs/heads/main", self.tip())

    def dispatch(self, **inputs: str) -> Event:
        """Return what somebody has filled in."""
        return Event("workflow_dispatch", "refs/heads/main", self.tip(), inputs=inputs)

    def approve(self, waiting: Waiting) -> None:
        """Approve a job as one of the environment's reviewers."""
        self._decide(waiting, "approved")

    def reject(self, waiting: Waiting) -> None:
        """Reject a job as one of the environment's reviewers."""
        self._decide(waiting, "rejected")

    def _decide(self, waiting: Waiting, decision: str) -> None:
        self.asked.append(waiting.name)
        waiting.decision = decision
        self.github.add_approval(waiting.run, waiting.environment, REVIEWER, decision)

    def pass_time(self, time_passed: timedelta) -> None:
        """Let time pass, for the service as for every machine from now on."""
        self.passed += time_passed
        self.ask("/_sandbox/clock", {"advance": f"{time_passed.total_seconds():.0f}s"})
        text = LATER.format(seconds=self.passed.total_seconds())
        (self.folder / "later").mkdir(exist_ok=True)
        (self.folder / "later/sitecustomize.py").write_text(text, encoding="utf-8")
        environment = {**self.forge.environment, "PYTHONPATH": str(self.folder / "later")}
        self.forge = replace(self.forge, environment=environment)

    def shorten_settling(self) -> None:
        """Say that this service lists launches soon."""
        targets = self.campaigns / "targets.yaml"
        targets.write_text(targets.read_text(encoding="utf-8") + LIMITS, encoding="utf-8")

    def shorten_lease(self) -> None:
        """Have jobs wait for seconds until a machine that is lost must have stopped."""
        file = self.workflow("send")
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"exec runner ci \w+", rf"\g<0> {LEASE}", text)
        file.write_text(text, encoding="utf-8")

    def workflow(self, name: str) -> Path:
        kind = name if self.place == "." else f"{name}-{self.place}"
        return self.clone / f".github/workflows/campaigns-{kind}.yml"

    def tip(self) -> str:
        return git(self.forge.remote, "rev-parse", "main")

    def subjects(self) -> list[str]:
        """Return what `git log` tells."""
        return git(
            self.forge.remote, "log", "--first-parent", "--reverse", "--format=%s", "main"
        ).splitlines()

    def show_on_ref(self, file: str) -> str:
        """Return a file of the record on the state remote."""
        return git(self.forge.remote, "show", f"refs/runner/live:{file}")

    def count_recorded(self) -> Counter[str]:
        """Return how many texts of each campaign are on record: in `git log`, or on the ref if main is protected."""
        counted: Counter[str] = Counter()
        if (self.forge.remote / "hooks/update").exists():
            for file in git(self.forge.remote, "ls-tree", "--name-only", "refs/runner/live").splitlines():
                if file.endswith(".lock.json"):
                    launches = json.loads(self.show_on_ref(file))["launches"]
                    counted[file.removesuffix(".lock.json")] = sum(len(one["recipients"]) for one in launches)
            return counted
        for subject in self.subjects():
            for number, name in re.findall(r"(\d+) texts? of ([\w-]+)", subject):
                counted[name] += int(number)
        return counted

    def ask(self, path: str, body: Any = None) -> Any:
        """Ask the service."""
        data = None if body is None else json.dumps(body).encode()
        separator = "&" if "?" in path else "?"
        request = Request(f"{self.service_url}{path}{separator}{self.credentials}", data)  # noqa: S310  our own
        with urlopen(request, timeout=30) as answer:  # noqa: S310  our own
            return json.load(answer)

    def texts(self, tag: str) -> Counter[str]:
        """Return how often each phone was accepted under a tag, by the service's own record."""
        found: Counter[str] = Counter()
        offset = 0
        while True:
            page = self.ask(f"/api/stats/?project_tag={tag}&limit=500&offset={offset}")["objects"]
            found.update(session["to"] for launch in page for session in launch["sessions"])
            if len(page) < 500:
                return found
            offset += len(page)
