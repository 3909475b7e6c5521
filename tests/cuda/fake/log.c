/* What was called, for tests. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tp_fake_counters fake_counters;
static char *text;
static size_t length, room;

void fake_log(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (size < 0) return;
    size_t bytes = strlen(line);
    if (getenv("TP_FAKE_VERBOSE")) fprintf(stderr, "fake: %s\n", line);
    line[bytes++] = '\n';
    if (length + bytes + 1 > room) {
        size_t larger = 2 * room + bytes + 4096;
        char *grown = realloc(text, larger);
        if (!grown) return;
        text = grown;
        room = larger;
    }
    memcpy(text + length, line, bytes);
    length += bytes;
    text[length] = 0;
}

const char *tp_fake_log(void)
{
    return text ? text : "";
}

void tp_fake_log_clear(void)
{
    length = 0;
    if (text) text[0] = 0;
}

tp_fake_counters tp_fake_count(void)
{
    return fake_counters;
}
