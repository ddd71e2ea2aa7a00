"""Campaign texts: templates, rendered messages, SMS segments, conversations."""
