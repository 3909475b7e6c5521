/* The tile interpreter: a program runs instruction by instruction over tiles that stay in the
 * first-level cache. Values lie in slots in compute form (f16 and bf16 as float, truth values
 * as 0 or 1); slots are reused once their last reader has run. A load that lies in memory
 * just as a tile would is used in place. */
#include "program.h"

#include <string.h>

static void fill(uint8_t dtype, const tp_value *value, int64_t n, char *y)
{
    tp_dtype compute = tp_dtype_compute((tp_dtype)dtype);
    size_t size = tp_dtype_size(compute);
    tp_value_store(compute, y, tp_dtype_kind_of(compute) == TP_DTYPE_FLOAT ? TP_F64 : compute,
                   *value);
    for (int64_t i = 1; i < n; i++) memcpy(y + i * (int64_t)size, y, size);
}

static bool is_constant(const tp_program *program, int v)
{
    return v >= program->load_count && program->insn[v - program->load_count].op == TP_OP_FULL;
}

void tp_tile_prepare(tp_tile_program *t, const tp_program *program, const uint8_t *load_dtype)
{
    int values = program->load_count + program->insn_count,
        last[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    t->program = program;
    t->loops = tp_cpu_loops_get();
    for (int v = 0; v < values; v++) {
        last[v] = v;
        t->dtype[v] =
            v < program->load_count ? load_dtype[v] : program->insn[v - program->load_count].dtype;
    }
    for (int i = 0; i < program->insn_count; i++) {
        const tp_insn *insn = &program->insn[i];
        int count = insn->op == TP_OP_FULL ? 0 : insn->op == TP_OP_CAST ? 1 : 3;
        for (int k = 0; k < count; k++) last[insn->in[k]] = program->load_count + i;
    }
    last[program->result] = values;
    /* Slot 0 is scratch for conversions. owner: the value that holds a slot, -1 none. A slot is
     * free from the instruction after its owner's last reader on: types of different size must
     * not overlap. Constants are written once and keep theirs. */
    int owner[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS + 1];
    t->slots = 1;
    for (int v = 0; v < values; v++) {
        if (!is_constant(program, v)) continue;
        last[v] = values;
        owner[t->slots] = v;
        t->slot[v] = (uint8_t)t->slots++;
    }
    for (int v = 0; v < values; v++) {
        if (is_constant(program, v)) continue;
        int slot = 1;
        while (slot < t->slots && last[owner[slot]] >= v) slot++;
        if (slot == t->slots) t->slots++;
        owner[slot] = v;
        t->slot[v] = (uint8_t)slot;
    }
    t->has_vm = program->insn_count && tp_vm_prepare(&t->vm, t->loops->vm, program, load_dtype, 0);
    t->vm_slot = t->has_vm ? ++t->slots : 0;
    if (t->has_vm) t->slots += (int)((tp_vm_bytes(&t->vm) + TP_SLOT_BYTES - 1) / TP_SLOT_BYTES);
}

void tp_tile_begin(const tp_tile_program *t, char *scratch)
{
    const tp_program *program = t->program;
    for (int i = 0; i < program->insn_count; i++) {
        const tp_insn *insn = &program->insn[i];
        if (insn->op != TP_OP_FULL) continue;
        fill(insn->dtype, &insn->imm, TP_TILE,
             scratch + t->slot[program->load_count + i] * TP_SLOT_BYTES);
    }
    if (t->has_vm)
        tp_vm_begin(&t->vm, scratch + (size_t)t->vm_slot * TP_SLOT_BYTES,
                    (uint8_t)tp_dtype_compute((tp_dtype)tp_tile_result_dtype(t)));
}

uint8_t tp_tile_result_dtype(const tp_tile_program *t)
{
    return t->dtype[t->program->result];
}

/* Of an element's size: 1, 2, 4 or 8. */
static int log2_of(int64_t size)
{
    return size == 8 ? 3 : (int)(size / 2);
}

/* One row of elements whose step is not their size. */
static void pack_row(int64_t n, size_t size, const char *at, int64_t step, char *to,
                     int64_t to_step)
{
    switch (size) {
    case 1:
        for (int64_t i = 0; i < n; i++) to[i * to_step] = at[i * step];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, at + i * step, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, at + i * step, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, at + i * step, 8);
    }
}

