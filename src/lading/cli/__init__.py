"""The commands of `lading`.

`main` finds the command and imports only its module.
"""
