"""Documents with positions for every value, and their problems."""
