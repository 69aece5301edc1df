//===- LaunchCosts.h - how long a launch is expected to take --------------===//

#ifndef TE_TRANSFORMS_SCHEDULE_LAUNCHCOSTS_H
#define TE_TRANSFORMS_SCHEDULE_LAUNCHCOSTS_H

#include "TEDialect/TERT/TERT.h"

namespace mlir::te {

/// Microseconds, from rates that were measured once (LaunchCosts.cpp) and the
/// launch's sizes: products and attention by their operations, all others by
/// the bytes of their buffers, collectives by the bytes that a rank receives.
/// For comparing launches with one another. `target` as of the pipeline;
/// "reference" counts as sm_90, so that a program has one schedule on both.
double expectedMicroseconds(tert::LaunchOp launch, StringRef target);

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_LAUNCHCOSTS_H
