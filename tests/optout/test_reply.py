"""Replies: which opt out, which sound like it, and which are answers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.checks import COMMAND_WORDS
from runner.optout.doubtful import RULES, Rule
from runner.optout.reply import WORDS, classify

EXACT = """
STOP|stop|Stop.|STOP!!!|"stop"| stop |stop🛑|STOPALL|Stop all|stop-all|unsubscribe|Unsubscribe.|cancel|CANCEL|end
End.|quit|QUIT!|revoke|Opt out|OPT-OUT|optout|opt  out.|ＳＴＯＰ|S.T.O.P|*stop*|stop\\n|(stop)
"""
DOUBTFUL = """
please stop texting me|Please stop!|pls stop|stop it|STOP STOP STOP|stop please, thanks|cancel this please
Stop sending me these messages|stop sending messages|Stop sending any more texts|stop the texts|STOP SPAMMING ME
don't text me again|Do not contact me|Don’t call me anymore... do not text this number|never text me again
remove me|Please remove me from your list|take me off this list|remove my number|Remove this number from your database
how do I unsubscribe from this?|unsubscribe me|I want to opt out|opt me out please|I'd like to unsubscribe
no more texts|No more messages please|I don't want to receive any more texts|dont want these messages
I revoke my consent|I withdraw my prior consent|leave me alone|Lose my number|wrong number|Sorry, you have the wrong number
No me manden más mensajes|no más mensajes|Quiero darme de baja|Dejen de enviarme textos|alto|bórrenme de su lista
Arrêtez de m'envoyer des messages|ARRET|Désabonnez-moi|ne m'écrivez plus|arrêtez vos sms|plus de SMS svp
Bitte keine SMS mehr|keine weiteren Nachrichten|Abmelden|Bitte abmelden|schreiben Sie mir nicht mehr|STOPP
Parem de me mandar mensagens|sair|não me mandem mais|descadastrar meu número
"""
NONE = """
9|Yes|no|10 - great service|Thanks!||!!!|👍|nonstop fun|The end of the season was great|It never ends|I quit smoking
The bus stop is too far away|Don't stop what you're doing!|Your app stopped working|non-stop flights please
I had to cancel my appointment twice|Cancellation was easy|The driver didn't stop|stop by any time
Please add a way to cancel orders|It took a week to end the call|No complaints|nobody called me back
the website should remove the old prices|Remove the fees|take me to the store|the texts were helpful
I love your messages|no more waiting in line|more texts like these|Don't change a thing|quit my job for this
I would text my friends about it|Please call me|text me the link|wrong size|the number was wrong on my bill
alto nivel|El servicio fue muy bueno|No me gusta el precio|la fin du film|Sehr gut, danke|Das Ende war gut|bom demais
The stop button is hard to find|My son wants to end his plan|I can't revoke access in the app|unsubscribed? no, happy
"""


def split(table: str) -> list[str]:
    return [text.replace("\\n", "\n") for line in table.strip().splitlines() for text in line.split("|")]


@pytest.mark.parametrize("text", split(EXACT))
def test_an_opt_out_word_alone_opts_out(text: str) -> None:
    """Case, width, blanks and punctuation do not matter."""
    assert classify(text).kind == "exact"


@pytest.mark.parametrize("text", split(DOUBTFUL))
def test_what_sounds_like_it_is_for_a_person_to_decide(text: str) -> None:
    """Free text that asks to be left alone is listed, with the rule that found it."""
    found = classify(text)
    assert found.kind == "doubtful"
    assert found.rule in {rule.name for rule in RULES}


@pytest.mark.parametrize("text", split(NONE))
def test_feedback_is_no_opt_out(text: str) -> None:
    """A survey's answers use the same words, and are left alone."""
    assert classify(text).kind == "none"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_its_example(rule: Rule) -> None:
    """Each rule's example is found by that rule."""
    assert classify(rule.example).rule == rule.name


def test_an_answer_that_the_question_offers_is_an_answer() -> None:
    """`Cancel` and `End it` are answers where the question offers them; STOP never is."""
    assert classify("cancel", offered=["Keep", "Cancel"]).kind == "none"
    assert classify("Stop it!", offered=["Go on", "stop it"]).kind == "none"
    assert classify("cancel", offered=["Keep"]).kind == "exact"
    assert classify("STOP", offered=["Go", "Stop"]).kind == "exact"


def test_every_word_is_one_that_carriers_take() -> None:
    """A campaign that offers an opt-out word as a response is warned, whichever it is."""
    assert WORDS <= COMMAND_WORDS


@given(st.sampled_from(sorted(WORDS)), st.text(" \t\n.,;:!?'\"-*()"), st.text(" \t\n.,;:!?'\"-*()"))
def test_punctuation_around_a_word_never_matters(word: str, before: str, after: str) -> None:
    """Whatever stands around it, the word opts out."""
    assert classify(f"{before}{word.upper()}{after}").kind == "exact"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text fails."""
    classify(text)


_VOCABULARY = sorted({word for rule in RULES for word in re.findall("[a-z]{2,}", rule.pattern.pattern)})


@pytest.mark.timeout(60)
@given(st.lists(st.sampled_from(_VOCABULARY), min_size=1, max_size=4))
def test_no_text_takes_for_ever(words: list[str]) -> None:
    """The rules' own words, over and over, are read at once: no rule can match one text in many ways."""
    classify(" ".join(words * 120) + " x")
