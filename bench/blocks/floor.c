/* What a block store cannot do without: floor put|get DIRECTORY FILE...

   put: hash the bytes of each file (MD5) and write them durably to a new file of the directory, in pieces of 1 MiB.
   get: read each file and hash it.
   Prints the seconds of each. The bytes are in memory before the clock starts. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Of libcrypto, declared here so that no headers are needed. */
typedef struct evp_md_ctx_st EVP_MD_CTX;
typedef struct evp_md_st EVP_MD;
EVP_MD_CTX *EVP_MD_CTX_new(void);
const EVP_MD *EVP_md5(void);
int EVP_DigestInit_ex(EVP_MD_CTX *, const EVP_MD *, void *);
int EVP_DigestUpdate(EVP_MD_CTX *, const void *, size_t);
int EVP_DigestFinal_ex(EVP_MD_CTX *, unsigned char *, unsigned int *);

enum { PIECE = 1 << 20 };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static size_t load(const char *path, char *data, size_t room) {
    size_t size = 0;
    ssize_t count;
    int file = open(path, O_RDONLY);
    if (file < 0) fail(path);
    while ((count = read(file, data + size, room - size)) > 0) size += count;
    if (count < 0) fail(path);
    close(file);
    return size;
}

static void put(const char *directory, int number, const char *data, size_t size, EVP_MD_CTX *digest) {
    char path[4096];
    snprintf(path, sizeof path, "%s/floor-%d", directory, number);
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) fail(path);
    for (size_t at = 0; at < size; at += PIECE) {
        size_t count = size - at < PIECE ? size - at : PIECE;
        EVP_DigestUpdate(digest, data + at, count);
        if (write(file, data + at, count) != (ssize_t)count) fail(path);
    }
    if (fdatasync(file) < 0) fail(path);
    close(file);
}

static void get(const char *path, char *piece, EVP_MD_CTX *digest) {
    ssize_t count;
    int file = open(path, O_RDONLY);
    if (file < 0) fail(path);
    while ((count = read(file, piece, PIECE)) > 0) EVP_DigestUpdate(digest, piece, count);
    if (count < 0) fail(path);
    close(file);
}

int main(int count, char **arguments) {
    size_t room = 64 << 20, size = 0;
    unsigned char sum[16];
    char *data = malloc(room);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (count < 4 || !data || !digest) return 2;
    memset(data, 1, room);
    for (int number = 3; number < count; number++) {
        int is_put = !strcmp(arguments[1], "put");
        if (is_put) size = load(arguments[number], data, room);
        double began = now();
        EVP_DigestInit_ex(digest, EVP_md5(), NULL);
        if (is_put) put(arguments[2], number, data, size, digest);
        else get(arguments[number], data, digest);
        EVP_DigestFinal_ex(digest, sum, NULL);
        printf("%.6f\n", now() - began);
    }
    return 0;
}
