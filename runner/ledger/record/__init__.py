"""One campaign's record on one target: launches and deliveries."""
