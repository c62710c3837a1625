"""Webhooks: sends events to receivers outside. Open `worker` first."""
