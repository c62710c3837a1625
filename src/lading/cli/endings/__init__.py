"""Ends of a command that it does not choose: by signals, and for want of packages."""
