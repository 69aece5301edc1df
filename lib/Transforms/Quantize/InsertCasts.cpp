//===- InsertCasts.cpp - linear layers into casts and products ------------===//
//
// Linear layers, then their backward GEMMs, are replaced one at a time; the
// policy says what each one reads. What the backward needs of a forward tensor
// is made in the forward and passes through a te.residual, so that exactly
// that is held: where the old op read a residual of the tensor, the cast is
// made right before that residual; where it read a value directly (function
// arguments need no residual), next to the forward layer that reads the same
// value. Residuals that lost their last reader are erased.
//
// Every cast is created where it is needed, however often; equal ones have
// equal operands, so cse merges them.
//
// A cast of delayed scaling takes its scale from a state of the step: one slot
// for each tensor that is cast, however many GEMMs read it. Its amax is taken
// where its first cast is, and counts at the end of the function. A calibration
// has the same slots and amaxes, and no casts.
//
// A tensor that is gathered from the ranks of a process group is cast before it
// is gathered, with one amax over the group, where that gives the bits of a
// cast of the gathered tensor: fewer bytes travel, and only the own part is
// held. So is the flat shard of a weight, which is cut within rows and blocks.
//
// Where a target contracts 8-bit operands along any axis, a per-tensor cast of
// rows is the cast of columns, too.
//
// A weight [K, N] is contracted along the other axes, and the operands of its
// wgrad change places: the casts and sums are those of a weight [N, K].
//
// Layers of groups go the same way, with a scale, an amax or a state for each
// group. Casts that read the rows between groups find zeros there.
//
//===----------------------------------------------------------------------===//

#include "State.h"
#include "ZeroPadding.h"

#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Quantize/GemmOrigin.h"
#include "TEDialect/Transforms/Quantize/Passes.h"
#include "TEDialect/Transforms/Quantize/QuantPolicy.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::te {
#define GEN_PASS_DEF_INSERTCASTSPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<ShapedType>(value.getType()).getShape();
}

namespace {
/// A tensor that a GEMM reads and the usage it reads it in. A tensor in group
/// layout has the sizes of its groups, as the forward made them; a stack of
/// weights has three axes.
struct Operand {
  Value value;
  TensorRole role;
  unsigned contract;
  Value groupSizes = {};
  int64_t alignment = 0;
  /// Where `value` is this rank's part: what puts the parts together.
  AllGatherOp gather = {};
  /// Where the part is a flat shard: what makes a matrix of them.
  tensor::ExpandShapeOp view = {};
  /// Whether it is a weight [K, N], and not [N, K].
  bool isTransposed = false;

  /// The axis that the first GEMM which reads it contracts.
  unsigned firstAxis() const { return isTransposed ? 0 : 1; }
  /// The GEMM that reads it in this usage.
  Gemm reader() const {
    return readerOf(role, contract == firstAxis() ? 1 : 0);
  }

  /// What the GEMM reads, in high precision.
  Value whole() const {
    if (view)
      return tensor::ExpandShapeOp(view).getResult();
    return gather ? AllGatherOp(gather).getY() : value;
  }

  bool isStack() const { return shapeOf(value).size() == 3; }
  bool hasGroups() const { return groupSizes || isStack(); }
  /// Of what there is one of for each group.
  SmallVector<int64_t, 1> perGroup() const {
    if (!hasGroups())
      return {};
    return {isStack() ? shapeOf(value)[0] : shapeOf(groupSizes)[0]};
  }
};

/// One GEMM of a linear layer before it is rewritten.
struct Product {
  Operation *op;
  Gemm gemm;
  Operand a, b;
  Value bias;
  /// Of groups, M is the alignment: what all their sizes are multiples of.
  LinearSizes sizes;
  /// For the product itself; null where there are no groups.
  Value groupSizes = {};
  /// What a wgrad is added to, or null.
  Value accumulate = {};
  /// Whether the weight is [K, N]: a wgrad is then of x and dy.
  bool isTransposed = false;

  int64_t alignment() const { return sizes.m; }
  /// The operand that the forward has, too.
  Operand &ofForward() { return isTransposed && gemm == Gemm::Wgrad ? a : b; }
};

/// Tensor, role, sizes of groups (one for equal constants), their alignment,
/// and recipe of the reader.
using SlotKey = std::tuple<Value, unsigned, const void *, int64_t, RecipeAttr>;

/// What delayed scaling knows of one tensor.
struct Slot {
  /// Of its states, before their suffixes.
  std::string name;
  Value history, scale;
  /// Of this step.
  Value amax;
  Type elementType;
};

class CastInserter {
public:
  CastInserter(func::FuncOp function, bool strict, bool calibrate,
               bool anyLayout)
      : function(function), strict(strict), calibrate(calibrate),
        anyLayout(anyLayout), builder(function.getContext()), states(function) {
  }

  LogicalResult run();

  unsigned numQuantized = 0;
  unsigned numHighPrecision = 0;
  unsigned numCalibrated = 0;

private:
  Product describe(Operation *op);
  Product describeGroups(Operation *op);
  LogicalResult rewrite(Product product);

