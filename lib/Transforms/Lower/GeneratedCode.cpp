//===- GeneratedCode.cpp - code of fused elementwise regions --------------===//
//
// A thread of the GPU kernel computes several vectors of 8 to 32 bytes. It
// issues the loads of all vectors before it computes the first result. The last
// block, if it is not full, and launches whose buffers are not aligned compute
// one element at a time.
//
//===----------------------------------------------------------------------===//

#include "GeneratedCode.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

/// The threads per block and the elements per thread.
static constexpr int32_t kBlock = 256, kElements = 16;
/// The address space of global memory in NVPTX.
static constexpr unsigned kGlobalMemory = 1;

namespace {

/// Emits either the host or the device function of one launch.
class FunctionEmitter {
public:
  FunctionEmitter(func::FuncOp step, tert::LaunchOp launch, StringRef name)
      : step(step), launch(launch), name(name.str()), b(step.getContext()),
        loc(launch.getLoc()), body(launch.getBody().front()) {
    for (Type type : body.getArgumentTypes())
      inputs.push_back(type);
    for (Type type : body.getTerminator()->getOperandTypes())
      outputs.push_back(type);
    maps.assign(inputs.size(),
                AffineMap::getMultiDimIdentityMap(1, b.getContext()));
    if (std::optional<ArrayAttr> given = launch.getMaps())
      maps = llvm::map_to_vector(given->getAsValueRange<AffineMapAttr>(),
                                 [](AffineMap map) { return map; });
  }

  void emitHost();
  void emitDevice();

private:
  /// Creates the function and sets the insertion point to the start of its
  /// body.
  LLVM::LLVMFuncOp define(StringRef suffix, ArrayRef<Type> types);
  Block *addBlock(ArrayRef<Type> arguments = {}) {
    OpBuilder::InsertionGuard guard(b);
    Region *region = b.getInsertionBlock()->getParent();
    return b.createBlock(region, region->end(), arguments,
                         SmallVector<Location>(arguments.size(), loc));
  }

  Value number(Type type, int64_t value) {
    return LLVM::ConstantOp::create(b, loc, type,
                                    b.getIntegerAttr(type, value));
  }
  Value intrinsic(StringRef name, Type result, ValueRange operands = {}) {
    return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name),
                                         operands)
        .getResults();
  }
  Value call(StringRef function, Type result, ValueRange operands);
  Value at(Value pointer, Type element, Value index) {
    return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                               ArrayRef<LLVM::GEPArg>{index});
  }

  /// Emits the body for one element of each input, for the element `index` of
  /// the outputs, and returns its results.
  SmallVector<Value> compute(ValueRange elements, Value index);
  Value computeOp(Operation &op, ValueRange operands, Value index);
  Value narrow(Value value, Type type);
  Value widen(Value value, Type type);
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

  /// Loads what a vector of `length` elements from `index` on, a multiple of
  /// `length`, needs of input `i`.
  Value loadVector(unsigned i, Value pointer, Value index, int64_t length);

  /// Emits code that loads, computes and stores the element `index`.
  void computeElement(ArrayRef<Value> pointers, Value index);

  func::FuncOp step;
  tert::LaunchOp launch;
  std::string name;
  OpBuilder b;
  Location loc;
  Block &body;
  SmallVector<Type> inputs, outputs;
  /// From an element of the outputs to that of each input.
  SmallVector<AffineMap> maps;
  bool isDevice = false;
};

} // namespace

LLVM::LLVMFuncOp FunctionEmitter::define(StringRef suffix,
                                         ArrayRef<Type> types) {
  b.setInsertionPoint(step);
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, (name + suffix).str(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  b.setInsertionPointToStart(function.addEntryBlock(b));
  return function;
}

Value FunctionEmitter::call(StringRef function, Type result,
                            ValueRange operands) {
  auto module = step->getParentOfType<ModuleOp>();
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(function);
  if (!callee) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    callee = LLVM::LLVMFuncOp::create(
        b, step.getLoc(), function,
        LLVM::LLVMFunctionType::get(result,
                                    llvm::to_vector(operands.getTypes())));
  }
  return LLVM::CallOp::create(b, loc, callee, operands).getResult();
}

