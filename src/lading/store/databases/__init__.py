"""SQLite and PostgreSQL behind the seam `store.database`, and copies from one to the other."""