  /// The slot of `operand`; its amax is at the builder's position, or before.
  Slot &slotFor(const Operand &operand, const QuantPolicy &policy);
  /// Gives `operand` the slot that its cast for the GEMM at `user` would have.
  void measureFor(Operation *user, Operand operand, const QuantPolicy &policy);
  /// Moves all states at the end of the function.
  void updateStates();
  /// The maximum of `amax` over all ranks, so that all have one state.
  Value reduceOverAll(Value amax, RecipeAttr recipe);
  /// The maximum of `amax` over `group`, for a layer of `recipe`.
  Value reduceAmax(Value amax, int64_t group, RecipeAttr recipe);

  ScaledType typeOf(const Operand &operand, const QuantPolicy &policy);
  /// Whether a product takes the rows of `operand`, of which it contracts
  /// columns, as they are.
  bool readsRows(const Operand &operand, const QuantPolicy &policy);
  /// max |x| of `source`, in place of the operand's value, for each group.
  Value amaxOf(Value source, const Operand &operand);
  /// `operand` as a cast to `type` reads it, with zeros between the groups
  /// where it reads those.
  Operand prepared(Value source, const Operand &operand, ScaledType type);
  Value dequantize(Value scaled, const Operand &operand);
  Operation *createProduct(const Product &product, Location loc, Value a,
                           Value b, Value bias, bool fastAccumulation);
  Operation *createPlainProduct(const Product &product, Location loc, Value a,
                                Value b);

  /// `operand` cast at the builder's position.
  Value castHere(const Operand &operand, const QuantPolicy &policy);
  /// `source`, in place of the operand's value, cast at the builder's position.
  Value quantize(Value source, const Operand &operand,
                 const QuantPolicy &policy);
  /// As `quantize`, into the FP4 type `type`.
  Value quantizeToFP4(Value source, const Operand &operand, ScaledType type,
                      const QuantPolicy &policy);
  /// `operand` cast for the GEMM at `user`: in the forward and held when it is
  /// a forward tensor, else at `user`; gathered at `user`.
  Value castFor(Operation *user, const Operand &operand,
                const QuantPolicy &policy);
  /// As `castFor`, of this rank's part alone.
  Value castPartFor(Operation *user, const Operand &operand,
                    const QuantPolicy &policy);
  /// Drops the gather of `operand` where its parts cannot be cast by
  /// themselves: then the gathered tensor is cast.
  void keepExactGather(Operand &operand, const QuantPolicy &policy);
  /// Drops the gather of `operand` where there is a `refusal`, and says so.
  void settleGather(Operand &operand, StringRef refusal);
  /// The parts `local` of all ranks of `gather`, put together.
  Value gatherParts(Value local, AllGatherOp gather);
  /// `operand` for a GEMM whose operands were cast and dequantised again.
  Value dequantizedFor(Operation *user, Operand operand,
                       const QuantPolicy &policy);
  /// Where `value`, defined at `definition`, crosses from forward to backward
  /// for `user`: at the last residual between the two, else at `user`.
  Operation *boundary(Operation *definition, Operation *user);
  /// `bias`, of f32 or bf16, in the bf16 that quantised GEMMs add.
  Value biasInBF16(Value bias);

  void emitRemark(const Product &product, const GemmOrigin &origin,
                  OperandMode mode);

  func::FuncOp function;
  bool strict;
  /// Whether what would be quantised is only measured.
  bool calibrate;
  /// Whether products read 8-bit operands in any layout.
  bool anyLayout;
  OpBuilder builder;
  /// The first forward GEMM that reads a value in groups of some sizes, and the
  /// layer names by location (a backward GEMM has the location of its layer).
  DenseMap<std::pair<Value, Value>, Operation *> forwardReader;
  DenseMap<Location, std::string> layerAt;
  llvm::SetVector<Operation *> replacedResiduals;
  /// Name of the layer that is being rewritten, and its recipe.
  std::string layer;
  RecipeAttr layerRecipe;
  StateThreading states;
  /// What stochastic rounding draws from, and the stream of each cast.
  Value rngState;
  std::string rngName;
  DenseMap<std::pair<Value, unsigned>, int32_t> streams;
  /// The first rounding of a tensor to a type.
  DenseMap<std::pair<Value, Type>, Value> roundings;
  /// One tensor may be read in two formats, and in groups of two sizes.
  llvm::MapVector<SlotKey, Slot> slots;
};
} // namespace

/// `value` as an operand of a GEMM: the part, where it is gathered.
static Operand describeOperand(Value value, TensorRole role,
                               unsigned contract) {
  auto view = value.getDefiningOp<tensor::ExpandShapeOp>();
  auto gather = (view ? view.getSrc() : value).getDefiningOp<AllGatherOp>();
  if (!gather || gather.getAxis() != 0 ||
      (view && (role != TensorRole::W || shapeOf(view.getSrc()).size() != 1)))
    return {value, role, contract};
  Operand operand = {gather.getX(), role, contract};
  operand.gather = gather;
  operand.view = view;
  return operand;
}

/// A weight, contracted along `axis`, or along the other one if transposed.
static Operand describeWeight(Value value, bool isTransposed, unsigned axis) {
  Operand operand =
      describeOperand(value, TensorRole::W, isTransposed ? 1 - axis : axis);
  operand.isTransposed = isTransposed;
  return operand;
}

