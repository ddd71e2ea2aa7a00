"""What people write who want no more texts: pure, no ledger and no service."""
