"""The clouds of the driver `libcloud`, each with a few calls over a connection of Apache
Libcloud.
"""
