"""Files as people wrote them: every value keeps its place, and every problem says where it is."""
