//===- CodeEmitter.cpp - functions of a launch of generated code ----------===//

#include "CodeEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::te;

/// The address spaces of global and shared memory in NVPTX.
static constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

int32_t te::streamOf(tert::LaunchOp launch) {
  auto drawn = launch.getBody().front().getOps<tert::DropoutOp>();
  return drawn.empty() ? 0 : (*drawn.begin()).getStream();
}

CodeEmitter::CodeEmitter(func::FuncOp step, tert::LaunchOp launch,
                         StringRef name)
    : step(step), launch(launch), name(name.str()), b(step.getContext()),
      loc(launch.getLoc()), body(launch.getBody().front()) {
  for (Type type : body.getArgumentTypes())
    inputs.push_back(type);
  for (Type type : body.getTerminator()->getOperandTypes())
    outputs.push_back(type);
  maps = launch.getMapsOfBuffers();
}

void CodeEmitter::emitHost() {
  const Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  const Type i64 = b.getI64Type();
  LLVM::LLVMFuncOp function = define("", {ptr, i64, i64, b.getI32Type()});
  function.setLinkage(LLVM::Linkage::Internal);
  for (auto [index, buffer] : llvm::enumerate(launch.getBuffers()))
    if (!buffer.getDefiningOp<tert::NullOp>())
      pointers.push_back(LLVM::LoadOp::create(
          b, loc, ptr, at(function.getArgument(0), ptr, wide(index))));
  stream = function.getArgument(3);
  beginAmaxes();
  emitHostBody(function.getArgument(1), function.getArgument(2));
  endAmaxes();
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

void CodeEmitter::emitDevice() {
  isDevice = true;
  const Type global = LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace);
  SmallVector<Type> types(inputs.size() + outputs.size(), global);
  types.append({b.getI64Type(), b.getI32Type(), b.getI32Type()});
  LLVM::LLVMFuncOp function = define("_device", types);
  function->setAttr(tert::kDeviceAttr, b.getUnitAttr());
  // Bounds the registers of a thread to those that it can have.
  Attribute bound[] = {b.getStringAttr("nvvm.maxntid"),
                       b.getStringAttr(std::to_string(getBlock()))};
  function.setPassthroughAttr(b.getArrayAttr(b.getArrayAttr(bound)));
  auto arguments = function.getArguments();
  pointers.assign(arguments.begin(), arguments.end() - 3);
  stream = arguments.back();
  Value aligned = LLVM::TruncOp::create(b, loc, b.getI1Type(),
                                        arguments.drop_back().back());
  beginAmaxes();
  emitDeviceBody(arguments.drop_back(2).back(), aligned);
  endAmaxesOfBlock();
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

Block *CodeEmitter::addBlock(ArrayRef<Type> arguments) {
  OpBuilder::InsertionGuard guard(b);
  Region *region = b.getInsertionBlock()->getParent();
  return b.createBlock(region, region->end(), arguments,
                       SmallVector<Location>(arguments.size(), loc));
}

static LLVM::LoopAnnotationAttr notUnrolled(MLIRContext *context) {
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/BoolAttr::get(context, true), {}, {}, {}, {}, {},
      {});
  return LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {},
                                       {}, {}, {}, {}, {}, {}, {}, {});
}

SmallVector<Value> CodeEmitter::emitLoop(Value begin, Value end, int64_t step,
                                         ValueRange initial, LoopBody body) {
  SmallVector<Type> types{begin.getType()};
  llvm::append_range(types, initial.getTypes());
  SmallVector<Value> values{begin};
  llvm::append_range(values, initial);
  Block *header = addBlock(types), *work = addBlock(), *exit = addBlock();
  LLVM::BrOp::create(b, loc, values, header);
  b.setInsertionPointToStart(header);
  Value index = header->getArgument(0);
  ValueRange carried = header->getArguments().drop_front();
  LLVM::CondBrOp::create(b, loc, isLess(index, end), work, ValueRange(), exit,
                         ValueRange());
  b.setInsertionPointToStart(work);
  values = body(index, carried);
  values.insert(values.begin(), add(index, wide(step)));
  auto next = LLVM::BrOp::create(b, loc, values, header);
  if (isCompact)
    next.setLoopAnnotationAttr(notUnrolled(b.getContext()));
  b.setInsertionPointToStart(exit);
  return llvm::to_vector(carried);
}