Product CastInserter::describeGroups(Operation *op) {
  auto forward = [](Value sizes) { return behindResiduals(sizes); };
  if (auto linear = dyn_cast<GroupedLinearOp>(op)) {
    ArrayRef<int64_t> w = shapeOf(linear.getW());
    auto alignment = static_cast<int64_t>(linear.getAlignment());
    return {op,
            Gemm::Fprop,
            {linear.getX(), TensorRole::X, 1, forward(linear.getGroupSizes()),
             alignment},
            {linear.getW(), TensorRole::W, 1},
            linear.getBias(),
            {alignment, w[1], w[2]},
            linear.getGroupSizes()};
  }
  if (auto dgrad = dyn_cast<GroupedLinearDgradOp>(op)) {
    ArrayRef<int64_t> w = shapeOf(dgrad.getW());
    auto alignment = static_cast<int64_t>(dgrad.getAlignment());
    return {op,
            Gemm::Dgrad,
            {dgrad.getDy(), TensorRole::Dy, 1, forward(dgrad.getGroupSizes()),
             alignment},
            {dgrad.getW(), TensorRole::W, 0},
            {},
            {alignment, w[1], w[2]},
            dgrad.getGroupSizes()};
  }
  auto wgrad = cast<GroupedLinearWgradOp>(op);
  auto alignment = static_cast<int64_t>(wgrad.getAlignment());
  Value sizes = forward(wgrad.getGroupSizes());
  return {op,
          Gemm::Wgrad,
          {wgrad.getDy(), TensorRole::Dy, 0, sizes, alignment},
          {wgrad.getX(), TensorRole::X, 0, sizes, alignment},
          {},
          {alignment, shapeOf(wgrad.getDy())[1], shapeOf(wgrad.getX())[1]},
          wgrad.getGroupSizes(),
          wgrad.getAccumulate()};
}

Product CastInserter::describe(Operation *op) {
  if (isa<GroupedLinearOp, GroupedLinearDgradOp, GroupedLinearWgradOp>(op))
    return describeGroups(op);
  if (auto linear = dyn_cast<LinearOp>(op)) {
    ArrayRef<int64_t> x = shapeOf(linear.getX()), y = shapeOf(linear.getY());
    return {op,
            Gemm::Fprop,
            describeOperand(linear.getX(), TensorRole::X, 1),
            describeWeight(linear.getW(), linear.getTransposedWeight(), 1),
            linear.getBias(),
            {x[0], y[1], x[1]}};
  }
  if (auto dgrad = dyn_cast<LinearDgradOp>(op)) {
    ArrayRef<int64_t> dy = shapeOf(dgrad.getDy()), dx = shapeOf(dgrad.getDx());
    return {op,
            Gemm::Dgrad,
            describeOperand(dgrad.getDy(), TensorRole::Dy, 1),
            describeWeight(dgrad.getW(), dgrad.getTransposedWeight(), 0),
            {},
            {dy[0], dy[1], dx[1]}};
  }
  auto wgrad = cast<LinearWgradOp>(op);
  ArrayRef<int64_t> dy = shapeOf(wgrad.getDy()), x = shapeOf(wgrad.getX());
  Product product = {op,
                     Gemm::Wgrad,
                     describeOperand(wgrad.getDy(), TensorRole::Dy, 0),
                     describeOperand(wgrad.getX(), TensorRole::X, 0),
                     {},
                     {dy[0], dy[1], x[1]},
                     /*groupSizes=*/{},
                     wgrad.getAccumulate(),
                     wgrad.getTransposedWeight()};
  if (product.isTransposed)
    std::swap(product.a, product.b);
  return product;
}

static constexpr StringLiteral kRngState = "rng_state";
static constexpr StringLiteral kHistory = ".amax_history", kScale = ".scale";

static StringRef suffixOf(TensorRole role) {
  switch (role) {
  case TensorRole::X:
    return ".x";
  case TensorRole::W:
    return ".w";
  case TensorRole::Dy:
    return ".dy";
  }
  llvm_unreachable("all roles are listed");
}

Slot &CastInserter::slotFor(const Operand &operand, const QuantPolicy &policy) {
  Value tensor = operand.value;
  while (auto residual = tensor.getDefiningOp<ResidualOp>())
    tensor = residual.getValue();
  // What several calls round of one weight is one tensor, as cse will find.
  if (auto rounded = tensor.getDefiningOp<arith::TruncFOp>())
    tensor = roundings.try_emplace({rounded.getIn(), rounded.getType()}, tensor)
                 .first->second;
  const Gemm reader = operand.reader();
  RecipeAttr recipe = policy.recipeOf(reader);
  const void *sizes = operand.groupSizes.getAsOpaquePointer();
  if (Attribute equal;
      sizes && matchPattern(operand.groupSizes, m_Constant(&equal)))
    sizes = equal.getAsOpaquePointer();
  auto [found, isNew] = slots.insert(
      {{tensor, unsigned(operand.role), sizes, operand.alignment, recipe}, {}});
  Slot &slot = found->second;
  if (!isNew)
    return slot;
  SmallVector<int64_t, 1> groups = operand.perGroup();
  auto scaleType = RankedTensorType::get(groups, builder.getF32Type());
  groups.insert(groups.begin(), recipe.getOptions().amaxHistoryLen);
  auto history = RankedTensorType::get(groups, builder.getF32Type());
  slot.name = states.uniqueBase(layer + suffixOf(operand.role).str(),
                                {kHistory, kScale});
  slot.history = states.addState(slot.name + kHistory.str(), history, 0.0);
  slot.scale = states.addState(slot.name + kScale.str(), scaleType, 1.0);
  // Reduced with all others at the end of the step.
  Operand measured = operand;
  measured.gather = {};
  measured.view = {};
  slot.amax = amaxOf(operand.value, measured);
  slot.elementType = policy.elementType(operand.role, reader);
  return slot;
}

