/* .npy files: a strict reader and a writer. The header is checked against the file's size
 * before anything is allocated for data; every refusal is one sentence. A file is written under
 * another name and renamed: whole or not there. Format: NEP 1. */
#include "infer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define LARGEST_HEADER_BYTES (64 * 1024)
/* Of a longer path, sentences show the end: the reason has to fit too. */
#define SHOWN_PATH 200

/* NumPy's code of a dtype; bf16 has none. */
static const struct code {
    tp_dtype dtype;
    char kind;
    int bytes;
} codes[] = {{TP_BOOL, 'b', 1}, {TP_U8, 'u', 1},  {TP_I8, 'i', 1},  {TP_U16, 'u', 2},
             {TP_I16, 'i', 2},  {TP_U32, 'u', 4}, {TP_I32, 'i', 4}, {TP_U64, 'u', 8},
             {TP_I64, 'i', 8},  {TP_F16, 'f', 2}, {TP_F32, 'f', 4}, {TP_F64, 'f', 8}};
#define CODES (sizeof codes / sizeof *codes)

enum { host_is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ };

typedef struct header {
    tp_dtype dtype;
    bool swapped, fortran;
    bool has_descr, has_order, has_shape;
    int ndim;
    int64_t shape[TP_MAX_RANK];
    int64_t data_at; /* where the data begins in the file */
} header;

typedef struct reader {
    tp_graph *graph;
    const char *path; /* as sentences show it */
    FILE *file;
    int64_t file_bytes;
    const char *at; /* in the header's text */
} reader;

#define REFUSE(r, ...) tp_graph_fail((r)->graph, TP_E_FORMAT, "load_npy", -1, __VA_ARGS__)

static const char *shown(const char *path)
{
    size_t length = strlen(path);
    return length > SHOWN_PATH ? path + length - SHOWN_PATH : path;
}

/* ---- The header's dictionary ------------------------------------------------------------ */

static bool skip(reader *r, char c)
{
    while (*r->at == ' ' || *r->at == '\n') r->at++;
    if (*r->at != c) return false;
    r->at++;
    return true;
}

/* A string of printable ASCII in single or double quotes, without escapes. */
static tp_status string(reader *r, char *to, size_t size)
{
    char quote = skip(r, '\'') ? '\'' : skip(r, '"') ? '"' : 0;
    size_t n = 0;
    if (!quote) return REFUSE(r, "%s: the header has no string where one must be", r->path);
    for (; *r->at && *r->at != quote; r->at++) {
        if (n + 1 == size) return REFUSE(r, "%s: a string in the header is too long", r->path);
        if (*r->at < ' ' || *r->at > '~')
            return REFUSE(r, "%s: a string in the header has a byte that is not printable",
                          r->path);
        to[n++] = *r->at;
    }
    if (!*r->at) return REFUSE(r, "%s: a string in the header has no end", r->path);
    r->at++;
    to[n] = 0;
    return TP_OK;
}

static tp_status descr(reader *r, header *h)
{
    char code[16];
    TRY(string(r, code, sizeof code));
    size_t length = strlen(code);
    bool order = length >= 3 && strchr("<>=|", code[0]);
    char kind = order ? code[1] : 0;
    int bytes = order && code[2] >= '0' && code[2] <= '9' && !code[3] ? code[2] - '0' : 0;
    for (size_t i = 0; i < CODES; i++) {
        if (codes[i].kind != kind || codes[i].bytes != bytes) continue;
        if (code[0] == '|' && bytes > 1) break;
        h->dtype = codes[i].dtype;
        h->swapped = bytes > 1 && code[0] == (host_is_little ? '>' : '<');
        return TP_OK;
    }
    if (kind == 'V' && bytes == 2)
        return REFUSE(r, "%s: dtype '%s' names no type (bf16 is written so): store it as f32",
                      r->path, code);
    return REFUSE(r, "%s: dtype '%s' has no counterpart here", r->path, code);
}

static tp_status boolean(reader *r, bool *value)
{
    while (*r->at == ' ') r->at++;
    *value = strncmp(r->at, "True", 4) == 0;
    if (!*value && strncmp(r->at, "False", 5) != 0)
        return REFUSE(r, "%s: fortran_order is neither True nor False", r->path);
    r->at += *value ? 4 : 5;
    return TP_OK;
}

