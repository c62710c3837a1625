"""Templates as clients save, find and run them. Open `records` first."""
