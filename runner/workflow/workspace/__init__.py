"""The places of a command: target, ledger, service, state remote, folders."""
