"""Tests of a site: of its VMs, and of its Kubernetes cluster, each with a temporary server."""
