//===- ReportPrecision.cpp - prints the precision of a step ---------------===//
//
// The report is read from the ops and not from the recipe, so it describes what
// will run. Only the reason comes from elsewhere: the origin in the GEMM's
// location. Bytes are those of operands and results, including scales with
// their padding.
//
//===----------------------------------------------------------------------===//

#include "Table.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Report/Passes.h"
#include "TEDialect/Transforms/Report/ReportStream.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

namespace mlir::te {
#define GEN_PASS_DEF_REPORTPRECISIONPASS
#include "TEDialect/Transforms/Report/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {
struct GemmRow {
  Operation *op;
  std::string gemm, layer, a, b, accumulation, out, kernel, reason;
  bool fallback = false;
};

struct CastRow {
  std::string op, tensor, format;
  int64_t readBytes, writtenBytes;
};

/// Collectives of one kind over one group.
struct CollectiveRow {
  std::string op, group;
  /// The number of launches, of tensors or amaxes that they move, and of bytes
  /// that one rank contributes.
  int64_t count, values, bytes;
};
} // namespace

static std::string formatElement(Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << type;
  return text;
}

/// "f8E4M3FN block_1x128", or the element type of a high-precision tensor.
static std::string formatOperand(Type type) {
  auto scaled = dyn_cast<ScaledType>(type);
  if (!scaled)
    return formatElement(cast<ShapedType>(type).getElementType());
  std::string text = formatElement(scaled.getElementType()) + " " +
                     stringifyScheme(scaled.getScheme()).str();
  return scaled.getPow2() ? text + " pow2" : text;
}

static int64_t bytesOf(Type type) {
  if (auto scaled = dyn_cast<ScaledType>(type))
    return scaled.getDataBytes() + scaled.getScaleBytes() +
           4 * scaled.getNumAmaxes();
  auto shaped = cast<ShapedType>(type);
  return shaped.getNumElements() * shaped.getElementTypeBitWidth() / 8;
}

static int64_t bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    bytes += bytesOf(type);
  return bytes;
}

/// The family of kernels that computes `out` from `a` and `b` on `target`.
/// Products of groups have kernels of this project on each GPU that has any.
static std::string kernelFor(Type a, Type b, Type out, bool isGrouped,
                             bool isSplit, support::Target target) {
  bool onHost = target == support::Target::Reference;
  auto scaledA = dyn_cast<ScaledType>(a), scaledB = dyn_cast<ScaledType>(b);
  if (!scaledA)
    return (onHost      ? "reference "
            : isGrouped ? "own "
                        : "cublaslt ") +
           formatOperand(a);
  support::Path path =
      support::productPath(static_cast<int32_t>(scaledA.getScheme()),
                           static_cast<int32_t>(scaledB.getScheme()), target,
                           *getTypeNumber(getElementTypeOrSelf(out)));
  std::string by = path == support::Path::OwnKernel   ? "own"
                   : path == support::Path::OnHost    ? "reference"
                   : path == support::Path::ThroughMX ? "cublaslt mxfp8 for"
                                                      : "cublaslt";
  if (isGrouped && !onHost)
    by = "own";
  if (scaledA.getScheme() == Scheme::PerTensor) {
    // The runtime decides by size (BlockGemm.cpp).
    if (isSplit && !isGrouped && target == support::Target::Sm90)
      by = "own/cublaslt";
    return by + " fp8 tensorwise";
  }
  // "block_1x128" is printed as "fp8 blocks 1x128".
  auto [family, blockA] = stringifyScheme(scaledA.getScheme()).split('_');
  StringRef blockB = stringifyScheme(scaledB.getScheme()).split('_').second;
  return llvm::formatv("{0} fp{1} {2} {3} * {4}", by,
                       scaledA.getElementType().getIntOrFloatBitWidth(),
                       family == "block" ? "blocks" : family, blockA, blockB);
}

