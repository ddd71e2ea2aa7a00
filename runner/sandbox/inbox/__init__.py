"""The web inbox, for answering as a participant."""
