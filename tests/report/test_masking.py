"""What stays of people's words, and what does not."""

from __future__ import annotations

import pytest

from runner.report.masking import mask_words


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("Write to ada.l+sms@mail.example.co.uk, please", "Write to [e-mail], please"),
        ("ada@büro.example, or ada @ home.example", "[e-mail], or [e-mail]"),
        ("Ring +1 (415) 555-0101.", "Ring [phone]."),
        ("Ring 00 44 20 7946 0018 or 020/79460018", "Ring [phone] or [phone]"),
        ("٠٥٠ ١٢٣ ٤٥٦٧ is mine", "[phone] is mine"),
        ("＋１４１５５５５０１０１", "[phone]"),
        ("415‑555‑0101 and 415.555.0101", "[phone] and [phone]"),
        ("I came on 2026-11-26, at 10:30", "I came on 2026-11-26, at 10:30"),
        ("from 2026-11-26 to 2026-12-01", "from 2026-11-26 to 2026-12-01"),
        ("2026-11-26 4155550101", "2026-11-26 [phone]"),
        ("26.11.2026 or 11/26/2026", "26.11.2026 or 11/26/2026"),
        ("2026-13-40 and 06.12.20.26.11", "[phone] and [phone]"),
        ("I waited 45 minutes, and paid 12.50 for 3", "I waited 45 minutes, and paid 12.50 for 3"),
        ("415_555_0199, 415,555,0199", "[phone]"),
        ("415;555;0199 or 415 | 555 | 0199", "[phone] or [phone]"),
        ("4️⃣1️⃣5️⃣ 5️⃣5️⃣5️⃣ 0️⃣1️⃣9️⃣9️⃣ rings", "[phone] rings"),
        ("1,500,000 people, 12.50, 30.00 in 2024, 2025", "1,500,000 people, 12.50, 30.00 in 2024, 2025"),
        ("+1,415,555,0199", "[phone]"),
        ("@ the till", "@ the till"),
    ],
)
def test_addresses_and_phones_are_masked(words: str, shown: str) -> None:
    """E-mail addresses and phone numbers in any script and shape; dates and other numbers stay."""
    assert mask_words(words) == shown


@pytest.mark.parametrize(
    ("cells", "words", "shown"),
    [
        (["Ada"], "Ada here. ADA'S order, adaptable", "[name] here. [name]'S order, adaptable"),
        (["Ada Lovelace"], "it's ada  lovelace, or Lovelace", "it's [name], or [name]"),
        (["Mary-Jane", "O’Neil"], "Jane O’Neil", "[name] [name]"),
        (["ben de vries"], "ben de vries, Ben", "[name], [name]"),
        (["Zoë"], "Zoe and ZOË", "[name] and [name]"),
        (["王伟"], "我是王伟。", "我是[name]。"),
        (["Anna Becker"], "我叫Anna,很好", "我叫[name],很好"),
        (["Anna Becker"], "Annaです、ANNA Beckerさん", "[name]です、[name]さん"),
        (["Anna"], "저는Anna입니다", "저는[name]입니다"),
        (["Ada"], "私はAdaです。Ada2 adaptable", "私は[name]です。Ada2 adaptable"),
        (["Zoe\u0308"], "Zoë", "[name]"),
        (["Иван"], "это иван", "это [name]"),
        (["US", "IT"], "Tell us about it in the US", "Tell us about it in the [name]"),
        (["paid in full by May"], "in May, paid in full by may", "in [name], [name]"),
        (["A", "7", "", "2026-11-26"], "A 7 on 2026-11-26", "A 7 on 2026-11-26"),
        (["x" * 101], "x" * 101, "x" * 101),
        (["a.b (c)"], "a.b (c), axb", "[name]), axb"),
        (["ada@x.example"], "ada@x.example", "[e-mail]"),
    ],
)
def test_what_the_audience_says_of_a_person_is_masked(cells: list[str], words: str, shown: str) -> None:
    """Each cell and each of its words, as a word of its own, in whatever case; codes only in capitals."""
    assert mask_words(words, cells) == shown
