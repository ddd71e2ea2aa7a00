"""The Messaging Survey Service itself, embedded: HTTP, conversations, store and simulated participants.

It knows nothing of the rest of the runner, so that one wrong idea cannot satisfy both ends of the wire.
"""
