//===- ReportStream.h - where reports are printed -------------------------===//
//
// Reports go to the standard output, as tools need it. A program that uses the
// compiler as a library can capture the reports of its own thread.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_REPORT_REPORTSTREAM_H
#define TEDIALECT_TRANSFORMS_REPORT_REPORTSTREAM_H

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::te {

/// The stream that the reports of this thread are printed to.
llvm::raw_ostream &reportStream();

/// Prints a report: members of an object, such as {"memory": [...]}.
void printJsonReport(llvm::json::Object report);

/// Collects the JSON reports of this thread during its lifetime, and then
/// prints them as one object. Arrays of the same name are joined.
class OneJsonReport {
public:
  OneJsonReport();
  OneJsonReport(const OneJsonReport &) = delete;
  OneJsonReport &operator=(const OneJsonReport &) = delete;
  ~OneJsonReport();

private:
  friend void printJsonReport(llvm::json::Object report);

  llvm::json::Object all;
  OneJsonReport *previous;
};

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
