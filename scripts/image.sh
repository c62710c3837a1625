#!/usr/bin/env bash
# Builds the image of the server without a container engine: dist/lading-VERSION-ARCHITECTURE.oci.tar, a Debian root made
# by mmdebstrap with the package of scripts/deb.sh in it. `podman load`, `docker load` and `skopeo` read it.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
release=$(. /etc/os-release && printf %s "$VERSION_CODENAME")
package=$(scripts/deb.sh | tail -n 1)
version=$(dpkg-deb --field "$package" Version)
architecture=$(dpkg-deb --field "$package" Architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp "$package" "$work/lading.deb"
# crun runs containers in a privileged container, fuse3 and the rest as the package recommends.
mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,crun,fuse3,slirp4netns,nftables,iproute2,tini,openssh-client \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --skip=output/dev \
    --customize-hook="upload $work/lading.deb /tmp/lading.deb" \
    --customize-hook='chroot "$1" dpkg --install /tmp/lading.deb >/dev/null' \
    --customize-hook='rm -rf "$1"/tmp/* "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/log/* "$1"/var/cache/debconf/*' \
    --customize-hook='find "$1/usr" -name __pycache__ -depth -exec rm -rf {} +; chroot "$1" /usr/lib/lading/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /usr/lib/lading/lib /usr/lib/python3.11 >/dev/null || true' \
    --customize-hook='find "$1/usr/lib/lading/lib" -path "*/lading/supervisor/__pycache__/*.pyc" | grep -q . || { echo "image.sh: the modules were not compiled, so each Pod would compile them" >&2; exit 1; }' \
    "$release" "$work/root.tar"
target=dist/lading-$version-$architecture.oci.tar
.venv/bin/python scripts/oci.py "$work/root.tar" "$target" --name "lading:$version" --architecture "$architecture" --version "$version"
printf '%s\n' "$PWD/$target"
