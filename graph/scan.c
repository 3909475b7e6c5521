/* The scanner of the .tp form: a pointer that moves over the text and stops at its end or at
 * what it does not understand. What always holds: it never moves past the terminating 0. */
#include "scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors ------------------------------------------------------------------------- */

static int line_of(const tp_scan *scan, const char *at, int *column)
{
    int row = 1;
    const char *start = scan->text;
    for (const char *c = scan->text; c < at; c++) {
        if (*c != '\n') continue;
        row++;
        start = c + 1;
    }
    *column = (int)(at - start) + 1;
    return row;
}

tp_status tp_scan_fail(tp_scan *scan, const char *at, const char *what)
{
    int column, row = line_of(scan, at, &column);
    return tp_graph_fail(scan->graph, TP_E_FORMAT, "parse", -1, "line %d, column %d: %s", row,
                         column, what);
}

void tp_scan_blame(tp_scan *scan, const char *at)
{
    tp_error *error = &scan->graph->error;
    char text[sizeof error->text];
    int column, row = line_of(scan, at, &column);
    int used = snprintf(text, sizeof text, "parse: line %d, column %d: ", row, column);
    size_t room = sizeof text - (size_t)used, length = strlen(error->text);
    if (length >= room) length = room - 1;
    memmove(error->text + used, error->text, length);
    memcpy(error->text, text, (size_t)used);
    error->text[(size_t)used + length] = 0;
}

/* ---- Words -------------------------------------------------------------------------- */

void tp_scan_skip(tp_scan *scan)
{
    while (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r') scan->at++;
    if (*scan->at == '#') scan->at += strcspn(scan->at, "\n");
}

bool tp_scan_take(tp_scan *scan, char c)
{
    tp_scan_skip(scan);
    if (*scan->at != c) return false;
    scan->at++;
    return true;
}

size_t tp_scan_word_length(const tp_scan *scan)
{
    return strspn(scan->at, "abcdefghijklmnopqrstuvwxyz0123456789_");
}

bool tp_scan_take_word(tp_scan *scan, const char *word)
{
    tp_scan_skip(scan);
    size_t n = strlen(word);
    if (tp_scan_word_length(scan) != n || memcmp(scan->at, word, n) != 0) return false;
    scan->at += n;
    return true;
}

/* ---- Numbers ------------------------------------------------------------------------ */

tp_status tp_scan_integer(tp_scan *scan, int64_t *value)
{
    if (tp_scan_take_word(scan, "end")) {
        *value = TP_END;
        return TP_OK;
    }
    const char *c = scan->at;
    bool negative = *c == '-';
    c += negative;
    if (*c < '0' || *c > '9') return tp_scan_fail(scan, scan->at, "expected an integer");
    int64_t size = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, *c - '0', &size))
            return tp_scan_fail(scan, scan->at, "the integer does not fit in 63 bits");
    }
    scan->at = c;
    *value = negative ? -size : size;
    return TP_OK;
}

tp_status tp_scan_list(tp_scan *scan, int room, int *count, int64_t *values)
{
    *count = 0;
    if (tp_scan_take(scan, ']')) return TP_OK;
    do {
        if (*count == room) return tp_scan_fail(scan, scan->at, "the list is too long");
        TRY(tp_scan_integer(scan, &values[(*count)++]));
    } while (tp_scan_take(scan, ','));
    return tp_scan_take(scan, ']') ? TP_OK : tp_scan_fail(scan, scan->at, "expected , or ]");
}

static size_t number_length(const char *at)
{
    return strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyz");
}

tp_status tp_scan_skip_number(tp_scan *scan)
{
    tp_scan_skip(scan);
    size_t n = number_length(scan->at);
    scan->at += n;
    return n ? TP_OK : tp_scan_fail(scan, scan->at, "expected a number");
}

/* The word as this locale's strtod wants it, whose decimal point may be any string. */
static bool localize(char *to, size_t size, const char *word, size_t n)
{
    char half[16];
    int length = snprintf(half, sizeof half, "%.1f", 0.5); /* 0, the point, 5 */
    const char *dot = memchr(word, '.', n);
    int before = dot ? (int)(dot - word) : (int)n, after = dot ? (int)n - before - 1 : 0;
    if (dot && memchr(dot + 1, '.', (size_t)after)) return false;
    int used = snprintf(to, size, "%.*s%.*s%.*s", before, word, dot ? length - 2 : 0, half + 1,
                        after, dot ? dot + 1 : "");
    return used > 0 && (size_t)used < size;
}

static bool integer_value(const char *word, tp_dtype dtype, tp_value *v)
{
    char *end;
    errno = 0;
    if (dtype == TP_U64 && *word != '-')
        v->i = (int64_t)strtoull(word, &end, 10);
    else
        v->i = strtoll(word, &end, 10);
    if (*end || errno) return false;
    bool natural = tp_dtype_kind_of(dtype) == TP_DTYPE_UINT || dtype == TP_BOOL;
    if (tp_dtype_size(dtype) == 8) return !natural || *word != '-';
    int bits = dtype == TP_BOOL ? 1 : (int)tp_dtype_size(dtype) * 8 - !natural;
    int64_t beyond = (int64_t)1 << bits;
    return v->i < beyond && v->i >= (natural ? 0 : -beyond);
}

tp_status tp_scan_number(tp_scan *scan, tp_dtype dtype, tp_value *value)
{
    const char *at;
    char word[64], *end;
    tp_scan_skip(scan);
    at = scan->at;
    TRY(tp_scan_skip_number(scan));
    *value = (tp_value){0};
    bool ok = localize(word, sizeof word, at, (size_t)(scan->at - at));
    if (ok && tp_dtype_kind_of(dtype) == TP_DTYPE_FLOAT) {
        value->f = strtod(word, &end);
        ok = end != word && !*end;
    } else if (ok)
        ok = integer_value(word, dtype, value);
    return ok ? TP_OK : tp_scan_fail(scan, at, "this is no number of that dtype");
}

/* ---- Strings ------------------------------------------------------------------------ */

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* What follows a backslash; 0 on failure. */
static unsigned escaped(tp_scan *scan)
{
    if (*scan->at != 'x') return (unsigned char)(*scan->at ? *scan->at++ : 0);
    int high = hex_digit(scan->at[1]), low = high < 0 ? -1 : hex_digit(scan->at[2]);
    if (low < 0) return 0;
    scan->at += 3;
    return (unsigned)(high * 16 + low);
}

tp_status tp_scan_string(tp_scan *scan, char *to)
{
    while (*scan->at != '"') {
        unsigned c = (unsigned char)*scan->at;
        if (!c || c == '\n') return tp_scan_fail(scan, scan->at, "the name has no end");
        scan->at++;
        if (c == '\\') {
            c = escaped(scan);
            if (!c)
                return tp_scan_fail(scan, scan->at,
                                    "expected a character or x and two digits 0-9 a-f, not 00");
        }
        if (to) *to++ = (char)c;
    }
    scan->at++;
    if (to) *to = 0;
    return TP_OK;
}