/// On a GPU, one instruction has the same bits as Core/Types.h. It is emitted
/// as an intrinsic, because LLVM may move other ops across an fptrunc, which
/// changes the sign of a NaN. The instructions of CPUs flush subnormals, so the
/// host code calls the functions of Core/Types.h.
Value FunctionEmitter::narrow(Value value, Type type) {
  if (isDevice && type.isBF16())
    return intrinsic("llvm.nvvm.f2bf16.rn", type, value);
  if (isDevice)
    return LLVM::BitcastOp::create(
        b, loc, type, intrinsic("llvm.nvvm.f2h.rn", b.getI16Type(), value));
  return call(type.isBF16() ? "te_scalar_to_bf16" : "te_scalar_to_f16",
              b.getI16Type(), value);
}

Value FunctionEmitter::widen(Value value, Type type) {
  if (isDevice)
    return LLVM::FPExtOp::create(b, loc, b.getF32Type(), value);
  return call(type.isBF16() ? "te_scalar_from_bf16" : "te_scalar_from_f16",
              b.getF32Type(), value);
}

Value FunctionEmitter::computeOp(Operation &op, ValueRange x, Value index) {
  const Type f32 = b.getF32Type();
  return TypeSwitch<Operation *, Value>(&op)
      .Case<arith::AddFOp>([&](auto) -> Value {
        return LLVM::FAddOp::create(b, loc, x[0], x[1]);
      })
      .Case<arith::SubFOp>([&](auto) -> Value {
        return LLVM::FSubOp::create(b, loc, x[0], x[1]);
      })
      .Case<arith::MulFOp>([&](auto) -> Value {
        return LLVM::FMulOp::create(b, loc, x[0], x[1]);
      })
      .Case<arith::DivFOp>([&](auto) -> Value {
        return LLVM::FDivOp::create(b, loc, x[0], x[1]);
      })
      .Case<arith::NegFOp>(
          [&](auto) -> Value { return LLVM::FNegOp::create(b, loc, x[0]); })
      .Case<arith::CmpFOp>([&](auto op) -> Value {
        // The predicates of both dialects have the same numbers.
        return LLVM::FCmpOp::create(
            b, loc, static_cast<LLVM::FCmpPredicate>(op.getPredicate()), x[0],
            x[1]);
      })
      .Case<arith::SelectOp>([&](auto) -> Value {
        return LLVM::SelectOp::create(b, loc, x[0], x[1], x[2]);
      })
      .Case<math::AbsFOp>(
          [&](auto) -> Value { return LLVM::FAbsOp::create(b, loc, x[0]); })
      .Case<math::SqrtOp>(
          [&](auto) -> Value { return LLVM::SqrtOp::create(b, loc, x[0]); })
      .Case<arith::MaximumFOp>(
          [&](auto) -> Value { return call("te_scalar_max", f32, x); })
      .Case<arith::MinimumFOp>(
          [&](auto) -> Value { return call("te_scalar_min", f32, x); })
      .Case<math::ExpOp>(
          [&](auto) -> Value { return call("te_scalar_exp", f32, x); })
      .Case<math::LogOp>(
          [&](auto) -> Value { return call("te_scalar_log", f32, x); })
      .Case<math::Log1pOp>(
          [&](auto) -> Value { return call("te_scalar_log1p", f32, x); })
      .Case<math::TanhOp>(
          [&](auto) -> Value { return call("te_scalar_tanh", f32, x); })
      .Case<arith::ExtFOp>(
          [&](auto op) -> Value { return widen(x[0], op.getIn().getType()); })
      .Case<arith::TruncFOp>(
          [&](auto op) -> Value { return narrow(x[0], op.getType()); })
      .Case<arith::ConstantOp>([&](auto op) -> Value {
        return LLVM::ConstantOp::create(b, loc, op.getType(), op.getValue());
      })
      .Case<tert::DropoutOp>([&](tert::DropoutOp op) -> Value {
        return call(
            "te_scalar_dropout", f32,
            {index, x[0], x[1], number(b.getI32Type(), op.getStream()),
             LLVM::ConstantOp::create(b, loc, f32, op.getProbabilityAttr())});
      })
      .DefaultUnreachable("te-form-regions makes no other op");
}

SmallVector<Value> FunctionEmitter::compute(ValueRange elements, Value index) {
  DenseMap<Value, Value> values;
  for (auto [argument, element] :
       llvm::zip_equal(body.getArguments(), elements))
    values[argument] = element;
  auto of = [&](Value value) { return values.lookup(value); };
  for (Operation &op : body.without_terminator())
    values[op.getResult(0)] =
        computeOp(op, llvm::map_to_vector(op.getOperands(), of), index);
  return llvm::map_to_vector(body.getTerminator()->getOperands(), of);
}

