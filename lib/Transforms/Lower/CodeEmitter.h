//===- CodeEmitter.h - functions of a launch of generated code ------------===//

#ifndef TE_TRANSFORMS_LOWER_CODEEMITTER_H
#define TE_TRANSFORMS_LOWER_CODEEMITTER_H

#include "TEDialect/TERT/TERT.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::te {

/// The stream of the first op of a launch that draws random numbers, which is
/// not part of its code but added to the streams in it; 0 if there is none.
int32_t streamOf(tert::LaunchOp launch);

/// Emits the host and the device function of a launch. Launches with and
/// without reductions of rows differ in their loops.
class CodeEmitter {
public:
  /// For functions before `step` that are called `name` and `name`_device.
  CodeEmitter(func::FuncOp step, tert::LaunchOp launch, StringRef name);
  virtual ~CodeEmitter() = default;

  void emitHost();
  void emitDevice();

  /// The threads of a block, and the elements that they compute together.
  virtual int32_t getBlock() const = 0;
  virtual int32_t getBlockElements() const = 0;
  /// The bytes of shared memory of a block.
  virtual int32_t getSharedBytes() const { return 0; }
  /// Bit i is set if output i is an amax.
  int32_t getAmaxes() const;

protected:
  /// The op of which output `i` is the amax; null for other outputs.
  tert::AmaxOp amaxOf(unsigned i) const {
    return body.getTerminator()->getOperand(i).getDefiningOp<tert::AmaxOp>();
  }
  bool isOutputOfAll(unsigned i) const {
    return maps[inputs.size() + i].isIdentity();
  }
  /// Raises `op` to `x`, its operand for one element, if that is larger.
  void raise(tert::AmaxOp op, Value x);

  /// Emits the body of the host function, which computes the elements from
  /// `begin` to before `end`.
  virtual void emitHostBody(Value begin, Value end) = 0;
  /// Emits the body of the kernel for `count` elements. `aligned`, an i1, says
  /// whether all pointers are multiples of 16.
  virtual void emitDeviceBody(Value count, Value aligned) = 0;

  /// A loop over `begin`, `begin` + `step`, ... before `end`. `body` has the
  /// insertion point in the loop; it takes the place and the values that the
  /// iteration before left, and returns those that it leaves. Returns the last.
  using LoopBody = function_ref<SmallVector<Value>(Value, ValueRange)>;
  SmallVector<Value> emitLoop(Value begin, Value end, int64_t step,
                              ValueRange initial, LoopBody body);
  void emitIf(Value condition, function_ref<void()> body);
  void emitIfElse(Value condition, function_ref<void()> then,
                  function_ref<void()> otherwise);
  /// `values` if `condition`, else those that `replace` computes.
  SmallVector<Value> emitUnless(Value condition, ValueRange values,
                                function_ref<SmallVector<Value>()> replace);

