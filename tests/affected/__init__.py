"""Which tests of real parts a change can reach: by the imports of Python files, and by a table of
what no import shows.
"""
