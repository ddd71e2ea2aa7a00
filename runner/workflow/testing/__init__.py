"""Campaign tests: one person, their record and a moment, and the texts that they get."""
