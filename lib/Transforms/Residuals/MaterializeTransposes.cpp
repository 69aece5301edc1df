//===- MaterializeTransposes.cpp - when to compute a weight's columns -----===//
//
// If its type allows it, the column usage of a weight is a permutation of its
// row usage. Keeping only the rows and permuting them for dgrad costs a pass
// over the bytes and saves the memory of the columns, unless the columns are
// all that is kept; the bits are the same.
// TransposePolicy decides which columns are kept for which uses; this file
// finds and rewrites the uses. All positions are determined before anything
// moves.
//
//===----------------------------------------------------------------------===//

#include "RematPlan.h"
#include "TransposePolicy.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/Support.h"
#include "TEDialect/Transforms/Residuals/Passes.h"
#include "TEDialect/Transforms/TargetOption.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

#include <array>

namespace mlir::te {
#define GEN_PASS_DEF_MATERIALIZETRANSPOSESPASS
#include "TEDialect/Transforms/Residuals/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

namespace {

/// One op that reads columns, directly or through a residual.
struct ColumnReader {
  Operation *op;
  /// The last residual between the columns and the op, or null.
  ResidualOp residual;
};

/// The column cast of a weight, the row cast that it could be derived from, and
/// the readers of the columns, in program order.
struct Column {
  QuantizeOp cast, rows;
  SmallVector<ColumnReader> readers;
};

} // namespace

/// True for the column cast of a weight whose columns follow from its rows. A
/// cast that also measures is needed anyway, and a cast that rounds
/// stochastically has random bits of its own.
static bool isDerivable(QuantizeOp cast) {
  auto type = mlir::cast<ScaledType>(cast.getUsages()[0].getType());
  return cast.getUsages().size() == 1 && !cast.getAmax() && !cast.getRng() &&
         type.getContract() == 0 && type.isTransposeExact() &&
         isWeight(cast.getX());
}

static int64_t bytesOf(ScaledType type) {
  return type.getDataBytes() + type.getScaleBytes() +
         type.getNumAmaxes() * static_cast<int64_t>(sizeof(float));
}

/// The cast of the same tensor as `column` whose result is the row usage, or
/// null.
static QuantizeOp findRowCast(QuantizeOp column) {
  auto type =
      cast<ScaledType>(column.getUsages()[0].getType()).getTransposedUsage();
  for (Operation *user : column.getX().getUsers()) {
    auto row = dyn_cast<QuantizeOp>(user);
    if (row && row->getBlock() == column->getBlock() &&
        row->isBeforeInBlock(column) && row.getUsages().size() == 1 &&
        row.getUsages()[0].getType() == type &&
        row.getScale() == column.getScale() &&
        row.getGivenAmax() == column.getGivenAmax() && !row.getRng() &&
        row.getRoundedAttr() == column.getRoundedAttr() &&
        row.getAmaxEpsilonAttr() == column.getAmaxEpsilonAttr() &&
        row.getFourOverSixAttr() == column.getFourOverSixAttr())
      return row;
  }
  return {};
}

/// Appends the readers of `columns`; fails if one is in another block.
static LogicalResult collectReaders(Value columns, ResidualOp residual,
                                    SmallVector<ColumnReader> &readers) {
  for (Operation *user : columns.getUsers()) {
    if (user->getBlock() != columns.getParentBlock())
      return failure();
    if (auto next = dyn_cast<ResidualOp>(user)) {
      if (failed(collectReaders(next.getHeld(), next, readers)))
        return failure();
    } else if (!llvm::is_contained(
                   llvm::map_range(readers,
                                   [](auto &reader) { return reader.op; }),
                   user)) {
      readers.push_back({user, residual});
    }
  }
  return success();
}

/// Every column cast for which the policy decides when it is transposed.
static SmallVector<Column> collectColumns(func::FuncOp function) {
  SmallVector<Column> columns;
  function.walk([&](QuantizeOp cast) {
    Column column{cast, {}, {}};
    if (!isDerivable(cast) ||
        failed(collectReaders(cast.getUsages()[0], {}, column.readers)) ||
        column.readers.empty())
      return;
    // If nothing reads the rows, only the columns are needed.
    column.rows = findRowCast(cast);
    if (!column.rows)
      return;
    columns.push_back(std::move(column));
  });
  return columns;
}

/// True if no row of `rows` is saved for a backward or returned.
static bool isReadByForwardOnly(QuantizeOp rows) {
  return llvm::none_of(rows.getUsages()[0].getUsers(), [](Operation *user) {
    return isa<ResidualOp>(user) || user->hasTrait<OpTrait::IsTerminator>();
  });
}

namespace {
struct MaterializeTransposes final
    : te::impl::MaterializeTransposesPassBase<MaterializeTransposes> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    Location loc = UnknownLoc::get(context);
    constexpr std::array<StringLiteral, 4> policies = {"on-demand", "cached",
                                                       "budget", "eager"};
    if (!llvm::is_contained(policies, policy))
      return emitError(loc)
             << "expected option 'policy' of 'te-materialize-transposes' to "
                "be 'on-demand', 'cached', 'budget' or 'eager', but got '"
             << policy.getValue() << "'";
    if ((policy == "budget") != (transposeBudget >= 0))
      return emitError(loc)
             << "expected a 'transpose-budget' exactly with transpose policy "
                "'budget', but got "
             << (transposeBudget >= 0 ? Twine(transposeBudget) : Twine("none"))
             << " with '" << policy.getValue() << "'";
    return checkTargetOption(context, getArgument(), target.getValue());
  }

