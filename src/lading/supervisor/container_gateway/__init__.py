"""The gateway into one running container: shell sessions, files and ports.

Its modules are imported with the first connection.
"""
