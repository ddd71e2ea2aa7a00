"""Reports to a pull request, an issue and git's log."""
