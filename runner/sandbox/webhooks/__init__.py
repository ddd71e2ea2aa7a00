"""Results on their way to webhooks: a queue in the store, and the courier that carries them."""
