"""A report's documents: Markdown, HTML, JSON, CSV, charts."""
