//===- Amax.cpp - amaxes that generated code measures ---------------------===//
//
// The runtime sets an amax to 0 before the launch. The bits of floats that are
// not negative have the order of the floats, so that each thread of a CPU and
// each block of a GPU raises it with one atomic maximum of integers, and the
// result does not depend on their order.
//
//===----------------------------------------------------------------------===//

#include "CodeEmitter.h"

using namespace mlir;
using namespace mlir::te;

/// In shared memory, the parts of the warps of a block for each amax.
static constexpr StringLiteral kPartsOfWarps = "te_amaxes_of_warps";
static constexpr int64_t kWarp = 32, kMostWarps = 32, kMostOutputs = 4;

int32_t CodeEmitter::getAmaxes() const {
  int32_t bits = 0;
  for (unsigned i = 0; i < outputs.size(); ++i)
    bits |= amaxOf(i) ? 1 << i : 0;
  return bits;
}

void CodeEmitter::beginAmaxes() {
  const Type f32 = b.getF32Type();
  amaxes.clear();
  for (auto op : body.getOps<tert::AmaxOp>()) {
    // LLVM keeps it in a register.
    Value part = LLVM::AllocaOp::create(
        b, loc, LLVM::LLVMPointerType::get(b.getContext()), f32, wide(1));
    LLVM::StoreOp::create(
        b, loc, LLVM::ConstantOp::create(b, loc, f32, b.getF32FloatAttr(0.0f)),
        part);
    amaxes[op] = part;
  }
}

void CodeEmitter::raise(tert::AmaxOp op, Value x) {
  const Type f32 = b.getF32Type();
  Value part = amaxes.lookup(op);
  Value before = LLVM::LoadOp::create(b, loc, f32, part);
  Value magnitude = LLVM::FAbsOp::create(b, loc, x);
  Value isLarger =
      LLVM::FCmpOp::create(b, loc, LLVM::FCmpPredicate::ogt, magnitude, before);
  LLVM::StoreOp::create(
      b, loc, LLVM::SelectOp::create(b, loc, isLarger, magnitude, before),
      part);
}

/// Raises the integer at `pointer` to `bits`.
static void raiseInMemory(OpBuilder &b, Location loc, Value pointer, Value bits,
                          StringRef scope) {
  LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::umax, pointer, bits,
                            LLVM::AtomicOrdering::monotonic, scope,
                            /*alignment=*/4);
}

void CodeEmitter::endAmaxes() {
  for (unsigned i = 0; i < outputs.size(); ++i)
    if (tert::AmaxOp op = amaxOf(i))
      raiseInMemory(
          b, loc, pointers[inputs.size() + i],
          LLVM::LoadOp::create(b, loc, b.getI32Type(), amaxes.lookup(op)), "");
}

void CodeEmitter::endAmaxesOfBlock() {
  if (amaxes.empty())
    return;
  const Type i32 = b.getI32Type();
  const int64_t warps = getBlock() / kWarp;
  assert(warps <= kMostWarps && outputs.size() <= kMostOutputs);
  Value parts = getSharedArray(kPartsOfWarps, i32, kMostOutputs * kMostWarps);
  Value thread = special("tid.x");
  auto isZero = [&](Value value) -> Value {
    return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, value,
                                wide(0));
  };
  auto partAt = [&](unsigned i, Value warp) {
    return at(parts, i32, add(warp, wide(i * kMostWarps)));
  };
  for (unsigned i = 0; i < outputs.size(); ++i)
    if (tert::AmaxOp op = amaxOf(i)) {
      Value bits = LLVM::LoadOp::create(b, loc, i32, amaxes.lookup(op));
      Value ofWarp =
          intrinsic("llvm.nvvm.redux.sync.umax", i32, {bits, number(i32, -1)});
      Value lane = LLVM::AndOp::create(b, loc, thread, wide(kWarp - 1));
      Value warp = LLVM::LShrOp::create(b, loc, thread, wide(5));
      emitIf(isZero(lane),
             [&] { LLVM::StoreOp::create(b, loc, ofWarp, partAt(i, warp)); });
    }
  emitBarrier();
  emitIf(isZero(thread), [&] {
    for (unsigned i = 0; i < outputs.size(); ++i) {
      if (!amaxOf(i))
        continue;
      Value ofBlock;
      for (int64_t warp = 0; warp < warps; ++warp) {
        Value part = LLVM::LoadOp::create(b, loc, i32, partAt(i, wide(warp)));
        ofBlock =
            ofBlock ? intrinsic("llvm.umax.i32", i32, {ofBlock, part}) : part;
      }
      // It only grows, so a stale value read here costs at most an atomic.
      Value pointer = pointers[inputs.size() + i];
      Value before = LLVM::LoadOp::create(b, loc, i32, pointer, /*alignment=*/4,
                                          /*isVolatile=*/true);
      Value isLarger = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ugt,
                                            ofBlock, before);
      emitIf(isLarger,
             [&] { raiseInMemory(b, loc, pointer, ofBlock, "device"); });
    }
  });
}