static tp_status size(reader *r, int64_t *value)
{
    while (*r->at == ' ') r->at++;
    const char *digits = r->at;
    int64_t n = 0;
    bool fits = true;
    for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
        fits = fits && !__builtin_mul_overflow(n, 10, &n) &&
               !__builtin_add_overflow(n, *r->at - '0', &n);
    }
    int length = (int)(r->at - digits);
    if (length == 0 || (length > 1 && *digits == '0'))
        return REFUSE(r, "%s: a size in shape is no natural number", r->path);
    if (!fits)
        return REFUSE(r, "%s: dimension %.*s does not fit in 63 bits", r->path,
                      length > 40 ? 40 : length, digits);
    *value = n;
    return TP_OK;
}

/* (), (n,) or (n, m, ...). */
static tp_status shape(reader *r, header *h)
{
    if (!skip(r, '(')) return REFUSE(r, "%s: shape is no tuple", r->path);
    while (!skip(r, ')')) {
        if (h->ndim == TP_MAX_RANK)
            return REFUSE(r, "%s: shape has more than %d dims", r->path, TP_MAX_RANK);
        TRY(size(r, &h->shape[h->ndim++]));
        bool comma = skip(r, ',');
        if (comma) continue;
        if (h->ndim == 1 || !skip(r, ')')) return REFUSE(r, "%s: shape is no tuple", r->path);
        return TP_OK;
    }
    return TP_OK;
}

static tp_status entry(reader *r, header *h)
{
    char key[32];
    TRY(string(r, key, sizeof key));
    if (!skip(r, ':')) return REFUSE(r, "%s: there is no : after '%s'", r->path, key);
    bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
                 : strcmp(key, "fortran_order") == 0 ? &h->has_order
                 : strcmp(key, "shape") == 0         ? &h->has_shape
                                                     : NULL;
    if (!seen) return REFUSE(r, "%s: the header has an unknown key '%s'", r->path, key);
    if (*seen) return REFUSE(r, "%s: the header has '%s' twice", r->path, key);
    *seen = true;
    while (*r->at == ' ') r->at++;
    if (seen == &h->has_descr) return descr(r, h);
    return seen == &h->has_order ? boolean(r, &h->fortran) : shape(r, h);
}

static tp_status dictionary(reader *r, header *h)
{
    if (!skip(r, '{')) return REFUSE(r, "%s: the header is no dictionary", r->path);
    while (!skip(r, '}')) {
        TRY(entry(r, h));
        if (skip(r, ',')) continue;
        if (!skip(r, '}')) return REFUSE(r, "%s: the header's dictionary has no end", r->path);
        break;
    }
    while (*r->at == ' ' || *r->at == '\n') r->at++;
    if (*r->at) return REFUSE(r, "%s: something follows the header's dictionary", r->path);
    if (!h->has_descr || !h->has_order || !h->has_shape) {
        return REFUSE(r, "%s: the header has no '%s'", r->path,
                      !h->has_descr   ? "descr"
                      : !h->has_order ? "fortran_order"
                                      : "shape");
    }
    return TP_OK;
}

/* ---- The file ------------------------------------------------------------------------------ */

static tp_status read_bytes(reader *r, void *to, size_t bytes)
{
    if (fread(to, 1, bytes, r->file) == bytes) return TP_OK;
    return tp_graph_fail(r->graph, TP_E_FILE, "load_npy", -1, "%s: cannot read: %s", r->path,
                         ferror(r->file) ? strerror(errno) : "the file ends");
}

