"""The git repository that campaigns are kept in."""
