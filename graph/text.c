/* A text that grows into a caller's buffer and counts on past its end, as snprintf does. */
#include "graph.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

void tp_text_add(tp_text *text, const char *format, ...)
{
    size_t used = (size_t)text->length < text->size ? (size_t)text->length : text->size;
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text->at ? text->at + used : NULL, text->size - used, format, args);
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

void tp_text_add_number(tp_text *text, tp_dtype dtype, tp_value value)
{
    char number[64];
    if (dtype == TP_U64)
        snprintf(number, sizeof number, "%llu", (unsigned long long)value.i);
    else if (tp_dtype_kind_of(dtype) != TP_DTYPE_FLOAT)
        snprintf(number, sizeof number, "%lld", (long long)value.i);
    else {
        snprintf(number, sizeof number, dtype == TP_F64 ? "%.17g" : "%.9g", value.f);
        /* The same text in every locale. */
        char *point = strstr(number, localeconv()->decimal_point);
        if (point) *point = '.';
    }
    tp_text_add(text, "%s", number);
}
