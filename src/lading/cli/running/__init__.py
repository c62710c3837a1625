"""Commands on containers: run, follow, show, explain, open a shell."""
