//===- ReportStream.h - where reports are printed -------------------------===//
//
// Reports go to the standard output, as tools need it. A program that uses the
// compiler as a library can capture the reports of its own thread.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_REPORT_REPORTSTREAM_H
#define TEDIALECT_TRANSFORMS_REPORT_REPORTSTREAM_H

#include "llvm/Support/raw_ostream.h"

namespace mlir::te {

/// The stream that the reports of this thread are printed to.
llvm::raw_ostream &reportStream();

/// Sends the reports of this thread to `stream` during its lifetime.
class ReportCapture {
public:
  explicit ReportCapture(llvm::raw_ostream &stream);
  ReportCapture(const ReportCapture &) = delete;
  ReportCapture &operator=(const ReportCapture &) = delete;
  ~ReportCapture();

private:
  llvm::raw_ostream *previous;
};

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_REPORT_REPORTSTREAM_H