void CastInserter::measureFor(Operation *user, Operand operand,
                              const QuantPolicy &policy) {
  if (!policy.isDelayed(operand.reader()))
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(user);
  // In the forward, as the cast would be.
  if (auto residual = operand.value.getDefiningOp<ResidualOp>()) {
    builder.setInsertionPoint(residual);
    operand.value = residual.getValue();
  }
  (void)slotFor(operand, policy);
}

Value CastInserter::reduceOverAll(Value amax, RecipeAttr recipe) {
  // Amaxes of groups of rows are those of layers that are not split.
  if (cast<RankedTensorType>(amax.getType()).getRank() != 0)
    return amax;
  llvm::StringSet<> axes;
  for (GroupAttr group : getGroups(function))
    if (group.getSize() > 1 && axes.insert(group.getAxis()).second)
      amax = reduceAmax(amax, group.getId(), recipe);
  return amax;
}

Value CastInserter::reduceAmax(Value amax, int64_t group, RecipeAttr recipe) {
  auto reduce =
      AmaxReduceOp::create(builder, amax.getLoc(), TypeRange(amax.getType()),
                           amax, static_cast<int32_t>(group));
  // te-verify-collectives asks whether the recipe has reductions.
  if (RecipeAttr::lookup(reduce) != recipe)
    reduce->setDiscardableAttr(kRecipeAttr, recipe);
  return reduce.getReduced().front();
}

void CastInserter::updateStates() {
  if (slots.empty() && !rngState)
    return;
  Operation *end = function.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  if (rngState)
    states.setNext(rngName, RngAdvanceOp::create(builder, end->getLoc(),
                                                 rngState.getType(), rngState,
                                                 builder.getI32IntegerAttr(1)));
  for (auto &[key, slot] : slots) {
    RecipeAttr recipe = std::get<RecipeAttr>(key);
    slot.amax = reduceOverAll(slot.amax, recipe);
    auto update = DelayedScalingUpdateOp::create(
        builder, slot.amax.getLoc(), slot.history.getType(),
        slot.scale.getType(), slot.amax, slot.history, slot.scale,
        TypeAttr::get(slot.elementType),
        AmaxAlgorithmAttr::get(builder.getContext(),
                               recipe.getOptions().amaxComputeAlgo),
        builder.getI32IntegerAttr(recipe.getOptions().margin));
    states.setNext(slot.name + kHistory.str(), update.getNewHistory());
    states.setNext(slot.name + kScale.str(), update.getNewScale());
  }
  states.finish();
}

ScaledType CastInserter::typeOf(const Operand &operand,
                                const QuantPolicy &policy) {
  if (operand.view) {
    ScaledType type =
        policy.castType(operand.role, operand.reader(),
                        shapeOf(operand.whole()), operand.contract);
    if (!type.isMx()) // then columns are the rows, transposed
      type = policy.castType(TensorRole::W, Gemm::Fprop, type.getShape(), 1);
    return type.getShardOf(shapeOf(operand.value)[0]);
  }
  ScaledType type = policy.castType(operand.role, operand.reader(),
                                    shapeOf(operand.value), operand.contract);
  return operand.groupSizes ? type.getInGroups(shapeOf(operand.groupSizes)[0])
                            : type;
}

