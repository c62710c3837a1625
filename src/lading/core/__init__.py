"""Pure values, tables and decisions: no I/O, no clock, no randomness, no async.

Each package is one subject and imports only the packages below it: `scheduling`; `containers`;
`data`, `images`, `hpc` and `protocols`; `records`. The modules beside them (`errors`, `ids`,
`quantities`, `resources` ...) serve all of them.
"""
