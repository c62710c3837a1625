"""Kubernetes: the Pod of a container, and the meaning of a Pod's state.

Start with `pod_manifest` (names, labels, Pod and secret); `pod_states` reads what the API server
shows.
"""
