"""JSON documents: what commands print and save. Their types and docstrings are the source of `schemas/`."""

from __future__ import annotations

from datetime import date
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from runner.version import FORMAT_VERSION

__all__ = ["UNSET", "Meta", "UnsetType", "field"]

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A stored time: UTC, ISO 8601."""
PLACES = 4
"""Decimal places of fractions in documents."""


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a document; a field that is `UNSET` is left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON's values."""
        values: dict[str, Any] = msgspec.json.decode(self._encode())
        return values

    @classmethod
    def read(cls, values: Any) -> Self:
        """Return the part that JSON's values describe.

        Raises:
            ValueError: they describe none.
        """
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    def keep(self) -> str:
        """Return the part as JSON text from which `restore` makes it again, with exact fractions."""
        return msgspec.json.encode(self, enc_hook=_keep).decode()

    @classmethod
    def restore(cls, text: str) -> Self:
        """Return the part that `keep` wrote."""
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))

    def _encode(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=_store)

    def replace(self, **changes: Any) -> Self:
        """Return the part with other values for some fields."""
        return msgspec.structs.replace(self, **changes)


class FailedCampaign(Part, frozen=True):
    """A campaign that was left out, and why.

    Attributes:
        campaign: its name; None if the file cannot be read.
        file: the campaign file that was left out.
        exit_code: with which a command about this campaign alone would end.
        message: why, in words.
        hint: what to do about it; None if there is nothing to say.
    """

    campaign: str | None
    file: str
    exit_code: Positive
    message: str
    hint: str | None


_Kind = TypeVar("_Kind", bound=Part)


def build(kind: type[_Kind], source: object, **others: Any) -> _Kind:
    """Return a part whose fields are `others`, and the attributes of `source` that have their names."""
    named = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}
    return kind(**named, **others)


class Document(Part, frozen=True, tag_field="format_version", tag=FORMAT_VERSION):
    """A whole document, which begins with the version of its format."""

    def write(self) -> str:
        """Return the document as JSON, indented, without a line break at its end."""
        return msgspec.json.format(self._encode(), indent=2).decode()


class Described:
    """A result that can be given as a document."""

    __slots__ = ()

    @property
    def document(self) -> Document:
        """The result as a document."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return what the command writes with `--format json`, described by its schema."""
        return self.document.to_dict()


def _store(value: Any) -> float | str:
    if isinstance(value, Fraction):
        return float(round_exactly(value, PLACES))
    if isinstance(value, date):
        # Of a subclass, such as a test's frozen time.
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{value!r} cannot stand in a document")


def _keep(value: Any) -> str:
    return str(value) if isinstance(value, Fraction) else str(_store(value))


def round_exactly(number: Fraction, places: int) -> Decimal:
    """Return a fraction rounded to decimal places, half away from zero, with no binary step between."""
    scaled = number * 10**places
    doubled = abs(2 * scaled) + 1
    magnitude = doubled.numerator // (2 * doubled.denominator)
    with localcontext(prec=60, rounding=ROUND_HALF_UP):
        return Decimal(magnitude if number >= 0 else -magnitude).scaleb(-places)
