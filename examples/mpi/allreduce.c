/* The sum of squares of 1..N, summed by all ranks together and by rank 0 alone; fails when the two differ. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size;
    long n = argc > 1 ? atol(argv[1]) : 100000;
    unsigned long long mine = 0, all = 0, serial = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long i = rank + 1; i <= n; i += size) mine += (unsigned long long)i * i;
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 1; i <= n; i++) serial += (unsigned long long)i * i;
    if (rank == 0) printf("%d ranks: %llu, serial: %llu\n", size, all, serial);
    MPI_Finalize();
    return all != serial;
}
