//===- PrintableDiagnostics.h - diagnostics without control characters ----===//

#ifndef TEDIALECT_PIPELINES_PRINTABLEDIAGNOSTICS_H
#define TEDIALECT_PIPELINES_PRINTABLEDIAGNOSTICS_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::te {

/// Replaces control characters in the messages and the names of files of
/// diagnostics, before the handlers that are registered so far see them.
void makeDiagnosticsPrintable(MLIRContext &context);

/// The same in each context of `registry`, from its second dialect on: no
/// handler is registered before its first one, which is builtin.
void makeDiagnosticsPrintable(DialectRegistry &registry);

/// Passes on what is written, but '?' for control characters other than those
/// that form lines. MLIR's printer of diagnostics also prints lines of files.
class PrintableStream final : public llvm::raw_ostream {
public:
  explicit PrintableStream(llvm::raw_ostream &os)
      : raw_ostream(/*unbuffered=*/true), os(os) {}

  raw_ostream &changeColor(Colors color, bool bold, bool background) override {
    os.changeColor(color, bold, background);
    return *this;
  }
  raw_ostream &resetColor() override {
    os.resetColor();
    return *this;
  }
  raw_ostream &reverseColor() override {
    os.reverseColor();
    return *this;
  }
  bool is_displayed() const override { return os.is_displayed(); }
  bool has_colors() const override { return os.has_colors(); }

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return os.tell(); }

  llvm::raw_ostream &os;
};

} // namespace mlir::te

#endif // TEDIALECT_PIPELINES_PRINTABLEDIAGNOSTICS_H
