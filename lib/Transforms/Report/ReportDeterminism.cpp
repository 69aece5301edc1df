//===- ReportDeterminism.cpp - which launches have the same bits ----------===//
//
// What decides the bits of a launch is written in the kernel's row; this file
// only counts launches, prints them, and refuses some.
//
//===----------------------------------------------------------------------===//

#include "LaunchName.h"
#include "Table.h"

#include "TEDialect/Support/KernelRows.h"
#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

namespace mlir::te {
#define GEN_PASS_DEF_REPORTDETERMINISMPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;
using te_table::Determinism;

namespace {
/// Launches of one kernel whose bits are decided in one way.
struct Row {
  StringRef kernel;
  const Determinism *bits;
  int64_t launches;
  std::vector<std::string> names;

  /// What should be read first comes first.
  int place() const {
    return !bits->eachProcess ? 0 : bits->needsChoice ? 1 : 2;
  }
};
} // namespace

static StringRef inEachProcess(const Determinism &bits) {
  return !bits.eachProcess ? "no" : bits.needsChoice ? "by choice" : "yes";
}

/// The first names, and how many there are beside them.
static std::string listed(const Row &row) {
  constexpr size_t kShown = 2;
  ArrayRef<std::string> names = row.names;
  std::string text = llvm::join(names.take_front(kShown), ", ");
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text.empty() ? "-" : text;
}

static void printText(StringRef function, ArrayRef<Row> rows, raw_ostream &os) {
  int64_t counts[3] = {};
  Table table(
      {"kernel", "launches", "each run", "each process", "names", "why"});
  for (const Row &row : rows) {
    counts[row.place()] += row.launches;
    table.addRow({row.kernel.str(), std::to_string(row.launches),
                  row.bits->eachRun ? "yes" : "no",
                  inEachProcess(*row.bits).str(), listed(row), row.bits->why});
  }
  os << "same bits of '" << printable(function) << "': " << counts[2]
     << " launches in each process, " << counts[1]
     << " with one choice of algorithms, " << counts[0] << " not\n";
  table.print(os);
}

static llvm::json::Object toJson(StringRef function, ArrayRef<Row> rows) {
  llvm::json::Array kernels;
  for (const Row &row : rows)
    kernels.push_back(
        llvm::json::Object{{"kernel", row.kernel.str()},
                           {"launches", row.launches},
                           {"each_run", row.bits->eachRun},
                           {"each_process", row.bits->eachProcess},
                           {"needs_choice", row.bits->needsChoice},
                           {"bits", row.bits->name},
                           {"names", llvm::json::Array(row.names)},
                           {"why", row.bits->why}});
  return llvm::json::Object{{"function", function.str()},
                            {"kernels", std::move(kernels)}};
}

namespace {
struct ReportDeterminism final
    : te::impl::ReportDeterminismPassBase<ReportDeterminism> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (failed(checkTargetOption(context, getArgument(), target)))
      return failure();
    return checkReportFormat(context, getArgument(), format);
  }

  /// The rows of a function.
  SmallVector<Row> collect(func::FuncOp function) {
    auto signature = function->getAttrOfType<ArrayAttr>(tert::kSignatureAttr);
    SmallVector<Row> rows;
    function.walk([&](tert::LaunchOp launch) {
      const tert::KernelInfo &kernel = *tert::lookupKernel(launch.getKernel());
      const Determinism &bits = te_table::determinismOf(
          *kernel.row,
          tert::integerParameters(kernel, launch.getParameters()).data(),
          *te_table::parseTarget(target.getValue()));
      auto row = llvm::find_if(rows, [&](const Row &each) {
        return each.kernel == kernel.name && each.bits == &bits;
      });
      if (row == rows.end())
        row = rows.insert(row, {kernel.name, &bits, 0, {}});
      ++row->launches;
      if (std::string name = nameOfLaunch(launch, signature); !name.empty())
        row->names.push_back(std::move(name));
      ++numLaunches;
      if (!bits.eachProcess)
        reject(launch, bits);
    });
    llvm::sort(rows, [](const Row &a, const Row &b) {
      auto key = [](const Row &row) {
        return std::tuple(row.place(), -row.launches, row.kernel,
                          StringRef(row.bits->name));
      };
      return key(a) < key(b);
    });
    return rows;
  }

  void reject(tert::LaunchOp launch, const Determinism &bits) {
    ++numRefused;
    if (!refuse)
      return;
    launch.emitError() << "expected the same bits in each process, because of "
                          "'deterministic', but got '"
                       << launch.getKernel() << "': " << bits.why << "; "
                       << bits.remedy;
    signalPassFailure();
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function->hasAttr(tert::kSignatureAttr))
        continue;
      SmallVector<Row> rows = collect(function);
      if (quiet)
        continue;
      if (format == "json")
        functions.push_back(toJson(function.getName(), rows));
      else
        printText(function.getName(), rows, reportStream());
    }
    if (!quiet && format == "json")
      printJsonReport(
          llvm::json::Object{{"determinism", std::move(functions)}});
    reportStream().flush();
    markAllAnalysesPreserved();
  }
};
} // namespace