Value CastInserter::amaxOf(Value source, const Operand &operand) {
  Location loc = operand.value.getLoc();
  auto type = RankedTensorType::get(operand.perGroup(), builder.getF32Type());
  if (operand.groupSizes)
    return GroupedAmaxOp::create(builder, loc, type, source, operand.groupSizes,
                                 builder.getI64IntegerAttr(operand.alignment));
  if (!operand.isStack()) {
    Value amax = AmaxOp::create(builder, loc, type, source);
    return operand.gather
               ? reduceAmax(amax, AllGatherOp(operand.gather).getGroup(),
                            layerRecipe)
               : amax;
  }
  // The amax of a matrix is that of a row which holds all of it.
  Value rows = tensor::CollapseShapeOp::create(
      builder, loc, source, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  return AmaxRowsOp::create(builder, loc, type, rows);
}

Operand CastInserter::prepared(Value source, const Operand &operand,
                               ScaledType type) {
  Operand result = operand;
  result.value = source;
  if (!operand.groupSizes)
    return result;
  const bool readsPadding =
      type.is(ScaleVariant::Hadamard) ||
      (type.getScheme() != Scheme::PerTensor &&
       (!type.isNv() || type.is(ScaleVariant::RowScaled)));
  if (readsPadding &&
      !hasZeroPadding(source, operand.groupSizes, operand.alignment))
    result.value = ZeroPaddingOp::create(
        builder, operand.value.getLoc(), source.getType(), source,
        operand.groupSizes, builder.getI64IntegerAttr(operand.alignment));
  // The transform fills its last run of 16 rows.
  if (type.is(ScaleVariant::Hadamard))
    result.groupSizes = RoundGroupSizesOp::create(
        builder, operand.value.getLoc(), operand.groupSizes.getType(),
        operand.groupSizes, builder.getI64IntegerAttr(16));
  return result;
}

Value CastInserter::dequantize(Value scaled, const Operand &operand) {
  return DequantizeOp::create(
      builder, operand.value.getLoc(),
      (operand.view ? operand.whole() : operand.value).getType(), scaled,
      operand.groupSizes, builder.getI64IntegerAttr(operand.alignment),
      /*without_amax=*/UnitAttr());
}

Value CastInserter::castHere(const Operand &operand,
                             const QuantPolicy &policy) {
  if (operand.contract != operand.firstAxis() &&
      policy.columnSource(operand.role) == CastSource::RowwiseDequantized &&
      policy.operandMode(readerOf(operand.role, 1)) == OperandMode::Quantized) {
    Operand first = operand;
    first.contract = operand.firstAxis();
    return quantize(dequantize(castHere(first, policy), operand), operand,
                    policy);
  }
  return quantize(operand.value, operand, policy);
}

Value CastInserter::quantizeToFP4(Value source, const Operand &operand,
                                  ScaledType type, const QuantPolicy &policy) {
  Location loc = operand.value.getLoc();
  const Gemm gemm = operand.reader();
  const Operand read = prepared(source, operand, type);
  source = read.value;
  if (type.is(ScaleVariant::Hadamard))
    source = HadamardOp::create(builder, loc, source.getType(), source);
  Type f32 = builder.getF32Type();
  Value amax;
  if (type.is(ScaleVariant::RowScaled))
    amax = AmaxRowsOp::create(
        builder, loc, RankedTensorType::get({type.getRows()}, f32), source);
  else
    amax = amaxOf(source, read);
  Value rng;
  int32_t stream = 0;
  if (policy.stochasticRounding(operand.role, gemm)) {
    if (!rngState) {
      rngName = states.uniqueBase(kRngState, {""});
      rngState = states.addState(
          rngName, RankedTensorType::get({2}, builder.getI32Type()), 0.0);
    }
    rng = rngState;
    // Equal casts draw equal bits, so that cse may merge them; others do not.
    stream = streams
                 .try_emplace({operand.value, operand.contract},
                              static_cast<int32_t>(streams.size()))
                 .first->second;
  }
  return QuantizeOp::create(
             builder, loc, TypeRange(type), /*amax=*/Type(), source,
             /*scale=*/Value(), amax, rng, read.groupSizes,
             builder.getI64IntegerAttr(read.alignment),
             builder.getF32FloatAttr(0.0f), builder.getI32IntegerAttr(stream),
             FourOverSixAttr::get(builder.getContext(),
                                  policy.fourOverSix(operand.role, gemm)))
      .getUsages()
      .front();
}

Value CastInserter::quantize(Value source, const Operand &operand,
                             const QuantPolicy &policy) {
  Location loc = operand.value.getLoc();
  ScaledType type = typeOf(operand, policy);
  const Gemm gemm = operand.reader();
  FloatAttr epsilon =
      builder.getF32FloatAttr(policy.recipeOf(gemm).getOptions().amaxEpsilon);
  if (type.isNv() && !type.isShard())
    return quantizeToFP4(source, operand, type, policy);
  Value scale;
  if (policy.isDelayed(gemm)) {
    scale = slotFor(operand, policy).scale;
  } else if (type.getScheme() == Scheme::PerTensor) {
    Value amax = amaxOf(source, operand);
    scale =
        ComputeScaleOp::create(builder, loc, amax.getType(), amax,
                               TypeAttr::get(type.getElementType()),
                               builder.getBoolAttr(type.getPow2()), epsilon);
    // The cast itself uses no epsilon: it is in the scale.
    epsilon = builder.getF32FloatAttr(0.0f);
  }
  // Blocks that are cut have amaxes of several ranks.
  Value blockAmaxes;
  IntegerAttr group;
  if (type.isShard() && !scale) {
    group = AllGatherOp(operand.gather).getGroupAttr();
    auto blocks = RankedTensorType::get(type.getBlocks(), builder.getF32Type());
    blockAmaxes = reduceAmax(
        PartialAmaxOp::create(builder, loc, blocks, source, group.getInt(),
                              type.getShape(), type.getBlockShape()),
        group.getInt(), layerRecipe);
  }
  const Operand read = prepared(source, operand, type);
  return QuantizeOp::create(
             builder, loc, TypeRange(type), /*amax=*/Type(), read.value, scale,
             blockAmaxes, /*rng=*/Value(), read.groupSizes,
             /*into=*/ValueRange(), /*skip=*/Value(),
             builder.getI64IntegerAttr(read.alignment), epsilon,
             builder.getI32IntegerAttr(0),
             FourOverSixAttr::get(builder.getContext(), FourOverSix::Off),
             group)
      .getUsages()
      .front();
}

Operation *CastInserter::boundary(Operation *definition, Operation *user) {
  for (Operation *op = user->getPrevNode(); op && op != definition;
       op = op->getPrevNode())
    if (isa<ResidualOp>(op))
      return op->getNextNode();
  return user;
}

Value CastInserter::gatherParts(Value local, AllGatherOp gather) {
  Type type = gather.getY().getType();
  if (auto scaled = dyn_cast<ScaledType>(local.getType());
      scaled && scaled.isShard())
    type = scaled.getWhole();
  else if (scaled)
    type = ScaledType::get(scaled.getContext(), shapeOf(gather.getY()),
                           scaled.getElementType(), scaled.getScheme(),
                           scaled.getVariant(), scaled.getContract());
  return AllGatherOp::create(builder, gather.getLoc(), type, local,
                             gather.getGroup(), gather.getAxis());
}

bool CastInserter::readsRows(const Operand &operand,
                             const QuantPolicy &policy) {
  if (!anyLayout || operand.contract == 1 || operand.hasGroups())
    return false;
  // A custom recipe may give the two products of a tensor casts that differ.
  if (policy.recipeOf(readerOf(operand.role, 0)) !=
          policy.recipeOf(readerOf(operand.role, 1)) ||
      policy.columnSource(operand.role) == CastSource::RowwiseDequantized)
    return false;
  ScaledType type = typeOf(operand, policy);
  const auto scheme = static_cast<int32_t>(Scheme::PerTensor);
  return type.getScheme() == Scheme::PerTensor &&
         type.getCols() % support::productRow(scheme, scheme).k == 0;
}

Value CastInserter::castFor(Operation *user, const Operand &operand,
                            const QuantPolicy &policy) {
  const bool rows = readsRows(operand, policy);
  Operand part = operand;
  // Only rows are gathered where columns follow from them.
  if (operand.view)
    part.contract = typeOf(operand, policy).getContract();
  else if (rows || (operand.gather && operand.contract == 0 &&
                    policy.getRecipe().getKind() != RecipeKind::Custom &&
                    typeOf(operand, policy).getScheme() == Scheme::PerTensor))
    part.contract = 1;
  Value local = castPartFor(user, part, policy);
  if (!operand.gather)
    return local;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(user);
  Value whole = gatherParts(local, operand.gather);
  if (rows || part.contract == operand.contract)
    return whole;
  auto transposed = cast<ScaledType>(whole.getType()).getTransposedUsage();
  return TransposeOp::create(builder, user->getLoc(), transposed, whole,
                             /*into=*/Value(), /*skip=*/Value());
}

void CastInserter::keepExactGather(Operand &operand,
                                   const QuantPolicy &policy) {
  if (!operand.gather)
    return;
  if (operand.isTransposed)
    return settleGather(operand, "the weight lies [K, N]");
  if (operand.view)
    return settleGather(operand,
                        policy.shardRefusal(operand.reader(), operand.contract,
                                            shapeOf(operand.value)[0]));
  const int64_t rows = shapeOf(operand.value)[0];
  const Gemm gemm = operand.reader();
  const int64_t multiple =
      support::schemeRow(
          static_cast<int32_t>(policy.scheme(operand.role, gemm)))
          .multiple;
  std::string refusal =
      rows % multiple
          ? llvm::formatv("expected the rows of a part to be a multiple of "
                          "{0}, but got {1}",
                          multiple, rows)
                .str()
          : AllGatherOp::refuseParts(typeOf(operand, policy));
  settleGather(operand, refusal);
}

void CastInserter::settleGather(Operand &operand, StringRef refusal) {
  auto options = remark::RemarkOpts::name("gather-precision")
                     .category("te-insert-casts")
                     .function(function.getName());
  Location loc = operand.gather.getLoc();
  std::string name = describeValue(operand.value);
  if (refusal.empty()) {
    remark::passed(loc, options) << remark::add(
        "parts of '{0}' are cast before they are gathered", name);
    return;
  }
  remark::missed(loc, options)
      << remark::add("'{0}' is gathered in high precision", name)
      << remark::reason("{0}", refusal);
  operand.value = operand.whole();
  operand.gather = {};
  operand.view = {};
}

Value CastInserter::castPartFor(Operation *user, const Operand &operand,
                                const QuantPolicy &policy) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(user);
  if (isa<LinearOp, GroupedLinearOp>(user) || operand.role == TensorRole::Dy)
    return castHere(operand, policy);
  if (auto residual = operand.value.getDefiningOp<ResidualOp>()) {
    builder.setInsertionPoint(residual);
    Operand held = operand;
    held.value = residual.getValue();
    Value scaled = castHere(held, policy);
    replacedResiduals.insert(residual);
    return ResidualOp::create(builder, residual.getLoc(), scaled.getType(),
                              scaled, residual.getNameAttr());
  }
  Operation *reader = forwardReader.lookup({operand.value, operand.groupSizes});
  bool inForward = reader && reader->getBlock() == user->getBlock() &&
                   reader->isBeforeInBlock(user);
  if (!inForward)
    return castHere(operand, policy);
  builder.setInsertionPoint(reader);
  Value scaled = castHere(operand, policy);
  builder.setInsertionPoint(boundary(reader, user));
  return ResidualOp::create(
      builder, user->getLoc(), scaled.getType(), scaled,
      builder.getStringAttr(describeValue(operand.value)));
}

