"""What simulated participants write when a question is freeform: by mood, in several languages."""

from __future__ import annotations

PRAISE = (
    "Support answered within minutes, thank you!",
    "Love it 😍 use it every day",
    "Easy to set up and it just works",
    "The new app is so much faster",
    "Great people. Great service.",
    "best one i've tried so far 👍👍",
    "Muy contenta con el servicio, ¡gracias!",
    "Très bon accueil, rien à redire",
    "Schnelle Lieferung, sehr zufrieden",
    "Atendimento excelente, recomendo",
    "とても使いやすいです",
    "Всё отлично, спасибо",
    "خدمة ممتازة",
    "5 stars ⭐⭐⭐⭐⭐",
)
MIXED = (
    "It's ok, nothing special",
    "Good product but the price went up again",
    "fine I guess",
    "Works well most of the time, sometimes slow in the evening",
    "Bien, pero la app podría ser más clara",
    "Correct, mais un peu cher",
    "Ganz gut, die Rechnung war unklar",
    "Bom, mas falta um chat em português",
    "まあまあです",
    "no opinion",
    "Better than last year 🙂",
    "The website says one thing, the store another",
)
COMPLAINTS = (
    "Waited 40 minutes on hold and nobody could help me",
    "Too expensive for what it is",
    "App crashes every time I open my bill 😡",
    "delivery was late, twice",
    "I was charged two times in March",
    "No me resolvieron el problema",
    "Service client injoignable...",
    "Seit dem Update geht nichts mehr",
    "Péssimo, vou cancelar",
    "対応が遅すぎる",
    "Не работает уже неделю",
    "Nobody calls back 👎",
)
EVASIONS = ("maybe", "not sure 🤷", "who is this?", "idk", "what do you mean", "?")
