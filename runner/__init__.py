"""SMS survey campaigns as code: validated, planned, sent exactly once, reconciled and reported."""

__version__ = "0.1.0"
