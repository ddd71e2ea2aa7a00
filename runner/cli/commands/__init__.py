"""The commands, one module each: parse, call, show."""
