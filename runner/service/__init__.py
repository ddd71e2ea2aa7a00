"""A client of the Messaging Survey Service."""
