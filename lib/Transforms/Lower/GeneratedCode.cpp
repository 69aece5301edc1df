//===- GeneratedCode.cpp - records of generated code ----------------------===//

#include "GeneratedCode.h"

#include "CodeEmitter.h"

using namespace mlir;
using namespace mlir::te;

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
    text << op.getName();
    if (auto dropout = dyn_cast<tert::DropoutOp>(op))
      text << dropout.getProbabilityAttr() << ' '
           << dropout.getStream() - streamOf(launch);
    else
      text << op.getAttrDictionary();
    for (Value operand : op.getOperands())
      text << ' ' << numbers.at(operand);
    text << ':';
    define(op.getResults());
  }
  return key;
}

GeneratedCode::Code GeneratedCode::emit(tert::LaunchOp launch,
                                        std::string name) {
  const bool sumsRows =
      !launch.getBody().front().getOps<tert::RowReduceOp>().empty();
  const auto create = sumsRows ? createRowCode : createElementCode;
  std::unique_ptr<CodeEmitter> emitter = create(step, launch, name);
  emitter->emitHost();
  if (forDevice)
    emitter->emitDevice();

  OpBuilder b(step);
  Location loc = launch.getLoc();
  addText(b, loc, name + tert::kNameSuffix, name);
  // compileDeviceCode in lib/JIT sets both.
  if (forDevice)
    for (StringRef suffix : {tert::kCodeSuffix, tert::kNameSuffix})
      addText(b, loc, name + "_device" + suffix, "");
  return {std::move(name),
          emitter->getBlock(),
          emitter->getBlockElements(),
          emitter->getSharedBytes(),
          emitter->getAmaxes(),
          {}};
}

LLVM::GlobalOp GeneratedCode::emitRecord(const Code &code, int32_t stream,
                                         Location loc) {
  OpBuilder b(step);
  const Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  const Type i32 = b.getI32Type();
  // The fields of te_rt_generated, in order.
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), {ptr, ptr, ptr, ptr, i32, i32, i32, i32, i32});
  auto record = LLVM::GlobalOp::create(
      b, loc, type, /*isConstant=*/true, LLVM::Linkage::Private,
      code.name + "_record_" + std::to_string(static_cast<uint32_t>(stream)),
      /*value=*/Attribute());
  b.createBlock(&record.getInitializerRegion());
  auto address = [&](const Twine &symbol) -> Value {
    return LLVM::AddressOfOp::create(b, loc, ptr, symbol.str());
  };
  auto number = [&](int32_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, i32, b.getI32IntegerAttr(value));
  };
  auto ofDevice = [&](StringRef suffix) -> Value {
    return forDevice ? address(code.name + "_device" + suffix)
                     : Value(LLVM::ZeroOp::create(b, loc, ptr));
  };
  Value fields[] = {address(code.name + tert::kNameSuffix),
                    address(code.name),
                    ofDevice(tert::kCodeSuffix),
                    ofDevice(tert::kNameSuffix),
                    number(code.block),
                    number(code.blockElements),
                    number(code.sharedBytes),
                    number(stream),
                    number(code.amaxes)};
  Value value = LLVM::PoisonOp::create(b, loc, type);
  for (auto [index, field] : llvm::enumerate(fields))
    value = LLVM::InsertValueOp::create(b, loc, value, field, index);
  LLVM::ReturnOp::create(b, loc, value);
  return record;
}

LLVM::GlobalOp GeneratedCode::get(tert::LaunchOp launch) {
  auto [known, isNew] = codes.try_emplace(describeCode(launch));
  Code &code = known->second;
  if (isNew)
    code = emit(launch, "te_generated_" + std::to_string(codes.size() - 1));
  const int32_t stream = streamOf(launch);
  LLVM::GlobalOp &record = code.records[stream];
  if (!record)
    record = emitRecord(code, stream, launch.getLoc());
  return record;
}
