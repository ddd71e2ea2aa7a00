"""Reports: figures of reconciled results, and documents of these figures."""
