"""Commands about where results came from: `trace` first."""
