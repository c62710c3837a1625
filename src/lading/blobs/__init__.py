"""The block store: an HTTP service over volumes (directories, S3 buckets, volumes of other
servers), and its upkeep.

Start with `app`, the HTTP service for clients, and `volume`, the seam that volumes implement.
`mounts` combines all volumes of a server; `collector` removes garbage and `scrubber` finds damaged
blocks.
"""
