# Places reads on the genome: place.awk INDEX READS. A read is placed where its first known k-mer lies.
# Prints the reads that fall into each window of the genome: "<window start> <reads>"; counts into `summary`.
FNR == NR { position[$1] = $2; k = length($1); next }
FNR % 4 == 2 {
    reads++
    for (at = 1; at + k - 1 <= length($0); at += 5) {
        word = substr($0, at, k)
        if (word in position) {
            placed++
            window[int(position[word] / size) * size]++
            break
        }
    }
}
END {
    for (start in window) print start, window[start]
    printf "placed %d\nof %d\npercent %.2f\n", placed, reads, reads ? 100 * placed / reads : 0 > summary
}
