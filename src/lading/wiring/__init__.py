"""The composition root: makes running services from a data directory and a configuration.

Start with `up`, the parent process of `lading up`, `server`, the server process, and `dispatcher`,
the dispatcher process. `directory` describes the data directory.
"""
