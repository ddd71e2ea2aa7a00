"""Output as blocks, and a writer of blocks for each format."""
