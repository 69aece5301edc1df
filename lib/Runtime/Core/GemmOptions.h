//===- GemmOptions.h - rules of the options of GEMMs ----------------------===//

#ifndef TE_RUNTIME_CORE_GEMMOPTIONS_H
#define TE_RUNTIME_CORE_GEMMOPTIONS_H

#include "Core/Status.h"
#include "TEDialect/Runtime/te_runtime.h"

namespace te::rt {

/// Whether the options fit together, for every backend.
Status checkGemmOptions(const te_rt_gemm_options &options);

} // namespace te::rt

#endif // TE_RUNTIME_CORE_GEMMOPTIONS_H
