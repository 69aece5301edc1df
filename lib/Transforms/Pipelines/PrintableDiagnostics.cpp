//===- PrintableDiagnostics.cpp - diagnostics without control characters --===//

#include "TEDialect/Pipelines/PrintableDiagnostics.h"

#include "TEDialect/Support/Printable.h"

#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"

using namespace mlir;
using namespace mlir::te;

/// `loc`, or the first file in it where the name of one has control characters.
static Location printableLocation(Location loc) {
  bool isPrintable = true;
  loc->walk([&](Location part) {
    if (auto file = dyn_cast<FileLineColLoc>(part)) {
      const StringRef name = file.getFilename();
      isPrintable &= printable(name) == name;
    }
    return WalkResult::advance();
  });
  if (isPrintable)
    return loc;
  auto file = loc->findInstanceOf<FileLineColLoc>();
  return FileLineColLoc::get(loc.getContext(),
                             printable(file.getFilename().getValue()),
                             file.getLine(), file.getColumn());
}

static void makePrintable(Diagnostic &diagnostic) {
  const std::string text = diagnostic.str();
  const std::string clean = printable(text);
  const Location loc = printableLocation(diagnostic.getLocation());
  if (clean != text || loc != diagnostic.getLocation()) {
    Diagnostic other(loc, diagnostic.getSeverity());
    other << clean;
    other.getMetadata() = std::move(diagnostic.getMetadata());
    for (Diagnostic &note : diagnostic.getNotes())
      other.attachNote(note.getLocation()) << note.str();
    diagnostic = std::move(other);
  }
  for (Diagnostic &note : diagnostic.getNotes())
    makePrintable(note);
}

void mlir::te::makeDiagnosticsPrintable(MLIRContext &context) {
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    makePrintable(diagnostic);
    // Others print it.
    return failure();
  });
}

namespace {
struct Extension final : DialectExtensionBase {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Extension)

  Extension() : DialectExtensionBase(/*dialectNames=*/{}) {}

  void apply(MLIRContext *context,
             MutableArrayRef<Dialect *> dialects) const override {
    if (!isa<BuiltinDialect>(dialects.front()))
      makeDiagnosticsPrintable(*context);
  }

  std::unique_ptr<DialectExtensionBase> clone() const override {
    return std::make_unique<Extension>();
  }
};
} // namespace

void mlir::te::makeDiagnosticsPrintable(DialectRegistry &registry) {
  registry.addExtension(TypeID::get<Extension>(),
                        std::make_unique<Extension>());
}

void PrintableStream::write_impl(const char *text, size_t size) {
  os << printable({text, size}, "\t\n");
}
