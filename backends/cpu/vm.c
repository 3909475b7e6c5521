/* Programs for the register interpreter. One value is in registers; an op takes its other operands
 * from memory: where a load lies, or from a tile. Of two operands that have to be calculated the
 * one that needs more tiles comes first and waits in one. Values with several readers are kept in a
 * tile until the last has run. */
#include "vm.h"

#include <string.h>

enum { NO_PLACE = -1, VALUES = TP_PROGRAM_LOADS + TP_PROGRAM_INSNS };

/* ---- Translation ----------------------------------------------------------------------------- */

typedef struct translation {
    tp_vm *vm;
    const tp_program *program;
    uint32_t repeats; /* loads that do */
    uint8_t dtype[VALUES];
    uint8_t same[VALUES]; /* the value itself, or the one it is a mere cast of */
    uint8_t uses[VALUES]; /* readers to come */
    uint8_t need[VALUES]; /* tiles that calculating it takes, about; 0: readable in memory */
    int16_t tile[VALUES]; /* where it is kept, or NO_PLACE */
    int in_registers;     /* a value, or -1 */
    int free_count;
    int16_t free[VALUES];
    bool failed;
} translation;

static int operand_count(const tp_insn *insn)
{
    switch (tp_op_info_of((tp_op)insn->op)->kind) {
    case TP_KIND_TERNARY:
        return 3;
    case TP_KIND_BINARY:
    case TP_KIND_COMPARE:
        return 2;
    default:
        return insn->op != TP_OP_FULL;
    }
}

/* The lane of a dtype, TP_VM_LANE_COUNT if it has none of this size. */
static tp_vm_lane lane_of(uint8_t dtype, bool wide)
{
    switch (dtype) {
    case TP_F32:
    case TP_F16:
    case TP_BF16:
        return wide ? TP_VM_LANE_COUNT : TP_VM_F32;
    case TP_BOOL:
        return wide ? TP_VM_I64 : TP_VM_I32;
    case TP_I32:
    case TP_U8:
    case TP_I8:
    case TP_U16:
    case TP_I16:
        return wide ? TP_VM_LANE_COUNT : TP_VM_I32;
    case TP_F64:
        return wide ? TP_VM_F64 : TP_VM_LANE_COUNT;
    case TP_I64:
        return wide ? TP_VM_I64 : TP_VM_LANE_COUNT;
    default:
        return TP_VM_LANE_COUNT;
    }
}

static bool is_load(const translation *t, int v)
{
    return v < t->program->load_count;
}

static const tp_insn *insn_of(const translation *t, int v)
{
    return &t->program->insn[v - t->program->load_count];
}

static bool is_constant(const translation *t, int v)
{
    return !is_load(t, v) && insn_of(t, v)->op == TP_OP_FULL;
}

static bool is_splat(const translation *t, int v)
{
    return is_load(t, v) ? t->repeats >> v & 1U : is_constant(t, v);
}

static tp_vm_lane lane(const translation *t, int v)
{
    return lane_of(t->dtype[v], t->vm->wide);
}

/* Whether every value of an integer type, or bool, is one of the other. */
static bool holds(uint8_t dtype, uint8_t from)
{
    if (dtype == from || from == TP_BOOL) return true;
    if (dtype == TP_BOOL) return false;
    bool from_sign = tp_dtype_kind_of((tp_dtype)from) == TP_DTYPE_INT,
         sign = tp_dtype_kind_of((tp_dtype)dtype) == TP_DTYPE_INT;
    size_t from_bits = tp_dtype_size((tp_dtype)from) * 8 - from_sign,
           bits = tp_dtype_size((tp_dtype)dtype) * 8 - sign;
    return bits >= from_bits && (sign || !from_sign);
}

