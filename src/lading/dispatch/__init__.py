"""The loop that observes, plans and acts."""
