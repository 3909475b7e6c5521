/* Running a program on a tile of elements. */
#ifndef TP_CPU_PROGRAM_H
#define TP_CPU_PROGRAM_H

#include "loops.h"

/* Elements of a tile. */
#define TP_TILE 512
#define TP_SLOT_BYTES ((size_t)TP_TILE * 8)

/* A program ready to run: who lies in which slot of the scratch, and, where it can, the register
 * interpreter's form, whose result and memory are the last slots. */
typedef struct tp_tile_program {
    const tp_program *program;
    const tp_cpu_loops *loops;
    bool has_vm;
    tp_vm vm;
    uint8_t dtype[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    uint8_t slot[TP_PROGRAM_LOADS + TP_PROGRAM_INSNS];
    int slots, vm_slot;
} tp_tile_program;

/* load_dtype by load. Scratch for a thread: slots * TP_SLOT_BYTES. */
void tp_tile_prepare(tp_tile_program *t, const tp_program *program, const uint8_t *load_dtype);
/* Writes the constants into a thread's scratch, once before its first tile. */
void tp_tile_begin(const tp_tile_program *t, char *scratch);
/* Calculates rows x n <= TP_TILE elements. Gives where they lie, dense, in the compute type
 * of the result's dtype: in the scratch, or in a load's own memory, or in `into`. `given`, if not
 * NULL, is value 0 in compute form; loads are then for values 1, 2, ... `into`, if not NULL, is
 * memory for the dense result, where the last instruction may write; it may be exactly a load's. */
const char *tp_tile_run(const tp_tile_program *t, int64_t rows, int64_t n, const tp_rows *loads,
                        const char *given, char *into, char *scratch);
/* Where a tile of `dtype` can be written without tp_tile_store: its memory if it lies dense and in
 * compute form, else NULL. */
char *tp_tile_into(const tp_cpu_loops *loops, uint8_t dtype, int64_t rows, int64_t n,
                   const tp_rows *to);
uint8_t tp_tile_result_dtype(const tp_tile_program *t);
/* Reads rows x n elements of a dtype into dense compute form, or gives their own memory if they
 * lie so already. */
const char *tp_tile_load(const tp_cpu_loops *loops, uint8_t dtype, int64_t rows, int64_t n,
                         const tp_rows *from, char *slot);
/* Writes dense compute form to memory of the same dtype; slot is scratch for f16 and bf16. */
void tp_tile_store(const tp_cpu_loops *loops, uint8_t dtype, int64_t rows, int64_t n, const char *x,
                   const tp_rows *to, char *slot);

#endif