void CodeEmitter::emitIfElse(Value condition, function_ref<void()> then,
                             function_ref<void()> otherwise) {
  Block *yes = addBlock(), *no = otherwise ? addBlock() : nullptr,
        *after = addBlock();
  LLVM::CondBrOp::create(b, loc, condition, yes, ValueRange(), no ? no : after,
                         ValueRange());
  for (auto [block, emit] : {std::pair(yes, then), std::pair(no, otherwise)}) {
    if (!block)
      continue;
    b.setInsertionPointToStart(block);
    emit();
    LLVM::BrOp::create(b, loc, ValueRange(), after);
  }
  b.setInsertionPointToStart(after);
}

void CodeEmitter::emitIf(Value condition, function_ref<void()> body) {
  emitIfElse(condition, body, nullptr);
}

SmallVector<Value>
CodeEmitter::emitUnless(Value condition, ValueRange values,
                        function_ref<SmallVector<Value>()> replace) {
  Block *no = addBlock(), *after = addBlock(llvm::to_vector(values.getTypes()));
  LLVM::CondBrOp::create(b, loc, condition, after, values, no, ValueRange());
  b.setInsertionPointToStart(no);
  LLVM::BrOp::create(b, loc, replace(), after);
  b.setInsertionPointToStart(after);
  return llvm::to_vector_of<Value>(after->getArguments());
}

LLVM::LLVMFuncOp CodeEmitter::define(StringRef suffix, ArrayRef<Type> types) {
  b.setInsertionPoint(step);
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, (name + suffix).str(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  b.setInsertionPointToStart(function.addEntryBlock(b));
  return function;
}

void CodeEmitter::emitBarrier() {
  LLVM::CallIntrinsicOp::create(
      b, loc, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
      number(b.getI32Type(), 0));
}

Value CodeEmitter::getSharedArray(StringRef name, Type element, int64_t size) {
  auto module = step->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    auto memory = LLVM::GlobalOp::create(
        b, step.getLoc(), LLVM::LLVMArrayType::get(element, size),
        /*isConstant=*/false,
        size == 0 ? LLVM::Linkage::External : LLVM::Linkage::Internal, name,
        Attribute(), /*alignment=*/16, kSharedSpace);
    memory->setAttr(tert::kDeviceAttr, b.getUnitAttr());
  }
  return LLVM::AddressOfOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext(), kSharedSpace), name);
}

