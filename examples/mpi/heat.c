/* The heat equation on a rod of N cells over STEPS steps, explicit scheme, halos exchanged between neighbours.
   Rank 0 writes the temperatures to the file OUT. Any number of ranks gives the same bytes.
   heat OUT [N] [STEPS] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, size;
    int n = argc > 2 ? atoi(argv[2]) : 1000, steps = argc > 3 ? atoi(argv[3]) : 500;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || n < size) {
        if (rank == 0) fprintf(stderr, "heat OUT [N] [STEPS], N at least the number of ranks\n");
        MPI_Finalize();
        return 2;
    }
    int *counts = malloc(size * sizeof *counts), *starts = malloc(size * sizeof *starts);
    for (int i = 0, at = 0; i < size; at += counts[i++]) {
        counts[i] = n / size + (i < n % size);
        starts[i] = at;
    }
    int own = counts[rank];
    double *now = calloc(own + 2, sizeof *now), *next = calloc(own + 2, sizeof *next);
    for (int i = 0; i < own; i++) now[i + 1] = (starts[rank] + i) % 97 == 0 ? 100.0 : 0.0;
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int step = 0; step < steps; step++) {
        MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[own + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&now[own], 1, MPI_DOUBLE, right, 1, &now[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int i = 1; i <= own; i++) next[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
        double *swap = now;
        now = next;
        next = swap;
    }
    double *all = rank == 0 ? malloc(n * sizeof *all) : NULL;
    MPI_Gatherv(now + 1, own, MPI_DOUBLE, all, counts, starts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *out = fopen(argv[1], "w");
        if (!out) {
            perror(argv[1]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        for (int i = 0; i < n; i++) fprintf(out, "%.17g\n", all[i]);
        fclose(out);
        printf("%d ranks, %d cells, %d steps\n", size, n, steps);
    }
    MPI_Finalize();
    return 0;
}
