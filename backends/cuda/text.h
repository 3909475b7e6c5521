/* The pieces that kernel texts are made of.
 *
 * A text is made for a structure: program, dtypes, number of collapsed dims, strides that are 0 or
 * 1, widths. Everything else - sizes, other strides, addresses - is in its one argument, so that
 * new shapes need no new text. An author adds the fields of the argument first (each 8 bytes, text
 * and value at once), then the kernel. */
#ifndef TP_CUDA_TEXT_H
#define TP_CUDA_TEXT_H

#include "cuda.h"

/* ---- Iteration spaces ------------------------------------------------------------------------ */

#define TP_CUDA_OPERANDS (TP_PROGRAM_LOADS + 2)

/* Some dims of a domain, those of size 1 left out, neighbours merged where all operands allow it;
 * outer to inner. Strides in elements. */
typedef struct tp_cuda_space {
    int ndim; /* 0: a single point */
    int64_t size[TP_MAX_RANK];
    int64_t total;
    int count; /* of operands */
    int64_t stride[TP_CUDA_OPERANDS][TP_MAX_RANK];
} tp_cuda_space;

/* The dims of domain in mask. Views have domain's rank. ordered: the dims are sorted so that
 * operand 0 runs forward through memory; else they stay in their order. */
void tp_cuda_space_make(tp_cuda_space *space, const tp_view *domain, uint32_t mask, int count,
                        const tp_view *const *view, bool ordered);
/* Whether 32 bits hold every index and every operand's reach in it. */
bool tp_cuda_space_is_narrow(const tp_cuda_space *space);
/* How many bytes from `at` on may be accessed at once for runs of `width` elements along the
 * innermost dim: whether address, outer strides and size divide. */
bool tp_cuda_space_allows(const tp_cuda_space *space, int operand, const char *at,
                          size_t element_bytes, int width);

/* ---- The argument ------------------------------------------------------------------------------
 */

typedef struct tp_cuda_args {
    tp_text *text;
    size_t size;
    bool full;
    char data[4000];
} tp_cuda_args;

/* Begins a text with its argument; fields; the end of the argument. Names are printf formats. */
void tp_cuda_args_begin(tp_cuda_args *args, tp_run *run);
void tp_cuda_arg_pointer(tp_cuda_args *args, const char *type, const char *at, const char *name,
                         ...) __attribute__((format(printf, 4, 5)));
void tp_cuda_arg_integer(tp_cuda_args *args, int64_t value, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
void tp_cuda_arg_real(tp_cuda_args *args, double value, const char *name);
/* A size that something is divided by: name, and where narrow its magic numbers. */
void tp_cuda_arg_divisor(tp_cuda_args *args, int64_t value, bool narrow, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* The sizes and strides of a space, under a prefix. */
void tp_cuda_args_space(tp_cuda_args *args, const tp_cuda_space *space, bool narrow,
                        const char *prefix);
void tp_cuda_args_end(tp_cuda_args *args);
/* Launches; E_INTERNAL if the argument grew beyond its limit. */
tp_status tp_cuda_launch_args(tp_run *run, const char *name, int64_t blocks, int threads,
                              const tp_cuda_args *args);
/* Blocks of so many threads for units of work: enough to fill the device a few times. */
int64_t tp_cuda_blocks(int64_t units, int threads);

/* m and s with n / d == (umulhi(n, m) + n) >> s for 0 <= n < 2^31, 1 <= d < 2^31. */
void tp_cuda_magic(uint32_t d, uint32_t *m, uint32_t *s);

/* ---- Statements
 * ----------------------------------------------------------------------------------- */

/* "int32_t" or "int64_t", signed or not. */
const char *tp_cuda_index_type(bool narrow, bool is_signed);
/* Declares <name>0, <name>1, .. , the operands' offsets in a space at a linear index (an
 * expression); mask: which operands. */
void tp_cuda_add_offsets(tp_text *text, const tp_cuda_space *space, bool narrow, const char *prefix,
                         const char *index, const char *name, uint32_t mask);
/* An expression: x / the divisor `name` of the argument. */
void tp_cuda_add_quotient(tp_text *text, bool narrow, const char *x, const char *name);

/* C types: of an element in memory, of a value that is calculated with. */
const char *tp_cuda_storage_type(tp_dtype dtype);
const char *tp_cuda_value_type(tp_dtype dtype);
/* The suffix of m_ functions: f32, i8, ... */
const char *tp_cuda_tag(tp_dtype dtype);
/* Expressions: the value of an element as it is stored; an element of a value that its dtype holds.
 */
void tp_cuda_add_loaded(tp_text *text, tp_dtype dtype, const char *element);
void tp_cuda_add_stored(tp_text *text, tp_dtype dtype, const char *value);
/* The bits of an element in memory, and back: what vectors are made of. */
void tp_cuda_add_from_bits(tp_text *text, tp_dtype dtype, const char *bits);
/* Value x of one dtype as a value of another, as tp_cast says. */
void tp_cuda_add_converted(tp_text *text, tp_dtype from, tp_dtype to, const char *x);
/* ops.def's expression over a, b, c with its functions' names for dtype calc. */
void tp_cuda_add_expression(tp_text *text, tp_op op, tp_dtype calc);
/* The instructions of a program: v<loads> .., given v0 .. of the loads' dtypes. `dtype` has the
 * dtypes of loads in, and gets those of all values. Names are <v><number>. */
void tp_cuda_add_program(tp_text *text, const tp_program *program, const char *v, tp_dtype *dtype);

#endif