/* n times the element at `at`. */
static void pack_one(int64_t n, int64_t size, const char *at, char *to)
{
    memcpy(to, at, (size_t)size);
    for (int64_t done = 1; done < n; done *= 2) {
        int64_t more = done < n - done ? done : n - done;
        memcpy(to + done * size, to, (size_t)(more * size));
    }
}

/* Packs rows x n elements of size bytes. */
static void pack(const tp_cpu_loops *loops, int64_t rows, int64_t n, int64_t size,
                 const tp_rows *from, char *to)
{
    if (from->stride == 0 && (from->row_stride == 0 || rows == 1)) {
        pack_one(rows * n, size, from->at, to);
        return;
    }
    if (from->row_stride == size && from->stride != size && rows > 1 && n > 1) {
        loops->transpose[log2_of(size)](rows, n, from->at, from->stride, to, n * size);
        return;
    }
    for (int64_t r = 0; r < rows; r++, to += n * size) {
        const char *at = from->at + r * from->row_stride;
        if (from->stride == size)
            memcpy(to, at, (size_t)(n * size));
        else if (from->stride == 0)
            pack_one(n, size, at, to);
        else
            pack_row(n, (size_t)size, at, from->stride, to, size);
    }
}

static bool is_dense(int64_t rows, int64_t n, int64_t size, const tp_rows *r)
{
    return (n == 1 || r->stride == size) && (rows == 1 || r->row_stride == n * size);
}

char *tp_tile_into(const tp_cpu_loops *loops, uint8_t dtype, int64_t rows, int64_t n,
                   const tp_rows *to)
{
    int64_t size = (int64_t)tp_dtype_size((tp_dtype)dtype);
    return !loops->store[dtype] && is_dense(rows, n, size, to) ? to->at : NULL;
}

const char *tp_tile_load(const tp_cpu_loops *loops, uint8_t dtype, int64_t rows, int64_t n,
                         const tp_rows *from, char *slot)
{
    int64_t size = (int64_t)tp_dtype_size((tp_dtype)dtype);
    tp_loop convert = loops->load[dtype];
    const char *raw = from->at;
    if (!is_dense(rows, n, size, from)) {
        /* What is converted afterwards (1 or 2 bytes to at most 4) is packed into the slot's
         * upper half. */
        char *packed = convert ? slot + TP_SLOT_BYTES / 2 : slot;
        pack(loops, rows, n, size, from, packed);
        raw = packed;
    }
    if (!convert) return raw;
    convert(rows * n, raw, NULL, NULL, slot);
    return slot;
}

void tp_tile_store(const tp_cpu_loops *loops, uint8_t dtype, int64_t rows, int64_t n, const char *x,
                   const tp_rows *to, char *slot)
{
    int64_t size = (int64_t)tp_dtype_size((tp_dtype)dtype);
    bool dense = is_dense(rows, n, size, to);
    tp_loop convert = loops->store[dtype];
    if (convert) {
        convert(rows * n, x, NULL, NULL, dense ? to->at : slot);
        x = slot;
        if (dense) return;
    }
    if (dense) {
        if (x != to->at) memmove(to->at, x, (size_t)(rows * n * size));
        return;
    }
    if (to->row_stride == size && rows > 1 && n > 1) {
        loops->transpose[log2_of(size)](n, rows, x, n * size, to->at, to->stride);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += n * size) {
        char *at = to->at + r * to->row_stride;
        if (to->stride == size)
            memcpy(at, x, (size_t)(n * size));
        else
            pack_row(n, (size_t)size, x, size, at, to->stride);
    }
}

