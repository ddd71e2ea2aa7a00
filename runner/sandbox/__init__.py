"""The simulated Messaging Survey Service: HTTP, conversations and store, independent of the runner."""
