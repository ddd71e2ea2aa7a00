"""What makes the sandbox a rehearsal: simulated participants, magic numbers, faults and snapshots."""