/// Indices and divisors are not negative, so that division needs no sign.
Value FunctionEmitter::evaluate(AffineExpr expr, Value index) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return number(index.getType(), constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return index;
  Value left = evaluate(binary.getLHS(), index),
        right = evaluate(binary.getRHS(), index);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return LLVM::AddOp::create(b, loc, left, right);
  case AffineExprKind::Mul:
    return LLVM::MulOp::create(b, loc, left, right);
  case AffineExprKind::FloorDiv:
    return LLVM::UDivOp::create(b, loc, left, right);
  case AffineExprKind::Mod:
    return LLVM::URemOp::create(b, loc, left, right);
  default:
    llvm_unreachable("the verifier of tert.launch admits no other expression");
  }
}

/// Whether `expr` has one value for the `length` elements from each multiple of
/// `length` on.
static bool isUniform(AffineExpr expr, int64_t length) {
  if (isa<AffineConstantExpr>(expr))
    return true;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  if (expr.getKind() == AffineExprKind::FloorDiv &&
      isa<AffineDimExpr>(binary.getLHS()))
    return cast<AffineConstantExpr>(binary.getRHS()).getValue() % length == 0;
  return isUniform(binary.getLHS(), length) &&
         isUniform(binary.getRHS(), length);
}

/// Whether `expr` has consecutive values for these elements, the first of them
/// a multiple of `length`.
static bool isConsecutive(AffineExpr expr, int64_t length) {
  if (isa<AffineDimExpr>(expr))
    return true;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  auto isMultiple = [&](AffineExpr of) { return of.isMultipleOf(length); };
  if (expr.getKind() == AffineExprKind::Mod)
    return isa<AffineDimExpr>(binary.getLHS()) && isMultiple(binary.getRHS());
  for (auto [some, other] : {std::pair(binary.getLHS(), binary.getRHS()),
                             std::pair(binary.getRHS(), binary.getLHS())})
    if (expr.getKind() == AffineExprKind::Add && isConsecutive(some, length) &&
        isUniform(other, length) && isMultiple(other))
      return true;
  return false;
}

/// Buffers have 16 bytes.
static unsigned alignmentOf(int64_t length, Type type) {
  return std::min<unsigned>(16, length * type.getIntOrFloatBitWidth() / 8);
}

Value FunctionEmitter::loadVector(unsigned i, Value pointer, Value index,
                                  int64_t length) {
  const AffineExpr map = maps[i].getResult(0);
  const Type vector = VectorType::get(length, inputs[i]);
  if (isConsecutive(map, length))
    return LLVM::LoadOp::create(b, loc, vector,
                                at(pointer, inputs[i], place(i, index)),
                                alignmentOf(length, inputs[i]));
  const bool isOne = isUniform(map, length);
  Value loaded = LLVM::PoisonOp::create(b, loc, vector), element;
  for (int64_t lane = 0; lane < length; ++lane) {
    if (lane == 0 || !isOne) {
      Value next =
          LLVM::AddOp::create(b, loc, index, number(index.getType(), lane));
      element = LLVM::LoadOp::create(b, loc, inputs[i],
                                     at(pointer, inputs[i], place(i, next)));
    }
    loaded = LLVM::InsertElementOp::create(b, loc, loaded, element,
                                           number(b.getI32Type(), lane));
  }
  return loaded;
}

void FunctionEmitter::computeElement(ArrayRef<Value> pointers, Value index) {
  SmallVector<Value> elements;
  for (auto [i, type] : llvm::enumerate(inputs))
    elements.push_back(LLVM::LoadOp::create(
        b, loc, storage(type), at(pointers[i], type, place(i, index))));
  for (auto [type, pointer, result] :
       llvm::zip_equal(outputs, pointers.drop_front(inputs.size()),
                       compute(elements, index)))
    LLVM::StoreOp::create(b, loc, result, at(pointer, type, index));
}

