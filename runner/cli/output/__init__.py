"""The output of commands: text, JSON, Markdown, annotations."""
