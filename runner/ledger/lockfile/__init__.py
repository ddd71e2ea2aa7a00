"""Lockfiles, committed beside campaigns: format, writer, merge, diff."""
