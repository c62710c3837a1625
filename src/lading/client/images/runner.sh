# Run by mmdebstrap for the root directory $1, once its packages are installed: makes the Python environment /opt/arvados.
# pins.txt is in $1/tmp, and certificates of a package index; PIP_* of the environment say where packages come from.
set -eu
root=$1
say() { echo "I: $*" >&2; }
inside() { chroot "$root" "$@"; }

say "installing arvados-cwl-runner and what it needs into /opt/arvados"
inside python3 -m venv /opt/arvados
inside /opt/arvados/bin/python -m pip install -q --disable-pip-version-check --no-cache-dir --no-compile -r /tmp/pins.txt

say "compiling Python modules, without what only installs and tests"
cd "$root"/opt/arvados/lib/python3*/site-packages
rm -rf pip pip-* googleapiclient/discovery_cache/documents
find . -depth -type d \( -name tests -o -name test \) -exec rm -rf {} +
cd "$root"
find usr/lib/python3* opt/arvados -depth -name __pycache__ -exec rm -rf {} +
# Of the text of a module and of no time, so that the same packages give the same bytes.
inside /opt/arvados/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    /opt/arvados/lib /usr/lib/python3* >/dev/null || true
find opt/arvados/bin -type f -name 'pip*' -delete
# /tmp has files of mmdebstrap, which its apt needs to clean up here and not on this machine.
rm -f tmp/pins.txt tmp/certificates.pem etc/resolv.conf etc/hostname
rm -rf var/log/* var/cache/debconf/* var/lib/dpkg/*-old
