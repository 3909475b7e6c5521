/* Programs: values are numbered loads first, then instructions in order. */
#include "program.h"

static int append(tp_program *program, tp_insn insn)
{
    program->insn[program->insn_count++] = insn;
    return program->load_count + program->insn_count - 1;
}

int tp_program_convert(tp_program *program, int value, uint8_t from, uint8_t to)
{
    if (from == to) return value;
    for (int i = 0; i < program->insn_count; i++) {
        const tp_insn *insn = &program->insn[i];
        if (insn->op == TP_OP_CAST && insn->dtype == to && insn->in[0] == value)
            return program->load_count + i;
    }
    return append(program, (tp_insn){.op = TP_OP_CAST, .dtype = to, .in = {(uint8_t)value}});
}

int tp_program_room(const tp_wnode *node)
{
    return node->op == TP_OP_CONTIGUOUS ? 0
           : node->op == TP_OP_CAST     ? 1
                                        : tp_work_operands(node) + 1;
}

int tp_program_apply(tp_program *program, const tp_wnode *node, const int *value,
                     const uint8_t *dtype)
{
    if (node->op == TP_OP_CONTIGUOUS) return value[0];
    if (node->op == TP_OP_CAST) return tp_program_convert(program, value[0], dtype[0], node->dtype);
    if (node->op == TP_OP_FULL)
        return append(
            program,
            (tp_insn){.op = TP_OP_FULL, .dtype = node->dtype, .imm = node->asked->value[0]});
    tp_insn insn = {.op = node->op, .dtype = node->dtype};
    for (int i = 0; i < tp_work_operands(node); i++) {
        bool condition = node->op == TP_OP_WHERE && i == 0;
        insn.in[i] = (uint8_t)tp_program_convert(program, value[i], dtype[i],
                                                 condition ? TP_BOOL : node->calc);
    }
    return append(program, insn);
}
