/* Element types, statuses and reasons: what their lists say, and the promotion matrix. */
#include "graph.h"

/* ---- Names ------------------------------------------------------------------------ */

const char *tp_status_name(tp_status status)
{
    static const char *const names[] = {
#define STATUS(ENUM, name, meaning) #name,
#include "tensorplay/status.def"
    };
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

typedef struct dtype_info {
    const char *name;
    tp_dtype_kind kind;
    size_t bytes;
} dtype_info;

static const dtype_info infos[TP_DTYPE_COUNT] = {
#define DTYPE(ENUM, name, storage, compute, kind, bytes) {#name, TP_DTYPE_##kind, bytes},
#include "tensorplay/dtypes.def"
};

const char *tp_dtype_name(tp_dtype dtype)
{
    return (unsigned)dtype < TP_DTYPE_COUNT ? infos[dtype].name : "unknown";
}

size_t tp_dtype_size(tp_dtype dtype)
{
    return (unsigned)dtype < TP_DTYPE_COUNT ? infos[dtype].bytes : 0;
}

tp_dtype_kind tp_dtype_kind_of(tp_dtype dtype)
{
    return infos[dtype].kind;
}

tp_dtype tp_dtype_compute(tp_dtype dtype)
{
    if (dtype == TP_BOOL) return TP_U8;
    return dtype == TP_F16 || dtype == TP_BF16 ? TP_F32 : dtype;
}

const char *tp_reason_name(tp_reason reason)
{
    static const char *const names[] = {
        "none",
#define REASON(ENUM, kept, meaning) #ENUM,
#include "tensorplay/reasons.def"
    };
    return (unsigned)reason < TP_REASON_COUNT ? names[reason] : "unknown";
}

const char *tp_reason_meaning(tp_reason reason)
{
    static const char *const meanings[] = {
        "nothing was looked at",
#define REASON(ENUM, kept, meaning) meaning,
#include "tensorplay/reasons.def"
    };
    return (unsigned)reason < TP_REASON_COUNT ? meanings[reason] : "unknown";
}

/* ---- Promotion ------------------------------------------------------------------------ */

/* The smallest type that holds both, by the rules of docs/SEMANTICS.md; no_type where none
 * does. Symmetric and associative (tests/unit/test_types.c). */
enum { no_type = 255 };

bool tp_dtype_promote(tp_dtype a, tp_dtype b, tp_dtype *result)
{
    enum {
        b1 = TP_BOOL,
        u1 = TP_U8,
        i1 = TP_I8,
        u2 = TP_U16,
        i2 = TP_I16,
        u4 = TP_U32,
        i4 = TP_I32,
        u8 = TP_U64,
        i8 = TP_I64,
        h = TP_F16,
        bf = TP_BF16,
        f = TP_F32,
        d = TP_F64,
        x = no_type
    };
    /* clang-format off */
    static const uint8_t matrix[TP_DTYPE_COUNT][TP_DTYPE_COUNT] = {
        /*         bool u8  i8  u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 */
        /* bool */ {b1, u1, i1, u2, i2, u4, i4, u8, i8, h,  bf, f, d},
        /* u8   */ {u1, u1, i2, u2, i2, u4, i4, u8, i8, h,  bf, f, d},
        /* i8   */ {i1, i2, i1, i4, i2, i8, i4, x,  i8, h,  bf, f, d},
        /* u16  */ {u2, u2, i4, u2, i4, u4, i4, u8, i8, h,  bf, f, d},
        /* i16  */ {i2, i2, i2, i4, i2, i8, i4, x,  i8, h,  bf, f, d},
        /* u32  */ {u4, u4, i8, u4, i8, u4, i8, u8, i8, h,  bf, f, d},
        /* i32  */ {i4, i4, i4, i4, i4, i8, i4, x,  i8, h,  bf, f, d},
        /* u64  */ {u8, u8, x,  u8, x,  u8, x,  u8, x,  h,  bf, f, d},
        /* i64  */ {i8, i8, i8, i8, i8, i8, i8, x,  i8, h,  bf, f, d},
        /* f16  */ {h,  h,  h,  h,  h,  h,  h,  h,  h,  h,  f,  f, d},
        /* bf16 */ {bf, bf, bf, bf, bf, bf, bf, bf, bf, f,  bf, f, d},
        /* f32  */ {f,  f,  f,  f,  f,  f,  f,  f,  f,  f,  f,  f, d},
        /* f64  */ {d,  d,  d,  d,  d,  d,  d,  d,  d,  d,  d,  d, d},
    };
    /* clang-format on */
    if ((unsigned)a >= TP_DTYPE_COUNT || (unsigned)b >= TP_DTYPE_COUNT || matrix[a][b] == no_type)
        return false;
    *result = (tp_dtype)matrix[a][b];
    return true;
}
