//go:build tools

// Package kustomize names the program that renders the manifests of deploy in `make kubernetes`.
package kustomize

import (
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
