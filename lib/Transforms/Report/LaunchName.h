//===- LaunchName.h - what reports call a launch --------------------------===//

#ifndef TE_TRANSFORMS_REPORT_LAUNCHNAME_H
#define TE_TRANSFORMS_REPORT_LAUNCHNAME_H

#include "TEDialect/TERT/TERT.h"

#include <string>

namespace mlir::te {

/// The layer and the kind of a GEMM; for other launches, the first temporary
/// that is written, or else the argument, which `signature` names.
std::string nameOfLaunch(tert::LaunchOp launch, ArrayAttr signature);

} // namespace mlir::te

#endif // TE_TRANSFORMS_REPORT_LAUNCHNAME_H
