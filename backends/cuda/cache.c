/* Compiled kernels on disk: one file each, in $TP_CACHE_DIR (empty: none), else
 * $XDG_CACHE_HOME/tensorplay or ~/.cache/tensorplay. A file is written under a name of its own and
 * renamed; it holds its whole key and a checksum, and whatever does not fit is as if it were not
 * there. Files of other users are not read. */
#include "cuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "TPCUBIN1";

typedef struct header {
    char magic[8];
    uint64_t key_bytes, data_bytes, checksum;
} header;

/* FNV-1a; collisions do no harm, keys are compared. */
uint64_t tp_cuda_hash(const char *data, size_t size_bytes, uint64_t seed)
{
    uint64_t hash = 0xCBF29CE484222325U ^ seed;
    for (size_t i = 0; i < size_bytes; i++) hash = (hash ^ (uint8_t)data[i]) * 0x100000001B3U;
    return hash;
}

/* False: there is no place for a cache. */
static bool folder_name(char *path, size_t size)
{
    const char *own = getenv("TP_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int length = -1;
    if (own)
        length = *own ? snprintf(path, size, "%s", own) : -1;
    else if (xdg && *xdg)
        length = snprintf(path, size, "%s/tensorplay", xdg);
    else if (home && *home)
        length = snprintf(path, size, "%s/.cache/tensorplay", home);
    return length > 0 && (size_t)length < size;
}

static bool file_name(const char *key, size_t key_bytes, char *path, size_t size)
{
    char folder[900];
    if (!folder_name(folder, sizeof folder)) return false;
    snprintf(path, size, "%s/%016llx%016llx.cubin", folder,
             (unsigned long long)tp_cuda_hash(key, key_bytes, 0),
             (unsigned long long)tp_cuda_hash(key, key_bytes, 1));
    return true;
}

/* ---- Reading ----------------------------------------------------------------------------- */

static char *read_file(int file, size_t *size_bytes)
{
    struct stat facts;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
        facts.st_size < (off_t)sizeof(header))
        return NULL;
    char *data = malloc((size_t)facts.st_size);
    size_t got = 0;
    while (data && got < (size_t)facts.st_size) {
        ssize_t part = read(file, data + got, (size_t)facts.st_size - got);
        if (part <= 0) {
            free(data);
            return NULL;
        }
        got += (size_t)part;
    }
    *size_bytes = got;
    return data;
}

/* The data of a whole file in memory, moved to its front; NULL: not what it should be. */
static char *data_of(char *file, size_t file_bytes, const char *key, size_t key_bytes,
                     size_t *size_bytes)
{
    header head;
    memcpy(&head, file, sizeof head);
    size_t rest = file_bytes - sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.key_bytes != key_bytes ||
        rest < key_bytes || head.data_bytes != rest - key_bytes ||
        memcmp(file + sizeof head, key, key_bytes) != 0)
        return NULL;
    char *data = file + sizeof head + key_bytes;
    if (tp_cuda_hash(data, head.data_bytes, 2) != head.checksum) return NULL;
    *size_bytes = head.data_bytes;
    return memmove(file, data, head.data_bytes);
}

char *tp_cuda_cache_read(const char *key, size_t key_bytes, size_t *size_bytes)
{
    char path[1024];
    if (!file_name(key, key_bytes, path, sizeof path)) return NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return NULL;
    size_t file_bytes = 0;
    char *data = read_file(file, &file_bytes);
    close(file);
    if (data && !data_of(data, file_bytes, key, key_bytes, size_bytes)) {
        free(data);
        return NULL;
    }
    return data;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static bool write_all(int file, const void *data, size_t size_bytes)
{
    const char *from = data;
    while (size_bytes) {
        ssize_t part = write(file, from, size_bytes);
        if (part <= 0) return false;
        from += part;
        size_bytes -= (size_t)part;
    }
    return true;
}

/* The folder and those above it. */
static void make_folders(const char *path)
{
    char part[1024];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        (void)mkdir(part, 0700);
        *at = '/';
    }
}

void tp_cuda_cache_write(const char *key, size_t key_bytes, const char *data, size_t size_bytes)
{
    char path[1024], temporary[1100];
    if (!file_name(key, key_bytes, path, sizeof path)) return;
    make_folders(path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int file = mkstemp(temporary);
    if (file < 0) return;
    header head = {.key_bytes = key_bytes,
                   .data_bytes = size_bytes,
                   .checksum = tp_cuda_hash(data, size_bytes, 2)};
    memcpy(head.magic, magic, sizeof magic);
    bool whole = write_all(file, &head, sizeof head) && write_all(file, key, key_bytes) &&
                 write_all(file, data, size_bytes);
    whole = close(file) == 0 && whole;
    if (!whole || rename(temporary, path) != 0) (void)unlink(temporary);
}
