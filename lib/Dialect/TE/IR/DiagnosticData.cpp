//===- DiagnosticData.cpp - what a diagnostic says, as data ---------------===//

#include "TEDialect/IR/DiagnosticData.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::te;

InFlightDiagnostic te::withData(InFlightDiagnostic diagnostic,
                                const DiagnosticData &data) {
  Diagnostic *carrier = diagnostic.getUnderlyingDiagnostic();
  // Null if no handler takes the diagnostic.
  if (!carrier)
    return diagnostic;
  Builder b(carrier->getLocation().getContext());
  auto text = [&](StringRef name, StringRef value) {
    return b.getNamedAttr(name, b.getStringAttr(value));
  };
  Attribute fields =
      b.getDictionaryAttr({text("code", data.code), text("layer", data.layer)});
  carrier->getMetadata().push_back(DiagnosticArgument(fields));
  return diagnostic;
}

DiagnosticData te::readData(Diagnostic &diagnostic) {
  for (const DiagnosticArgument &argument : diagnostic.getMetadata()) {
    if (argument.getKind() !=
        DiagnosticArgument::DiagnosticArgumentKind::Attribute)
      continue;
    auto fields = dyn_cast<DictionaryAttr>(argument.getAsAttribute());
    if (!fields || !fields.getAs<StringAttr>("code"))
      continue;
    return {fields.getAs<StringAttr>("code").getValue(),
            fields.getAs<StringAttr>("layer").str()};
  }
  return {};
}
