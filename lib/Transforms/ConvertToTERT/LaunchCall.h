//===- LaunchCall.h - builds one launch -----------------------------------===//
//
// The files that emit launches share this builder. They list the parameters and
// the buffers of a kernel in the order of its row in te_runtime_kernels.inc.
// The verifier of tert.launch checks the parameters and the number of buffers
// against the row.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TRANSFORMS_CONVERTTOTERT_LAUNCHCALL_H
#define TE_TRANSFORMS_CONVERTTOTERT_LAUNCHCALL_H

#include "LaunchEmitter.h"

#include "TEDialect/TERT/KernelTable.h"
#include "TEDialect/TERT/RuntimeTypes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::te {

inline Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}
inline int64_t dim(Value value, unsigned axis) {
  return mlir::cast<ShapedType>(value.getType()).getDimSize(axis);
}
inline int64_t count(Value value) {
  return mlir::cast<ShapedType>(value.getType()).getNumElements();
}

/// The largest block scale of an nv value; 0 for other values.
inline int32_t scaleMax(ScaledType type) {
  return type.isNv() ? type.getScaleMax() : 0;
}

/// The usage of a cast that may be contracted along `axis`, or null.
inline Value findUsage(ResultRange usages, unsigned axis) {
  for (Value usage : usages)
    if (mlir::cast<ScaledType>(usage.getType()).getContract() == axis)
      return usage;
  return {};
}

/// The te.zero_unless that decides whether `accumulate`, a gradient of groups,
/// starts again from zeros, if the kernel of the GEMM does that itself; else
/// null.
inline ZeroUnlessOp summandStart(Value accumulate) {
  auto start = accumulate ? accumulate.getDefiningOp<ZeroUnlessOp>() : nullptr;
  if (!start || !accumulate.hasOneUse())
    return {};
  OpOperand &use = *accumulate.getUses().begin();
  auto scaled = dyn_cast<GroupedScaledWgradOp>(use.getOwner());
  auto plain = dyn_cast<GroupedWgradOp>(use.getOwner());
  return (scaled && scaled.getAccumulate() == accumulate) ||
                 (plain && plain.getAccumulate() == accumulate)
             ? start
             : ZeroUnlessOp();
}

/// Builds a launch: parameters by name, and buffers in the order of the row.
class LaunchCall {
public:
  LaunchCall(LaunchEmitter &emitter, Operation *op, StringRef kernel)
      : emitter(emitter), op(op), kernel(*tert::lookupKernel(kernel)),
        base(emitter.baseName(op)) {}

  LaunchCall &i64(StringRef name, int64_t value) {
    return parameter(name, emitter.getBuilder().getI64IntegerAttr(value));
  }
  LaunchCall &i32(StringRef name, int32_t value) {
    return parameter(name, emitter.getBuilder().getI32IntegerAttr(value));
  }
  LaunchCall &f32(StringRef name, APFloat value) {
    return parameter(name, FloatAttr::get(emitter.getBuilder().getF32Type(),
                                          value.convertToFloat()));
  }
  LaunchCall &type(StringRef name, Type type) {
    std::optional<int32_t> runtimeType = tert::getRuntimeType(type);
    isValid &= runtimeType.has_value();
    return i32(name, runtimeType.value_or(-1));
  }

  /// Adds the kind of activation of an op and the parameters of that kind.
  template <typename ActivationLikeOp>
  LaunchCall &activation(ActivationLikeOp op) {
    return i32("kind", static_cast<int32_t>(op.getKind()))
        .f32("limit", op.getLimit())
        .f32("alpha", op.getAlpha())
        .f32("offset", op.getOffset());
  }

  /// Adds every parameter that was not given, from the attribute of the op with
  /// its name; 0 if an optional attribute is absent.
  LaunchCall &attributes() {
    for (const tert::KernelParameter &each : kernel.parameters) {
      ArrayRef<StringAttr> known = op->getRegisteredInfo()->getAttributeNames();
      const bool isGiven =
          llvm::any_of(parameters, [&](NamedAttribute parameter) {
            return parameter.getName() == each.name;
          });
      if (isGiven || !llvm::is_contained(known, each.name))
        continue;
      Attribute value = op->getAttr(each.name);
      if (each.type == tert::KernelParameter::F32) {
        auto number = dyn_cast_if_present<FloatAttr>(value);
        f32(each.name, number ? number.getValue() : APFloat(0.0f));
        continue;
      }
      auto integer = dyn_cast_if_present<IntegerAttr>(value);
      const int64_t number = integer ? integer.getValue().getSExtValue() : 0;
      // A flag is a unit attribute or a bool.
      const bool isFlag = isa_and_present<UnitAttr>(value) ||
                          (integer && integer.getType().isInteger(1));
      if (each.type == tert::KernelParameter::I64)
        i64(each.name, number);
      else
        i32(each.name, isFlag ? isa<UnitAttr>(value) || number != 0 : number);
    }
    return *this;
  }

