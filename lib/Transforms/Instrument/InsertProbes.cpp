//===- InsertProbes.cpp - statistics of the operands of GEMMs -------------===//
//
// From each operand, the pass goes back to its cast, through residuals,
// transposes and dequantisation, and from there to the tensor that was cast
// first. A tensor that is found twice in the same form has one probe.
//
//===----------------------------------------------------------------------===//

#include "Results.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/Transforms/Instrument/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::te {
#define GEN_PASS_DEF_INSERTPROBESPASS
#include "TEDialect/Transforms/Instrument/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// The names of statistics, in the order of te_rt_stat.
static constexpr StringLiteral statNames[] = {
    "amax", "amin",          "mean",          "std",           "zeros%",
    "nan",  "inf",           "underflows%",   "overflows%",    "mse",
    "snr",  "scale_inv_min", "scale_inv_max", "scales_clipped"};
static_assert(std::size(statNames) == TE_RT_STAT_SCALES_CLIPPED + 1);

namespace {
/// A tensor and, if it was cast, its cast.
struct Probe {
  Value x, q;
  std::string name;
};

class ProbeCollector {
public:
  /// Adds the operands of `op` if it is the GEMM of a layer.
  void add(Operation *op);

  std::vector<Probe> probes;

private:
  void add(const GemmOrigin &origin, StringRef role, Value operand);
  /// `<layer>.<role>`, made unique for this tensor.
  std::string baseName(StringRef name, Value x);

  /// The tensors with a name, in order; those after the first get a number.
  llvm::StringMap<SmallVector<Value>> tensors;
};
} // namespace

/// Whether `op` only moves a value. A cast that is exchanged between ranks is
/// probed where this rank computed it.
static bool isMove(Operation *op) {
  if (isa_and_present<ResidualOp, TransposeOp, SwizzleScalesOp, DequantizeOp>(
          op))
    return true;
  return isa_and_present<AllGatherOp, AllToAllOp>(op) &&
         isa<ScaledType>(op->getOperand(0).getType());
}

/// The value that a GEMM's operand comes from through nothing but moves.
static Value lookThroughMoves(Value value) {
  while (isMove(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

void ProbeCollector::add(Operation *op) {
  if (!isa<ScaledMatmulOp, MatmulOp>(op))
    return;
  std::optional<GemmOrigin> origin = GemmOrigin::find(op->getLoc());
  if (!origin)
    return;
  StringRef a = origin->gemm == "fprop" ? "x" : "dy";
  StringRef b = origin->gemm == "wgrad" ? "x" : "w";
  add(*origin, a, op->getOperand(0));
  add(*origin, b, op->getOperand(1));
}

std::string ProbeCollector::baseName(StringRef name, Value x) {
  SmallVector<Value> &known = tensors[name];
  auto *found = llvm::find(known, x);
  const size_t number = found - known.begin();
  if (found == known.end())
    known.push_back(x);
  return number == 0 ? name.str() : (name + "." + Twine(number)).str();
}

void ProbeCollector::add(const GemmOrigin &origin, StringRef role,
                         Value operand) {
  Value x = lookThroughMoves(operand), q;
  // The second cast of a tensor may read the result of the first.
  while (auto cast = x.getDefiningOp<QuantizeOpInterface>()) {
    q = q ? q : x;
    x = lookThroughMoves(cast.getX());
  }
  // Statistics are of matrices, and a flat shard is not a matrix.
  auto tensor = dyn_cast<RankedTensorType>(x.getType());
  if (!tensor || tensor.getRank() != 2)
    return;
  // The tensor before the rotation has the name.
  auto rotation = x.getDefiningOp<HadamardOp>();
  std::string name = baseName(origin.layer + "." + role.str(),
                              rotation ? lookThroughMoves(rotation.getX()) : x);
  auto type = q ? cast<ScaledType>(q.getType()) : ScaledType();
  if (type && type.getContract() == 0 && !type.isTransposeExact())
    name += "_columnwise";
  for (const Probe &known : probes) {
    if (known.name != name)
      continue;
    // The tensor has a probe in high precision or in the same form.
    auto knownType =
        known.q ? cast<ScaledType>(known.q.getType()) : ScaledType();
    if (!q || (knownType && knownType.getScheme() == type.getScheme() &&
               knownType.getElementType() == type.getElementType()))
      return;
    name += "." + origin.gemm;
  }
  probes.push_back({x, q, name});
}

namespace {
struct InsertProbes final : te::impl::InsertProbesPassBase<InsertProbes> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStep(function))
      return;
    ProbeCollector collector;
    for (Operation &op : function.getBody().front())
      collector.add(&op);
    std::vector<Probe> &probes = collector.probes;
    if (probes.empty())
      return;
    if (failed(select(probes)))
      return signalPassFailure();
    for (const Probe &probe : probes)
      insert(probe);
    numProbes += probes.size();
  }

private:
  /// Keeps the probes that the patterns select.
  LogicalResult select(std::vector<Probe> &probes) {
    std::vector<bool> isWanted(probes.size());
    for (const std::string &text : patterns) {
      llvm::Expected<llvm::GlobPattern> pattern =
          llvm::GlobPattern::create(text);
      if (!pattern)
        return getOperation().emitError()
               << "expected 'probes' to be patterns, but got '" << text
               << "': " << llvm::toString(pattern.takeError());
      bool selectsAny = false;
      for (auto [index, probe] : llvm::enumerate(probes))
        if (pattern->match(probe.name))
          isWanted[index] = selectsAny = true;
      if (selectsAny)
        continue;
      InFlightDiagnostic error = getOperation().emitError();
      error << "expected 'probes' to name operands of GEMMs, but got '" << text
            << "'; there are ";
      llvm::interleaveComma(probes, error, [&](const Probe &probe) {
        error << "'" << probe.name << "'";
      });
      return error;
    }
    std::vector<Probe> wanted;
    for (auto [index, probe] : llvm::enumerate(probes))
      if (isWanted[index])
        wanted.push_back(std::move(probe));
    probes = std::move(wanted);
    return success();
  }

  void insert(const Probe &probe) {
    func::FuncOp function = getOperation();
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfterValue(probe.q ? probe.q : probe.x);
    auto names = ArrayRef(statNames).take_front(
        probe.q ? std::size(statNames) : TE_RT_STAT_UNDERFLOWS);
    auto type =
        RankedTensorType::get({int64_t(names.size())}, builder.getF32Type());
    auto stats =
        TensorStatsOp::create(builder, (probe.q ? probe.q : probe.x).getLoc(),
                              type, probe.x, probe.q);
    SmallVector<StringRef> list(names);
    addResult(function, uniqueName(function, "probe." + probe.name),
              stats.getStats(), builder.getStrArrayAttr(list));
  }
};
} // namespace