  void runOnOperation() override {
    SmallVector<Column> columns = collectColumns(getOperation());
    SmallVector<ColumnUses> uses = number(columns);
    SmallVector<KeptUses> kept = choose(uses);
    for (auto [column, columnUses, choice] :
         llvm::zip_equal(columns, uses, kept)) {
      explain(column, columnUses, choice);
      materialize(column, choice);
    }
  }

  /// Sorts the readers and gives their positions in the function.
  SmallVector<ColumnUses> number(MutableArrayRef<Column> columns) {
    DenseMap<Operation *, unsigned> events;
    getOperation().walk<WalkOrder::PreOrder>(
        [&](Operation *op) { events.try_emplace(op, events.size()); });
    return llvm::map_to_vector(columns, [&](Column &column) {
      llvm::sort(column.readers, [&](auto &a, auto &b) {
        return events.lookup(a.op) < events.lookup(b.op);
      });
      return ColumnUses{
          bytesOf(cast<ScaledType>(column.cast.getUsages()[0].getType())),
          events.lookup(column.cast),
          llvm::map_to_vector(
              column.readers,
              [&](auto &reader) { return events.lookup(reader.op); }),
          !rowsAreKept && column.readers.size() == 1 &&
              isReadByForwardOnly(column.rows)};
    });
  }

  /// The part of the budget that residuals leave for columns. Residuals come
  /// first, because a column is cheaper to compute again than other values: it
  /// moves twice its bytes, while another repeated op reads all its operands
  /// and writes no less than it frees.
  int64_t bytesLeft() {
    int64_t left = transposeBudget;
    for (Block &block : getOperation().getBody())
      if (!block.getOps<ResidualOp>().empty())
        left -= RematPlan(block).getHeldBytes();
    remark::analysis(getOperation().getLoc(), remarkOptions()) << remark::add(
        "of {0} bytes to save, {1} are left for columns of weights",
        transposeBudget.getValue(), std::max<int64_t>(left, 0));
    return left;
  }

  SmallVector<KeptUses> choose(ArrayRef<ColumnUses> uses) {
    if (policy == "eager")
      return keepEager(uses);
    if (policy == "cached")
      return keepCached(uses);
    if (policy == "on-demand")
      return keepOnDemand(uses);
    int64_t left = bytesLeft();
    return left < smallestColumnBudget(uses) ? keepOnDemand(uses)
                                             : keepWithin(uses, left);
  }

  /// Creates a transpose for every reader that does not use kept columns.
  void materialize(Column &column, ArrayRef<bool> kept) {
    if (llvm::all_of(kept, [](bool keep) { return keep; }))
      return;
    Value row = column.rows.getUsages()[0];
    DenseMap<Operation *, Value> heldRows;
    Value current;
    for (auto [reader, keep] : llvm::zip_equal(column.readers, kept)) {
      Value columns = reader.residual ? reader.residual.getHeld()
                                      : column.cast.getUsages()[0];
      // The reader uses the result of the cast already.
      if (keep && !current)
        continue;
      if (!keep) {
        Value held = row;
        if (reader.residual)
          held = holdRow(row, reader.residual, heldRows);
        OpBuilder builder(reader.op);
        current = TransposeOp::create(builder, reader.op->getLoc(),
                                      columns.getType(), held);
        ++numTransposes;
      }
      reader.op->replaceUsesOfWith(columns, current);
    }
    eraseUnused(column.cast);
  }

  /// Saves `row` in a residual before `residual`, which saves its columns.
  Value holdRow(Value row, ResidualOp residual,
                DenseMap<Operation *, Value> &heldRows) {
    Value &held = heldRows[residual];
    if (!held) {
      OpBuilder builder(residual);
      held = ResidualOp::create(builder, residual.getLoc(), row.getType(), row,
                                residual.getNameAttr());
    }
    return held;
  }

  /// Erases `op` and the residuals that read it, if they have no uses.
  static void eraseUnused(Operation *op) {
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      eraseUnused(user);
    if (op->use_empty() && isa<QuantizeOp, ResidualOp>(op))
      op->erase();
  }

  /// Describes when the columns of one weight are computed.
  static std::string describe(ArrayRef<bool> kept) {
    size_t numMade = llvm::count(kept, false), numUses = kept.size();
    if (numMade == 0)
      return "in the forward and saved";
    if (numUses == 1)
      return "directly before their use";
    if (numMade == numUses)
      return llvm::formatv("directly before each of their {0} uses", numUses);
    if (numMade == 1 && !kept.front())
      return llvm::formatv("before the first of their {0} uses and kept",
                           numUses);
    return llvm::formatv("{0} and before {1} of their {2} uses",
                         kept.front() ? "in the forward" : "before the first",
                         numMade - !kept.front(), numUses);
  }

  remark::RemarkOpts remarkOptions() {
    return remark::RemarkOpts::name("weight-transpose")
        .category("te-materialize-transposes")
        .function(getOperation().getName());
  }

  void explain(Column &column, const ColumnUses &uses, ArrayRef<bool> kept) {
    std::string name = describeValue(column.cast.getX());
    Location loc = column.cast.getLoc();
    remark::RemarkOpts options = remarkOptions();
    remark::passed(loc, options)
        << remark::add("columns of '{0}' are computed {1}, moving {2} bytes",
                       name, describe(kept), bytesMoved(uses, kept));
    auto type = mlir::cast<ScaledType>(column.cast.getUsages()[0].getType());
    if (target == "sm_100" && type.getScheme() == Scheme::PerTensor)
      remark::missed(loc, options)
          << remark::add("columns of '{0}' are computed although sm_100 could "
                         "contract the rows",
                         name);
  }
};
} // namespace
