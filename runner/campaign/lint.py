"""Warnings that save face: a first text without its sender or a way out, shorteners, personal data in tags.

A person's first message is the first of the file, in each arm and language. Its first text is what leaves at
once: the text, or the introduction and the first question.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.audience.phone_search import PHONE_COMMITTED, find_phones, list_regions
from runner.document import Part, Positive
from runner.optout.reply import classify
from runner.source.normalize import normalize
from runner.text.include import include_folder
from runner.text.opening import ADDRESS
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.campaign.model import Campaign
    from runner.source.diagnostic import Diagnostic, Position, Problems
    from runner.timing.legal_hours import LawBook

    ListPlaces = Callable[[], Iterable[tuple[str, ...]]]
    """Reads the audience for the places where its people may be."""

_SHORTENERS = (
    "bit.ly bitly.com tinyurl.com t.co goo.gl ow.ly is.gd v.gd buff.ly rebrand.ly cutt.ly t.ly rb.gy tiny.cc"
    " lnkd.in shorturl.at t.cn"
)
_REST = r"[^\s\])'\"{]*[^\s\])'\"{.,;:!?]"
_STARTS = r"(?<![A-Za-z0-9_.@/=&?%#-])"
"""Where a link begins that is no part of another."""
_SHORTENED = "|".join(map(re.escape, _SHORTENERS.split()))
_SHORT_LINK = rf"(?:https?://(?:[^\s/?#@]*@)?)?(?:www\.)?(?:{_SHORTENED})\.?(?::\d+)?[/?](?:{_REST})?"
_LINKS = (
    (
        re.compile(rf"{_STARTS}{_SHORT_LINK}", re.IGNORECASE),
        "link-shortener",
        "goes through a public shortener: carriers filter such links",
        "write the whole address, or one of a domain of your own",
    ),
    (
        re.compile(rf"{_STARTS}http://{_REST}", re.IGNORECASE),
        "link-insecure",
        "is not https: anyone on the way can change what it shows",
        "write it with https://",
    ),
)
"""What may be wrong with links: patterns, codes, words, remedies. Carriers filter public shorteners (CTIA
Messaging Principles and Best Practices 2023, 5.3.1)."""
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w")
_OPTING_OUT = re.compile(
    r"\b(?:opt(?:ing)?[ -]?out|unsubscri\w+|(?:reply|text|send) (?:with )?\W?stop|abmeld\w+|abbestell\w+"
    r"|d[ée]sabonn\w+|afmeld\w+|darse de baja|tu choi|từ chối)\b"
    r"|退[订訂]|拒收|配信停止|수신 ?거부|إيقاف|إلغاء",
    re.IGNORECASE,
)
"""Ways to say how to opt out without a word in capitals."""
_LABELS = ("[QC]", "[AD]")
"""The labels of advertising in Vietnam (Decree 91/2020/ND-CP); Saudi Arabia has it in the sender's name."""
_ASKED = {
    "sender": ("text-without-sender", "its sender's name", "say it in the text, and in `policy.sender`"),
    "opt_out": ("text-without-opt-out", "a word on opting out", "say how, as in `Reply STOP to opt out.`"),
    "label": (
        "text-without-label",
        "the label of advertising",
        f"begin it with {_LABELS[0]}; where the sender's name has the label, say so in `ignore`",
    ),
}
"""What laws ask of a text, by `asks` of their rules: the code, the words and the remedy."""


class SilencedWarnings(Part, frozen=True):
    """Warnings of one code about a campaign's file that it silences (`ignore`).

    Attributes:
        campaign: the campaign's name.
        code: of the warnings.
        count: how many.
        reason: why, as the campaign says.
    """

    campaign: str
    code: str
    count: Positive
    reason: str


def silence_warnings(
    campaign: Campaign, problems: Problems, *, is_last: bool = False
) -> Iterator[SilencedWarnings]:
    """Take the warnings that a campaign silences out of `problems`, and yield them.

    After the last check, an entry that has silenced nothing is a warning itself.
    """
    for one in campaign.ignore:
        if count := problems.take_out_warnings(campaign.file, one.code):
            yield SilencedWarnings(campaign.name, one.code, count, one.reason)
        elif is_last and one.code != PHONE_COMMITTED:
            words = f"`{one.code}` silences nothing: there is no such warning about this file"
            hint = "take it out: errors, and warnings about rows, cannot be silenced"
            problems.add(one.position.problem("ignore-unused", words, hint, "warning"))


