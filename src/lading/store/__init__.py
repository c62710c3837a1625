"""The only SQL: records in SQLite behind one small seam."""
