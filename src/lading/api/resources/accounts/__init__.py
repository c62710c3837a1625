"""The handlers of accounts: users, their tokens, their quotas and their shares."""