void FunctionEmitter::emitHost() {
  const Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  const Type i64 = b.getI64Type();
  LLVM::LLVMFuncOp function = define("", {ptr, i64, i64});
  function.setLinkage(LLVM::Linkage::Internal);
  SmallVector<Value> pointers;
  for (auto [index, buffer] : llvm::enumerate(launch.getBuffers()))
    if (!buffer.getDefiningOp<tert::NullOp>())
      pointers.push_back(LLVM::LoadOp::create(
          b, loc, ptr, at(function.getArgument(0), ptr, number(i64, index))));
  Block *header = addBlock(i64), *work = addBlock(), *exit = addBlock();
  LLVM::BrOp::create(b, loc, function.getArgument(1), header);
  b.setInsertionPointToStart(header);
  Value index = header->getArgument(0);
  Value inside = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, index,
                                      function.getArgument(2));
  LLVM::CondBrOp::create(b, loc, inside, work, ValueRange(), exit,
                         ValueRange());
  b.setInsertionPointToStart(work);
  computeElement(pointers, index);
  Value next = LLVM::AddOp::create(b, loc, index, number(i64, 1));
  LLVM::BrOp::create(b, loc, next, header);
  b.setInsertionPointToStart(exit);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

void FunctionEmitter::emitDevice() {
  isDevice = true;
  const Type i32 = b.getI32Type(), i64 = b.getI64Type(), i1 = b.getI1Type();
  const Type global = LLVM::LLVMPointerType::get(b.getContext(), kGlobalMemory);
  SmallVector<Type> types(inputs.size() + outputs.size(), global);
  types.append({i64, i32});
  LLVM::LLVMFuncOp function = define("_device", types);
  function->setAttr(tert::kDeviceAttr, b.getUnitAttr());
  SmallVector<Value> pointers(function.getArguments().drop_back(2));
  Value count = function.getArguments().drop_back(1).back(),
        aligned = function.getArguments().back();

  // A vector has 16 bytes in the widest type of the outputs: the stores of a
  // warp have no gaps. Wider inputs take two loads, whose gaps the cache fills.
  unsigned widest = 0;
  for (Type type : outputs)
    widest = std::max(widest, type.getIntOrFloatBitWidth());
  const int64_t length = 128 / widest, vectors = kElements / length;
  auto wide = [&](int32_t value) { return number(i64, value); };
  Value thread = LLVM::ZExtOp::create(
      b, loc, i64, intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", i32));
  Value blockIndex = LLVM::ZExtOp::create(
      b, loc, i64, intrinsic("llvm.nvvm.read.ptx.sreg.ctaid.x", i32));
  Value first =
      LLVM::MulOp::create(b, loc, blockIndex, wide(kBlock * kElements));
  Value end = LLVM::AddOp::create(b, loc, first, wide(kBlock * kElements));
  Value isFull =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::sle, end, count);
  Value isAligned = LLVM::TruncOp::create(b, loc, i1, aligned);
  Value fast = LLVM::AndOp::create(b, loc, isFull, isAligned);
  Block *whole = addBlock(), *header = addBlock(i64), *work = addBlock(),
        *exit = addBlock();
  Value last = LLVM::SMinOp::create(b, loc, end, count);
  Value start = LLVM::AddOp::create(b, loc, first, thread);
  LLVM::CondBrOp::create(b, loc, fast, whole, ValueRange(), header,
                         ValueRange(start));

  b.setInsertionPointToStart(whole);
  SmallVector<Value> places;
  SmallVector<SmallVector<Value>> loaded(vectors);
  for (int64_t v = 0; v < vectors; ++v) {
    Value place = LLVM::AddOp::create(b, loc, thread, wide(v * kBlock));
    place = LLVM::MulOp::create(b, loc, place, wide(length));
    places.push_back(LLVM::AddOp::create(b, loc, first, place));
    for (unsigned i = 0; i < inputs.size(); ++i)
      loaded[v].push_back(loadVector(i, pointers[i], places.back(), length));
  }
  for (int64_t v = 0; v < vectors; ++v) {
    SmallVector<Value> results;
    for (Type type : outputs)
      results.push_back(
          LLVM::PoisonOp::create(b, loc, VectorType::get(length, type)));
    for (int64_t i = 0; i < length; ++i) {
      Value lane = number(i32, i);
      SmallVector<Value> elements =
          llvm::map_to_vector(loaded[v], [&](Value vector) -> Value {
            return LLVM::ExtractElementOp::create(b, loc, vector, lane);
          });
      Value index = LLVM::AddOp::create(b, loc, places[v], wide(i));
      for (auto [vector, element] :
           llvm::zip_equal(results, compute(elements, index)))
        vector = LLVM::InsertElementOp::create(b, loc, vector, element, lane);
    }
    for (auto [type, pointer, result] : llvm::zip_equal(
             outputs, ArrayRef(pointers).drop_front(inputs.size()), results))
      LLVM::StoreOp::create(b, loc, result, at(pointer, type, places[v]),
                            alignmentOf(length, type));
  }
  LLVM::BrOp::create(b, loc, ValueRange(), exit);

  b.setInsertionPointToStart(header);
  Value index = header->getArgument(0);
  Value inside =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, index, last);
  LLVM::CondBrOp::create(b, loc, inside, work, ValueRange(), exit,
                         ValueRange());
  b.setInsertionPointToStart(work);
  computeElement(pointers, index);
  Value next = LLVM::AddOp::create(b, loc, index, wide(kBlock));
  LLVM::BrOp::create(b, loc, next, header);
  b.setInsertionPointToStart(exit);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

