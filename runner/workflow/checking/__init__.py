"""Checks of campaigns: their files and audiences, their tests, and phones in what git keeps."""
