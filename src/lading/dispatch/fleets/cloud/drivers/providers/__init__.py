"""The clouds that the driver `libcloud` knows, each a few calls over a connection of Apache
Libcloud.
"""
