"""Rules for texts that sound like an opt-out and are none of its words: a person decides about them.

47 CFR 64.1200(a)(10) has a sender honour any reasonable expression, judged by the totality of circumstances:
that is a person's judgement, so these rules only find the candidates. They would rather miss one than list
the feedback that a survey asks for: each wants a verb and what it is about ("stop texting me"), or a whole
text of a few words ("please stop"). The languages are those of most
texts to North America and western Europe.

A rule reads a text as `fold` writes it: lower case, no accents, no punctuation, single blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_US = r"(?:me|us)"
_TEXTS = r"(?:texts?|texting|messages?|messaging|msgs?|sms)"
_POLITE = r"(?:(?:please|pls|plz|kindly|just|ok|okay|hi|hello|no|thanks|thank you) )*"
_LIST = r"(?:\w+ ){0,3}(?:lists?|system|database|contacts|texts|messages)"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to say it.

    Attributes:
        name: language and what is said; shown beside the reply, so that a person sees why it is listed.
        example: a text that the rule finds.
        pattern: is searched for in the folded text.
    """

    name: str
    example: str
    pattern: re.Pattern[str]


def _rule(name: str, example: str, pattern: str) -> Rule:
    return Rule(name, example, re.compile(pattern))


RULES = (
    _rule(
        "en: stop, and little else",
        "Please stop!",
        rf"^{_POLITE}(?:stop|quit|end|cancel|revoke|unsubscribe|opt ?out)"
        r"(?: (?:it|this|now|please|pls|plz|thanks|thank you|already|everything|all|me"
        r"|stop|quit|end|cancel))*$",
    ),
    _rule(
        "en: stop texting",
        "please stop texting me",
        rf"\b(?:stop|quit|cease) (?:(?:texting|messaging|contacting|bothering|spamming|calling) {_US}\b"
        rf"|sending (?:{_US}\b|(?:these|this|any|your|all)?(?: ?more)? ?{_TEXTS}\b)"
        rf"|(?:the |these |this |all |your |all these )?{_TEXTS}\b)",
    ),
    _rule(
        "en: do not text",
        "Do not contact me again",
        rf"\b(?:do not|dont|never|must not|mustnt) (?:ever )?(?:text|message|contact|sms|call) "
        rf"(?:{_US}\b|this number|again|anymore)",
    ),
    _rule(
        "en: remove me",
        "take me off your list",
        rf"^{_POLITE}(?:remove|delete) (?:{_US}|my (?:number|name|phone)|this number)\b"
        rf"|\b(?:remove|delete|take) (?:{_US}|my (?:number|name|phone)|this number) "
        rf"(?:from|off) (?:of )?{_LIST}\b",
    ),
    _rule(
        "en: unsubscribe",
        "How do I unsubscribe from this?",
        rf"\bunsubscribe (?:{_US}\b|from (?:this|these|your|the)\b)|\bopt {_US} out\b|\bopting out\b"
        r"|\b(?:want|like|wish|how) (?:\w+ ){0,2}(?:to |i )(?:opt ?out|unsubscribe)\b",
    ),
    _rule(
        "en: no more texts",
        "No more texts please",
        rf"\bno more (?:of these |of your )?{_TEXTS}\b"
        rf"|\b(?:do not|dont) (?:want|wish)(?: to (?:get|receive|be sent))? "
        rf"(?:any |more |these |your |further )*{_TEXTS}\b",
    ),
    _rule(
        "en: consent withdrawn",
        "I revoke my consent",
        r"\b(?:revoke|withdraw) (?:my|all|any) (?:\w+ )?(?:consent|permission)\b",
    ),
    _rule("en: leave me alone", "leave me alone", rf"\bleave {_US} alone\b|\blose (?:my|this) number\b"),
    _rule("en: wrong number", "Sorry, wrong number", rf"^{_POLITE}(?:\w+ ){{0,4}}wrong number$"),
    _rule(
        "es: no más mensajes",
        "No me manden más mensajes",
        r"\bno me (?:mand|envi|escrib|contact|llam|text)\w+\b|\bno mas (?:mensajes|textos|sms)\b"
        r"|\bdej[ea]n? de (?:enviar|mandar|escribir|contactar|molestar)(?:me|nos)?\b",
    ),
    _rule(
        "es: darme de baja",
        "Quiero darme de baja",
        r"\b(?:darme|denme|deme|dame|quiero la) (?:de )?baja\b|^(?:parar?|paren|detener|cancelar|alto)$"
        r"|\bcancel\w+ (?:mi |la )?suscripcion\b|\b(?:borr|elimin|quit)\w*me de (?:la|su|esta) lista\b",
    ),
    _rule(
        "fr: arrêtez",
        "Arrêtez de m'envoyer des messages",
        r"^(?:svp )?(?:arret|arreter|arretez)(?: svp| merci)?$"
        r"|\barrete[rz]? (?:de m ?(?:envoyer|ecrire|contacter|harceler)|vos|les|ces) ?\w*"
        r"|\bne m(?:e |)(?:contact|ecriv|envoy)\w+ plus\b|\bplus de (?:messages|sms|textos)\b",
    ),
    _rule("fr: désabonner", "Désabonnez-moi", r"\bdesabonne\w*\b|\bdesinscri\w*\b"),
    _rule(
        "de: keine SMS mehr",
        "Bitte keine SMS mehr",
        r"\bkeine (?:weiteren |weitere )(?:sms|nachrichten)\b|\bkeine (?:sms|nachrichten) mehr\b"
        r"|\b(?:nicht mehr|nie wieder) (?:an)?(?:schreiben|kontaktieren|texten|anrufen)\b"
        r"|\bschreib\w* (?:sie )?mir (?:bitte )?(?:nicht mehr|nie wieder)\b",
    ),
    _rule(
        "de: abmelden",
        "Bitte abmelden",
        r"^(?:bitte )?(?:mich )?(?:bitte )?(?:abmelden|abbestellen|austragen|stopp?|aufhoren)(?: bitte)?$"
        r"|\b(?:melden|tragen) sie mich (?:bitte )?(?:ab|aus)\b",
    ),
    _rule(
        "pt: parem",
        "Parem de me mandar mensagens",
        r"^(?:parar|pare|parem|sair|descadastrar)(?: por favor)?$|\bdescadastr(?:e|em|ar) ?(?:me|meu)\b"
        r"|\bpar(?:e|em|a) de (?:me )?(?:mandar|enviar|escrever|perturbar)\b"
        r"|\bnao (?:me )?(?:mand|envi|escrev)\w+ mais\b",
    ),
)
"""Every rule; the first one that finds something names the reply's."""
