"""Container images: read from many sources, kept in one normal form, found again by name or hash.

sources      anything that can be added -> Parts (configuration and layers)
from_host    programs of this machine -> Parts
archive      Parts -> the normal form, one deterministic tar
links        the normal form -> a collection and the links that requests find it by
"""
