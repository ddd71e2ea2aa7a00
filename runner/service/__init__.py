"""The Messaging Survey Service as a client sees it."""
