"""The gateway into one running container: a shell, files and ports. Nothing of it is loaded before
somebody knocks.
"""
