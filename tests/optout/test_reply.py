"""Replies: which opt out, which sound like it, which ask for texts again, and which are answers."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.checks import COMMAND_WORDS
from runner.optout.reply import Rule, classify, hide_names, is_slip, read_rules, spell
from runner.source.yaml import read_yaml

RULES = read_rules()
SURE = """
STOP|stop|Stop.|STOP!!!|"stop"| stop |stop🛑|STOPALL|Stop all|stop-all|unsubscribe|Unsubscribe.|cancel|CANCEL|end
End.|quit|QUIT!|revoke|Opt out|OPT-OUT|optout|opt  out.|ＳＴＯＰ|S.T.O.P|*stop*|stop\\n|(stop)|remove|unsub|I opt out
STOP I have moved, leave me out|Stop. not interested|I said STOP!|STOP ACME|STOP 55555|5. stop|Please stop!|stop it
STOP STOP STOP|stop please, thanks|Stop sending me these messages|STOP SPAMMING ME|No. Stop.|Stop no me interesa
Arrêtez les SMS svp|BAJA|ALTO|cancelar|ARRET|ARRETE|arrêtez|STOPP|Stopp!|ABMELDEN|annulla|disiscrivi|SAIR|parar|AFMELDEN|uit|stoppen
rezygnuję|wypisz|avsluta|avregistrera|İPTAL|ıptal|ret|🛑|🛑🛑|S T O P|s-t-o-p|stoooop|STΟP|Ѕtοp|ЅТОР|𝐒𝐓𝐎𝐏|🅂🅃🄾🄿|🅢🅣🅞🅟
st0p|st\u200bop|ｓｔｏｐ|СТОП|стоп|Стоп!|СТОП пожалуйста|ОТПИСАТЬСЯ|Відписка|Liked "Reply STOP to opt out" STOP
"""
DOUBTFUL = """
Text me again, I'll report you|Text me again. I will call the cops
please stop texting me|Please stop sending any more texts|don't text me again|Do not contact me|Do not text me
Don’t call me anymore... do not text this number|never text me again|Please remove me from your texts
Remove this number from your database|how do I unsubscribe from this?|no more texts
I don't want to receive any more texts|dont want these messages|I revoke my consent|leave me alone|Lose my number
wrong number|Sorry, you have the wrong number|This is not Keisha|I'm not Tom|sotp|stpo|syop|cancle|unsubcribe|dnt txt me
No me manden más mensajes|no más mensajes|dejen de enviarme textos|bórrenme de su lista|número equivocado|BAJA ACME
ne m'écrivez plus|plus de SMS svp|mauvais numéro|Bitte keine SMS mehr|falsche Nummer
keine weiteren Nachrichten|schreiben Sie mir nicht mehr|Parem de me mandar mensagens|não me mandem mais|Meu pai faleceu
Basta messaggi|Non scrivetemi più|numero sbagliato|Geen berichten meer|verkeerd nummer|Nie piszcie do mnie|zły numer
Skicka inte fler sms|fel nummer|Mesaj atmayın|yanlış numara|Dont messege me|numero sbaliato
"""
OPT_IN = """
Text me again|please text me again, I will answer
START|start.|UNSTOP|Start again|You can text me again|resubscribe|opt in|sign me back up|ALTA|denme de alta|réabonner
Tragen Sie mich wieder ein|riattiva|quero voltar|schrijf me weer in|zapisz mnie|starta igen|tekrar mesaj almak istiyorum
I stopped by mistake, please start again
"""
ANSWER = """
9|Yes|no|10 - great service|Thanks!||!!!|👍|nonstop fun|The end of the season was great|It never ends|I quit smoking
The bus stop is too far away|Don't stop what you're doing!|Your app stopped working|non-stop flights please
I had to cancel my appointment twice|Cancellation was easy|The driver didn't stop|stop by any time|Stop signs missing
Please add a way to cancel orders|It took a week to end the call|No complaints|nobody called me back|Cancel my order
the website should remove the old prices|Remove the fees|take me to the store|the texts were helpful|End of story
I love your messages|no more waiting in line|more texts like these|Don't change a thing|quit my job for this
I would text my friends about it|Please call me|text me the link|wrong size|the number was wrong on my bill
alto nivel|El servicio fue muy bueno|No me gusta el precio|la fin du film|Sehr gut, danke|Das Ende war gut|bom demais
The stop button is hard to find|My son wants to end his plan|I can't revoke access in the app|unsubscribed? no, happy
stop light on the corner|please stop raising prices|Unsubscribe button is broken|8 uit 10|Stop niet met deze actie!
Don't take me off the list!|ne me désabonnez pas|Bitte nicht abmelden|non cancellatemi|I'm not happy|Ich bin kein Fan
Liked “How did we do? Reply STOP to opt out”|9 "Responda STOP para cancelar"|what happens if I text stop|I am not sure
Всё хорошо, спасибо|red|8 > How likely are you to come back? Reply STOP to end|Top|shop|stopped|cancer|para|slut|massage
"""


def split(table: str) -> list[str]:
    return [text.replace("\\n", "\n") for line in table.strip().splitlines() for text in line.split("|")]


def test_a_word_that_opts_out_does_so_at_once() -> None:
    """Alone in whatever spelling, beside words that change nothing, and STOP at the start of a sentence."""
    for text in split(SURE):
        assert classify(text).kind == "sure"


def test_what_sounds_like_it_is_for_a_person_to_decide() -> None:
    """Free text that asks to be left alone, and words with a typing error, come with the rule that found them."""
    for text in split(DOUBTFUL):
        found = classify(text)
        assert found.kind == "doubtful"
        assert found.rule


def test_a_wish_to_be_texted_again_is_told_from_an_answer() -> None:
    """START and its kin, alone or in a sentence."""
    for text in split(OPT_IN):
        assert classify(text).kind == "opt_in"


def test_feedback_is_no_opt_out() -> None:
    """A survey's answers use the same words, and are left alone."""
    for text in split(ANSWER):
        assert classify(text).kind == "answer"


