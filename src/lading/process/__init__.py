"""Code that each process of Lading needs, for any service: log lines, traces and metrics,
concurrent work that ends with its caller, and access to directory trees that strangers wrote.
"""
