//===- RowPasses.cpp - what each pass over a row computes -----------------===//

#include "RowPasses.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/GeneratedBody.h"

using namespace mlir;
using namespace mlir::te;

/// The size of code from which on a value is kept.
static constexpr unsigned kLargeCode = 8;

static unsigned codeOf(Operation &op) {
  return tert::getCodeSize(op.getName().getStringRef());
}

RowPasses::RowPasses(Block &body, ArrayRef<AffineMap> maps, bool keepsValues)
    : ofRow(tert::getValuesOfRows(body, maps)) {
  for (Operation &op : body.without_terminator()) {
    unsigned pass = 0;
    for (Value operand : op.getOperands())
      pass = std::max(pass, ready.lookup(operand));
    auto reduction = dyn_cast<tert::RowReduceOp>(op);
    if (reduction) {
      reductions.resize(std::max<size_t>(reductions.size(), pass + 1));
      reductions[pass].push_back(reduction);
    }
    ready[op.getResult(0)] = pass + (reduction ? 1 : 0);
  }
  last = reductions.size() - 1;
  ArrayRef<AffineMap> outputs = maps.drop_front(body.getNumArguments());
  for (auto [map, value] :
       llvm::zip_equal(outputs, body.getTerminator()->getOperands()))
    if (map.isIdentity() || value.getDefiningOp<tert::AmaxOp>())
      last = std::max(last, ready.lookup(value));
  reductions.resize(last + 1);
  for (unsigned pass = 0; pass <= last; ++pass)
    findUses(body, pass, keepsValues);

  for (unsigned pass = 0; pass < last; ++pass) {
    auto isUsedLater = [&](Value value) {
      return !isOfRow(value) &&
             llvm::any_of(
                 ArrayRef(used).drop_front(pass + 1),
                 [&](const auto &later) { return later.contains(value); });
    };
    int64_t bits = 0;
    for (BlockArgument argument : body.getArguments())
      if (isUsedLater(argument))
        bits += argument.getType().getIntOrFloatBitWidth();
    for (Value value : kept)
      if (firstUse.lookup(value) <= pass && isUsedLater(value))
        bits += value.getType().getIntOrFloatBitWidth();
    keptBits = std::max(keptBits, bits);
  }
}

void RowPasses::findUses(Block &body, unsigned pass, bool keepsValues) {
  llvm::DenseSet<Value> &uses = used.emplace_back();
  for (tert::RowReduceOp reduction : reductions[pass])
    uses.insert(reduction.getX());
  if (pass == last)
    uses.insert_range(body.getTerminator()->getOperands());
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    Value value = op.getResult(0);
    if (isOfRow(value) || !uses.contains(value))
      continue;
    if (!firstUse.try_emplace(value, pass).second && keepsValues &&
        codeOf(op) >= kLargeCode) {
      kept.insert(value);
      continue;
    }
    code += codeOf(op);
    uses.insert_range(op.getOperands());
  }
}
