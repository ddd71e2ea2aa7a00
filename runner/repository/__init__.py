"""The git repository that campaigns are kept in: what was sent is recorded there."""
