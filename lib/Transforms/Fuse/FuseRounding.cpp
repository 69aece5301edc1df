//===- FuseRounding.cpp - casts that round master weights themselves ------===//
//
// A cast of f32 reads 4 bytes an element. Rounding first moves 4 and 2, and
// each cast reads 2 more. So the fusion moves fewer bytes for one or two casts.
// For one cast with an amax it moves as many, but what was rounded may still be
// in the cache of the GPU when it is cast. Cached casts read nothing in most
// micro-batches, where rounding would still be done.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/IR/TE.h"
#include "TEDialect/Transforms/Fuse/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::te {
#define GEN_PASS_DEF_FUSEROUNDINGPASS
#include "TEDialect/Transforms/Fuse/Passes.h.inc"
} // namespace mlir::te

using namespace mlir;
using namespace mlir::te;

/// Why a reader of rounded values cannot round them itself, or an empty text.
static std::string whyNot(Operation *reader) {
  if (isa<AmaxOp>(reader))
    return "";
  auto cast = dyn_cast<QuantizeOp>(reader);
  if (!cast)
    return ("'" + reader->getName().getStringRef() + "' reads the result too")
        .str();
  const ScaledType type = cast.getUsageType();
  if (type.getScheme() != Scheme::PerTensor &&
      type.getScheme() != Scheme::Block128x128)
    return ("a cast has the scheme '" + stringifyScheme(type.getScheme()) + "'")
        .str();
  return isa<Float8E4M3FNType>(type.getElementType())
             ? ""
             : "a cast is not to f8E4M3FN";
}

/// Whether an op that is none of `readers`, such as the update of a weight,
/// reads `argument` before the last of them. Were the argument read so late,
/// the update could not be in place.
static bool isReadBetween(BlockArgument argument,
                          ArrayRef<Operation *> readers) {
  return llvm::any_of(argument.getUsers(), [&](Operation *user) {
    return !isa<arith::TruncFOp>(user) &&
           llvm::any_of(readers, [&](Operation *reader) {
             return user->getBlock() == reader->getBlock() &&
                    user->isBeforeInBlock(reader);
           });
  });
}

/// The same for all readers of what is rounded from `argument`.
static std::string whyNot(BlockArgument argument,
                          ArrayRef<Operation *> readers) {
  for (Operation *reader : readers)
    if (std::string why = whyNot(reader); !why.empty())
      return why;
  if (isReadBetween(argument, readers))
    return "an op that may update the argument comes before a cast";
  const bool areCached = llvm::all_of(readers, [](Operation *reader) {
    return static_cast<bool>(cast<SkippableOpInterface>(reader).getSkip());
  });
  if (areCached)
    return "";
  if (llvm::any_of(readers, llvm::IsaPred<AmaxOp>))
    return "an amax would read it a second time";
  return readers.size() <= 2 ? "" : "it would be read more often";
}

namespace {
struct FuseRounding final : te::impl::FuseRoundingPassBase<FuseRounding> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](arith::TruncFOp op) { tryFuse(op); });
  }

  void tryFuse(arith::TruncFOp op) {
    // What is computed need not be stored in f32.
    auto argument = dyn_cast<BlockArgument>(op.getIn());
    if (!argument || argument.getOwner()->getParentOp() != getOperation() ||
        !getElementTypeOrSelf(op.getIn().getType()).isF32() ||
        !getElementTypeOrSelf(op.getType()).isBF16() || op.getRoundingmode() ||
        llvm::none_of(op->getUsers(), llvm::IsaPred<QuantizeOp>))
      return;
    const auto readers = llvm::to_vector(op->getUsers());
    const std::string why = whyNot(argument, readers);
    auto options = remark::RemarkOpts::name("rounding")
                       .category("te-fuse-rounding")
                       .function(getOperation().getName());
    if (!why.empty()) {
      remark::missed(op.getLoc(), options)
          << remark::add("'{0}' is not fused with its readers",
                         op->getName().getStringRef())
          << remark::reason("{0}", why);
      return;
    }
    remark::passed(op.getLoc(), options) << remark::add(
        "'{0}' is fused with its readers", op->getName().getStringRef());
    for (Operation *reader : readers)
      llvm::TypeSwitch<Operation *>(reader).Case<AmaxOp, QuantizeOp>(
          [&](auto reader) {
            reader.setRounded(getElementTypeOrSelf(op.getType()));
            reader.getXMutable().assign(op.getIn());
          });
    op.erase();
    ++numFused;
  }
};
} // namespace
