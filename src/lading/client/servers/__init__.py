"""The server of a command: named by the environment, or the user's own site on this machine.

Start with `own_site`, which starts the site where nobody named a server; `environment` reads
variables and files that name one.
"""
