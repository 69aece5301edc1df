//===- OpMeaning.h - what an op says of itself ----------------------------===//
//
// The types of the interfaces of te ops (TEInterfaces.td), through which passes
// ask an op what they need to know instead of listing ops. Every te op declares
// them with its definition.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_IR_OPMEANING_H
#define TEDIALECT_IR_OPMEANING_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mlir::linalg {
class ReduceOp;
} // namespace mlir::linalg

namespace mlir::te {

/// How the axes of an op's operands and results relate. Each axis is of a
/// factor; axes of one factor have one size, and a part of one is a part of
/// all.
class AxisRelation {
public:
  /// An axis that is related to nothing.
  static constexpr int kNone = -1;

  struct Axis {
    int factor = kNone;
    /// How many times the size of the factor; 0 for as many as there are.
    int64_t times = 1;
  };

  /// A ranked tensor with an `Axis` for each of its axes.
  struct Entry {
    Value value;
    StringRef name;
    SmallVector<Axis, 3> axes;

    bool has(int factor) const { return find(factor).has_value(); }
    /// Which axis is of `factor`; nothing where none is.
    std::optional<int64_t> find(int factor) const {
      const auto *found =
          llvm::find_if(axes, [&](Axis axis) { return axis.factor == factor; });
      if (factor == kNone || found == axes.end())
        return std::nullopt;
      return found - axes.begin();
    }
  };

  explicit AxisRelation(Operation *op) : op(op) {}

  /// Says what the axes of the operands or results `values`, called `name`,
  /// are; `text` is in the notation of TE_Axes.
  void operands(StringRef name, ValueRange values, StringRef text);
  void results(StringRef name, ValueRange values, StringRef text);
  /// Results that lack `factor` are sums over it.
  void sum(StringRef factor) { summed.push_back(factorOf(factor)); }
  /// A rank needs all of `factor`.
  void needWhole(StringRef factor) { whole.push_back(factorOf(factor)); }
  /// Rows of zeros in all these operands give rows of zeros in the results.
  void keepZerosOf(ValueRange values) { llvm::append_range(zeros, values); }

  /// The relation of an op all of whose tensors have one shape.
  static AxisRelation pointwise(Operation *op);

  ArrayRef<Entry> getOperands() const { return operandEntries; }
  ArrayRef<Entry> getResults() const { return resultEntries; }
  unsigned getNumFactors() const { return factors.size(); }
  ArrayRef<int> getSummed() const { return summed; }
  /// The operands whose zeros the results keep; none if they keep none.
  ArrayRef<Value> getZeroKeepers() const { return zeros; }
  bool needsWhole(int factor) const {
    return llvm::is_contained(whole, factor);
  }
  /// Whether an element of each result depends on one element of each operand,
  /// in the same place.
  bool isPointwise() const { return pointwiseOnly && !resultEntries.empty(); }

  /// Whether every element of the result is one of the operand.
  bool movesElements = false;

private:
  int factorOf(StringRef name);
  void add(SmallVectorImpl<Entry> &entries, StringRef name, ValueRange values,
           StringRef text);

