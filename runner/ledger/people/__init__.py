"""Statements about people who must not be texted, or not now."""
