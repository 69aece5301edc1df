//===- InitAllTE.h - register everything of this project ------------------===//

#ifndef TEDIALECT_INITALLTE_H
#define TEDIALECT_INITALLTE_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::te {

/// Our dialects, the upstream ones our input and output may use, and every
/// external model they need.
void registerAllTEDialects(DialectRegistry &registry);

/// Our passes and pipelines, and the upstream passes that go with them.
void registerAllTEPasses();

} // namespace mlir::te

#endif // TEDIALECT_INITALLTE_H