/* A cast that leaves the lanes as they are. */
static bool is_mere(uint8_t to, uint8_t from)
{
    if (tp_dtype_kind_of((tp_dtype)to) == TP_DTYPE_FLOAT)
        return to == from || (to == TP_F32 && (from == TP_F16 || from == TP_BF16));
    return tp_dtype_kind_of((tp_dtype)from) != TP_DTYPE_FLOAT && holds(to, from);
}

/* Notes that the last instruction's p or q is a place; loads are pointed to when they are known. */
static void refer(translation *t, int place, bool is_q)
{
    tp_vm *vm = t->vm;
    int last = vm->code_count - 1;
    *(is_q ? &vm->code[last].q : &vm->code[last].p) = (int16_t)place;
    if (place < 0 || place >= t->program->load_count) return;
    vm->read[vm->read_count].insn = (int16_t)last;
    vm->read[vm->read_count].load = (uint8_t)place;
    vm->read[vm->read_count++].is_q = is_q;
}

/* Lets the last instruction do the work of fn over p too, if there is a pair of them. */
static bool join(translation *t, tp_vm_fn fn, int p)
{
    tp_vm *vm = t->vm;
    if (vm->code_count == 0 || p == NO_PLACE || vm->code[vm->code_count - 1].q != NO_PLACE)
        return false;
    tp_vm_fn *last = &vm->code[vm->code_count - 1].fn;
    for (int i = 0; i < TP_VM_PAIRS; i++) {
        if (vm->ops->pair[i].second != fn || vm->ops->pair[i].first != *last) continue;
        *last = vm->ops->pair[i].both;
        refer(t, p, true);
        return true;
    }
    return false;
}

static void emit(translation *t, tp_vm_fn fn, int p, int q)
{
    tp_vm *vm = t->vm;
    if (!fn) t->failed = true;
    if (!fn || (q == NO_PLACE && join(t, fn, p))) return;
    vm->code[vm->code_count++].fn = fn;
    refer(t, p, false);
    refer(t, q, true);
}

static int16_t take_tile(translation *t)
{
    return t->free_count ? t->free[--t->free_count] : (int16_t)t->vm->place_count++;
}

/* Where an op can read a value, or NO_PLACE. */
static int place_of(const translation *t, int v)
{
    if (t->tile[v] != NO_PLACE) return t->tile[v];
    return is_load(t, v) && t->need[v] == 0 ? v : NO_PLACE;
}

static void keep(translation *t, int v)
{
    if (place_of(t, v) != NO_PLACE) return;
    t->tile[v] = take_tile(t);
    emit(t, t->vm->ops->keep, t->tile[v], NO_PLACE);
}

/* Reads a load into a tile. */
static void unpack(translation *t, int v)
{
    t->tile[v] = take_tile(t);
    emit(t, t->vm->ops->unpack[t->vm->wide][t->dtype[v]], v, t->tile[v]);
}

/* A reader of v has run. */
static void release(translation *t, int v)
{
    if (--t->uses[v] > 0 || t->tile[v] == NO_PLACE || is_constant(t, v)) return;
    t->free[t->free_count++] = t->tile[v];
    t->tile[v] = NO_PLACE;
}

/* The function that a cast between lanes takes; NULL with *ok: none. */
static tp_vm_fn cast_fn(const translation *t, uint8_t to, int v, bool *ok)
{
    const tp_vm_ops *ops = t->vm->ops;
    tp_vm_lane from = lane(t, v), as = lane_of(to, t->vm->wide);
    tp_vm_fn fn = NULL;
    bool from_float = from == TP_VM_F32 || from == TP_VM_F64;
    *ok = true;
    if (to == TP_BOOL)
        fn = ops->truth[from];
    else if (from_float && as == from) /* rounding is all there is to it */
        return NULL;
    else if (as == TP_VM_F32 || as == TP_VM_F64) {
        /* Integers of 4 bytes would be rounded twice on their way to f16 and bf16. */
        bool twice = t->dtype[v] == TP_I32 && to != TP_F32;
        fn = twice ? NULL : ops->cast[from][as];
    } else
        fn = from_float ? ops->saturate[to] : ops->wrap[to];
    *ok = fn != NULL;
    return fn;
}

