//===- ElementCode.cpp - code of elementwise launches ---------------------===//
//
// A thread of the GPU kernel computes several vectors of 8 to 32 bytes. It
// issues the loads of all vectors before it computes the first result. The last
// block, if it is not full, and launches whose buffers are not aligned compute
// one element at a time.
//
//===----------------------------------------------------------------------===//

#include "CodeEmitter.h"

using namespace mlir;
using namespace mlir::te;

/// The threads per block and the elements per thread.
static constexpr int32_t kBlock = 256, kElements = 16;

namespace {

class ElementCode final : public CodeEmitter {
public:
  using CodeEmitter::CodeEmitter;

  int32_t getBlock() const override { return kBlock; }
  int32_t getBlockElements() const override { return kBlock * kElements; }

private:
  void emitHostBody(Value begin, Value end) override;
  void emitDeviceBody(Value count, Value aligned) override;

  /// Emits the body for one element of each input, for the element `index` of
  /// the outputs, and returns its results, without amaxes.
  SmallVector<Value> compute(ValueRange elements, Value index);
  /// Emits code that loads, computes and stores the element `index`.
  void computeElement(Value index);
  /// The same for the vectors of a thread, each `kBlock` after the one before.
  void computeVectors(Value first, Value thread);
};

} // namespace

std::unique_ptr<CodeEmitter> te::createElementCode(func::FuncOp step,
                                                   tert::LaunchOp launch,
                                                   StringRef name) {
  return std::make_unique<ElementCode>(step, launch, name);
}

SmallVector<Value> ElementCode::compute(ValueRange elements, Value index) {
  DenseMap<Value, Value> values;
  for (auto [argument, element] :
       llvm::zip_equal(body.getArguments(), elements))
    values[argument] = element;
  auto of = [&](Value value) { return values.lookup(value); };
  for (Operation &op : body.without_terminator())
    if (auto amax = dyn_cast<tert::AmaxOp>(op))
      raise(amax, of(amax.getX()));
    else
      values[op.getResult(0)] =
          computeOp(op, llvm::map_to_vector(op.getOperands(), of), index);
  return llvm::map_to_vector(body.getTerminator()->getOperands(), of);
}

void ElementCode::computeElement(Value index) {
  SmallVector<Value> elements;
  for (unsigned i = 0; i < inputs.size(); ++i)
    elements.push_back(load(i, index));
  for (auto [i, result] : llvm::enumerate(compute(elements, index)))
    if (isOutputOfAll(i))
      store(i, index, result);
}

void ElementCode::emitHostBody(Value begin, Value end) {
  emitLoop(begin, end, 1, {},
           [&](Value index, ValueRange) -> SmallVector<Value> {
             computeElement(index);
             return {};
           });
}

void ElementCode::computeVectors(Value first, Value thread) {
  // A vector has 16 bytes in the widest type of the outputs: the stores of a
  // warp have no gaps. Wider inputs take two loads, whose gaps the cache fills.
  unsigned widest = 16;
  for (auto [i, type] : llvm::enumerate(outputs))
    if (isOutputOfAll(i))
      widest = std::max(widest, type.getIntOrFloatBitWidth());
  const int64_t length = 128 / widest, vectors = kElements / length;
  SmallVector<Value> places;
  SmallVector<SmallVector<SmallVector<Value>>> loaded(vectors);
  for (int64_t v = 0; v < vectors; ++v) {
    places.push_back(
        add(first, multiply(add(thread, wide(v * kBlock)), length)));
    for (unsigned i = 0; i < inputs.size(); ++i)
      loaded[v].push_back(loadRun(i, places.back(), length));
  }
  for (int64_t v = 0; v < vectors; ++v) {
    SmallVector<Value> results = emptyVectors(length);
    for (int64_t lane = 0; lane < length; ++lane) {
      SmallVector<Value> elements = llvm::map_to_vector(
          loaded[v], [&](ArrayRef<Value> run) { return run[lane]; });
      for (auto [i, element] :
           llvm::enumerate(compute(elements, add(places[v], wide(lane)))))
        if (isOutputOfAll(i))
          results[i] = insert(results[i], element, lane);
    }
    for (auto [i, vector] : llvm::enumerate(results))
      if (isOutputOfAll(i))
        storeVector(i, places[v], vector, length);
  }
}

void ElementCode::emitDeviceBody(Value count, Value aligned) {
  Value thread = special("tid.x");
  Value first = multiply(special("ctaid.x"), kBlock * kElements);
  Value end = add(first, wide(kBlock * kElements));
  Value isFull =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::sle, end, count);
  Value fast = LLVM::AndOp::create(b, loc, isFull, aligned);
  emitIfElse(
      fast, [&] { computeVectors(first, thread); },
      [&] {
        Value last = LLVM::SMinOp::create(b, loc, end, count);
        emitLoop(add(first, thread), last, kBlock, {},
                 [&](Value index, ValueRange) -> SmallVector<Value> {
                   computeElement(index);
                   return {};
                 });
      });
}