def find_lint(campaign: Campaign, law: LawBook, list_places: ListPlaces) -> Iterator[Diagnostic]:
    """Yield the warnings about a valid campaign.

    `list_places` is called only if a law may ask for more words.
    """
    compiler = TextCompiler(include_folder(campaign))
    # A text of several arms stands in one place.
    yield from dict.fromkeys(_find_links(campaign, compiler))
    yield from dict.fromkeys(_find_personal_tags(campaign))
    lacking = dict(_find_lacking(campaign, compiler))
    asking = _list_asking(campaign, law, list_places, {one for each in lacking.values() for one in each})
    for place, missing in lacking.items():
        for what in missing:
            if what in asking:
                code, named, hint = _ASKED[what]
                words = f"the first text lacks {named}, which {asking[what]}"
                yield place.problem(code, words, hint, "warning")


def _find_lacking(campaign: Campaign, compiler: TextCompiler) -> Iterator[tuple[Position, set[str]]]:
    """Yield the first texts of the first message, by their places, with what each does not say."""
    for sent in campaign.iterate_sent(campaign.messages[0]):
        texts = [one for one in (sent.text, sent.introduction) if one] + [
            one.text for one in sent.questions[:1]
        ]
        said = "\n".join(compiler.outline(one, campaign.vars) for one in texts)
        missing = set[str]()
        if campaign.policy.sender is None:
            missing.add("sender")
        if sent.method == "SMS" and not _says_opt_out(said, campaign.policy.opt_out_words):
            missing.add("opt_out")
        if sent.method == "SMS" and not said.startswith(_LABELS):
            missing.add("label")
        yield texts[0].position, missing


def _says_opt_out(text: str, own: tuple[str, ...]) -> bool:
    """Return whether a text has, outside addresses, a word as STOP in capitals, an own one, or a phrase."""
    said = ADDRESS.sub(" ", text)
    if _OPTING_OUT.search(said) or any(f" {normalize(one)} " in f" {normalize(said)} " for one in own):
        return True
    # Letters of scripts without capitals part words, as STOP is written between them without blanks.
    words = "".join(one if one == "-" or one.upper() != one.lower() else " " for one in said).split()
    return any(one.isupper() and classify(one).kind == "sure" for one in words)


def _list_asking(
    campaign: Campaign, law: LawBook, list_places: ListPlaces, wanted: set[str]
) -> dict[str, str]:
    """Return what laws ask of the texts among what is `wanted`, with the clause that names the law."""
    policy = campaign.policy
    is_marketing = policy.purpose == "marketing"
    asked = {one for rule in law.rules if policy.purpose in rule.purposes for one in rule.asks}
    if not wanted or not (is_marketing or (policy.quiet_hours == "legal" and wanted & asked)):
        return {}
    places = list(list_places())
    rules = dict.fromkeys(rule for one in places for rule in law.rules_of(one, "SMS", policy.purpose))
    found = {}
    for what in wanted:
        citations = [rule.citation for rule in rules if what in rule.asks]
        if citations:
            more = f" and {len(citations) - 1} more" if len(citations) > 1 else ""
            found[what] = f"{citations[0]}{more} asks for"
    unknown = [one for one in places if not law.rules_of(one, "SMS")]
    if is_marketing and unknown:
        where = " or ".join(unknown[0]) or "their country"
        found.setdefault("opt_out", f"may be law in {where}, whose law is not known here")
    return found


def _find_links(campaign: Campaign, compiler: TextCompiler) -> Iterator[Diagnostic]:
    """Yield links that carriers filter, or that anyone on the way can change."""
    for sent in (one for message in campaign.messages for one in campaign.iterate_sent(message)):
        for text in sent.iterate_texts():
            said = compiler.outline(text, campaign.vars)
            for pattern, code, words, hint in _LINKS:
                # A link may stand in a branch of the source that is not taken.
                for found in list(pattern.finditer(said)) or pattern.finditer(text.source):
                    yield text.position.problem(code, f"{found[0]} {words}", hint, "warning")


def _find_personal_tags(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield tags and names that may hold a person's data: they stand at the service and in lockfiles."""
    arms = campaign.variants.arms if campaign.variants else ()
    named = [("campaign's name", campaign.name, campaign.position)]
    named += [("series", campaign.series or "", campaign.position)]
    named += [("arm", one.id, one.position) for one in arms]
    for message in campaign.messages:
        named += [("id", message.id, message.position)]
        named += [("tag", tag, message.position) for tag in campaign.list_tags(message.id)]
        for sent in campaign.list_written(message):
            named += [("question's tag", one.tag, one.text.position) for one in sent.questions]
    regions = list_regions(campaign.recipients)
    for kind, name, place in named:
        has_phone = any(find_phones(name, regions))
        if "{{" in name or "{%" in name:
            words, hint = "a template, which is not filled in here", "write a fixed text"
            yield place.problem("tag-personal-data", f"the {kind} {name!r} has {words}", hint, "warning")
        elif has_phone or _MAIL.search(name):
            what = "a phone number" if has_phone else "an e-mail address"
            words = f"the {kind} seems to have {what}: it is seen at the service and in the repository"
            yield place.problem("tag-personal-data", words, "write no person's data in it", "warning")
