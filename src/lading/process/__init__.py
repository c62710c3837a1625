"""What each process of Lading needs, whichever service it is: log lines, traces and metrics,
concurrent work that ends with its caller, and access to directory trees that strangers wrote.
"""
