# Draws lines "<window start> <mean> <least> <most>" as SVG: a bar for the mean, a line from the least to the most.
{ start[NR] = $1; mean[NR] = $2; least[NR] = $3; most[NR] = $4; if ($4 > top) top = $4 }
END {
    width = 720; height = 240; step = width / NR
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-50 -30 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", width + 70, height + 70
    print "<text y=\"-12\" font-size=\"14\">Reads of each sample in windows of the genome of phage lambda: mean, least and most</text>"
    for (row = 1; row <= NR; row++) {
        x = (row - 1) * step
        printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#4a90c2\"/>", x, height - height * mean[row] / top, step * 0.8, height * mean[row] / top
        printf "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#222\"/>\n", x + step * 0.4, height - height * least[row] / top, height - height * most[row] / top
        if (row % 5 == 1) printf "<text x=\"%.1f\" y=\"%d\">%d</text>\n", x, height + 16, start[row]
    }
    printf "<text x=\"-45\" y=\"10\">%d</text><text x=\"-45\" y=\"%d\">0</text>\n</svg>\n", top, height
}
