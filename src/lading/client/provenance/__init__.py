"""Origins and uses of results, for the command line and the page.

Start with `lineage`, the graph of a request or a collection; `request_tree` lists the requests that
belong together.
"""
