"""Campaign files as values, with their problems."""
