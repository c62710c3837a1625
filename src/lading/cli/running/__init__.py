"""Commands on containers: run, follow, show, explain, enter."""
