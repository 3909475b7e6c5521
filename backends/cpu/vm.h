/* The register interpreter: a program as a chain of functions, each of which takes eight vectors in
 * registers, changes them and calls the next. A block of a row stays in registers from load to
 * store; an operand from memory is part of the op that takes it; other values wait in tiles of one
 * block's size. The bits are those of the tile interpreter (program.c), which runs what this one
 * refuses. */
#ifndef TP_CPU_VM_H
#define TP_CPU_VM_H

#include "../backend.h"

/* What a lane of a vector holds. All values of a program have lanes of one size: small integers and
 * truth values (0 or 1) lie in integer lanes, f16 and bf16 in those of f32. */
typedef enum tp_vm_lane { TP_VM_F32, TP_VM_I32, TP_VM_F64, TP_VM_I64, TP_VM_LANE_COUNT } tp_vm_lane;

/* Its real type is known to vm_ops.c only: it takes vectors. */
typedef void (*tp_vm_fn)(void);

typedef struct tp_vm_insn {
    tp_vm_fn fn;
    char *p, *q;            /* operands in memory, or where a store goes */
    int32_t walk_p, walk_q; /* -1: walks on with the blocks; 0: stays */
    int64_t n;              /* elements that count, for ops that go one by one */
} tp_vm_insn;

#define TP_VM_PAIRS 42

/* The functions for one instruction set; NULL: there is none. Loads and stores: [0] into lanes of 4
 * bytes, [1] of 8. */
typedef struct tp_vm_ops {
    int64_t block_bytes; /* of eight vectors */
    /* By op, by lane of its operands (where: integers of the values' size), and by the operand that
     * is in registers; the others are p and q, in order. */
    tp_vm_fn op[TP_OP_COUNT][TP_VM_LANE_COUNT][3];
    /* As op, for two operands of which the one in memory is a tile of one value. */
    tp_vm_fn splat[TP_OP_COUNT][TP_VM_LANE_COUNT][2];
    tp_vm_fn load[2][TP_DTYPE_COUNT], store[2][TP_DTYPE_COUNT];
    tp_vm_fn unpack[2][TP_DTYPE_COUNT]; /* as load, into the tile q: registers stay as they are */
    tp_vm_fn keep;                      /* writes whole lanes into the tile p and goes on */
    tp_vm_fn stream; /* as store, whole lanes, past the caches; p on a vector's boundary */
    tp_vm_fn round[TP_DTYPE_COUNT];
    /* Conversions: integers to floats; floats to integers; to narrower integers; to bool. */
    tp_vm_fn cast[TP_VM_LANE_COUNT][TP_VM_LANE_COUNT];
    tp_vm_fn saturate[TP_DTYPE_COUNT], wrap[TP_DTYPE_COUNT], truth[TP_VM_LANE_COUNT];
    /* Two functions that come one after the other, and the one that does the work of both: over the
     * first one's p, then, as q, the second one's. */
    struct {
        tp_vm_fn first, second, both;
    } pair[TP_VM_PAIRS];
    /* Fills a tile with the element of `size` bytes at `from`. */
    void (*repeat)(int64_t size, const char *from, char *tile);
    /* Runs a chain over the blocks from byte `begin` of the lanes up to `end`. */
    void (*run)(const tp_vm_insn *chain, int64_t begin, int64_t end);
    void (*fence)(void); /* after the last stream */
} tp_vm_ops;

/* A block of memory as rows of elements; strides in bytes. */
typedef struct tp_rows {
    char *at;
    int64_t row_stride, stride;
} tp_rows;

/* At most: a load into registers, an op, a rounding and a store into a tile for each instruction, a
 * load and a store for each operand, the result's store. */
#define TP_VM_CODE (4 * TP_PROGRAM_INSNS + 2 * TP_PROGRAM_LOADS + 2)
#define TP_VM_PLACES (2 * TP_PROGRAM_LOADS + TP_PROGRAM_INSNS + 1)
#define TP_VM_READS (3 * TP_PROGRAM_INSNS + TP_PROGRAM_LOADS)

/* A program made ready. Places are tiles: one for each load, for rows' ends and values that
 * repeat; the result's; then values that wait and constants. */
typedef struct tp_vm {
    const tp_vm_ops *ops;
    const tp_program *program;
    int wide; /* lanes of 8 bytes */
    int code_count, place_count, read_count, constant_count;
    uint8_t load_dtype[TP_PROGRAM_LOADS];
    struct {
        tp_vm_fn fn;
        int16_t p, q; /* places; -1: none */
    } code[TP_VM_CODE];
    /* Operands that are loads: code[insn].p or .q. */
    struct {
        int16_t insn;
        uint8_t load;
        bool is_q;
    } read[TP_VM_READS];
    struct {
        int16_t value, place;
    } constant[TP_PROGRAM_INSNS];
} tp_vm;

/* False: this program is not for the register interpreter. load_dtype by load; repeats: bit k says
 * that load k will repeat one element along every row. */
bool tp_vm_prepare(tp_vm *vm, const tp_vm_ops *ops, const tp_program *program,
                   const uint8_t *load_dtype, uint32_t repeats);
/* Memory of a thread, on a boundary of 64 bytes. */
size_t tp_vm_bytes(const tp_vm *vm);
/* Makes a thread's memory ready; results are stored in `dtype`: that of the program's result or its
 * compute type. */
void tp_vm_begin(const tp_vm *vm, char *memory, uint8_t dtype);
/* Calculates rows x n elements. A row of a load is dense or repeats one element; a row of the
 * result is dense, and may be exactly a load's. stream: past the caches, where that is possible. */
void tp_vm_run(const tp_vm *vm, char *memory, int64_t rows, int64_t n, const tp_rows *loads,
               const tp_rows *out, bool stream);

#endif