Value CastInserter::dequantizedFor(Operation *user, Operand operand,
                                   const QuantPolicy &policy) {
  // The forward's own cast, whatever axis this GEMM contracts.
  operand.contract = operand.firstAxis();
  keepExactGather(operand, policy);
  Value scaled = castPartFor(user, operand, policy);
  builder.setInsertionPoint(user);
  if (operand.view)
    return dequantize(gatherParts(scaled, operand.gather), operand);
  Value local = dequantize(scaled, operand);
  return operand.gather ? gatherParts(local, operand.gather) : local;
}

Operation *CastInserter::createProduct(const Product &product, Location loc,
                                       Value a, Value b, Value bias,
                                       bool fastAccumulation) {
  Type type = product.op->getResult(0).getType();
  BoolAttr fast = builder.getBoolAttr(fastAccumulation);
  if (!product.groupSizes) {
    auto isMadeFor = [](Value value, const Operand &operand) {
      return cast<ScaledType>(value.getType()).getContract() ==
             operand.contract;
    };
    DenseI64ArrayAttr contract;
    if (!isMadeFor(a, product.a) || !isMadeFor(b, product.b))
      contract = builder.getDenseI64ArrayAttr(
          {product.a.contract, product.b.contract});
    return ScaledMatmulOp::create(builder, loc, type, a, b, bias,
                                  product.accumulate, fast, contract);
  }
  IntegerAttr alignment = builder.getI64IntegerAttr(product.alignment());
  if (product.gemm != Gemm::Wgrad)
    return GroupedScaledMatmulOp::create(
        builder, loc, type, a, b, product.groupSizes, bias, fast, alignment);
  Value sizes = product.groupSizes;
  if (cast<ScaledType>(a.getType()).is(ScaleVariant::Hadamard))
    sizes = RoundGroupSizesOp::create(builder, loc, sizes.getType(), sizes,
                                      builder.getI64IntegerAttr(16));
  return GroupedScaledWgradOp::create(builder, loc, type, a, b, sizes,
                                      product.accumulate, fast, alignment);
}

