# Adds up the reads in each window over all samples: merge.awk TABLE... -> "<window start> <mean> <least> <most>", unsorted.
{
    sum[$1] += $2
    if (!($1 in least) || $2 < least[$1]) least[$1] = $2
    if ($2 > most[$1]) most[$1] = $2
    samples[FILENAME]
}
END {
    for (name in samples) count++
    for (start in sum) printf "%d %.2f %d %d\n", start, sum[start] / count, least[start], most[start]
}
