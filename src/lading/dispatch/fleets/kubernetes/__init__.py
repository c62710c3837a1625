"""The Kubernetes fleet: each container is a Pod.

Start with `kubernetes_fleet`.
"""
