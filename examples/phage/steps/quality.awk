# Keeps the reads (FASTQ on standard input) whose mean Phred quality is at least `minimum`.
# Reads on standard output; one line of counts into `summary`.
BEGIN {
    for (code = 33; code < 127; code++) phred[sprintf("%c", code)] = code - 33
}
{ record[NR % 4] = $0 }
NR % 4 == 0 {
    total++
    sum = 0
    length_ = length($0)
    for (at = 1; at <= length_; at++) sum += phred[substr($0, at, 1)]
    if (length_ > 0 && sum / length_ >= minimum) {
        kept++
        print record[1] "\n" record[2] "\n" record[3] "\n" $0
    }
}
END { printf "reads %d\nkept %d\nminimum_quality %s\n", total, kept, minimum > summary }
