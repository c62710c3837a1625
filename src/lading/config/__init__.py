"""The one configuration: typed, frozen, documented where it is declared.

Start with `site`: it has all sections, reads files and exports what clients may see.
"""