/* A conversion between dtypes in compute form. */
static void cast(const tp_cpu_loops *loops, uint8_t from, uint8_t to, int64_t n, const char *x,
                 char *y, char *scratch)
{
    tp_dtype f = tp_dtype_compute((tp_dtype)from), t = tp_dtype_compute((tp_dtype)to);
    tp_loop round = loops->round[to];
    if (to == TP_BOOL) {
        loops->cast[f][TP_BOOL](n, x, NULL, NULL, y);
        return;
    }
    /* Types that f32 holds exactly go through it to f16 and bf16; the others would round
     * twice. */
    bool wide = f == TP_F64 || f == TP_I32 || f == TP_U32 || f == TP_I64 || f == TP_U64;
    if (round && wide) {
        tp_convert(n, f, x, (int64_t)tp_dtype_size(f), (tp_dtype)to, scratch, 2);
        loops->load[to](n, scratch, NULL, NULL, y);
        return;
    }
    loops->cast[f][t](n, x, NULL, NULL, y);
    if (round) round(n, y, NULL, NULL, y);
}

static void run_insn(const tp_tile_program *t, const tp_insn *insn, int64_t n,
                     const char *const *value, char *y, char *scratch)
{
    const tp_cpu_loops *loops = t->loops;
    if (insn->op == TP_OP_FULL) return; /* tp_tile_begin wrote it */
    uint8_t calc = t->dtype[insn->in[insn->op == TP_OP_WHERE]];
    if (insn->op == TP_OP_CAST) {
        cast(loops, calc, insn->dtype, n, value[insn->in[0]], y, scratch);
        return;
    }
    loops->op[insn->op][tp_dtype_compute((tp_dtype)calc)](n, value[insn->in[0]], value[insn->in[1]],
                                                          value[insn->in[2]], y);
    tp_loop round = loops->round[insn->dtype];
    if (round) round(n, y, NULL, NULL, y);
}

/* By the register interpreter: what it cannot read where it lies is packed first. */
static const char *run_in_registers(const tp_tile_program *t, int64_t rows, int64_t n,
                                    const tp_rows *loads, const char *given, char *into,
                                    char *scratch)
{
    const tp_program *program = t->program;
    tp_rows from[TP_PROGRAM_LOADS];
    for (int v = 0; v < program->load_count; v++) {
        int64_t size = (int64_t)tp_dtype_size((tp_dtype)t->dtype[v]);
        if (given && v == 0) {
            from[0] = (tp_rows){(char *)(uintptr_t)given, n * size, size};
            continue;
        }
        from[v] = loads[v - (given != NULL)];
        if (n == 1 || from[v].stride == 0 || from[v].stride == size) continue;
        char *packed = scratch + t->slot[v] * TP_SLOT_BYTES;
        pack(t->loops, rows, n, size, &from[v], packed);
        from[v] = (tp_rows){packed, n * size, size};
    }
    tp_dtype compute = tp_dtype_compute((tp_dtype)tp_tile_result_dtype(t));
    int64_t size = (int64_t)tp_dtype_size(compute);
    char *vm = scratch + (size_t)t->vm_slot * TP_SLOT_BYTES;
    if (!into) into = vm - TP_SLOT_BYTES;
    tp_rows out = {into, n * size, size};
    tp_vm_run(&t->vm, vm, rows, n, from, &out, false);
    return into;
}

const char *tp_tile_run(const tp_tile_program *t, int64_t rows, int64_t n, const tp_rows *loads,
                        const char *given, char *into, char *scratch)
{
    const tp_program *program = t->program;
    if (t->has_vm && !(given && tp_dtype_compute((tp_dtype)t->dtype[0]) != t->dtype[0]))
        return run_in_registers(t, rows, n, loads, given, into, scratch);
    int last = program->load_count + program->insn_count - 1;
    const char *value[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    for (int v = 0; v < program->load_count; v++) {
        char *slot = scratch + t->slot[v] * TP_SLOT_BYTES;
        if (given && v == 0)
            value[0] = given;
        else
            value[v] =
                tp_tile_load(t->loops, t->dtype[v], rows, n, &loads[v - (given != NULL)], slot);
    }
    for (int i = 0; i < program->insn_count; i++) {
        int v = program->load_count + i;
        char *slot = scratch + t->slot[v] * TP_SLOT_BYTES;
        if (into && v == last && v == program->result && !is_constant(program, v)) slot = into;
        run_insn(t, &program->insn[i], rows * n, value, slot, scratch);
        value[v] = slot;
    }
    return value[program->result];
}
