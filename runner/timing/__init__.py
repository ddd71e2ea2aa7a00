"""Times at which texts may reach people: time zones, schedules, and legal sending hours."""
