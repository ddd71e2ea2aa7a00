"""Key rotation, exports and imports of a whole ledger."""