  /// Adds the layout of the groups in `rows` rows.
  template <typename GroupedOp> LaunchCall &groups(GroupedOp op, int64_t rows) {
    return i64("rows", rows)
        .i64("groups", dim(op.getGroupSizes(), 0))
        .i64("alignment", op.getAlignment());
  }

  /// Appends the buffers of an operand, or `absentBuffers` nulls.
  LaunchCall &in(Value value, unsigned absentBuffers = 1) {
    if (!value)
      return none(absentBuffers);
    FailureOr<Buffers> found = emitter.lookup(value);
    isValid &= succeeded(found);
    if (succeeded(found))
      llvm::append_range(buffers, *found);
    return *this;
  }

  /// Does what `in` does, for a scaled operand of a kernel whose row has an
  /// amax. A null stands for the amax if the operand has none or `withoutAmax`
  /// is set.
  LaunchCall &inScaled(Value value, bool withoutAmax = false) {
    in(value);
    if (!cast<ScaledType>(value.getType()).isNv())
      return none(1);
    if (withoutAmax && isValid) {
      buffers.pop_back();
      return none(1);
    }
    return *this;
  }

  /// Appends the summand of a gradient of groups, or a null. `keep` must append
  /// the flag for the summand later.
  LaunchCall &inSummand(Value accumulate) {
    ZeroUnlessOp start = summandStart(accumulate);
    return in(start ? start.getX() : accumulate);
  }
  LaunchCall &keep(Value accumulate) {
    ZeroUnlessOp start = summandStart(accumulate);
    return in(start ? start.getSkip() : Value());
  }

  /// Appends only the last buffer of an operand, which is the amax of an nv
  /// value.
  LaunchCall &inAmax(Value value) {
    FailureOr<Buffers> found = emitter.lookup(value);
    isValid &= succeeded(found);
    if (succeeded(found))
      buffers.push_back(found->back());
    return *this;
  }

  /// Appends new temporaries for a result, or `absentBuffers` nulls.
  LaunchCall &out(Value result, unsigned absentBuffers = 1) {
    if (!result)
      return none(absentBuffers);
    Buffers made = emitter.takePlace(result);
    llvm::append_range(buffers, made);
    if (made.empty())
      for (const tert::BufferLayout &layout :
           tert::getBufferLayouts(result.getType())) {
        made.push_back(emitter.allocPart(op, result, layout, nextName()));
        buffers.push_back(made.back());
      }
    isValid &= !made.empty();
    emitter.bind(result, made);
    return *this;
  }

  /// Does what `out` does, and fills the result with a copy of `cached`, which
  /// the launch may leave unchanged. The copy is elided if the result becomes
  /// the next state of `cached`.
  LaunchCall &outOn(Value result, Value cached) {
    out(result);
    FailureOr<Buffers> old = emitter.lookup(cached),
                       now = emitter.lookup(result);
    isValid &= succeeded(old) && succeeded(now);
    if (isValid)
      for (auto [from, to] : llvm::zip_equal(*old, *now))
        emitter.copy(op->getLoc(), from, to);
    return *this;
  }

  /// Does what `out` does, or `outOn` if there is a `cached` value, for a
  /// scaled result of a kernel whose row has an amax.
  LaunchCall &outScaled(Value result, Value cached = {}) {
    cached ? outOn(result, cached) : out(result);
    return cast<ScaledType>(result.getType()).isNv() ? *this : none(1);
  }

  /// Does what `out` does, for `count` f32 that the kernel always writes.
  LaunchCall &outOrScratch(Value result, int64_t count) {
    if (result)
      return out(result);
    auto type =
        RankedTensorType::get({count}, emitter.getBuilder().getF32Type());
    for (const tert::BufferLayout &layout : tert::getBufferLayouts(type)) {
      buffers.push_back(emitter.alloc(op->getLoc(), nextName(),
                                      emitter.causeOf(op, op->getResult(0)),
                                      layout.bytes));
      return *this;
    }
    op->emitError() << "the runtime has no buffer for " << count
                    << " f32 beside the results";
    isValid = false;
    return none(1);
  }

  LaunchCall &none(unsigned n) {
    buffers.append(n, emitter.getNull(op->getLoc()));
    return *this;
  }

  LaunchCall &buffer(Value value) {
    buffers.push_back(value);
    return *this;
  }

  LogicalResult emit() { return success(succeeded(launch())); }

