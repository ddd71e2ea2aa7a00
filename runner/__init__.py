"""SMS survey campaigns as code: validated, planned, sent exactly once, reconciled and reported."""

__version__ = "0.1.0"
DOCUMENTATION_URL = "https://sms-campaign-runner.example/"
"""Where people read about this program; schemas are called by their places below it."""
