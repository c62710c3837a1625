# Lists every k-mer of a genome (FASTA on standard input) with its position, and of the opposite strand:
# "<k-mer> <position>", positions from 0.
BEGIN { other["A"] = "T"; other["T"] = "A"; other["C"] = "G"; other["G"] = "C" }
/^>/ { next }
{ genome = genome toupper($0) }
END {
    for (at = 1; at + k - 1 <= length(genome); at++) {
        word = substr(genome, at, k)
        back = ""
        for (i = k; i > 0; i--) back = back other[substr(word, i, 1)]
        print word, at - 1
        print back, at - 1
    }
}