  Value number(Type type, int64_t value) {
    return LLVM::ConstantOp::create(b, loc, type,
                                    b.getIntegerAttr(type, value));
  }
  Value wide(int64_t value) { return number(b.getI64Type(), value); }
  Value intrinsic(StringRef name, Type result, ValueRange operands = {}) {
    return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name),
                                         operands)
        .getResults();
  }
  /// A special register of a GPU, "tid.x" or "ctaid.x", as i64.
  Value special(StringRef name) {
    return LLVM::ZExtOp::create(
        b, loc, b.getI64Type(),
        intrinsic(("llvm.nvvm.read.ptx.sreg." + name).str(), b.getI32Type()));
  }
  /// Waits for all threads of the block.
  void emitBarrier();
  /// The address of an array in the block's shared memory. One without a size
  /// is the memory of getSharedBytes.
  Value getSharedArray(StringRef name, Type element, int64_t size);
  using Combine = function_ref<Value(Value, Value)>;
  /// The halving tree over the lanes of all threads of a warp. Lane k of a
  /// thread is lane (k / length) * 32 * length + thread * length + k % length.
  Value reduceLanes(MutableArrayRef<Value> lanes, Value thread, int64_t length,
                    Combine combine);
  Value call(StringRef function, Type result, ValueRange operands);
  Value at(Value pointer, Type element, Value index) {
    return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                               ArrayRef<LLVM::GEPArg>{index});
  }
  Value add(Value left, Value right) {
    return LLVM::AddOp::create(b, loc, left, right);
  }
  Value multiply(Value left, int64_t right) {
    return LLVM::MulOp::create(b, loc, left, wide(right));
  }
  Value isLess(Value left, Value right) {
    return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, left, right);
  }

  /// Emits an op of the body for the element `index` of the outputs.
  Value computeOp(Operation &op, ValueRange operands, Value index);
  Value narrow(Value value, Type type);
  Value widen(Value value, Type type);
  /// What divisions by one value share.
  struct Divisor {
    Value value, inverse, negated, isMild;
  };
  Divisor prepareDivisor(Value value);
  /// The quotients of f32, correctly rounded, with one branch for all.
  SmallVector<Value> divide(ValueRange dividends, const Divisor &by);

  /// The type of an element in memory and registers. On a CPU, narrow floats
  /// are integers with their bits, so that LLVM does not convert them.
  Type storage(Type type) {
    return isDevice || type.getIntOrFloatBitWidth() == 32 ? type
                                                          : b.getI16Type();
  }

  /// The index into input `i` for element `index` of the outputs.
  Value place(unsigned i, Value index) {
    return evaluate(maps[i].getResult(0), index);
  }
  Value evaluate(AffineExpr expr, Value index);
  /// Loads what element `index` of the outputs needs of input `i`.
  Value load(unsigned i, Value index) {
    return LLVM::LoadOp::create(b, loc, storage(inputs[i]),
                                at(pointers[i], inputs[i], place(i, index)));
  }
  /// Loads what `length` elements from `index` on, a multiple of `length`, need
  /// of input `i`.
  SmallVector<Value> loadRun(unsigned i, Value index, int64_t length);
  /// Loads `length` consecutive elements with one access.
  SmallVector<Value> loadConsecutive(Value from, Type type, int64_t length);
  /// Stores element `index` of output `i`, or a vector from it on.
  void store(unsigned i, Value index, Value element);
  void storeVector(unsigned i, Value index, Value vector, int64_t length);

  /// The alignment of a vector in a buffer, of which each has at least 16
  /// bytes.
  static unsigned alignmentOf(int64_t length, Type type) {
    return std::min<unsigned>(16, length * type.getIntOrFloatBitWidth() / 8);
  }

  /// A vector for each output.
  SmallVector<Value> emptyVectors(int64_t length);
  Value extract(Value vector, int64_t lane) {
    return LLVM::ExtractElementOp::create(b, loc, vector,
                                          number(b.getI32Type(), lane));
  }
  Value insert(Value vector, Value element, int64_t lane) {
    return LLVM::InsertElementOp::create(b, loc, vector, element,
                                         number(b.getI32Type(), lane));
  }

  func::FuncOp step;
  tert::LaunchOp launch;
  std::string name;
  OpBuilder b;
  Location loc;
  Block &body;
  SmallVector<Type> inputs, outputs;
  /// From an element of the outputs to that of each input.
  SmallVector<AffineMap> maps;
  /// The addresses of the inputs and the outputs.
  SmallVector<Value> pointers;
  bool isDevice = false;
  /// Whether loops have little code, because it rarely runs.
  bool isCompact = false;

private:
  /// What is added to the streams of the body, an i32.
  Value stream;
  /// Where in a word a bf16 was loaded. Half of a word is widened to f32 by one
  /// instruction, and an element of a vector of bf16 by two.
  struct HalfOfWord {
    Value word;
    bool isHigh;
  };
  DenseMap<Value, HalfOfWord> halves;
  /// Where a thread has its part of each amax.
  llvm::SmallDenseMap<Operation *, Value> amaxes;
  void beginAmaxes();
  /// Raises the amaxes in memory to those of this thread, or of its block.
  void endAmaxes();
  void endAmaxesOfBlock();

  /// Creates the function and sets the insertion point to the start of its
  /// body.
  LLVM::LLVMFuncOp define(StringRef suffix, ArrayRef<Type> types);
  Block *addBlock(ArrayRef<Type> arguments = {});
};

/// The emitters of launches without and with reductions of rows.
std::unique_ptr<CodeEmitter>
createElementCode(func::FuncOp step, tert::LaunchOp launch, StringRef name);
std::unique_ptr<CodeEmitter>
createRowCode(func::FuncOp step, tert::LaunchOp launch, StringRef name);

} // namespace mlir::te

#endif // TE_TRANSFORMS_LOWER_CODEEMITTER_H
