"""Record files: JSON objects with one sealed line for each launch, opt-out, pause or approval.

Git merges them line by line, with conflict markers or without, and two versions unite as sets of lines. This
happens on reading: every clone would have to set up a merge driver, and no code host runs one. Only lines as
this program writes them are accepted; anything else is damage.

A line's seal covers all that it says, its kind, its target and, in lockfiles, its campaign. Merging needs no
key. With a `RUNNER_STATE_KEY` nobody without it can make or change a line; without one, seals show accidents.
Lines that are taken out leave no trace here: they are found in the other places of the record.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from runner.atomic_write import write_whole
from runner.errors import MissingKeyError, RunnerError
from runner.ledger.model import SealedLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.fingerprint import TargetKey


Line = TypeVar("Line", bound=SealedLine)
_encode = msgspec.json.Encoder(order="sorted").encode
_MARKER = re.compile(r"(<{7,}|\|{7,}|={7,}|>{7,})(?: .*)?")
_PAIRED = re.compile(r"(<\|?=>)*")
_HEAD = re.compile(r'  "(?P<name>[a-z_]+)": (?P<value>.+)')
_NAMES = re.compile(r'^  "([a-z_]+)":', re.MULTILINE)
_DIGEST_SIZE = 16
_PLACE = re.compile(r" - at `\$\.?(?P<place>[^`]*)`")


class FileKind(NamedTuple):
    """A kind of record file.

    Attributes:
        words: what it is called before its path, as in `the lockfile `; may be empty.
        document: the type of its JSON.
        version: the name and number of its version.
        error: the class of errors about it.
        restore: the hint for damaged files.
        other_key: the consequence of another key, for hints.
        other_target: the hint for a file of another target.
        blocks: its blocks of lines, and what their seals cover beside what the lines say.
        describe: names a line of a block, for errors.
    """

    words: str
    document: type[Any]
    version: tuple[str, int]
    error: Callable[..., RunnerError]
    restore: str
    other_key: str
    other_target: str
    blocks: Mapping[str, str]
    describe: Callable[[str, Any], str]

    def fail(self, file: Path, what: str, *, hint: str | None = None) -> RunnerError:
        """Return an error about a file."""
        return self.error(f"{self.words}{file} {what}", hint=hint or self.restore)

    def read(self, file: Path) -> str | None:
        """Return the text of a file; None if there is none."""
        try:
            return file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.fail(file, f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self.fail(file, "is not UTF-8") from None

    def save(self, file: Path, pieces: Iterable[str]) -> tuple[bool, str]:
        """Write a file, whole or not at all; return whether it changed, and the digest of its text."""
        digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)

        def write(stream: IO[str]) -> None:
            for piece in pieces:
                digest.update(piece.encode())
                stream.write(piece)

        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            return write_whole(file, write), digest.hexdigest()
        except OSError as error:
            hint = "the ledger has everything: run the same command again when this is mended"
            raise self.fail(file, f"cannot be written: {error.strerror}", hint=hint) from None

    def dump(
        self, target: str, key_name: str, blocks: Mapping[str, Iterable[SealedLine]], **head: str
    ) -> Iterator[str]:
        """Yield the text of a file in pieces; its blocks of lines, which have seals, are streamed."""
        name, version = self.version
        return lay_out({**head, name: version, "key_fingerprint": key_name, "target": target, **blocks})

    def dump_sealed(
        self, key: TargetKey, scope: str, blocks: Mapping[str, Iterable[SealedLine]], **head: str
    ) -> Iterator[str]:
        """Yield the text of a file in pieces, with lines that are sealed for a scope."""
        lines = {name: sign(key, self.blocks[name], scope, block) for name, block in blocks.items()}
        return self.dump(key.target, key.name, lines, **head)


def digest_text(text: str) -> str:
    """Return the digest of a file's text: 128 bits."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_SIZE).hexdigest()


def dump_line(value: Any) -> str:
    """Return a value as one line of JSON, with sorted keys."""
    return _encode(value).decode()


def seal_line(key: TargetKey, kind: str, campaign: str, line: SealedLine) -> str:
    """Return the seal of a line of a campaign; the campaign is empty in files of a target."""
    said = _encode(msgspec.structs.replace(line, seal="") if line.seal else line)
    return key.seal(f"{kind}\0{key.target}\0{campaign}", said)


