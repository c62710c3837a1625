"""The block store: an HTTP service over volumes, and their upkeep.

Volumes are directories, S3 buckets, and volumes of other servers. Start with `app`, the HTTP
service for clients, and `volume`, the seam that volumes implement. `volume_set` combines all
volumes of a server; `collector` removes garbage and `scrubber` finds damaged blocks.
"""
