/* A text that grows into a caller's buffer and counts on past its end, as snprintf does. */
#include "graph.h"

#include <stdio.h>
#include <string.h>

void tp_text_add(tp_text *text, const char *format, ...)
{
    size_t size = text->at ? text->size : 0;
    size_t used = (size_t)text->length < size ? (size_t)text->length : size;
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text->at ? text->at + used : NULL, size - used, format, args);
    va_end(args);
    if (more > 0) text->length += more;
}

void tp_text_add_view(tp_text *text, const tp_view *v)
{
    char view[800];
    tp_view_print(v, view, sizeof view);
    tp_text_add(text, "%s", view);
}

void tp_text_add_escaped(tp_text *text, const char *string)
{
    for (const unsigned char *c = (const unsigned char *)string; *c; c++) {
        if (*c == '"' || *c == '\\')
            tp_text_add(text, "\\%c", *c);
        else if (*c < 32 || *c == 127)
            tp_text_add(text, "\\x%02x", *c);
        else
            tp_text_add(text, "%c", *c);
    }
}

/* Bytes of the UTF-8 character at c, 0: there is none. Short enough not to look for overlong
 * forms in full: the second byte of E0, ED, F0 and F4 tells them. */
static int utf8_length(const unsigned char *c)
{
    int n = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4;
    if (c[0] > 0xF4) return 0;
    for (int i = 1; i < n; i++) {
        if ((c[i] & 0xC0) != 0x80) return 0;
    }
    bool wrong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) ||
                 (c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] > 0x8F);
    return wrong ? 0 : n;
}

void tp_text_add_html(tp_text *text, const char *string)
{
    for (const unsigned char *c = (const unsigned char *)string; *c;) {
        int n = utf8_length(c);
        if (*c == '&')
            tp_text_add(text, "&amp;");
        else if (*c == '<')
            tp_text_add(text, "&lt;");
        else if (*c == '>')
            tp_text_add(text, "&gt;");
        else if (*c == '"')
            tp_text_add(text, "&quot;");
        else if (n == 0 || *c < 32 || *c == 127)
            tp_text_add(text, "?");
        else
            tp_text_add(text, "%.*s", n, (const char *)c);
        c += n ? n : 1;
    }
}

void tp_text_add_bytes(tp_text *text, int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) {
        tp_text_add(text, "%lld bytes", (long long)bytes);
        return;
    }
    int unit = 0;
    int64_t scale = 1024;
    while (unit < 3 && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    /* Tenths by integers: the same in every locale. */
    tp_text_add(text, "%lld.%lld %s", (long long)(bytes / scale),
                (long long)(bytes % scale * 10 / scale), units[unit]);
}

void tp_text_add_number(tp_text *text, tp_dtype dtype, tp_value value)
{
    if (dtype == TP_U64) {
        tp_text_add(text, "%llu", (unsigned long long)value.i);
        return;
    }
    if (tp_dtype_kind_of(dtype) != TP_DTYPE_FLOAT) {
        tp_text_add(text, "%lld", (long long)value.i);
        return;
    }
    char number[64];
    snprintf(number, sizeof number, dtype == TP_F64 ? "%.17g" : "%.9g", value.f);
    /* The decimal point is what is left: one character or more, as the locale has it. */
    const char *c = number + strspn(number, "0123456789+-abcdefghijklmnopqrstuvwxyz");
    const char *rest = c + strcspn(c, "0123456789");
    tp_text_add(text, "%.*s%s%s", (int)(c - number), number, *c ? "." : "", rest);
}
