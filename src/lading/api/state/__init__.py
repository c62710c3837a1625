"""What a server keeps in memory beside its parts: readiness, uses of tokens, wake-ups."""
