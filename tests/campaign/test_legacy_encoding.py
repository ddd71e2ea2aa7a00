"""Encodings of files that are no UTF-8, tried on people's names."""

from __future__ import annotations

import pytest

from runner.audience.encoding import WESTERN, find_likely, show_field

WESTERN_NAMES = {
    "German": ["Jürgen Müller", "Käthe Groß", "Anna Schäfer"],
    "French": ["Zoë Lefèvre", "Hélène Beauséjour", "François Côté", "André Noël"],
    "Spanish": ["José Núñez", "María Peña", "Íñigo Muñoz", "Mª Ángel Gutiérrez"],
    "Portuguese": ["João Conceição", "Antônio Guimarães", "Inês Simões"],
    "Danish": ["Søren Kjær", "Åse Ødegård", "Bjørn Sæther"],
    "Swedish": ["Åke Öberg", "Göran Sjöström", "Märta Ängström"],
    "Finnish": ["Päivi Hämäläinen", "Yrjö Mäkinen"],
    "Icelandic": ["Þórður Guðmundsson", "Björk Guðmundsdóttir", "Ægir Ólafsson"],
    "Italian": ["Niccolò Fantò", "Nicolò Già"],
    "Catalan": ["Núria Solà", "Òscar Gràcia"],
    "Dutch": ["Loïs Brouwér", "Daniël de Boer"],
    "Estonian": ["Jüri Põld", "Õie Mägi"],
    "Irish": ["Seán Ó Súilleabháin"],
    "typography": ["Mary O’Neil", "It’s “ok” – Bob", "€ 10 voucher"],
    "both": ["Café – 5 €"],
    "capitals": ["MÜLLER"],
    "one": ["Müller"],
}
LONELY = [
    "Siân",
    "Noël",
    "Joël",
    "Gaël",
    "Maëlle",
    "Anaïs",
    "Benoît",
    "Hélène",
    "Thérèse",
    "Crêpe",
    "Élodie",
    "Éric",
    "Mélanie",
    "Inês",
    "Antônio",
    "Mônica",
    "Júlia",
    "Évora",
    "Núria",
    "Çelik",
    "Groß",
    "STRAßE",
    "Óscar",
    "Brontë",
    "Coruña",
    "Tromsø",
    "Šmit",
    "Žan",
    "é",
    "Müller",
    "Zoë",
    "Ñúñez",
    "Åsa",
    "Þór",
]
SIGNS = [
    "20 °C",
    "5 µg",
    "© Acme",
    "Acme® Ltd",
    "50 ± 2",
    "10²",
    "100 m³",
    "N° 5",
    "½ price",
    "¹ note",
    "Col·lell",
]
OTHER_NAMES = [
    ("cp1251", "windows-1251", ["Иван Петров", "Мария Иванова"]),
    ("cp1251", "windows-1251", ["Олександр Шевченко", "Наталія Бойко"]),
    ("koi8-r", "koi8-r", ["Иван Петров", "Мария Иванова"]),
    ("iso8859-2", "iso-8859-2", ["Łukasz Wiśniewski", "Małgorzata Dąbrowska", "Michał Wójcik"]),
    ("cp1250", "windows-1250", ["Łukasz Wiśniewski", "Józef Stępień"]),
    ("cp1250", "windows-1250", ["Jiří Dvořák", "Tomáš Novák", "Kateřina Černá"]),
    ("cp1250", "windows-1250", ["Ivan Kovačić", "Ana Babić", "Marko Jurić"]),
    ("cp1250", "windows-1250", ["Nagy Győző", "Szabó Lőrinc"]),
    ("cp1254", "windows-1254", ["Gülşen Yılmaz", "İbrahim Çelik", "Ayşe Doğan"]),
    ("gbk", "gb18030", ["王伟", "李娜", "张敏"]),
    ("shift_jis", "cp932", ["田中太郎", "佐藤花子"]),
    ("euc-kr", "cp949", ["김민준", "이서연", "박지훈"]),
    ("cp1253", "windows-1253", ["Γιώργος Παπαδόπουλος", "Μαρία Νικολάου"]),
    ("cp1255", "windows-1255", ["דוד כהן", "שרה לוי"]),
    ("cp1256", "windows-1256", ["محمد علي", "فاطمة حسن"]),
    ("mac-roman", "macintosh", ["Müller"]),
    ("shift_jis", "cp932", ["田中"]),
    ("cp1250", "windows-1250", ["Grażyna Święta"]),
    ("mac-roman", "macintosh", ["Jürgen Müller", "Zoë Lefèvre"]),
]


@pytest.mark.parametrize("names", WESTERN_NAMES.values(), ids=WESTERN_NAMES)
def test_western_names_are_read_as_they_were(names: list[str]) -> None:
    """A file of Western Europe is Windows-1252, whichever of its rows are there."""
    for count in range(1, len(names) + 1):
        assert find_likely([name.encode("cp1252") for name in names[:count]]) == [WESTERN], names[:count]


@pytest.mark.parametrize("text", [*LONELY, *SIGNS])
def test_one_western_word_or_sign_is_no_reason_to_refuse_a_file(text: str) -> None:
    """A single foreign letter or sign says too little to take a file for Baltic, Czech or DOS."""
    assert find_likely([text.encode("cp1252")]) == [WESTERN]


@pytest.mark.parametrize(
    ("encoding", "said", "names"), OTHER_NAMES, ids=[f"{said}-{names[0]}" for _, said, names in OTHER_NAMES]
)
def test_other_names_are_told_by_their_encoding(encoding: str, said: str, names: list[str]) -> None:
    """For text that is a riddle in Windows-1252 the likeliest encoding comes first, and reads it right."""
    fields = [name.encode(encoding) for name in names]
    likely = find_likely(fields)
    assert likely[0] == said
    assert show_field(fields[0], likely[0]) == names[0]


def test_a_shown_field_has_no_figures() -> None:
    """Digits that may be somebody's phone are not in a message."""
    assert show_field("Иван 79161234567".encode("cp1251"), "windows-1251") == "Иван •••••••••••"
