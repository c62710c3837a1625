"""Container images: read from many sources, stored in one normal form, found by name or hash.

sources      any source that can be added -> Parts (configuration and layers)
from_host    programs of this machine -> Parts
archive      Parts -> the normal form, one deterministic tar
links        the normal form -> a collection and the links by which requests find it
"""
