//===- CastBeforeExchange.cpp - te-cast-before-exchange -------------------===//
//
// An exchange moves rows and does not change them, so a cast after it whose
// scales belong to rows that stay together is the exchange of a cast. It is
// cheaper if all casts that are read together have fewer bytes than the tensor.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Quantize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::te {
#define GEN_PASS_DEF_CASTBEFOREEXCHANGEPASS
#include "TEDialect/Transforms/Quantize/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

static RankedTensorType typeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}
static int64_t bytesOf(ScaledType type) {
  return type.getDataBytes() + type.getScaleBytes() +
         type.getNumAmaxes() * int64_t(sizeof(float));
}

namespace {

/// An exchange of rows, and the readers of the resulting matrix.
class Exchange {
public:
  explicit Exchange(AllToAllOp op) : op(op) {}

  /// Finds the readers. Returns the reason why one of them is not a cast that
  /// can be moved before the exchange, or "".
  std::string findCasts() {
    ArrayRef<int64_t> shape = typeOf(op.getY()).getShape();
    matrix = op.getY();
    if (shape.size() == 3 && op.getSplit() < 2 && op.getConcat() < 2 &&
        op.getY().hasOneUse())
      if (auto view =
              dyn_cast<tensor::CollapseShapeOp>(*op.getY().getUsers().begin());
          view && typeOf(view.getResult()).getRank() == 2 &&
          typeOf(view.getResult()).getDimSize(1) == shape[2])
        matrix = view.getResult();
    if (typeOf(matrix).getRank() != 2 ||
        (matrix == op.getY() && (op.getSplit() != 0 || op.getConcat() != 0)))
      return "it is not a matrix of rows";
    for (Operation *user : matrix.getUsers()) {
      if (auto quantize = dyn_cast<QuantizeOpInterface>(user)) {
        if (!llvm::is_contained(casts, quantize))
          casts.push_back(quantize);
      } else if (isRowAmax(user)) {
        amaxes.push_back(user);
      } else {
        return llvm::formatv("'{0}' reads it", user->getName());
      }
    }
    if (casts.empty())
      return "no cast reads it";
    for (QuantizeOpInterface quantize : casts)
      if (std::string refusal = refuse(quantize); !refusal.empty())
        return refusal;
    return {};
  }

  int64_t tensorBytes() { return bytesOf(typeOf(op.getX())); }
  int64_t castBytes() {
    int64_t sum = 0;
    for (QuantizeOpInterface quantize : casts)
      for (Value usage : quantize.getUsages())
        sum += bytesOf(cast<ScaledType>(usage.getType()));
    return sum;
  }

  /// Moves the casts before the exchange.
  void move() {
    OpBuilder builder(op);
    Value sent = rowsSent(builder);
    for (QuantizeOpInterface quantize : casts) {
      SmallVector<Type> types;
      for (Value usage : quantize.getUsages())
        types.push_back(cast<ScaledType>(usage.getType()).getInGroups(0));
      Value amax;
      if (Value given = quantize.getGivenAmax())
        amax =
            AmaxRowsOp::create(builder, given.getLoc(), given.getType(), sent);
      CastArgs args;
      args.givenAmax = amax;
      args.amaxEpsilon = quantize.getAmaxEpsilon().convertToFloat();
      args.fourOverSix = quantize.getFourOverSix();
      auto before =
          QuantizeOp::create(builder, quantize.getLoc(), types, sent, args);
      for (auto [made, usage] :
           llvm::zip_equal(before.getUsages(), quantize.getUsages())) {
        const bool isGrouped = cast<ScaledType>(usage.getType()).isGrouped();
        auto exchanged = AllToAllOp::create(
            builder, op.getLoc(), usage.getType(), made, op.getGroup(),
            isGrouped ? op.getSplit() : 0, isGrouped ? op.getConcat() : 0);
        usage.replaceAllUsesWith(exchanged.getY());
      }
      quantize->erase();
    }
    for (Operation *amax : amaxes)
      amax->erase();
    if (matrix != op.getY())
      matrix.getDefiningOp()->erase();
    op.erase();
  }

private:
  /// Whether `user` computes amaxes of rows that only casts read.
  bool isRowAmax(Operation *user) {
    return isa<AmaxRowsOp>(user) &&
           llvm::all_of(user->getUsers(), [&](Operation *reader) {
             auto quantize = dyn_cast<QuantizeOpInterface>(reader);
             return quantize && quantize.getX() == matrix;
           });
  }

