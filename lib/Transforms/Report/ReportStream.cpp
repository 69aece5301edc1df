//===- ReportStream.cpp - where reports are printed -----------------------===//

#include "TEDialect/Transforms/Report/ReportStream.h"

#include <utility>

using namespace mlir::te;

/// Null if reports go to the standard output.
static thread_local llvm::raw_ostream *captured = nullptr;

llvm::raw_ostream &mlir::te::reportStream() {
  return captured ? *captured : llvm::outs();
}

ReportCapture::ReportCapture(llvm::raw_ostream &stream)
    : previous(std::exchange(captured, &stream)) {}

ReportCapture::~ReportCapture() { captured = previous; }
