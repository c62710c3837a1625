#!/bin/sh
# prepare.sh DIRECTORY: 50 samples of 400 reads in DIRECTORY/reads, the genome, and the steps; an image samples:1 of the
# programs of this machine that the steps are made of.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/reads" "$1/steps"
cp "$here/../phage/lambda_phage.fa" "$1"
cp "$here"/../phage/steps/*.awk "$here"/steps/*.awk "$1/steps"
gzip -dc "$here"/../phage/reads_*.fq.gz | awk -v directory="$1/reads" '
    NR % 4 == 1 { file = sprintf("%s/%02d.fq", directory, int((NR - 1) / 4) % 50) }
    { print >file }'
lading image add --name samples:1 --from-host sh awk sort cat >/dev/null
