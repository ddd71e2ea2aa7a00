"""The types of the tables' columns that are texts."""

from __future__ import annotations

from sqlalchemy import String, Text

# Bytewise on both: a PostgreSQL server sorts as its own language does, and no order may depend on that.
LedgerString = String().with_variant(String(collation="C"), "postgresql")
LedgerText = Text().with_variant(Text(collation="C"), "postgresql")
