"""Delivery of results to webhooks."""