static GemmRow describeGemm(Operation *op, std::string accumulation,
                            support::Target target) {
  GemmRow row;
  row.op = op;
  Type a = op->getOperand(0).getType(), b = op->getOperand(1).getType();
  row.a = formatOperand(a);
  row.b = formatOperand(b);
  row.out = formatOperand(op->getResult(0).getType());
  bool isGrouped = op->getName().stripDialect().starts_with("grouped");
  row.kernel = kernelFor(a, b, op->getResult(0).getType(), isGrouped,
                         accumulation == "split", target);
  if (isGrouped)
    row.kernel += " grouped";
  row.accumulation = std::move(accumulation);
  if (auto origin = GemmOrigin::find(op->getLoc())) {
    row.gemm = origin->gemm;
    row.layer = origin->layer;
    row.reason = origin->reason;
    row.fallback = origin->fallback;
  } else {
    row.gemm = "matmul";
    row.layer = describeValue(op->getOperand(1));
    row.reason = "as written";
  }
  return row;
}

/// For example, "quantize row+col".
static std::string describeUsages(StringRef name, TypeRange usages) {
  std::string text = name.str();
  const char *separator = " ";
  for (Type usage : usages) {
    auto scaled = dyn_cast<ScaledType>(usage);
    if (!scaled)
      continue;
    text += separator;
    text += scaled.getContract() == 1 ? "row" : "col";
    separator = "+";
  }
  return text;
}

/// Adds `op`, over the group `id`, to the row of collectives of its kind.
static void addCollective(Operation *op, int64_t id, int64_t values,
                          SmallVectorImpl<CollectiveRow> &collectives) {
  GroupAttr group = lookupGroup(op, id);
  StringRef name = op->getName().stripDialect();
  auto *row = llvm::find_if(collectives, [&](const CollectiveRow &row) {
    return row.op == name && row.group == group.getName();
  });
  if (row == collectives.end()) {
    collectives.push_back({name.str(), group.getName().str(), 0, 0, 0});
    row = &collectives.back();
  }
  ++row->count;
  row->values += values;
  // The ranks exchange only the data of a flat shard: all have all scales.
  auto scaled = dyn_cast<ScaledType>(op->getOperand(0).getType());
  row->bytes += scaled && scaled.isShard() ? scaled.getDataBytes()
                                           : bytesOf(op->getOperandTypes());
}

/// Collects the rows of one function.
static void collect(func::FuncOp function, support::Target target,
                    std::vector<GemmRow> &gemms,
                    SmallVectorImpl<CastRow> &casts,
                    SmallVectorImpl<CollectiveRow> &collectives) {
  function.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](AmaxReduceOp reduce) {
          addCollective(op, reduce.getGroupId(), reduce.getAmaxes().size(),
                        collectives);
        })
        .Case<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(
            [&](auto collective) {
              addCollective(op, collective.getGroup(), 1, collectives);
            });
    if (auto product = dyn_cast<ScaledMatmulOp>(op))
      gemms.push_back(describeGemm(
          op, product.getFastAccumulation() ? "fast" : "split", target));
    else if (auto product = dyn_cast<GroupedScaledMatmulOp>(op))
      gemms.push_back(describeGemm(
          op, product.getFastAccumulation() ? "fast" : "split", target));
    else if (auto product = dyn_cast<GroupedScaledWgradOp>(op))
      gemms.push_back(describeGemm(
          op, product.getFastAccumulation() ? "fast" : "split", target));
    else if (isa<MatmulOp, GroupedMatmulOp, GroupedWgradOp>(op))
      gemms.push_back(describeGemm(op, "f32", target));
    else if (isa<GroupedAmaxOp, ZeroPaddingOp, AmaxOp, AmaxRowsOp,
                 PartialAmaxOp, HadamardOp, QuantizeOpInterface, DequantizeOp,
                 TransposeOp, SwizzleScalesOp, ActivationQuantizeOp,
                 ActivationBackwardQuantizeOp>(op)) {
      Type formatted =
          isa<DequantizeOp, AmaxOp, AmaxRowsOp, PartialAmaxOp, GroupedAmaxOp>(
              op)
              ? op->getOperand(0).getType()
              : op->getResult(0).getType();
      Value tensor = op->getOperand(0);
      // A fused op casts its own result, so the row is named after the op.
      bool isFused =
          isa<ActivationQuantizeOp, ActivationBackwardQuantizeOp>(op);
      casts.push_back(
          {describeUsages(op->getName().stripDialect(), op->getResultTypes()),
           isFused ? describeValue(op->getResult(0)) : describeValue(tensor),
           formatOperand(formatted), bytesOf(op->getOperandTypes()),
           bytesOf(op->getResultTypes())});
    }
  });
}

