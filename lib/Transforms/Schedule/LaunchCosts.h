//===- LaunchCosts.h - how long a launch is expected to take --------------===//

#ifndef TE_TRANSFORMS_SCHEDULE_LAUNCHCOSTS_H
#define TE_TRANSFORMS_SCHEDULE_LAUNCHCOSTS_H

#include "TEDialect/TERT/TERT.h"

namespace mlir::te {

/// The expected time of a launch in microseconds, from rates that were measured
/// once (LaunchCosts.cpp) and the launch's sizes. GEMMs and attention count
/// their operations, collectives the bytes that a rank receives, and all other
/// launches the bytes of their buffers. The times are meant for comparing
/// launches with one another. `target` is the option of the pipeline;
/// "reference" counts as sm_90, so that a program has one schedule on both.
double expectedMicroseconds(tert::LaunchOp launch, StringRef target);

} // namespace mlir::te

#endif // TE_TRANSFORMS_SCHEDULE_LAUNCHCOSTS_H
