#!/usr/bin/env bash
# Builds a Debian package of the server into dist/: Lading and the pinned Python packages of requirements/server.txt in
# a virtual environment, /usr/lib/lading, of the distribution's own Python. Needs dpkg-deb; no root.
# deb.sh [PYTHON_VERSION], by default 3.11, Debian 12's. The package fits distributions of that version only.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-3.11}
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
umask 022
wheel=$(scripts/build.sh | grep "_$(uname -m)\.whl$")
version=$(basename "$wheel" | cut -d- -f2)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
home=$root/usr/lib/lading
site=$home/lib/python$python/site-packages

# For the Python of the package, whatever runs this script: compiled packages only, as their authors released them.
# manylinux2014 is 2_17 by another name, and pip takes the two for different platforms.
install() {
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile --no-deps --only-binary=:all: \
        --implementation cp --python-version "$python" --platform "manylinux2014_$(uname -m)" \
        --platform "manylinux_2_17_$(uname -m)" --platform "manylinux_2_28_$(uname -m)" --platform any --target "$site" "$@"
}
install --require-hashes -r requirements/server.txt
rm -rf "$site/bin"
install "$wheel"
rm -rf "$site/bin" "$site/share"
# Descriptions of the services of AWS: 25 MB, of which these are used.
find "$site/botocore/data" -mindepth 1 -maxdepth 1 -type d \
    ! -name ec2 ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} +
find "$site" -depth -type d \( -name tests -o -name test \) -exec rm -rf {} +
mkdir -p "$home/bin"
ln -s "../../../bin/python$python" "$home/bin/python"
ln -s python "$home/bin/python3"
cat >"$home/pyvenv.cfg" <<END
home = /usr/bin
include-system-site-packages = false
version = $python
END
cat >"$home/bin/lading" <<'END'
#!/usr/lib/lading/bin/python
import sys

from lading.cli.console import main

sys.exit(main())
END
chmod 755 "$home/bin/lading"
mkdir -p "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/lading" "$root/usr/share/lintian/overrides" \
    "$root/usr/lib/systemd/system" "$root/usr/lib/systemd/user" "$root/usr/share/bash-completion/completions"
ln -s ../lib/lading/bin/lading "$root/usr/bin/lading"
gzip -9n <docs/lading.1 >"$root/usr/share/man/man1/lading.1.gz"
gzip -9n <CHANGELOG.md >"$root/usr/share/doc/lading/CHANGELOG.md.gz"
printf 'lading (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- The Lading developers <lading@lading.invalid>  %s\n' \
    "$version" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$root/usr/share/doc/lading/changelog.gz"
cp packaging/debian/copyright "$root/usr/share/doc/lading/copyright"
cp -r deploy/monitoring "$root/usr/share/doc/lading/monitoring"
cp packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/lading"
.venv/bin/lading completion bash >"$root/usr/share/bash-completion/completions/lading"
.venv/bin/python scripts/units.py "$root/usr/lib/systemd"

next=${python%.*}.$((${python#*.} + 1))
mkdir "$root/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@PYTHON@/$python/" -e "s/@NEXT@/$next/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$root" | cut -f1)/" packaging/debian/control >"$root/DEBIAN/control"
for script in postinst prerm postrm; do
    cp "packaging/debian/$script" "$root/DEBIAN"
    chmod 755 "$root/DEBIAN/$script"
done
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod -R u=rwX,go=rX "$root"
find "$root/usr" -name '*.so*' -type f -exec chmod 644 {} +
mkdir -p dist
dpkg-deb --root-owner-group -Zxz --build "$root" "dist/lading_${version}_$architecture.deb" >/dev/null
printf '%s\n' "$PWD/dist/lading_${version}_$architecture.deb"
