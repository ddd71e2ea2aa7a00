"""Problems as SARIF 2.1.0, for GitHub code scanning and other viewers.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html, cited below by its sections.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from runner.source.storage import repository_root
from runner.version import DOCUMENTATION_URL, __version__
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.source.diagnostic import Diagnostic, Problems

MOST_RESULTS = 5_000
"""GitHub shows no more, the gravest first, and takes 25,000 in 10 MB compressed.

https://docs.github.com/code-security/code-scanning/troubleshooting-sarif-uploads/results-exceed-limit
"""
_ROOT = "%SRCROOT%"
_SEVERITIES = ("error", "warning", "note")
"""The severities, gravest first; they are SARIF's levels as well (3.27.10)."""
_MOST_HINTS = 5
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
_PLACE_WORDS = re.compile(r"\b(lines?|rows?) [\d,]+")


def sarif_text(problems: Problems) -> str:
    """Return problems as a SARIF document that code scanning takes, the gravest first.

    Problems beyond the most results, and those that were counted but not kept, are counted in the run's
    notifications.
    """
    kept = sorted(problems, key=lambda one: _SEVERITIES.index(one.severity))
    root = Path(os.environ.get("GITHUB_WORKSPACE") or repository_root(Path.cwd()))
    left_out = _count_left_out(problems, kept[MOST_RESULTS:], root)
    return json.dumps(_document(kept[:MOST_RESULTS], left_out, root), ensure_ascii=False, indent=2)


def _document(shown: Sequence[Diagnostic], left_out: list[dict[str, Any]], root: Path) -> dict[str, Any]:
    codes = list(dict.fromkeys(diagnostic.code for diagnostic in shown))
    driver = {
        "name": "sms-campaign-runner",
        "semanticVersion": __version__,
        "informationUri": DOCUMENTATION_URL,
        "rules": [_rule(code, [one for one in shown if one.code == code]) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        # The repository's place on this machine is private (3.14.14).
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The top of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": "runner-validate/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": left_out}],
        "results": _results(shown, codes, root),
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _rule(code: str, found: Sequence[Diagnostic]) -> dict[str, Any]:
    words = code.replace("-", " ").capitalize()
    hints = list(dict.fromkeys(diagnostic.hint for diagnostic in found if diagnostic.hint))[:_MOST_HINTS]
    text = "What to do: " + "; ".join(hints) if hints else "`runner validate` says where and why."
    return {
        "id": code,
        "shortDescription": {"text": words},
        "fullDescription": {"text": words},
        "help": {"text": _plain(text)},
        "defaultConfiguration": {"level": found[0].severity},
    }


def _results(shown: Iterable[Diagnostic], codes: list[str], root: Path) -> list[dict[str, Any]]:
    places = {code: index for index, code in enumerate(codes)}
    seen: Counter[str] = Counter()
    results = []
    for diagnostic in shown:
        location = _artifact_location(diagnostic.file, root)
        same = _fingerprint(diagnostic, location["uri"])
        seen[same] += 1
        results.append(
            {
                "ruleId": diagnostic.code,
                "ruleIndex": places[diagnostic.code],
                "level": diagnostic.severity,
                "message": {"text": _plain("\n".join(filter(None, (diagnostic.message, diagnostic.hint))))},
                "locations": [_location(diagnostic, location)],
                "partialFingerprints": {"campaignProblem/v1": f"{same}:{seen[same]}"},
            }
        )
    return results


def _plain(text: str) -> str:
    """Return a text without the links that even plain messages may hold (3.11.6)."""
    return _LINK.sub(r"\[", text)


def _location(diagnostic: Diagnostic, artifact: dict[str, str]) -> dict[str, Any]:
    region = {"startLine": diagnostic.line, "startColumn": diagnostic.column}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _artifact_location(file: Path, root: Path) -> dict[str, str]:
    """Return a file's location: from the top of the repository if it is below it (3.4)."""
    absolute = Path(os.path.normpath(file.absolute()))
    if absolute.is_relative_to(root):
        return {"uri": quote(os.fsencode(absolute.relative_to(root).as_posix())), "uriBaseId": _ROOT}
    return {"uri": absolute.as_uri()}


def _fingerprint(diagnostic: Diagnostic, uri: str) -> str:
    """Return a fingerprint of a problem that survives changes of the lines above it.

    It hashes the message, not the line: a line of an audience is a person. GitHub's own upload adds the hash
    of the line, `primaryLocationLineHash`.
    """
    message = _PLACE_WORDS.sub(r"\1", diagnostic.message)
    identity = json.dumps([uri, diagnostic.code, diagnostic.kind, message])
    return hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()


def _count_left_out(problems: Problems, dropped: Sequence[Diagnostic], root: Path) -> list[dict[str, Any]]:
    """Return a notification for each code and file with results left out (3.58)."""
    counts: Counter[tuple[str, Path]] = Counter({(code, file): n for code, file, n in problems.omitted()})
    counts.update((diagnostic.code, diagnostic.file) for diagnostic in dropped)
    return [
        {
            "level": "note",
            "message": {"text": f"{count_words(count, 'more problem')} of the kind {code} left out here"},
            "descriptor": {"id": code},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact_location(file, root)}}],
        }
        for (code, file), count in sorted(counts.items())
    ]