static void printText(StringRef function, ArrayRef<GemmRow> gemms,
                      ArrayRef<CastRow> casts,
                      ArrayRef<CollectiveRow> collectives, raw_ostream &os) {
  os << "precision of @" << printable(function) << "\n";
  Table gemmTable(
      {"gemm", "layer", "a", "b", "accumulate", "out", "kernel", "why"});
  for (const GemmRow &row : gemms)
    gemmTable.addRow({row.gemm, row.layer, row.a, row.b, row.accumulation,
                      row.out, row.kernel, row.reason});
  gemmTable.print(os);
  if (!collectives.empty()) {
    Table table(
        {"collective", "group", "launches", "values", "bytes of a rank"});
    for (const CollectiveRow &row : collectives)
      table.addRow({row.op, row.group, std::to_string(row.count),
                    std::to_string(row.values), std::to_string(row.bytes)});
    os << "\n";
    table.print(os);
  }
  if (casts.empty())
    return;
  int64_t read = 0, written = 0;
  Table castTable({"cast", "tensor", "format", "read bytes", "written bytes"});
  for (const CastRow &row : casts) {
    castTable.addRow({row.op, row.tensor, row.format,
                      std::to_string(row.readBytes),
                      std::to_string(row.writtenBytes)});
    read += row.readBytes;
    written += row.writtenBytes;
  }
  castTable.addRow(
      {"total", "", "", std::to_string(read), std::to_string(written)});
  os << "\n";
  castTable.print(os);
}

static llvm::json::Object toJson(StringRef function, ArrayRef<GemmRow> gemms,
                                 ArrayRef<CastRow> casts,
                                 ArrayRef<CollectiveRow> collectives) {
  llvm::json::Array gemmRows, castRows, collectiveRows;
  for (const CollectiveRow &row : collectives)
    collectiveRows.push_back(
        llvm::json::Object{{"collective", row.op},
                           {"group", row.group},
                           {"launches", row.count},
                           {"values", row.values},
                           {"bytes_of_a_rank", row.bytes}});
  for (const GemmRow &row : gemms)
    gemmRows.push_back(llvm::json::Object{{"gemm", row.gemm},
                                          {"layer", row.layer},
                                          {"a", row.a},
                                          {"b", row.b},
                                          {"accumulate", row.accumulation},
                                          {"out", row.out},
                                          {"kernel", row.kernel},
                                          {"why", row.reason},
                                          {"fallback", row.fallback}});
  for (const CastRow &row : casts)
    castRows.push_back(llvm::json::Object{{"cast", row.op},
                                          {"tensor", row.tensor},
                                          {"format", row.format},
                                          {"read_bytes", row.readBytes},
                                          {"written_bytes", row.writtenBytes}});
  return llvm::json::Object{{"function", function.str()},
                            {"gemms", std::move(gemmRows)},
                            {"casts", std::move(castRows)},
                            {"collectives", std::move(collectiveRows)}};
}

namespace {
struct ReportPrecision final
    : te::impl::ReportPrecisionPassBase<ReportPrecision> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (failed(checkTargetOption(context, getArgument(), target.getValue())))
      return failure();
    return checkReportFormat(context, getArgument(), format);
  }

  void runOnOperation() override {
    llvm::json::Array functions;
    bool unexpected = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      std::vector<GemmRow> gemms;
      SmallVector<CastRow> casts;
      SmallVector<CollectiveRow> collectives;
      collect(function, *support::parseTarget(target.getValue()), gemms, casts,
              collectives);
      numGemms += gemms.size();
      if (gemms.empty() && casts.empty())
        continue;
      if (!quiet && format == "json")
        functions.push_back(
            toJson(function.getName(), gemms, casts, collectives));
      else if (!quiet)
        printText(function.getName(), gemms, casts, collectives,
                  reportStream());
      for (const GemmRow &row : gemms)
        if (strict && row.fallback) {
          withData(row.op->emitError(), {code::kFallback, row.layer})
              << row.gemm << " of '" << row.layer
              << "' runs in high precision: " << row.reason;
          unexpected = true;
        }
    }
    if (format == "json" && !quiet)
      printJsonReport(llvm::json::Object{{"precision", std::move(functions)}});
    reportStream().flush();
    if (unexpected)
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
