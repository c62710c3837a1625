#!/bin/sh
# pipeline.sh [MINIMUM_QUALITY]: reads/*.fq -> plot.svg, in a directory that prepare.sh has made.
set -e
quality=${1:-15}

index=$(lading run --detach --name index --image samples:1 \
    --input /in=lambda_phage.fa --input /step=steps/index.awk -- \
    sh -ec 'awk -v k=15 -f /step /in >kmers')

counts=$(lading map --detach --name "count-q$quality" --image samples:1 -i 'reads/*.fq' \
    --input /in={} --input /index="$index/kmers" --input /steps=steps/ --env QUALITY="$quality" -- \
    sh -ec 'awk -v minimum=$QUALITY -v summary=summary -f /steps/quality.awk /in >/tmp/kept
            awk -v size=2000 -v summary=placed -f /steps/place.awk /index /tmp/kept | sort -n >windows')

set --
for count in $counts; do
    set -- "$@" --input "/in/$#=$count/windows"
done
merge=$(lading run --detach --name merge --image samples:1 "$@" --input /step=steps/merge.awk -- \
    sh -ec 'awk -f /step /in/* | sort -n >merged')

# Not detached: it waits for all of them, and fetches the plot.
lading run --name plot --image samples:1 --output . --overwrite \
    --input /in="$merge/merged" --input /step=steps/plot.awk -- sh -ec 'awk -f /step /in >plot.svg'
