"""One process per container: an ordered list of named, idempotent, undoable steps."""
