"""Pull requests, issues and comments of GitHub, or of a server with its API."""