Operation *CastInserter::createPlainProduct(const Product &product,
                                            Location loc, Value a, Value b) {
  Type type = product.op->getResult(0).getType();
  if (!product.groupSizes)
    return MatmulOp::create(
        builder, loc, type, a, b, product.bias, product.accumulate,
        builder.getDenseI64ArrayAttr({product.a.contract, product.b.contract}));
  IntegerAttr alignment = builder.getI64IntegerAttr(product.alignment());
  if (product.gemm == Gemm::Wgrad)
    return GroupedWgradOp::create(builder, loc, type, a, b, product.groupSizes,
                                  /*alpha=*/Value(), product.accumulate,
                                  alignment);
  return GroupedMatmulOp::create(
      builder, loc, type, a, b, product.groupSizes, /*alpha=*/Value(),
      product.bias, builder.getI64IntegerAttr(product.b.contract), alignment);
}

Value CastInserter::biasInBF16(Value bias) {
  auto type = cast<RankedTensorType>(bias.getType());
  if (type.getElementType().isBF16())
    return bias;
  return arith::TruncFOp::create(builder, bias.getLoc(),
                                 type.clone(builder.getBF16Type()), bias);
}

static StringRef stringifyMode(OperandMode mode) {
  switch (mode) {
  case OperandMode::HighPrecision:
    return "te.matmul on the original operands";
  case OperandMode::Dequantized:
    return "te.matmul on dequantised operands";
  case OperandMode::Quantized:
    return "te.scaled_matmul";
  }
  llvm_unreachable("all modes are listed");
}

void CastInserter::emitRemark(const Product &product, const GemmOrigin &origin,
                              OperandMode mode) {
  auto options = remark::RemarkOpts::name("gemm-precision")
                     .category("te-insert-casts")
                     .function(function.getName());
  Location loc = product.op->getLoc();
  // Only what the recipe wanted and did not get is a missed remark.
  auto emit = [&](remark::detail::InFlightRemark &&out) {
    out << remark::add("{0} of '{1}' became {2}", origin.gemm, origin.layer,
                       stringifyMode(mode))
        << remark::reason("{0}", origin.reason);
  };
  if (origin.fallback)
    emit(remark::missed(loc, options));
  else if (mode == OperandMode::Quantized)
    emit(remark::passed(loc, options));
  else
    emit(remark::analysis(loc, options));
}