A_RULE_FINDS_ITS_EXAMPLE: list[Rule] = [*RULES.doubtful, *RULES.returning]


def test_a_rule_finds_its_example() -> None:
    """Each rule's example is found by that rule, and is no answer; no two rules have the same name."""
    for rule in A_RULE_FINDS_ITS_EXAMPLE:
        spelt = (spell(rule.example), spell(hide_names(rule.example)))
        assert any(rule.pattern.search(f"{text} ") for text in spelt)
        assert classify(rule.example).kind != "answer"
        assert [one.name for one in (*RULES.doubtful, *RULES.returning)].count(rule.name) == 1


def test_an_answer_that_the_question_offers_is_an_answer() -> None:
    """A response that the question offers is an answer to it, STOP included; no other word is."""
    assert classify("cancel", offered=["Keep", "Cancel"]).kind == "answer"
    assert classify("Stop it!", offered=["Go on", "stop it"]).kind == "answer"
    assert classify("STOP", offered=["Go", "Stop"]).kind == "answer"
    assert classify("start", offered=["Start", "End"]).kind == "answer"
    assert classify("cancel", offered=["Keep"]).kind == "sure"
    assert classify("Stop texting me", offered=["Go", "Stop"]).kind == "sure"


def test_a_campaign_adds_words_of_its_own() -> None:
    """They opt out as the whole reply or at its start, in any spelling, unless the question offers them."""
    own = ("Genug", "no survey")
    assert classify("GENUG!", words=own).kind == "sure"
    assert classify("genug jetzt, Leute", words=own).kind == "sure"
    assert classify("No survey, please", words=own).kind == "sure"
    assert classify("genug Auswahl", offered=["Genug Auswahl"], words=own).kind == "answer"
    assert classify("nicht genug Auswahl", words=own).kind == "answer"
    assert classify("genuggesagt", words=own).kind == "answer"
    assert classify("genug").kind == "answer"
    assert classify("ok", words=("!", " ")).kind == "answer"


def test_the_words_of_the_law_and_of_carriers_are_sure_and_warned_of() -> None:
    """47 CFR 64.1200(a)(10) and CTIA: each opts out, and a campaign that offers it is warned."""
    for word in ("stop", "stopall", "unsubscribe", "optout", "cancel", "end", "quit", "revoke"):
        assert classify(word).kind == "sure", word
        assert word in COMMAND_WORDS, word


def test_every_word_of_the_list_opts_out_as_it_stands_there() -> None:
    """No word of the file is taken away by another rule of it."""
    file = Path(classify.__code__.co_filename).with_name("replies.yaml")
    data = read_yaml(file.read_text(encoding="utf-8"), file).data
    words = [word for row in data["words"].values() for word in row.split("|")] + data["leading"].split()
    assert [word for word in words if classify(word).kind != "sure"] == []
    opt_ins = [word for row in data["opt_in_words"].values() for word in row.split("|")]
    assert [word for word in opt_ins if classify(word).kind != "opt_in"] == []


@given(
    st.sampled_from(sorted(RULES.words | RULES.leading)),
    st.text(" \t\n.,;:!?-*()"),
    st.text(" \t\n.,;:!?-*()"),
)
def test_punctuation_around_a_word_never_matters(word: str, before: str, after: str) -> None:
    """Whatever stands around it, the word opts out."""
    assert classify(f"{before}{word.upper()}{after}").kind == "sure"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text fails, and its words have one blank between them."""
    classify(text)
    assert "  " not in spell(text)


A_SLIP_IS_A_SINGLE_EDIT: list[tuple[str, str, bool]] = [
    ("sotp", "stop", True),
    ("sttop", "stop", True),
    ("dtop", "stop", True),
    ("shop", "stop", False),
    ("top", "stop", False),
    ("stoop", "stop", True),
    ("stops", "stop", False),
    ("stop", "stop", False),
    ("sto", "stop", False),
    ("itpal", "iptal", True),
    ("iptl", "iptal", True),
    ("messege", "message", True),
    ("messages", "message", False),
    ("mxssage", "message", True),
    ("mxssagx", "message", False),
]


def test_a_slip_is_a_single_edit() -> None:
    """Of short words only swapped, doubled and neighbouring letters are slips: `shop` means a shop."""
    for word, meant, expected in A_SLIP_IS_A_SINGLE_EDIT:
        assert is_slip(word, meant) is expected


_VOCABULARY = sorted(
    {
        word
        for rule in (*RULES.doubtful, *RULES.returning)
        for word in re.findall("[a-z]{2,}", rule.pattern.pattern)
    }
)


@given(st.lists(st.sampled_from(_VOCABULARY), min_size=1, max_size=4))
def test_no_text_takes_for_ever(words: list[str]) -> None:
    """The rules' own words, over and over, are read at once: no rule can match one text in many ways."""
    classify(" ".join(words * 120) + " x")