static tp_vm_fn op_fn(const translation *t, const tp_insn *insn, int in_registers)
{
    tp_op_kind kind = tp_op_info_of((tp_op)insn->op)->kind;
    uint8_t calc = t->dtype[insn->in[insn->op == TP_OP_WHERE]];
    tp_vm_lane as = lane_of(calc, t->vm->wide);
    if (kind == TP_KIND_TERNARY)
        as = t->vm->wide ? TP_VM_I64 : TP_VM_I32;
    else if (as == TP_VM_I32 && calc != TP_I32 && calc != TP_BOOL && kind != TP_KIND_COMPARE)
        return NULL; /* narrow integers wrap elsewhere */
    const tp_vm_ops *ops = t->vm->ops;
    bool two = kind == TP_KIND_BINARY || kind == TP_KIND_COMPARE;
    tp_vm_fn splat = two && is_splat(t, t->same[insn->in[1 - in_registers]])
                         ? ops->splat[insn->op][as][in_registers]
                         : NULL;
    return splat ? splat : ops->op[insn->op][as][in_registers];
}

static void calculate(translation *t, int v);

/* Whether an op has to wait for an operand: it is neither in registers nor readable in memory. */
static bool is_missing(const translation *t, int v)
{
    return v != t->in_registers && place_of(t, v) == NO_PLACE;
}

/* Brings one of the operands into registers and gives its position; the others are then readable in
 * memory. What has to be calculated comes first, the rest is unpacked beside it. */
static int bring_in(translation *t, const int *in, int count)
{
    for (;;) {
        int next = -1;
        for (int k = 0; k < count; k++) {
            if (!is_missing(t, in[k]) || is_load(t, in[k])) continue;
            if (next < 0 || t->need[in[k]] > t->need[in[next]]) next = k;
        }
        if (next < 0 || t->failed) break;
        for (int k = 0; k < count; k++) {
            if (in[k] == t->in_registers) keep(t, in[k]);
        }
        calculate(t, in[next]);
    }
    int best = -1;
    for (int k = 0; k < count; k++) {
        if (in[k] == t->in_registers || (best < 0 && is_missing(t, in[k]))) best = k;
    }
    for (int k = 0; k < count && best < 0; k++) {
        if (!is_splat(t, in[k]) || k == count - 1) best = k;
    }
    calculate(t, in[best]);
    for (int k = 0; k < count; k++) {
        if (is_missing(t, in[k])) unpack(t, in[k]);
        if (k != best && in[k] == in[best]) keep(t, in[k]); /* the same operand twice */
    }
    return best;
}

static void apply(translation *t, int v)
{
    const tp_insn *insn = insn_of(t, v);
    int count = operand_count(insn), in[3], place[2] = {NO_PLACE, NO_PLACE};
    for (int k = 0; k < count; k++) in[k] = t->same[insn->in[k]];
    int best = bring_in(t, in, count);
    if (t->failed) return;
    for (int k = 0, to = 0; k < count; k++) {
        if (k != best) place[to++] = place_of(t, in[k]);
    }
    if (insn->op == TP_OP_CAST) {
        bool ok;
        tp_vm_fn fn = cast_fn(t, insn->dtype, in[0], &ok);
        t->failed = t->failed || !ok;
        if (fn) emit(t, fn, NO_PLACE, NO_PLACE);
    } else
        emit(t, op_fn(t, insn, best), place[0], place[1]);
    if (insn->dtype == TP_F16 || insn->dtype == TP_BF16)
        emit(t, t->vm->ops->round[insn->dtype], NO_PLACE, NO_PLACE);
    for (int k = 0; k < count; k++) release(t, in[k]);
}

