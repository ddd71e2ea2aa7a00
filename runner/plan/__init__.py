"""Plans: the messages that a campaign sends, their recipients, and reasons for leaving others out."""