/* Magic, version and length of the header. */
static tp_status preamble(reader *r, int64_t *header_bytes, int64_t *header_at)
{
    unsigned char start[12];
    if (r->file_bytes < 10)
        return REFUSE(r, "%s: %lld bytes are too few for a .npy file", r->path,
                      (long long)r->file_bytes);
    TRY(read_bytes(r, start, 10));
    if (memcmp(start, MAGIC, MAGIC_BYTES) != 0)
        return REFUSE(r, "%s: this is no .npy file", r->path);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return REFUSE(r, "%s: format version %d.%d is unknown", r->path, start[6], start[7]);
    *header_bytes = start[8] | start[9] << 8;
    *header_at = 10;
    if (start[6] > 1) {
        if (r->file_bytes < 12)
            return REFUSE(r, "%s: the file ends inside its first 12 bytes", r->path);
        TRY(read_bytes(r, start + 10, 2));
        *header_bytes |= (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
        *header_at = 12;
    }
    if (*header_bytes > r->file_bytes - *header_at) {
        return REFUSE(r, "%s: the header needs %lld bytes, the file has %lld left", r->path,
                      (long long)*header_bytes, (long long)(r->file_bytes - *header_at));
    }
    if (*header_bytes > LARGEST_HEADER_BYTES)
        return REFUSE(r, "%s: a header of %lld bytes is refused", r->path,
                      (long long)*header_bytes);
    return TP_OK;
}

static tp_status read_header(reader *r, header *h)
{
    int64_t bytes = 0, at = 0;
    TRY(preamble(r, &bytes, &at));
    char *text = tp_context_alloc_zero(r->graph->context, (size_t)bytes + 1);
    if (!text) return tp_graph_fail_nomem(r->graph, "load_npy");
    tp_status status = read_bytes(r, text, (size_t)bytes);
    r->at = text;
    if (status == TP_OK && strlen(text) != (size_t)bytes)
        status = REFUSE(r, "%s: the header has a zero byte", r->path);
    if (status == TP_OK) status = dictionary(r, h);
    tp_context_free(r->graph->context, text, (size_t)bytes + 1);
    h->data_at = at + bytes;
    return status;
}

static void swap_bytes(char *data, int64_t count, int64_t bytes)
{
    for (int64_t i = 0; i < count; i++, data += bytes) {
        for (int64_t b = 0; b < bytes / 2; b++) {
            char c = data[b];
            data[b] = data[bytes - 1 - b];
            data[bytes - 1 - b] = c;
        }
    }
}

static tp_status load(reader *r, tp_tensor **x)
{
    header h = {0};
    TRY(read_header(r, &h));
    /* Fortran order is the reversed shape in C order, seen transposed. */
    int64_t stored[TP_MAX_RANK], axes[TP_MAX_RANK];
    for (int d = 0; d < h.ndim; d++) {
        axes[d] = h.ndim - 1 - d;
        stored[d] = h.shape[h.fortran ? h.ndim - 1 - d : d];
    }
    tp_view view = tp_view_row_major(h.ndim, stored);
    int64_t size_bytes = (int64_t)tp_dtype_size(h.dtype), count = tp_view_numel(&view), wanted;
    if (count < 0 || __builtin_mul_overflow(count, size_bytes, &wanted))
        return REFUSE(r, "%s: the data needs more than 2^63-1 bytes", r->path);
    if (wanted > r->file_bytes - h.data_at) {
        return REFUSE(r, "%s: the data needs %lld bytes, the file has %lld left", r->path,
                      (long long)wanted, (long long)(r->file_bytes - h.data_at));
    }
    tp_storage *storage = tp_storage_create(r->graph->context, (size_t)wanted);
    if (!storage)
        return tp_graph_fail(r->graph, TP_E_NOMEM, "load_npy", -1, "%lld bytes are not to be had",
                             (long long)wanted);
    tp_status status = read_bytes(r, storage->data, (size_t)wanted);
    if (status != TP_OK) {
        tp_storage_release(storage);
        return status;
    }
    if (h.swapped) swap_bytes(storage->data, count, size_bytes);
    *x = tp_leaf_from_storage(r->graph, h.dtype, &view, storage);
    if (*x && h.fortran && h.ndim > 1) *x = tp_permute(*x, h.ndim, axes);
    return *x ? TP_OK : r->graph->error.status;
}

/* Opens a regular file and takes its size; a pipe has none, and opening one may wait for ever. */
static tp_status open_file(reader *r, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return tp_graph_fail(r->graph, TP_E_FILE, "load_npy", -1, "%s: this is no regular file",
                             r->path);
    r->file = fopen(path, "rb");
    bool sized = r->file && fseeko(r->file, 0, SEEK_END) == 0 &&
                 (r->file_bytes = ftello(r->file)) >= 0 && fseeko(r->file, 0, SEEK_SET) == 0;
    if (sized) return TP_OK;
    return tp_graph_fail(r->graph, TP_E_FILE, "load_npy", -1, "%s: cannot open: %s", r->path,
                         strerror(errno));
}

tp_tensor *tp_load_npy(tp_graph *graph, const char *path)
{
    if (!graph) return NULL;
    if (!path) {
        tp_graph_fail(graph, TP_E_ARGUMENT, "load_npy", -1, "path is NULL");
        return NULL;
    }
    reader r = {.graph = graph, .path = shown(path)};
    tp_tensor *x = NULL;
    if (open_file(&r, path) == TP_OK) load(&r, &x);
    if (r.file) fclose(r.file);
    return x;
}

/* ---- Writing ------------------------------------------------------------------------------------
 */

/* The whole preamble, padded so that the data begins at a multiple of 64; gives its length. */
static int make_header(const tp_tensor *x, const struct code *code, char *text, int size_bytes)
{
    int used = snprintf(text + 10, (size_t)size_bytes - 10,
                        "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
                        code->bytes == 1 ? '|'
                        : host_is_little ? '<'
                                         : '>',
                        code->kind, code->bytes) +
               10;
    for (int d = 0; d < x->view->ndim; d++) {
        used += snprintf(text + used, (size_t)(size_bytes - used), "%s%lld%s", d ? ", " : "",
                         (long long)x->view->shape[d], x->view->ndim == 1 ? "," : "");
    }
    used += snprintf(text + used, (size_t)(size_bytes - used), "), }");
    while ((used + 1) % 64) text[used++] = ' ';
    text[used++] = '\n';
    memcpy(text, MAGIC "\x01", MAGIC_BYTES + 1);
    text[7] = 0;
    text[8] = (char)((used - 10) & 0xFF);
    text[9] = (char)((used - 10) >> 8);
    return used;
}

/* Creates a file beside path that was not there: neither a link somebody left nor the file of a
 * thread that saves to the same path is written to. name gets its name, "" if there is none. */
static FILE *create_temporary(const char *path, char *name, size_t size)
{
    static int serial; /* atomic */
    for (int tries = 0; tries < 100; tries++) {
        int used = snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(),
                            __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
        if (used < 0 || (size_t)used >= size) {
            errno = ENAMETOOLONG;
            break;
        }
        FILE *file = fopen(name, "wbx");
        if (file) return file;
        if (errno != EEXIST) break;
    }
    name[0] = 0;
    return NULL;
}

/* Writes and closes; errno says what went wrong. */
static bool write_file(FILE *file, const char *head, int head_bytes, const void *data,
                       size_t data_bytes)
{
    bool written = fwrite(head, 1, (size_t)head_bytes, file) == (size_t)head_bytes &&
                   fwrite(data, 1, data_bytes, file) == data_bytes;
    int error = errno;
    bool closed = fclose(file) == 0;
    if (!written) errno = error;
    return written && closed;
}

static tp_status write_whole(tp_tensor *x, const char *path, const struct code *code,
                             const void *data, size_t bytes)
{
    char head[1024], temporary[4096];
    int head_bytes = make_header(x, code, head, sizeof head);
    FILE *file = create_temporary(path, temporary, sizeof temporary);
    if (file && write_file(file, head, head_bytes, data, bytes) && rename(temporary, path) == 0)
        return TP_OK;
    tp_status status = tp_graph_fail(x->graph, TP_E_FILE, "save_npy", -1, "%s: cannot write: %s",
                                     shown(path), strerror(errno));
    if (file) remove(temporary);
    return status;
}

/* A copy of x's result in C order, bools as 0 and 1: NumPy takes other bytes for neither. */
static tp_status write_copy(tp_tensor *x, const char *path, const struct code *code, size_t bytes)
{
    tp_context *context = x->graph->context;
    char *data = tp_context_alloc(context, bytes);
    if (!data) return tp_graph_fail_nomem(x->graph, "save_npy");
    tp_status status = tp_read(x, data, bytes);
    for (size_t i = 0; status == TP_OK && x->dtype == TP_BOOL && i < bytes; i++)
        data[i] = data[i] != 0;
    if (status == TP_OK) status = write_whole(x, path, code, data, bytes);
    tp_context_free(context, data, bytes);
    return status;
}

tp_status tp_save_npy(tp_tensor *x, const char *path)
{
    if (!x) return TP_E_ARGUMENT;
    if (!path) return tp_graph_fail(x->graph, TP_E_ARGUMENT, "save_npy", -1, "path is NULL");
    const struct code *code = NULL;
    for (size_t i = 0; i < CODES; i++) {
        if (codes[i].dtype == x->dtype) code = &codes[i];
    }
    if (!code)
        return tp_graph_fail(x->graph, TP_E_DTYPE, "save_npy", -1,
                             "%s has no .npy code: cast to f32 first",
                             tp_dtype_name((tp_dtype)x->dtype));
    const void *data = tp_data(x);
    if (x->state != TP_EVALUATED) return x->graph->error.status; /* tp_data recorded it */
    size_t bytes = (size_t)tp_numel(x) * (size_t)code->bytes;
    tp_view result = tp_result_view(x);
    bool as_it_lies = bytes == 0 || (tp_view_is_contiguous(&result) && x->dtype != TP_BOOL);
    return as_it_lies ? write_whole(x, path, code, data, bytes) : write_copy(x, path, code, bytes);
}