/* Brings a value into registers. As deep as the program is long. */
static void calculate(translation *t, int v)
{
    int place = place_of(t, v);
    if (t->failed || t->in_registers == v) return;
    if (place != NO_PLACE) {
        uint8_t whole = t->vm->wide ? TP_F64 : TP_F32;
        emit(t, t->vm->ops->load[t->vm->wide][whole], place, NO_PLACE);
    } else if (is_load(t, v))
        emit(t, t->vm->ops->load[t->vm->wide][t->dtype[v]], v, NO_PLACE);
    else
        apply(t, v);
    t->in_registers = v;
    if (t->uses[v] > 1) keep(t, v);
}

static bool read_values(translation *t)
{
    const tp_program *program = t->program;
    int values = program->load_count + program->insn_count;
    tp_vm *vm = t->vm;
    for (int v = 0; v < values; v++) {
        t->dtype[v] = is_load(t, v) ? vm->load_dtype[v] : insn_of(t, v)->dtype;
        vm->wide = vm->wide || t->dtype[v] == TP_F64 || t->dtype[v] == TP_I64;
    }
    for (int v = 0; v < values; v++) {
        if (lane(t, v) == TP_VM_LANE_COUNT) return false;
        t->same[v] = (uint8_t)v;
        t->tile[v] = NO_PLACE;
        t->uses[v] = 0;
        if (is_load(t, v) || insn_of(t, v)->op != TP_OP_CAST) continue;
        int from = t->same[insn_of(t, v)->in[0]];
        if (is_mere(t->dtype[v], t->dtype[from])) t->same[v] = (uint8_t)from;
    }
    return true;
}

static void find_uses(translation *t)
{
    const tp_program *program = t->program;
    t->uses[t->same[program->result]] = 1;
    for (int i = program->insn_count - 1; i >= 0; i--) {
        const tp_insn *insn = &program->insn[i];
        if (!t->uses[program->load_count + i]) continue;
        for (int k = 0; k < operand_count(insn); k++) t->uses[t->same[insn->in[k]]]++;
    }
}

static void find_needs(translation *t)
{
    const tp_program *program = t->program;
    for (int v = 0; v < program->load_count + program->insn_count; v++) {
        if (is_load(t, v)) {
            uint8_t dtype = t->dtype[v];
            t->need[v] =
                !(dtype == TP_F32 || dtype == TP_I32 || dtype == TP_F64 || dtype == TP_I64);
            continue;
        }
        const tp_insn *insn = insn_of(t, v);
        if (insn->op == TP_OP_FULL) {
            tp_vm *vm = t->vm;
            t->need[v] = 0;
            if (!t->uses[v]) continue;
            t->tile[v] = (int16_t)vm->place_count++;
            vm->constant[vm->constant_count].value = (int16_t)v;
            vm->constant[vm->constant_count++].place = t->tile[v];
            continue;
        }
        int need = 1;
        for (int k = 0; k < operand_count(insn); k++) {
            int other = t->need[t->same[insn->in[k]]];
            need = other > need ? other : other == need && k > 0 ? need + 1 : need;
        }
        t->need[v] = (uint8_t)need;
    }
}

