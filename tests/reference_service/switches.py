"""Everything that the reference leaves open, one switch a question, and the faults that a send can meet."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any


def _choice(**meanings: str) -> Any:
    """Return a field that takes one of these values, the first by default; `_` stands for `-`."""
    values = {name.replace("_", "-"): meaning for name, meaning in meanings.items()}
    return field(default=next(iter(values)), metadata={"values": values})


def _amount(default: object, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class Switches:
    """One service's answers to what the reference leaves open; `VALUES` explains each value."""

    definitions: str = _choice(
        as_sent="the body of the send, less its phones",
        empty_text='a survey also has `"text": ""`, as 2.3 may be read',
        text_alone="nothing but a text: that of a message, or of the first thing a survey says",
        nulls="every field that was left out is null",
        defaults="every default is written out",
        empties="every field that was left out is an empty text or list",
        no_tag="the tag stands in `project_tag` alone",
        extra="fields of the service's own stand among those that were sent",
    )
    texts: str = _choice(
        as_sent="character for character",
        smart_quotes="straight quotes have become typographic ones",
        nfd="letters with accents have been taken apart",
        crlf="line ends are CRLF",
        stripped="blanks around a text are gone",
        padded="there is a blank after each text",
        cut="only the first 20 characters of each text are kept",
    )
    guids: str = _choice(
        lower="dashed lower-case hexadecimal",
        upper="dashed upper-case hexadecimal",
        mixed="lower case in the answer to a send, upper case in lists",
    )
    phones: str = _choice(
        plus="+14155550101",
        bare="14155550101",
        blanks="+1 415 555 0101",
        reversed="+14155550101, in the opposite order of the send",
    )
    sessions: str = _choice(
        all="every session of a launch",
        late="none until `delay_s` after the launch was accepted, then all",
        part="the first half of them, rounded up",
        none="never any",
    )
    times: str = _choice(
        bare="UTC with microseconds and without a suffix, as documented",
        zulu="UTC with microseconds and a Z",
        offsets="with the offset of the zone in which the moment was noted",
        ahead="the service's clock is an hour ahead",
        behind="the service's clock is an hour behind",
        words="no moment at all, but words",
        null="null",
    )
    tags: str = _choice(
        as_sent="as sent",
        lower="in lower case; the filter takes either",
        lower_alone="in lower case; the filter takes that alone",
        null="null; the filter works",
    )
    counts: str = _choice(
        integers="integers",
        text="numeric text",
        null="every `num_` field of a stat is null",
        missing="a stat has no `num_renders`",
        one_more="`num_results` is one more than the lists show",
    )
    null_results: str = _choice(
        none="no field of a result is null",
        details="all is null that nobody needs to count an answer: names of people, texts, orders, tags of projects",
        times="all three moments are null",
        answer="`result_answer` is null",
        question="`question_tag` and `question_guid` are null",
    )
    display_order: str = _choice(
        zero='text from "0", as the one recorded answer has it',
        one='text from "1"',
        integer="an integer from 0",
    )
    limit: str = _choice(
        honoured="as many records as are asked for, up to `page_cap`",
        ignored="always pages of `page_cap`, or of 20",
    )
    page_cap: int | None = _amount(None, "the most records on a page, whatever is asked for")
    next: str = _choice(
        empty="an empty text on the last page, else a path with offset and limit",
        null="null on the last page, else a path with offset and limit",
        whole="a path with the whole query, credentials included, on every page",
    )
    total: str = _choice(
        right="right",
        missing="`total_count` is missing",
        null="`total_count` is null",
        text="`total_count` is numeric text",
        too_high="`total_count` is two more than the list has",
    )
    order: str = _choice(
        oldest="oldest first",
        newest="newest first",
        guid="by guid",
        random="another one at each request",
    )
    accepted: str = _choice(
        **{"200": "a send is answered 200", "201": "a send is answered 201", "202": "a send is answered 202"}
    )
    send_reply: str = _choice(
        guid="the guid alone",
        urls="beside it `stats_url` and `results_url`, which carry credentials",
    )
    default_format: str = _choice(
        json="lists are JSON unless `format=csv` is asked for",
        csv="lists are CSV unless `format=json` is asked for",
    )
    redirects: str = _choice(
        none="nothing is redirected",
        same_origin="each GET is redirected to another path of this service",
        other_origin="each GET is redirected to another origin",
        sends="each POST is redirected to another path, and not accepted",
    )
    redirect_status: str = _choice(
        **{"301": "Moved Permanently", "302": "Found", "307": "Temporary", "308": "Permanent Redirect"}
    )
    lists: str = _choice(
        prompt="a launch is listed as soon as it is accepted",
        late="a launch and its results are listed `delay_s` after it was accepted",
        empty="all lists are empty until `delay_s` after the last launch was accepted",
        forgetful="only the newest `remembers` launches of a tag are listed, and known by their guid",
    )
    delay_s: float = _amount(0.0, "seconds for what comes late")
    remembers: int = _amount(2, "launches of a tag that a forgetful service still lists")
    renders_max: int = _amount(1_000_000, "renders that the plan allows; then sends are answered 403")
    price_usd: str = _amount("0.0250", "the price of the plan, in US dollars")
    retry_after: str | None = _amount("0", "`Retry-After` of each 429 and 503; none if it is none")
    hangs_s: float = _amount(2.0, "seconds for which a request that hangs is left without an answer")

    def __post_init__(self) -> None:
        for name, values in VALUES.items():
            value = getattr(self, name)
            if value not in values:
                raise ValueError(f"{name}={value}: choose from {', '.join(values)}")

    @classmethod
    def parse(cls, assignments: list[str], base: Switches | None = None) -> Switches:
        """Return switches set by `name=value` texts, on top of `base`.

        Raises:
            ValueError: there is no such switch, or it has no such value.
        """
        given: dict[str, Any] = {}
        for assignment in assignments:
            name, _, text = assignment.partition("=")
            if name not in VALUES and name not in AMOUNTS:
                raise ValueError(f"there is no switch {name}: choose from {', '.join((*VALUES, *AMOUNTS))}")
            given[name] = text if name in VALUES else _parse_amount(name, text)
        return replace(base or cls(), **given)


