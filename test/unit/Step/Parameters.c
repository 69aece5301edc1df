/* Parameters.c - a step without launches, for tests of Step::initialize.
 *
 * Its arguments are states and parameters of each kind; TE_PARAMETERS_F8 makes
 * one of a type that is not drawn.
 */

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <math.h>
#include <stddef.h>

static te_rt_status load(te_rt_instance *instance) { return TE_RT_OK; }
static void step(te_rt_instance *instance, char *arena,
                 void *const *arguments) {}

const te_rt_module te_module = {
    TE_RT_MODULE_MAGIC, TE_RT_VERSION, 0, 0, 14, load, step, NULL, NULL, 0, 0};

enum { ROWS = 64, COLUMNS = 256 };
static const int64_t shape[] = {ROWS, COLUMNS};

#define TENSOR(name, type, size, dtype, rank, role, state, flags, init)        \
  {name,                                                                       \
   type,                                                                       \
   rank == 1 ? shape + 1 : shape,                                              \
   (rank == 1 ? 1 : ROWS) * COLUMNS * size,                                    \
   rank,                                                                       \
   dtype,                                                                      \
   role,                                                                       \
   TE_RT_PART_VALUE,                                                           \
   state,                                                                      \
   flags,                                                                      \
   init,                                                                       \
   0,                                                                          \
   -1}
#define MATRIX "tensor<64x256xbf16>"
#define HALVES "tensor<64x256xf16>"
#define VECTOR "tensor<256xbf16>"

#ifdef TE_PARAMETERS_F8
#define FIXED                                                                  \
  TENSOR("fixed", "tensor<64x256xf8E4M3FN>", 1, TE_RT_F8E4M3FN, 2,             \
         TE_RT_ARGUMENT, -1, TE_RT_IS_WEIGHT, 0)
#else
#define FIXED                                                                  \
  TENSOR("fixed", MATRIX, 2, TE_RT_BF16, 2, TE_RT_ARGUMENT, -1,                \
         TE_RT_IS_WEIGHT, 0)
#endif

static const te_rt_argument_info arguments[] = {
    FIXED,
    TENSOR("w", MATRIX, 2, TE_RT_BF16, 2, TE_RT_ARGUMENT, -1, TE_RT_IS_WEIGHT,
           0),
    TENSOR("h", HALVES, 2, TE_RT_F16, 2, TE_RT_ARGUMENT, -1, TE_RT_IS_WEIGHT,
           0),
    TENSOR("gamma", VECTOR, 2, TE_RT_BF16, 1, TE_RT_ARGUMENT, -1,
           TE_RT_IS_WEIGHT, 0),
    TENSOR("m", VECTOR, 2, TE_RT_BF16, 1, TE_RT_ARGUMENT, -1, TE_RT_HAS_INIT,
           0.5f),
    TENSOR("x", VECTOR, 2, TE_RT_BF16, 1, TE_RT_ARGUMENT, -1, 0, 0),
    TENSOR("count", "tensor<256xi32>", 4, TE_RT_I32, 1, TE_RT_ARGUMENT, -1,
           TE_RT_HAS_INIT, -3),
    TENSOR("cached", "tensor<256xf8E4M3FN>", 1, TE_RT_F8E4M3FN, 1,
           TE_RT_ARGUMENT, -1, TE_RT_HAS_INIT, NAN),
    TENSOR("w", MATRIX, 2, TE_RT_BF16, 2, TE_RT_RESULT, 1, 0, 0),
    TENSOR("h", HALVES, 2, TE_RT_F16, 2, TE_RT_RESULT, 2, 0, 0),
    TENSOR("gamma", VECTOR, 2, TE_RT_BF16, 1, TE_RT_RESULT, 3, 0, 0),
    TENSOR("m", VECTOR, 2, TE_RT_BF16, 1, TE_RT_RESULT, 4, 0, 0),
    TENSOR("count", "tensor<256xi32>", 4, TE_RT_I32, 1, TE_RT_RESULT, 6, 0, 0),
    TENSOR("cached", "tensor<256xf8E4M3FN>", 1, TE_RT_F8E4M3FN, 1, TE_RT_RESULT,
           7, 0, 0),
};

const te_rt_signature te_module_signature = {TE_RT_SIGNATURE_MAGIC,
                                             TE_RT_VERSION,
                                             "step",
                                             "#te.recipe<fixture>",
                                             "",
                                             14,
                                             sizeof(te_rt_argument_info),
                                             arguments};
