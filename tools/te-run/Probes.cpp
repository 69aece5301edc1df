//===- Probes.cpp - what te-run says about a step's values ----------------===//

#include "Probes.h"

#include "TEDialect/Support/Printable.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace te::run {
namespace {

/// A row of counts, as te-check-finite describes it.
struct CheckedValue {
  explicit CheckedValue(DictionaryAttr row)
      : op(text(row, "op")), name(text(row, "name")),
        location(text(row, "location")) {
    if (auto number = row.getAs<IntegerAttr>("elements"))
      elements = number.getInt();
    if (auto list = row.getAs<ArrayAttr>("inputs"))
      for (auto input : list.getAsRange<StringAttr>())
        inputs.push_back(input.getValue());
  }

  /// "file:line:column" as a location.
  Location place(MLIRContext *context) const {
    auto [rest, column] = location.rsplit(':');
    auto [file, line] = rest.rsplit(':');
    unsigned lineNumber = 0, columnNumber = 0;
    if (line.getAsInteger(10, lineNumber) ||
        column.getAsInteger(10, columnNumber))
      return UnknownLoc::get(context);
    return FileLineColLoc::get(context, file, lineNumber, columnNumber);
  }

  /// " (w1 dgrad)", or nothing where that would repeat the op.
  std::string nameInBrackets() const {
    return op.ends_with(("." + name).str()) ? "" : (" (" + name + ")").str();
  }

  StringRef op, name, location;
  int64_t elements = 0;
  SmallVector<StringRef> inputs;

private:
  static StringRef text(DictionaryAttr row, StringRef key) {
    auto value = row.getAs<StringAttr>(key);
    return value ? value.getValue() : StringRef();
  }
};

/// NaN, infinite and lost elements of one value.
struct Counts {
  uint32_t nan, infinite, lost;
  bool isFinite() const { return nan == 0 && infinite == 0; }
};

/// "3 NaN and 1 infinite".
std::string format(const Counts &counts) {
  std::string text;
  if (counts.nan)
    text = std::to_string(counts.nan) + " NaN";
  if (counts.infinite)
    text += (text.empty() ? "" : " and ") + std::to_string(counts.infinite) +
            " infinite";
  return text;
}

} // namespace

bool isFiniteCheck(const mlir::te::ArgumentInfo &argument) {
  return argument.probe && !argument.probe.empty() &&
         isa<DictionaryAttr>(argument.probe[0]);
}

bool isStatistics(const mlir::te::ArgumentInfo &argument) {
  return argument.probe && !argument.probe.empty() &&
         isa<StringAttr>(argument.probe[0]);
}

void printStatistics(const mlir::te::CompiledStep &step,
                     const support::NpzArchive &outputs, int64_t steps,
                     llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> table;
  for (const mlir::te::ArgumentInfo &argument : step.arguments()) {
    auto found = outputs.find(argument.qualifiedName());
    if (!isStatistics(argument) || found == outputs.end())
      continue;
    std::vector<std::string> row = {argument.name.substr(
        StringRef(argument.name).starts_with("probe.") ? 6 : 0)};
    std::vector<std::string> names = {"tensor"};
    for (auto [index, name] : llvm::enumerate(argument.probe)) {
      float value;
      std::memcpy(&value, found->second.data.data() + 4 * index, 4);
      StringRef column = cast<StringAttr>(name).getValue();
      const bool isRatio = column == "snr";
      names.push_back(isRatio ? "snr dB" : column.str());
      row.push_back(llvm::formatv(
          "{0}",
          llvm::format("%.4g", isRatio ? 10 * std::log10(value) : value)));
    }
    if (table.empty() || table.front().size() < names.size()) {
      if (!table.empty())
        table.erase(table.begin());
      table.insert(table.begin(), names);
    }
    table.push_back(row);
  }
  if (table.empty()) {
    os << "no operand of a GEMM to probe\n";
    return;
  }
  os << "operands of GEMMs in step " << steps << "\n";
  std::vector<size_t> widths(table.front().size());
  for (const auto &row : table)
    for (auto [index, cell] : llvm::enumerate(row))
      widths[index] = std::max(widths[index], cell.size());
  for (const auto &row : table) {
    std::string line =
        "  " + row.front() + std::string(widths[0] - row.front().size(), ' ');
    for (size_t i = 1; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? row[i] : "-";
      line += "  " +
              std::string(widths[i] - std::min(widths[i], cell.size()), ' ') +
              cell;
    }
    os << mlir::te::printable(line) << "\n";
  }
}

FiniteCheck::FiniteCheck(const mlir::te::CompiledStep &step) {
  for (const mlir::te::ArgumentInfo &argument : step.arguments())
    if (isFiniteCheck(argument))
      rowsOf[argument.qualifiedName()] = argument.probe;
}

bool FiniteCheck::operator()(int64_t step, const std::string &name,
                             const support::NpyArray &array) {
  ArrayAttr rows = rowsOf.lookup(name);
  std::vector<Counts> counts(rows.size());
  std::memcpy(counts.data(), array.data.data(), counts.size() * sizeof(Counts));
  for (auto [index, row] : llvm::enumerate(rows.getAsRange<DictionaryAttr>())) {
    const Counts &found = counts[index];
    const CheckedValue value(row);
    const Location place = value.place(row.getContext());
    if (StringRef(value.op).starts_with("te.quantize")) {
      if (found.lost && warned.insert(row).second)
        emitWarning(place) << "step " << step << ": the cast of '" << value.name
                           << "' saturates " << found.lost << " of "
                           << value.elements
                           << " elements, which its scale puts above the "
                              "largest value";
      continue;
    }
    if (found.isFinite())
      continue;
    InFlightDiagnostic error = emitError(place) << "step " << step << ": ";
    if (value.op == "argument")
      error << "argument '" << value.name << "' has ";
    else
      error << "the result of '" << value.op << "'" << value.nameInBrackets()
            << " has ";
    error << format(found) << " of " << value.elements << " elements";
    if (value.op == "argument")
      error << " before any op ran";
    else if (!value.inputs.empty())
      error << ", and its inputs have none: '"
            << llvm::join(value.inputs, "', '") << "'";
    const int64_t later =
        llvm::count_if(ArrayRef(counts).drop_front(index + 1),
                       [](const Counts &c) { return !c.isFinite(); });
    error.attachNote() << later << " of " << counts.size() - index - 1
                       << " values checked after it have NaN or infinities";
    return false;
  }
  return true;
}

} // namespace te::run