bool tp_vm_prepare(tp_vm *vm, const tp_vm_ops *ops, const tp_program *program,
                   const uint8_t *load_dtype, uint32_t repeats)
{
    translation t = {.vm = vm, .program = program, .repeats = repeats, .in_registers = -1};
    vm->ops = ops;
    vm->program = program;
    vm->wide = 0;
    vm->code_count = vm->read_count = vm->constant_count = 0;
    vm->place_count = program->load_count + 1;
    memcpy(vm->load_dtype, load_dtype, (size_t)program->load_count);
    if (!read_values(&t)) return false;
    find_uses(&t);
    find_needs(&t);
    int result = t.same[program->result];
    calculate(&t, result);
    emit(&t, ops->store[vm->wide][t.dtype[result]], program->load_count, NO_PLACE);
    return !t.failed;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* A thread's memory: this, the chain for whole blocks, the chain for a row's end, tiles. */
typedef struct state {
    tp_vm_insn *body, *end;
    char *tiles;
    int64_t end_n; /* elements that count in the end chain */
    int64_t out_size;
} state;

#define ALIGN_BYTES ((size_t)64)

static size_t up(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static size_t chain_bytes(const tp_vm *vm)
{
    return up((size_t)vm->code_count * sizeof(tp_vm_insn));
}

size_t tp_vm_bytes(const tp_vm *vm)
{
    return up(sizeof(state)) + 2 * chain_bytes(vm) +
           (size_t)vm->place_count * (size_t)vm->ops->block_bytes;
}

/* Elements of a block. */
static int64_t block_of(const tp_vm *vm)
{
    return vm->ops->block_bytes / (vm->wide ? 8 : 4);
}

static state *state_in(char *memory)
{
    return (state *)(void *)memory;
}

static char *tile_at(const tp_vm *vm, const state *s, int place)
{
    return s->tiles + place * vm->ops->block_bytes;
}

static void write_constant(const tp_vm *vm, const state *s, int k)
{
    const tp_insn *insn = &vm->program->insn[vm->constant[k].value - vm->program->load_count];
    tp_vm_lane as = lane_of(insn->dtype, vm->wide);
    char lane[8];
    if (as == TP_VM_F32)
        memcpy(lane, &(float){(float)insn->imm.f}, 4);
    else if (as == TP_VM_I32)
        memcpy(lane, &(int32_t){(int32_t)insn->imm.i}, 4);
    else if (as == TP_VM_F64)
        memcpy(lane, &insn->imm.f, 8);
    else
        memcpy(lane, &insn->imm.i, 8);
    vm->ops->repeat(vm->wide ? 8 : 4, lane, tile_at(vm, s, vm->constant[k].place));
}

void tp_vm_begin(const tp_vm *vm, char *memory, uint8_t dtype)
{
    state *s = state_in(memory);
    s->body = (tp_vm_insn *)(void *)(memory + up(sizeof *s));
    s->end = (tp_vm_insn *)(void *)(memory + up(sizeof *s) + chain_bytes(vm));
    s->tiles = memory + up(sizeof *s) + 2 * chain_bytes(vm);
    s->end_n = 0;
    s->out_size = (int64_t)tp_dtype_size((tp_dtype)dtype);
    /* A row's end leaves the rest of a load's tile as it is: any values, but some. */
    memset(s->tiles, 0, (size_t)(vm->program->load_count * vm->ops->block_bytes));
    for (int i = 0; i < vm->code_count; i++) {
        tp_vm_insn *insn = &s->body[i];
        insn->fn = vm->code[i].fn;
        insn->p = tile_at(vm, s, vm->code[i].p < 0 ? 0 : vm->code[i].p);
        insn->q = tile_at(vm, s, vm->code[i].q < 0 ? 0 : vm->code[i].q);
        insn->walk_p = insn->walk_q = 0;
        insn->n = block_of(vm);
        if (i == vm->code_count - 1) insn->fn = vm->ops->store[vm->wide][dtype];
        s->end[i] = *insn;
    }
    for (int k = 0; k < vm->constant_count; k++) write_constant(vm, s, k);
}

/* An operand of a run: where its row starts, and whether it walks along it or repeats. */
typedef struct operand {
    char *at;
    int64_t size, row_stride;
    bool walks;
} operand;

/* Whether an operand goes on from row to row as it goes on in a row. */
static bool goes_on(int64_t rows, int64_t n, int64_t size, const tp_rows *r)
{
    if (rows == 1) return true;
    if (n == 1) return r->row_stride == 0 || r->row_stride == size;
    return r->row_stride == n * r->stride;
}

/* Takes rows that go on in every operand as one. */
static void merge_rows(const tp_vm *vm, const state *s, int64_t *rows, int64_t *n,
                       const tp_rows *loads, const tp_rows *out, operand *o)
{
    int count = vm->program->load_count;
    bool one = goes_on(*rows, *n, s->out_size, out);
    for (int k = 0; k < count; k++) {
        o[k] = (operand){loads[k].at, (int64_t)tp_dtype_size((tp_dtype)vm->load_dtype[k]),
                         loads[k].row_stride, *n == 1 || loads[k].stride != 0};
        one = one && goes_on(*rows, *n, o[k].size, &loads[k]);
    }
    if (!one) return;
    for (int k = 0; k < count && *n == 1; k++) o[k].walks = loads[k].row_stride != 0;
    *n *= *rows;
    *rows = 1;
}

/* Points the chain for whole blocks to its operands. */
static void point(const tp_vm *vm, const state *s, const operand *o)
{
    for (int i = 0; i < vm->read_count; i++) {
        tp_vm_insn *insn = &s->body[vm->read[i].insn];
        int k = vm->read[i].load;
        char *at = o[k].walks ? o[k].at : tile_at(vm, s, k);
        int32_t walk = o[k].walks ? -1 : 0;
        if (vm->read[i].is_q) {
            insn->q = at;
            insn->walk_q = walk;
        } else {
            insn->p = at;
            insn->walk_p = walk;
        }
    }
}

/* The last n < block elements of a row, from `done` on, through tiles. */
static void run_end(const tp_vm *vm, state *s, int64_t done, int64_t n, const operand *o, char *out)
{
    int count = vm->program->load_count;
    for (int k = 0; k < count; k++) {
        if (o[k].walks)
            memcpy(tile_at(vm, s, k), o[k].at + done * o[k].size, (size_t)(n * o[k].size));
    }
    if (s->end_n != n) {
        s->end_n = n;
        for (int i = 0; i < vm->code_count; i++) s->end[i].n = n;
    }
    vm->ops->run(s->end, 0, vm->ops->block_bytes);
    memcpy(out + done * s->out_size, tile_at(vm, s, count), (size_t)(n * s->out_size));
}

static void run_rows(const tp_vm *vm, state *s, int64_t rows, int64_t n, operand *o,
                     const tp_rows *out)
{
    int64_t block = block_of(vm), done = n / block * block, lane = vm->wide ? 8 : 4;
    char *to = out->at;
    for (int64_t r = 0; r < rows; r++, to += out->row_stride) {
        for (int k = 0; k < vm->program->load_count; k++) {
            if (!o[k].walks && (r == 0 || o[k].row_stride))
                vm->ops->repeat(o[k].size, o[k].at, tile_at(vm, s, k));
        }
        if (done) {
            point(vm, s, o);
            s->body[vm->code_count - 1].p = to;
            vm->ops->run(s->body, 0, done * lane);
        }
        if (done < n) run_end(vm, s, done, n - done, o, to);
        for (int k = 0; k < vm->program->load_count; k++) o[k].at += o[k].row_stride;
    }
}

void tp_vm_run(const tp_vm *vm, char *memory, int64_t rows, int64_t n, const tp_rows *loads,
               const tp_rows *out, bool stream)
{
    state *s = state_in(memory);
    const tp_vm_ops *ops = vm->ops;
    operand o[TP_PROGRAM_LOADS];
    merge_rows(vm, s, &rows, &n, loads, out, o);
    tp_vm_insn *last = &s->body[vm->code_count - 1];
    tp_vm_fn store = last->fn;
    int64_t vector = ops->block_bytes / 8;
    bool on_boundary =
        (uintptr_t)out->at % (uintptr_t)vector == 0 && (rows == 1 || out->row_stride % vector == 0);
    stream = stream && ops->stream && on_boundary && s->out_size == (vm->wide ? 8 : 4);
    if (stream) last->fn = ops->stream;
    run_rows(vm, s, rows, n, o, out);
    if (!stream) return;
    last->fn = store;
    ops->fence();
}