Value CodeEmitter::call(StringRef function, Type result, ValueRange operands) {
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

/// Two threads that have lanes to add divide the sums between them, so that
/// fewer are exchanged.
Value CodeEmitter::reduceLanes(MutableArrayRef<Value> lanes, Value thread,
                               int64_t length, Combine combine) {
  const Type f32 = b.getF32Type(), i32 = b.getI32Type();
  auto ofOther = [&](Value value, int64_t distance) {
    return intrinsic(
        "llvm.nvvm.shfl.sync.bfly.f32", f32,
        {number(i32, -1), value, number(i32, distance), number(i32, 31)});
  };
  int64_t held = lanes.size();
  for (; held > length; held /= 2)
    for (int64_t k = 0; k < held / 2; ++k)
      lanes[k] = combine(lanes[k], lanes[k + held / 2]);
  SmallVector<int64_t> divided;
  for (int64_t distance = 16; distance != 0; distance /= 2) {
    if (held == 1) {
      lanes[0] = combine(lanes[0], ofOther(lanes[0], distance));
      continue;
    }
    held /= 2;
    divided.push_back(distance);
    Value isUpper = LLVM::ICmpOp::create(
        b, loc, LLVM::ICmpPredicate::ne,
        LLVM::AndOp::create(b, loc, thread, wide(distance)), wide(0));
    for (int64_t k = 0; k < held; ++k) {
      auto choose = [&](Value ofUpper, Value ofLower) -> Value {
        return LLVM::SelectOp::create(b, loc, isUpper, ofUpper, ofLower);
      };
      Value given = choose(lanes[k], lanes[k + held]);
      Value kept = choose(lanes[k + held], lanes[k]);
      lanes[k] = combine(kept, ofOther(given, distance));
    }
  }
  for (int64_t distance : divided)
    lanes[0] = combine(lanes[0], ofOther(lanes[0], distance));
  return lanes[0];
}

/// Whether a value is never above 0: what is left of an element without the
/// maximum of its row, as in softmax.
static bool isNonPositive(Value value) {
  auto difference = value.getDefiningOp<arith::SubFOp>();
  if (!difference)
    return false;
  auto max = difference.getRhs().getDefiningOp<tert::RowReduceOp>();
  return max && max.getKind() == tert::RowReduction::Maximum &&
         max.getX() == difference.getLhs();
}

/// The function of ScalarMath.cpp that computes `op`, or an empty string.
static StringRef scalarFunctionOf(Operation &op) {
  return TypeSwitch<Operation *, StringRef>(&op)
      .Case<arith::MaximumFOp>([](auto) { return "te_scalar_max"; })
      .Case<arith::MinimumFOp>([](auto) { return "te_scalar_min"; })
      .Case<math::ExpOp>([](auto op) {
        return isNonPositive(op.getOperand()) ? "te_scalar_exp_nonpositive"
                                              : "te_scalar_exp";
      })
      .Case<math::LogOp>([](auto) { return "te_scalar_log"; })
      .Case<math::Log1pOp>([](auto) { return "te_scalar_log1p"; })
      .Case<math::TanhOp>([](auto) { return "te_scalar_tanh"; })
      .Case<math::SinOp>([](auto) { return "te_scalar_sin"; })
      .Case<math::CosOp>([](auto) { return "te_scalar_cos"; })
      .Case<math::Exp2Op>([](auto) { return "te_scalar_exp2"; })
      .Case<math::Log2Op>([](auto) { return "te_scalar_log2"; })
      .Case<math::PowFOp>([](auto) { return "te_scalar_pow"; })
      .Case<math::ErfOp>([](auto) { return "te_scalar_erf"; })
      .Case<math::ErfcOp>([](auto) { return "te_scalar_erfc"; })
      .Case<math::FloorOp>([](auto) { return "te_scalar_floor"; })
      .Case<math::CeilOp>([](auto) { return "te_scalar_ceil"; })
      .Case<math::TruncOp>([](auto) { return "te_scalar_trunc"; })
      .Case<math::RoundEvenOp>([](auto) { return "te_scalar_roundeven"; })
      .Case<arith::RemFOp>([](auto) { return "te_scalar_rem"; })
      .Default(StringRef());
}

Value CodeEmitter::computeOp(Operation &op, ValueRange x, Value index) {
  const Type f32 = b.getF32Type();
  if (StringRef function = scalarFunctionOf(op); !function.empty())
    return call(function, f32, x);
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
      .Case<math::RsqrtOp>([&](auto) -> Value {
        Value one =
            LLVM::ConstantOp::create(b, loc, f32, b.getF32FloatAttr(1.0f));
        return LLVM::FDivOp::create(b, loc, one,
                                    LLVM::SqrtOp::create(b, loc, x[0]));
      })
      .Case<arith::ExtFOp>(
          [&](auto op) -> Value { return widen(x[0], op.getIn().getType()); })
      .Case<arith::TruncFOp>(
          [&](auto op) -> Value { return narrow(x[0], op.getType()); })
      .Case<arith::ConstantOp>([&](auto op) -> Value {
        return LLVM::ConstantOp::create(b, loc, op.getType(), op.getValue());
      })
      .Case<tert::DropoutOp>([&](tert::DropoutOp op) -> Value {
        // Four elements share their words, so that LLVM computes them once.
        const Type i32 = b.getI32Type();
        Value own = add(stream, number(i32, op.getStream() - streamOf(launch)));
        Value words = call(
            "te_scalar_dropout_words", VectorType::get(4, i32),
            {LLVM::LShrOp::create(b, loc, index, wide(2)), x[0], x[1], own});
        return call(
            "te_scalar_dropout", f32,
            {words, index,
             LLVM::ConstantOp::create(b, loc, f32, op.getProbabilityAttr())});
      })
      .DefaultUnreachable("te-form-regions makes no other op");
}
