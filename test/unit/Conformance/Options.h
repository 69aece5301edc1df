//===- Options.h - options of te-conformance ------------------------------===//

#ifndef TE_CONFORMANCE_OPTIONS_H
#define TE_CONFORMANCE_OPTIONS_H

namespace te::conformance {

/// Whether --small was given, which leaves out large values. Emulated kernels
/// take too long for them.
extern bool onlySmallValues;

} // namespace te::conformance

#endif // TE_CONFORMANCE_OPTIONS_H