VALUES: dict[str, dict[str, str]] = {
    switch.name: switch.metadata["values"] for switch in fields(Switches) if "values" in switch.metadata
}
"""The values of each switch that has a list of them, with what they mean; the first is the default."""
AMOUNTS: dict[str, str] = {
    switch.name: switch.metadata["meaning"] for switch in fields(Switches) if "meaning" in switch.metadata
}
"""The other switches, which take a number, with what it means."""


def _parse_amount(name: str, text: str) -> float | str | None:
    if text == "none":
        return None
    if name in ("price_usd", "retry_after"):
        return text
    return float(text) if name.endswith("_s") else int(text)


ENDINGS: dict[str, str] = {
    "408": "answered 408",
    "409": "answered 409",
    "425": "answered 425",
    "429": "answered 429 with `Retry-After`",
    "499": "answered 499",
    "500": "answered 500",
    "502": "answered 502",
    "503": "answered 503 with `Retry-After`",
    "close": "the connection ends without an answer",
    "reset": "the connection is reset",
    "half": "half an answer, then the connection ends",
    "hang": "no answer for `hangs_s`, then a good one",
}
"""The ways a request can end badly, accepted or not: `accept-503`, `refuse-close`."""
FAULTS: dict[str, str] = {
    **{f"accept-{name}": f"accepted, then {meaning}" for name, meaning in ENDINGS.items()},
    **{f"refuse-{name}": f"not accepted, {meaning}" for name, meaning in ENDINGS.items()},
    "accept-no-guid": "accepted and answered 200 with an empty object",
    "accept-no-json": "accepted and answered 200 with words",
    "accept-same-guid": "accepted and answered with the guid of the launch before it",
    "accept-afterwards": "accepted once the connection has been reset",
    "refuse-400": "not accepted, answered 400",
    "refuse-403": "not accepted, answered 403",
}
"""Every fault that a send can meet."""
