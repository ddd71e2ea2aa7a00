"""Plans: what to send, to whom, and why not to the others."""
