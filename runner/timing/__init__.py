"""When a text may reach a person: time zones, schedules, and legal sending hours."""
