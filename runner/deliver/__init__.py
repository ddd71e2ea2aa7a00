"""Makes a plan true, exactly once (design: delivery)."""