/// Adds a constant with `text` and a terminating zero.
static LLVM::GlobalOp addText(OpBuilder &b, Location loc, const Twine &name,
                              StringRef text) {
  const std::string bytes = text.str() + '\0';
  return LLVM::GlobalOp::create(
      b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()),
      /*isConstant=*/true, LLVM::Linkage::Private, name.str(),
      b.getStringAttr(bytes));
}

/// Text that is equal for launches whose code is the same. Operations are not
/// printed: that numbers and verifies the whole step for each of them.
static std::string describeCode(tert::LaunchOp launch) {
  std::string key;
  llvm::raw_string_ostream text(key);
  for (Value buffer : launch.getBuffers())
    text << (buffer.getDefiningOp<tert::NullOp>() ? '0' : '1');
  if (std::optional<ArrayAttr> maps = launch.getMaps())
    text << *maps;
  llvm::DenseMap<Value, size_t> numbers;
  const auto define = [&](ValueRange values) {
    for (Value value : values) {
      numbers.try_emplace(value, numbers.size());
      text << value.getType() << ' ';
    }
  };
  Block &body = launch.getBody().front();
  define(body.getArguments());
  for (Operation &op : body) {
    assert(op.getNumRegions() == 0 && "generated code is one block");
    text << op.getName() << op.getAttrDictionary();
    for (Value operand : op.getOperands())
      text << ' ' << numbers.at(operand);
    text << ':';
    define(op.getResults());
  }
  return key;
}

LLVM::GlobalOp GeneratedCode::get(tert::LaunchOp launch) {
  const std::string key = describeCode(launch);
  LLVM::GlobalOp &record = records[key];
  if (record)
    return record;

  const std::string name = "te_generated_" + std::to_string(records.size() - 1);
  FunctionEmitter(step, launch, name).emitHost();
  if (forDevice)
    FunctionEmitter(step, launch, name).emitDevice();

  OpBuilder b(step);
  Location loc = launch.getLoc();
  const Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  const Type i32 = b.getI32Type();
  auto module = step->getParentOfType<ModuleOp>();
  // compileDeviceCode in lib/JIT sets the value to the PTX of all kernels.
  if (forDevice && !module.lookupSymbol(tert::kDeviceCode))
    addText(b, loc, tert::kDeviceCode, "");
  LLVM::GlobalOp hostName = addText(b, loc, name + "_name", name);
  LLVM::GlobalOp deviceName =
      addText(b, loc, name + "_device_name", name + "_device");
  // The fields of te_rt_generated, in order.
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               {ptr, ptr, ptr, ptr, i32, i32});
  record = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                  LLVM::Linkage::Private, name + "_record",
                                  /*value=*/Attribute());
  b.createBlock(&record.getInitializerRegion());
  auto address = [&](StringRef symbol) -> Value {
    return LLVM::AddressOfOp::create(b, loc, ptr, symbol);
  };
  auto number = [&](int32_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, i32, b.getI32IntegerAttr(value));
  };
  Value fields[] = {address(hostName.getSymName()),
                    address(name),
                    forDevice ? address(tert::kDeviceCode)
                              : Value(LLVM::ZeroOp::create(b, loc, ptr)),
                    address(deviceName.getSymName()),
                    number(kBlock),
                    number(kBlock * kElements)};
  Value value = LLVM::PoisonOp::create(b, loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    value = LLVM::InsertValueOp::create(b, loc, value, field, index);
  LLVM::ReturnOp::create(b, loc, value);
  return record;
}