  std::string refuse(QuantizeOpInterface quantize) {
    if (Value given = quantize.getGivenAmax()) {
      auto amax = given.getDefiningOp<AmaxRowsOp>();
      if (!amax || amax.getX() != matrix)
        return "a cast reads the amax of another tensor";
    }
    for (Value usage : quantize.getUsages()) {
      auto type = cast<ScaledType>(usage.getType());
      if (type.getScheme() == Scheme::PerTensor ||
          (type.isNv() && !type.is(ScaleVariant::RowScaled)))
        return llvm::formatv("a scale of '{0}' depends on rows of all ranks",
                             stringifyScheme(type.getScheme()));
      if (type.isGrouped() && typeOf(op.getX()).getRank() == 2)
        return "the exchange has no groups, but a cast has";
      if (type.isGrouped() && type.getGroups() != groupsReceived())
        return llvm::formatv("{0} groups are received, but a cast has {1}",
                             groupsReceived(), type.getGroups());
      if (!type.isGrouped() && !isOneRun())
        return "rows of several groups are received, but a cast has none";
      // The exchange of the cast will check the same.
      if (std::string refusal =
              AllToAllOp::refuseRuns(type.getInGroups(0), runRows());
          !refusal.empty())
        return refusal;
    }
    if (quantize.getAmax() || quantize.getRng() || quantize.getSkip())
      return "a cast is stochastic or cached, or measures its tensor";
    return {};
  }

  int64_t ranks() { return lookupGroup(op, op.getGroup()).getSize(); }
  int64_t groupsReceived() { return typeOf(op.getY()).getDimSize(0); }
  /// Whether the data sent to, and received from, each rank is one run of rows.
  bool isOneRun() {
    auto firstSize = [](Value tensor) {
      auto type = typeOf(tensor);
      return type.getRank() == 3 ? type.getDimSize(0) : 1;
    };
    if (op.getSplit() == 0 && op.getConcat() == 0)
      return true;
    return op.getSplit() == 0
               ? firstSize(op.getY()) == 1
               : op.getConcat() == 0 && firstSize(op.getX()) == 1;
  }
  int64_t runRows() {
    auto type = typeOf(op.getX());
    if (type.getRank() == 2 || (op.getSplit() == 0 && op.getConcat() == 0))
      return typeOf(matrix).getDimSize(0) / ranks();
    const int64_t rows = type.getDimSize(1);
    return op.getSplit() == 1 ? rows / ranks() : rows;
  }

  /// The tensor that is sent, as a matrix.
  Value rowsSent(OpBuilder &builder) {
    Value x = op.getX();
    if (typeOf(x).getRank() == 2)
      return x;
    if (auto view = x.getDefiningOp<tensor::ExpandShapeOp>();
        view && view.getSrc().getType() == matrix.getType())
      return view.getSrc();
    return tensor::CollapseShapeOp::create(
        builder, op.getLoc(), x, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  }

  AllToAllOp op;
  Value matrix;
  SmallVector<QuantizeOpInterface> casts;
  /// Amaxes of rows that only the casts read.
  SmallVector<Operation *> amaxes;
};

struct CastBeforeExchange final
    : te::impl::CastBeforeExchangePassBase<CastBeforeExchange> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AllToAllOp> exchanges;
    getOperation().walk([&](AllToAllOp op) {
      if (isa<RankedTensorType>(op.getX().getType()) &&
          lookupGroup(op, op.getGroup()).getSize() > 1)
        exchanges.push_back(op);
    });
    for (AllToAllOp op : exchanges) {
      Exchange exchange(op);
      const std::string name = describeValue(op.getX());
      const Location loc = op.getLoc();
      auto options = remark::RemarkOpts::name("exchange-precision")
                         .category("te-cast-before-exchange")
                         .function(getOperation().getName());
      if (std::string refusal = exchange.findCasts(); !refusal.empty()) {
        remark::missed(loc, options)
            << remark::add("'{0}' is exchanged in high precision, {1} bytes",
                           name, exchange.tensorBytes())
            << remark::reason("{0}", refusal);
        continue;
      }
      const int64_t before = exchange.tensorBytes(),
                    after = exchange.castBytes();
      if (after >= before) {
        remark::missed(loc, options)
            << remark::add("'{0}' is exchanged in high precision, {1} bytes",
                           name, before)
            << remark::reason("its casts together have {0} bytes", after);
        continue;
      }
      exchange.move();
      ++numMoved;
      bytesSaved += before - after;
      remark::passed(loc, options) << remark::add(
          "'{0}' is cast before it is exchanged, {1} bytes instead of {2}",
          name, after, before);
    }
  }
};

} // namespace