  Operation *op;
  SmallVector<Entry, 4> operandEntries, resultEntries;
  SmallVector<std::string, 4> factors;
  SmallVector<int, 1> summed, whole;
  SmallVector<Value, 2> zeros;
  bool pointwiseOnly = true;
};

/// Whether `op` only moves elements: a reshape, slice or concatenation of
/// tensor, a broadcast or transpose of linalg, or the tensor.empty that one of
/// them writes.
bool isDataMovement(Operation *op);

/// Whether `op`, which te-legalize-input accepts, adds elements. If not, it
/// takes the largest or the smallest of them.
bool isSum(linalg::ReduceOp op);

/// What the ranks of a group have to agree on: what they give and get, and the
/// axis, or how a layer is split.
struct CollectiveCall {
  int64_t group;
  Type payload, result;
  Attribute how;
};

/// What an op makes of values over the ranks of a group.
struct GroupEffect {
  int64_t group;
  /// Whether its results differ between the ranks; else they are the same.
  bool varies;
  /// The axis along which each rank gets a part of the sum over the ranks.
  std::optional<int64_t> scatteredAxis = std::nullopt;
};

/// Groups of rows, each of which starts at a multiple of `alignment`.
struct RowGroups {
  Value sizes;
  int64_t alignment;
};

/// A new op before `op` that has, beside what `op` gives, the optional results
/// `indices` of its definition, in rising order, all of type `type`. Everything
/// that `op` gives is of the new op then; `op` stays, without users.
template <typename Op>
Op addResults(Op op, ArrayRef<unsigned> indices, Type type) {
  OpBuilder builder(op);
  OperationState state(op.getLoc(), op->getName());
  state.addOperands(op->getOperands());
  state.addAttributes(llvm::to_vector(op->getDiscardableAttrs()));
  auto &properties = state.getOrAddProperties<typename Op::Properties>();
  properties = op.getProperties();
  SmallVector<Type> types(op->getResultTypes());
  SmallVector<Value> replaced(op->getResults());
  for (auto [added, index] : llvm::enumerate(indices)) {
    const size_t place = op.getODSResultIndexAndLength(index).first + added;
    types.insert(types.begin() + place, type);
    replaced.insert(replaced.begin() + place, Value());
    if constexpr (Op::template hasTrait<OpTrait::AttrSizedResultSegments>())
      properties.resultSegmentSizes[index] = 1;
  }
  state.addTypes(types);
  auto extended = cast<Op>(builder.create(state));
  for (auto [before, after] : llvm::zip(replaced, extended->getResults()))
    if (before)
      before.replaceAllUsesWith(after);
  return extended;
}

/// `AmaxProducerOpInterface::requireAmax` of an op with `pairs` of results: a
/// tensor and its amax.
template <typename Op>
Value requireAmaxOf(
    Op op, Value rounded, Type amax,
    std::initializer_list<std::pair<unsigned, unsigned>> pairs) {
  for (auto [tensor, measured] : pairs) {
    if (!llvm::is_contained(op.getODSResults(tensor), rounded))
      continue;
    if (auto found = op.getODSResults(measured); !found.empty())
      return *found.begin();
    Op extended = addResults(op, measured, amax);
    op->erase();
    return *extended.getODSResults(measured).begin();
  }
  return {};
}

/// The attributes of `op` that its backward, `Backward`, has too.
template <typename Backward>
SmallVector<NamedAttribute> sharedAttributes(Operation *op) {
  SmallVector<NamedAttribute> shared;
  for (NamedAttribute each : op->getAttrs())
    if (llvm::is_contained(Backward::getAttributeNames(),
                           each.getName().getValue()))
      shared.push_back(each);
  return shared;
}

// What the traits that declare these in TableGen derive from.
template <typename Op>
struct DeclaresAxes : OpTrait::TraitBase<Op, DeclaresAxes> {};
template <typename Op>
struct DeclaresSavedOperands : OpTrait::TraitBase<Op, DeclaresSavedOperands> {};
template <typename Op>
struct DeclaresAmax : OpTrait::TraitBase<Op, DeclaresAmax> {};
template <typename Op>
struct DeclaresZeroPadding : OpTrait::TraitBase<Op, DeclaresZeroPadding> {};

/// The names of the registered ops of `dialect` that lack one of the interfaces
/// with which an op has to say what it means.
SmallVector<StringRef> findOpsWithoutMeaning(MLIRContext *context,
                                             StringRef dialect);

/// Gives arith, math and tensor ops their external models.
void attachMeaningOfOtherDialects(MLIRContext *context);

/// Ends the program with the name of an op of `dialect` that lacks such an
/// interface. Called when te is loaded.
void requireMeaning(MLIRContext *context, StringRef dialect);

} // namespace mlir::te

#endif // TEDIALECT_IR_OPMEANING_H
