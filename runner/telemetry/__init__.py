"""Traces and metrics by OpenTelemetry, without phones, texts, answers or keys."""
