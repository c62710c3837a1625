"""What a server has for all its calls: clock, identifiers, access to blocks, states, wake-ups."""