def sign(key: TargetKey, kind: str, campaign: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines with their seals."""
    for line in lines:
        yield msgspec.structs.replace(line, seal=seal_line(key, kind, campaign, line))


def is_sealed(key: TargetKey, kind: str, campaigns: Iterable[str], line: SealedLine) -> bool:
    """Return whether a line has the seal of a key, for a campaign under any of its names."""
    return any(line.seal == seal_line(key, kind, campaign, line) for campaign in campaigns)


def _require_key(kind: FileKind, file: Path, name: str, key: TargetKey) -> None:
    """Ensure that a file was written with a key; `name` is that of the file's."""
    if name == key.name:
        return
    hint = f"set RUNNER_STATE_KEY to the key it was written with; with another one {kind.other_key}"
    if not key.is_secret:
        raise MissingKeyError(
            f"{kind.words}{file} was written with a RUNNER_STATE_KEY, and none is set", hint=hint
        )
    if name == type(key).of(key.target, None).name:
        raise kind.fail(
            file,
            "was written without a RUNNER_STATE_KEY, and now there is one",
            hint="`runner key rotate` moves the records to the key. Until then nothing is sent: anybody who "
            "can change the file could choose who seems to have been texted",
        )
    raise kind.fail(file, "cannot be read: it was written with another RUNNER_STATE_KEY", hint=hint)


def check_document(
    kind: FileKind, file: Path, text: str, document: Any, key: TargetKey, campaigns: Sequence[str] = ("",)
) -> None:
    """Ensure that a document is of a key's target, was written with the key, and that its seals fit."""
    if document.target != key.target:
        raise kind.fail(
            file, f"is of the target {document.target!r}, not {key.target!r}", hint=kind.other_target
        )
    _require_key(kind, file, document.key_fingerprint, key)
    for block, seal in kind.blocks.items():
        for line in getattr(document, block):
            if not is_sealed(key, seal, campaigns, line):
                raise _refuse_line(kind, file, text, line, key, kind.describe(block, line))


def _refuse_line(
    kind: FileKind, file: Path, text: str, line: SealedLine, key: TargetKey, what: str
) -> RunnerError:
    """Return the error for a line with a wrong seal; `what` names it."""
    numbered = enumerate(text.split("\n"), start=1)
    number = next((number for number, one in numbered if _says(one.strip().removesuffix(","), line)), 1)
    how = (
        "was written without this RUNNER_STATE_KEY" if key.is_secret else "was edited by hand, or is damaged"
    )
    return kind.error(
        f"{kind.words}{file}:{number}: {what} {how}: it does not fit its seal", hint=kind.restore
    )


def _says(text: str, line: SealedLine) -> bool:
    try:
        return bool(msgspec.json.decode(text, type=type(line)) == line)
    except msgspec.DecodeError:
        return False


def parse_text(kind: FileKind, file: Path, text: str) -> tuple[Any, bool]:
    """Return the document of a file's text, and whether git has merged it. Seals are not checked."""
    try:
        names = _NAMES.findall(text)
        # Of two blocks of one name, as git may leave them, the parser would keep the last.
        if len(names) == len(set(names)):
            return _decode(kind, file, text), False
        damage = "says the same thing twice, and was edited by hand"
    except msgspec.DecodeError as error:
        damage = _describe_damage(text, error)
    merged = _merge(kind, file, text)
    try:
        if merged is not None:
            return _decode(kind, file, merged), True
    except msgspec.DecodeError:
        pass  # a line of it is no JSON
    raise kind.fail(file, damage)


def _decode(kind: FileKind, file: Path, text: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind.document)
    except msgspec.ValidationError as error:
        name, known = kind.version
        found = re.search(rf'^  "{name}": (\d+)', text, re.MULTILINE)
        if found is not None and int(found[1]) != known:
            age = "a newer" if int(found[1]) > known else "an older"
            remedy = "update runner" if int(found[1]) > known else kind.restore
            raise kind.fail(file, f"was written by {age} version of runner", hint=remedy) from None
        place = _PLACE.search(str(error))
        where = (place["place"] if place else "") or "its top level"
        raise kind.fail(file, f"is damaged at {where}") from None
    except RecursionError:
        raise kind.fail(file, "is not JSON (nested too deeply)") from None


def _describe_damage(text: str, error: msgspec.DecodeError) -> str:
    if re.search(r"^<{7,}( |$)", text, re.MULTILINE):
        return "has merge conflict markers in it, around lines that were edited by hand"
    found = re.search(r"byte (\d+)", str(error))
    before = text.encode()[: int(found[1])] if found else text.encode()
    line = before.count(b"\n") + 1
    return f"is not JSON, or was edited by hand (line {line})"


def _merge(kind: FileKind, file: Path, text: str) -> str | None:
    """Return the text of a file that git has merged from whole lines, as one side; None for other texts."""
    lines, markers = _keep_both_sides(text.replace("\r\n", "\n").split("\n"))
    # A truncated file also has lines of ours, so check its first and last line.
    if not _PAIRED.fullmatch(markers) or lines[:1] != ["{"] or lines[-2:] != ["}", ""]:
        return None
    head: dict[str, list[str]] = {}
    blocks: dict[str, list[str]] = {}
    for line in lines[:-1]:
        bare = line.removesuffix(",")
        found, block = _HEAD.fullmatch(bare), _find_block(kind, bare)
        if block is not None:
            blocks.setdefault(block, []).append(bare)
        elif found is not None and found["value"] in ("[", "[]"):
            blocks.setdefault(found["name"], [])
        elif found is not None:
            shelf = head.setdefault(found["name"], [])
            shelf += [] if found["value"] in shelf else [found["value"]]
        # A conflict of whole files, as where both sides have added one, has their braces twice.
        elif bare not in ("{", "}", "  ]"):
            return None
    _agree(kind, file, head, blocks)
    merged: dict[str, Any] = {name: msgspec.Raw(values[0].encode()) for name, values in head.items()}
    return "".join(lay_out({**merged, **{name: map(str.strip, found) for name, found in blocks.items()}}))


def _keep_both_sides(lines: Iterable[str]) -> tuple[list[str], str]:
    """Return the lines of both sides of all conflicts, and the first characters of the markers."""
    kept, markers, base = list[str](), "", 0
    for line in lines:
        marker = _MARKER.fullmatch(line)
        # The text of a common ancestor contains the markers of its own conflicts, which are longer.
        if base and not (marker and line[0] == "=" and len(marker[1]) == base):
            continue
        if marker is None:
            kept.append(line)
            continue
        markers += line[0]
        base = len(marker[1]) if line[0] == "|" else 0
    return kept, markers


def _find_block(kind: FileKind, line: str) -> str | None:
    """Return the block that a line is of, by its fields; None for other lines."""
    for field in msgspec.structs.fields(kind.document) if line.startswith("    {") else ():
        if field.name in kind.blocks:
            with suppress(msgspec.DecodeError):
                msgspec.json.decode(f"[{line}]", type=field.type)
                return field.name
    return None


def _agree(
    kind: FileKind, file: Path, head: dict[str, list[str]], blocks: Mapping[str, Sequence[str]]
) -> None:
    """Ensure that both sides say the same outside of the blocks; a renamed campaign has its new name."""
    former = " ".join(blocks.get("former_names", ()))
    if len(head.get("campaign", ())) > 1:
        head["campaign"] = [one for one in head["campaign"] if f'"name":{one}' not in former] or head[
            "campaign"
        ]
    names = sorted(name for name, values in head.items() if len(values) > 1)
    if "key_fingerprint" in names:
        raise kind.fail(
            file,
            "was merged from two sides that were written with different keys",
            hint=f"keep one side (git checkout --ours {file}, or --theirs); what only the other one had is "
            "found at the service (`runner apply`, `runner reconcile --full`); enter opt-outs by hand again",
        )
    if names:
        raise kind.fail(file, f"was merged, and its sides don't agree on {', '.join(names)}")


def lay_out(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of a file in pieces; iterables of lines, or of their texts, become blocks, streamed."""
    separator = "{\n"
    for name in sorted(document):
        value = document[name]
        if isinstance(value, str | int | msgspec.Raw):
            yield f'{separator}  "{name}": {dump_line(value)}'
        else:
            yield f'{separator}  "{name}": ['
            between = "\n"
            for line in value:
                yield f"{between}    {line if isinstance(line, str) else dump_line(line)}"
                between = ",\n"
            yield "]" if between == "\n" else "\n  ]"
        separator = ",\n"
    yield "\n}\n"