  /// As `emit`, and returns the launch.
  FailureOr<tert::LaunchOp> launch() {
    // An error was reported for the operand or result without a buffer.
    if (!isValid)
      return failure();
    return tert::LaunchOp::create(
        emitter.getBuilder(), op->getLoc(), kernel.name,
        emitter.getBuilder().getDictionaryAttr(parameters), buffers);
  }

private:
  LaunchCall &parameter(StringRef name, Attribute value) {
    parameters.push_back(emitter.getBuilder().getNamedAttr(name, value));
    return *this;
  }
  std::string nextName() const {
    return base + "." + kernel.buffers[buffers.size()].name.str();
  }

  LaunchEmitter &emitter;
  Operation *op;
  const tert::KernelInfo &kernel;
  std::string base;
  SmallVector<NamedAttribute> parameters;
  SmallVector<Value> buffers;
  bool isValid = true;
};

/// Emits the launches of an op. Each kind of op has a specialisation, in the
/// file of its family.
template <typename Op>
LogicalResult emitLaunches(Op op, LaunchEmitter &emitter);

/// The rows `first` to `first + count` of `whole` rows.
struct RowRange {
  int64_t first, count, whole;
};

/// Emits the launches of an op of te.by_rows for some rows. The buffers of its
/// operands and the places of its results are those of the rows.
LogicalResult emitRows(MatmulOp op, LaunchEmitter &emitter, RowRange rows);
LogicalResult emitRows(ScaledMatmulOp op, LaunchEmitter &emitter,
                       RowRange rows);
LogicalResult emitRows(QuantizeOp op, LaunchEmitter &emitter, RowRange rows);
LogicalResult emitRows(linalg::GenericOp op, LaunchEmitter &emitter,
                       RowRange rows);
LogicalResult emitRows(tensor::ConcatOp op, LaunchEmitter &emitter,
                       RowRange rows);

/// The gradient of logits that only `cast`, an op of te.by_rows, reads, so that
/// one launch computes and casts it; else null.
CrossEntropyBackwardOp unstoredGradient(QuantizeOp cast);

/// Whether `op` adds zeros that all of its readers, which are casts, write
/// themselves, so that it needs no launch.
bool isReadWithoutZeros(tensor::ConcatOp op);

template <typename Op>
struct KernelModel : KernelOpInterface::ExternalModel<KernelModel<Op>, Op> {
  LogicalResult emitLaunches(Operation *op, LaunchEmitter &emitter) const {
    return te::emitLaunches(cast<Op>(op), emitter);
  }
};

/// A `KernelModel` for results whose memory has another `cause`.
template <typename Op, tert::Cause cause>
struct KernelModelOf
    : KernelOpInterface::ExternalModel<KernelModelOf<Op, cause>, Op> {
  LogicalResult emitLaunches(Operation *op, LaunchEmitter &emitter) const {
    return te::emitLaunches(cast<Op>(op), emitter);
  }
  std::optional<tert::Cause> getBufferCause(Operation *) const { return cause; }
};

/// An op whose result is a view of its first operand.
template <typename Op>
struct ViewModel : KernelOpInterface::ExternalModel<ViewModel<Op>, Op> {
  LogicalResult emitLaunches(Operation *, LaunchEmitter &) const {
    return success();
  }
  Value getViewedOperand(Operation *op) const { return op->getOperand(0); }
};

template <typename... Ops> void attachKernels(MLIRContext *context) {
  (Ops::template attachInterface<KernelModel<Ops>>(*context), ...);
}

template <tert::Cause cause, typename... Ops>
void attachKernelsOf(MLIRContext *context) {
  (Ops::template attachInterface<KernelModelOf<Ops, cause>>(*context), ...);
}

template <typename... Ops> void attachViews(MLIRContext *context) {
  (Ops::template attachInterface<ViewModel<Ops>>(*context), ...);
}

/// Emits `to = from * factor` of `count` f32 and one factor.
LogicalResult emitProductWithScalar(Operation *op, int64_t count, Value from,
                                    Value factor, Value to,
                                    LaunchEmitter &emitter);

// There is one function for each family, in the file of the family.
void attachArithKernels(MLIRContext *context);
void attachAttentionKernels(MLIRContext *context);
void attachCastKernels(MLIRContext *context);
void attachByRowsKernels(MLIRContext *context);
void attachCollectiveKernels(MLIRContext *context);
void attachGroupedKernels(MLIRContext *context);
void attachLayerKernels(MLIRContext *context);
void attachLinalgKernels(MLIRContext *context);
void attachMoeKernels(MLIRContext *context);
void attachProbeKernels(MLIRContext *context);
void attachProductKernels(MLIRContext *context);
void attachTensorKernels(MLIRContext *context);

} // namespace mlir::te

#endif // TE_TRANSFORMS_CONVERTTOTERT_LAUNCHCALL_H
