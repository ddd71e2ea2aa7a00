"""The place where campaigns are reviewed, as its REST API shows it: GitHub, or a server of the same kind."""
