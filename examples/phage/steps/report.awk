# Draws the number of reads in each window of the genome, from sorted lines "<window start> <reads>".
{ start[NR] = $1; reads[NR] = $2; if ($2 > most) most = $2; all += $2 }
END {
    printf "Reads on the genome of phage lambda: %d placed in %d windows\n\n", all, NR
    for (row = 1; row <= NR; row++) {
        bar = ""
        for (i = 0; i < 40 * reads[row] / most; i++) bar = bar "#"
        printf "%6d %5d %s\n", start[row], reads[row], bar
    }
}
