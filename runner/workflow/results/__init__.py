"""What came of campaigns: reconciled, counted, and reported."""
