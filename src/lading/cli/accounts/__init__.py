"""The commands on accounts: users, their tokens, and their keys for other servers."""
