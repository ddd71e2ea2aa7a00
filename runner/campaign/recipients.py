"""Whom a campaign file names, and where it says that more of them stand, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from runner.campaign.position import Position

Variable: TypeAlias = str | int | float | bool | list["Variable"] | dict[str, "Variable"] | None
Variables: TypeAlias = Mapping[str, Variable]
FileFormat = Literal["csv", "parquet"]


@dataclass(frozen=True, slots=True)
class Consent:
    """What a recipient agreed to, as it is on record.

    Attributes:
        source: where they did.
        date: when, ISO 8601; None if it is not on record.
    """

    source: str
    date: str | None = None


@dataclass(frozen=True, slots=True)
class ConsentColumns:
    """The columns of an audience file that hold consent.

    Attributes:
        source_column: where a recipient agreed; blank if they did not.
        date_column: when they did; None if the file does not say.
    """

    source_column: str
    date_column: str | None = None


class InlineRecipient(NamedTuple):
    """A recipient written in the campaign file, its phone not yet parsed. A tuple: there may be thousands.

    Attributes:
        region: where they are by law, ISO 3166: a country, or a country and state; None to go by the number.
        timezone: an IANA name; None to go by the region, or the number.
        consent: None if none is on record.
    """

    phone: str
    region: str | None
    vars: Variables
    position: Position
    timezone: str | None = None
    consent: Consent | None = None

    @property
    def country(self) -> str | None:
        """The country of a number in national form, ISO 3166-1; None for one in E.164 form."""
        return None if self.region is None else self.region.partition("-")[0]


@dataclass(frozen=True, slots=True)
class FileRecipients:
    """An audience file: every column is a variable, one column is the phone.

    Attributes:
        path: where it is; of a URL, what stands for it in messages.
        region: the country of numbers in national form, ISO 3166-1.
        timezone_column: holds IANA names; None to go by the regions, or the numbers.
        consent: the columns that hold it; None if the file has none.
        format: what it is written in.
        location: where it is, for every process: an absolute path, or a URL.
        region_column: says where people are by law; None to go by the numbers.
        encoding: what a CSV file is said to be written in; None to find it.
        skips_invalid: whether rows that cannot be read are left out; else they are errors.
    """

    path: Path
    phone_column: str
    region: str | None
    position: Position
    timezone_column: str | None = None
    consent: ConsentColumns | None = None
    format: FileFormat = "csv"
    location: str = ""
    region_column: str | None = None
    encoding: str | None = None
    skips_invalid: bool = False

    @property
    def unit(self) -> str:
        """What its lines are called."""
        return "line" if self.format == "csv" else "row"

    @property
    def url(self) -> str | None:
        """Where it is, if that is no path."""
        return self.location if "://" in self.location else None


RecipientSource = InlineRecipient | FileRecipients