LogicalResult CastInserter::rewrite(Product product) {
  Operation *op = product.op;
  QuantPolicy policy(RecipeAttr::lookup(op));
  OperandMode mode = policy.operandMode(product.gemm);

  GemmOrigin origin;
  origin.gemm = stringifyGemm(product.gemm).str();
  origin.reason = policy.reason(product.gemm);
  auto layer = layerAt.find(op->getLoc());
  if (product.gemm == Gemm::Wgrad)
    origin.layer = layer != layerAt.end() && !layer->second.empty()
                       ? layer->second
                       : describeLayer(op->getLoc(), product.ofForward().value);
  else
    origin.layer = describeLayer(op->getLoc(), product.b.value);

  auto broken =
      policy.violation(product.gemm, product.sizes, product.isTransposed);
  // What the forward could not cast, there is nothing to dequantise of.
  if (mode == OperandMode::Dequantized)
    broken = policy.violation(Gemm::Fprop, product.sizes);
  std::string rule;
  if (product.groupSizes && mode != OperandMode::HighPrecision)
    rule = policy.alignmentRefusal(
        mode == OperandMode::Dequantized ? Gemm::Fprop : product.gemm,
        product.alignment());
  if (!rule.empty())
    broken = std::nullopt;
  else if (broken)
    rule = llvm::formatv("expected {0} to be a multiple of {1}, but got {2}",
                         broken->axis, broken->multiple,
                         broken->size(product.sizes));
  auto elementType = [](Value value) {
    return cast<ShapedType>(value.getType()).getElementType();
  };
  if (rule.empty())
    rule = policy.refusal(
        product.gemm,
        {elementType(product.a.value), elementType(product.b.value)},
        elementType(op->getResult(0)), static_cast<bool>(product.bias),
        product.isTransposed);
  if (!rule.empty()) {
    if (strict)
      return op->emitError()
             << origin.gemm << " of '" << origin.layer << "' cannot run as "
             << origin.reason << " says: " << rule;
    mode = OperandMode::HighPrecision;
    origin.fallback = true;
    origin.reason = "fallback: " + rule;
  }

  const RecipeKind kind = policy.recipeOf(product.gemm).getKind();
  if (mode == OperandMode::Quantized &&
      (kind == RecipeKind::DelayedScaling ||
       kind == RecipeKind::NvFp4BlockScaling) &&
      (op->getParentOp() != function || !function.getBody().hasOneBlock()))
    return op->emitError() << "expected a layer with recipe '"
                           << stringifyRecipeKind(kind)
                           << "' to be in the one block of its function";
  this->layer = origin.layer;
  layerRecipe = policy.getRecipe();
  if (calibrate && mode != OperandMode::HighPrecision) {
    if (mode == OperandMode::Quantized)
      for (const Operand &operand : {product.a, product.b})
        measureFor(op, operand, policy);
    mode = OperandMode::HighPrecision;
    origin.reason = "calibration for " + origin.reason;
    ++numCalibrated;
  }

  Location loc = origin.attach(op->getLoc());
  builder.setInsertionPoint(op);
  Operation *gemm;
  if (mode == OperandMode::Quantized) {
    keepExactGather(product.a, policy);
    keepExactGather(product.b, policy);
    Value a = castFor(op, product.a, policy);
    Value b = castFor(op, product.b, policy);
    Value bias = product.bias ? biasInBF16(product.bias) : Value();
    gemm = createProduct(product, loc, a, b, bias,
                         policy.fastAccumulation(product.gemm));
    ++numQuantized;
  } else {
    Value a = product.a.whole(), b = product.b.whole();
    const Operand &held = product.ofForward();
    if (mode == OperandMode::Dequantized)
      (&held == &product.a ? a : b) = dequantizedFor(op, held, policy);
    builder.setInsertionPoint(op);
    gemm = createPlainProduct(product, loc, a, b);
    ++numHighPrecision;
  }
  emitRemark(product, origin, mode);
  if (product.gemm == Gemm::Fprop) {
    for (const Operand &operand : {product.a, product.b})
      forwardReader.try_emplace({operand.value, operand.groupSizes}, gemm);
    // Two layers at one place cannot be told apart in the backward.
    auto [entry, isNew] = layerAt.try_emplace(op->getLoc(), origin.layer);
    if (!isNew && entry->second != origin.layer)
      entry->second.clear();
  }
  op->replaceAllUsesWith(gemm);
  op->erase();
  return success();
}

LogicalResult CastInserter::run() {
  SmallVector<Operation *> forward, backward;
  function.walk([&](Operation *op) {
    if (isa<LinearOp, GroupedLinearOp>(op))
      forward.push_back(op);
    else if (isa<LinearDgradOp, LinearWgradOp, GroupedLinearDgradOp,
                 GroupedLinearWgradOp>(op))
      backward.push_back(op);
  });
  LogicalResult result = success();
  for (Operation *op : llvm::concat<Operation *>(forward, backward))
    if (failed(rewrite(describe(op))))
      result = failure();
  if (succeeded(result))
    updateStates();
  for (Operation *residual : replacedResiduals)
    if (residual->use_empty())
      residual->erase();
  return result;
}

namespace {
struct InsertCasts final : te::impl::InsertCastsPassBase<InsertCasts> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTargetOption(context, getArgument(), target.getValue());
  }

  void runOnOperation() override {
    CastInserter inserter(getOperation(), strict, calibrate,
                          support::parseTarget(target.getValue()) ==
                              support::Target::Sm100);
    if (failed(inserter.run()))
      return signalPassFailure();
    numQuantized += inserter.numQuantized;
    numHighPrecision += inserter.numHighPrecision;
    numCalibrated += inserter.numCalibrated;
  }
};
} // namespace
