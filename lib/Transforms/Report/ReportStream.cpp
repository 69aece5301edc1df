//===- ReportStream.cpp - where reports are printed -----------------------===//

#include "TEDialect/Transforms/Report/ReportStream.h"

#include "llvm/Support/FormatVariadic.h"

#include <utility>

using namespace mlir::te;

/// Null if reports go to the standard output.
static thread_local llvm::raw_ostream *captured = nullptr;

/// Null if each JSON report is printed by itself.
static thread_local OneJsonReport *collecting = nullptr;

llvm::raw_ostream &mlir::te::reportStream() {
  return captured ? *captured : llvm::outs();
}

ReportCapture::ReportCapture(llvm::raw_ostream &stream)
    : previous(std::exchange(captured, &stream)) {}

ReportCapture::~ReportCapture() { captured = previous; }

void mlir::te::printJsonReport(llvm::json::Object report) {
  if (!collecting) {
    reportStream() << llvm::formatv("{0:2}\n",
                                    llvm::json::Value(std::move(report)));
    return;
  }
  for (auto &[name, value] : report) {
    llvm::json::Array *more = value.getAsArray();
    llvm::json::Value &known =
        collecting->all.try_emplace(name, llvm::json::Array()).first->second;
    if (llvm::json::Array *rows = known.getAsArray(); rows && more)
      rows->insert(rows->end(), more->begin(), more->end());
    else
      known = std::move(value);
  }
}

OneJsonReport::OneJsonReport() : previous(std::exchange(collecting, this)) {}

OneJsonReport::~OneJsonReport() {
  collecting = previous;
  if (!all.empty())
    printJsonReport(std::move(all));
}
