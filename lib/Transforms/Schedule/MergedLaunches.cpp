//===- MergedLaunches.cpp - which launches one launch can replace ---------===//

#include "MergedLaunches.h"

#include "LaunchSchedule.h"

#include "TEDialect/TERT/ElementwiseOps.h"
#include "TEDialect/TERT/KernelTable.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::te;
using tert::LaunchOp;

static int64_t parameterOf(LaunchOp launch, StringRef name) {
  return cast<IntegerAttr>(launch.getParameters().get(name)).getInt();
}

/// The parameters of `launch` without those called `names`.
static NamedAttrList parametersWithout(LaunchOp launch,
                                       ArrayRef<StringRef> names) {
  NamedAttrList parameters(launch.getParameters());
  for (StringRef name : names)
    parameters.erase(name);
  return parameters;
}

/// The buffer of `launch` that its kernel calls `name`.
static Value bufferOf(LaunchOp launch, StringRef name) {
  return launch
      .getBuffers()[*tert::lookupKernel(launch.getKernel())->findBuffer(name)];
}

static bool isAbsent(Value buffer) {
  return buffer.getDefiningOp<tert::NullOp>() != nullptr;
}

/// A launch that moves more bytes takes over ten microseconds.
static constexpr int64_t kMostBytes = int64_t(48) << 20;

/// Of launches of one kernel that may differ in `parameters`, and have the same
/// `buffers`.
static LaunchMerger::Key keyWith(LaunchOp launch,
                                 ArrayRef<StringRef> parameters,
                                 ArrayRef<StringRef> buffers) {
  LaunchMerger::Key key = {launch.getKernelAttr().getAsOpaquePointer(),
                           parametersWithout(launch, parameters)
                               .getDictionary(launch.getContext())
                               .getAsOpaquePointer()};
  for (StringRef name : buffers) {
    Value buffer = bufferOf(launch, name);
    key.push_back(isAbsent(buffer) ? nullptr : buffer.getAsOpaquePointer());
  }
  return key;
}

namespace {

/// Launches that a kernel for many tensors replaces. Its row has the parameters
/// and buffers of each tensor with numbers.
class GroupMerger : public LaunchMerger {
public:
  /// `kernel` becomes `group`. Each tensor has the parameters `own` and the
  /// buffers `each`; all have the other parameters and the buffers `shared`.
  GroupMerger(StringRef kernel, StringRef group, ArrayRef<StringRef> own,
              ArrayRef<StringRef> each, ArrayRef<StringRef> shared = {})
      : kernel(kernel), group(group), own(own), each(each), shared(shared) {}

  std::optional<Key> keyOf(LaunchOp launch) const override {
    if (launch.getKernel() != kernel)
      return std::nullopt;
    return keyWith(launch, own, shared);
  }

  bool fit(ArrayRef<LaunchOp> launches) const override {
    const tert::KernelInfo *row = tert::lookupKernel(group);
    unsigned most = 0;
    while (row->findBuffer((each.front() + Twine(most)).str()))
      ++most;
    return launches.size() <= most;
  }

  void merge(OpBuilder &builder, Location loc,
             ArrayRef<LaunchOp> launches) const override {
    const tert::KernelInfo *row = tert::lookupKernel(group);
    LaunchOp first = launches.front();
    NamedAttrList parameters = parametersWithout(first, own);
    for (const tert::KernelParameter &parameter : row->parameters)
      if (!parameters.get(parameter.name))
        parameters.set(parameter.name,
                       parameter.type == tert::KernelParameter::I64
                           ? builder.getI64IntegerAttr(0)
                           : builder.getI32IntegerAttr(0));
    Value none = tert::NullOp::create(
        builder, loc, tert::BufferType::get(builder.getContext(), 0));
    SmallVector<Value> buffers(row->buffers.size(), none);
    auto place = [&](const Twine &name) -> Value & {
      return buffers[*row->findBuffer(name.str())];
    };
    for (StringRef name : shared)
      place(name) = bufferOf(first, name);
    for (auto [number, member] : llvm::enumerate(launches)) {
      LaunchOp launch = member;
      for (StringRef name : own)
        if (std::string numbered = (name + Twine(number)).str();
            parameters.get(numbered))
          parameters.set(numbered, launch.getParameters().get(name));
      for (StringRef name : each)
        place(name + Twine(number)) = bufferOf(launch, name);
    }
    LaunchOp::create(builder, loc, row->name,
                     parameters.getDictionary(builder.getContext()), buffers);
  }

private:
  StringRef kernel, group;
  SmallVector<StringRef> own, each, shared;
};

/// Updates of small parameters, such as biases and the weights of norms.
class AdamwMerger final : public GroupMerger {
  /// An update of more elements takes longer than the time between launches.
  static constexpr int64_t kMostElements = 1 << 16;

public:
  AdamwMerger()
      : GroupMerger("adamw", "adamw_group", {"count", "seed"},
                    {"param", "grad", "m", "v", "new_param", "new_m", "new_v"},
                    {"lr", "step", "grad_scale", "skip"}) {}

  std::optional<Key> keyOf(LaunchOp launch) const override {
    std::optional<Key> key = GroupMerger::keyOf(launch);
    if (key && parameterOf(launch, "count") > kMostElements)
      return std::nullopt;
    return key;
  }
};

/// Casts of two small matrices, such as the weights of keys and values, and
/// their gradients.
class QuantizeMerger final : public GroupMerger {
  static constexpr StringLiteral kResults[] = {"row", "row_scale", "col",
                                               "col_scale", "amax"};

public:
  QuantizeMerger()
      : GroupMerger(
            "quantize_tensor", "quantize_tensor_group", {"matrices"},
            {"x", "scale", "row", "row_scale", "col", "col_scale", "amax"},
            {"skip"}) {}

  std::optional<Key> keyOf(LaunchOp launch) const override {
    std::optional<Key> key = GroupMerger::keyOf(launch);
    if (!key || parameterOf(launch, "matrices") != 1 ||
        getBytes(launch) > kMostBytes)
      return std::nullopt;
    for (StringRef name : kResults)
      key->push_back(isAbsent(bufferOf(launch, name)) ? nullptr : this);
    return key;
  }
};

/// Generated code without sums on one number of elements.
class GeneratedMerger final : public LaunchMerger {
  /// As te-form-regions bounds it.
  static constexpr unsigned kMostCost = 64;

  /// The buffers that are not absent, inputs or outputs.
  static SmallVector<Value> buffersOf(LaunchOp launch, bool isOutput) {
    SmallVector<Value> buffers;
    for (auto [row, buffer] :
         llvm::zip_equal(tert::lookupKernel(launch.getKernel())->buffers,
                         launch.getBuffers()))
      if (row.isOutput == isOutput && !isAbsent(buffer))
        buffers.push_back(buffer);
    return buffers;
  }

  /// What the launches read, each element once, and what they write.
  struct Buffers {
    SmallVector<Value> buffers[2];
    SmallVector<AffineMap> maps[2];
    SmallVector<Type> types;
    /// By launch and argument of its body: the number of the input.
    SmallVector<SmallVector<unsigned>> inputs;
  };
  static Buffers join(ArrayRef<LaunchOp> launches) {
    Buffers joined;
    for (LaunchOp launch : launches) {
      SmallVector<AffineMap> maps = launch.getMapsOfBuffers();
      SmallVector<Value> read = buffersOf(launch, false);
      SmallVector<unsigned> &numbers = joined.inputs.emplace_back();
      for (auto [buffer, argument, map] :
           llvm::zip(read, launch.getBody().getArguments(), maps)) {
        unsigned number = 0;
        while (number < joined.types.size() &&
               (joined.buffers[0][number] != buffer ||
                joined.types[number] != argument.getType() ||
                joined.maps[0][number] != map))
          ++number;
        if (number == joined.types.size()) {
          joined.buffers[0].push_back(buffer);
          joined.types.push_back(argument.getType());
          joined.maps[0].push_back(map);
        }
        numbers.push_back(number);
      }
      llvm::append_range(joined.buffers[1], buffersOf(launch, true));
      llvm::append_range(joined.maps[1],
                         ArrayRef(maps).drop_front(read.size()));
    }
    return joined;
  }

public:
  std::optional<Key> keyOf(LaunchOp launch) const override {
    if (launch.getKernel() != "generated" || launch.getBody().empty())
      return std::nullopt;
    if (getBytes(launch) > kMostBytes ||
        llvm::any_of(launch.getBody().front(),
                     llvm::IsaPred<tert::RowReduceOp, tert::DropoutOp>))
      return std::nullopt;
    return Key{launch.getKernelAttr().getAsOpaquePointer(),
               launch.getParameters().getAsOpaquePointer()};
  }

  bool fit(ArrayRef<LaunchOp> launches) const override {
    unsigned cost = 0;
    for (LaunchOp launch : launches)
      for (Operation &op : launch.getBody().front().without_terminator())
        cost += tert::getCodeSize(op.getName().getStringRef());
    const Buffers joined = join(launches);
    for (bool isOutput : {false, true}) {
      const unsigned most =
          llvm::count_if(tert::lookupKernel("generated")->buffers,
                         [&](const tert::KernelBuffer &row) {
                           return row.isOutput == isOutput;
                         });
      if (joined.buffers[isOutput].size() > most)
        return false;
    }
    return cost <= kMostCost;
  }

  void merge(OpBuilder &builder, Location loc,
             ArrayRef<LaunchOp> launches) const override {
    const tert::KernelInfo *kernel = tert::lookupKernel("generated");
    Buffers joined = join(launches);
    Value none = tert::NullOp::create(
        builder, loc, tert::BufferType::get(builder.getContext(), 0));
    SmallVector<Value> buffers;
    size_t used[2] = {};
    for (const tert::KernelBuffer &row : kernel->buffers) {
      SmallVector<Value> &given = joined.buffers[row.isOutput];
      size_t &next = used[row.isOutput];
      buffers.push_back(next < given.size() ? given[next++] : none);
    }
    SmallVector<AffineMap> maps = joined.maps[0];
    llvm::append_range(maps, joined.maps[1]);
    const bool isPlain =
        llvm::all_of(maps, [](AffineMap map) { return map.isIdentity(); });
    LaunchOp first = launches.front();
    auto merged = LaunchOp::create(
        builder, loc, builder.getStringAttr(kernel->name),
        first.getParameters(), buffers, /*side=*/UnitAttr(),
        isPlain ? ArrayAttr() : builder.getAffineMapArrayAttr(maps));
    OpBuilder::InsertionGuard guard(builder);
    Block *body =
        builder.createBlock(&merged.getBody(), {}, joined.types,
                            SmallVector<Location>(joined.types.size(), loc));
    SmallVector<Value> results;
    for (auto [launch, inputs] : llvm::zip_equal(launches, joined.inputs)) {
      Block &from = LaunchOp(launch).getBody().front();
      IRMapping mapping;
      for (auto [argument, input] :
           llvm::zip_equal(from.getArguments(), inputs))
        mapping.map(argument, body->getArgument(input));
      for (Operation &op : from.without_terminator())
        builder.clone(op, mapping);
      for (Value value : from.getTerminator()->getOperands())
        results.push_back(mapping.lookup(value));
    }
    tert::YieldOp::create(builder, loc, results);
  }
};

} // namespace

ArrayRef<const LaunchMerger *> te::getLaunchMergers() {
  static const AdamwMerger adamw;
  static const GroupMerger histories(
      "delayed_scaling_update", "delayed_scaling_group", {"slots"},
      {"amax", "history", "scale", "new_history", "new_scale"});
  static const GroupMerger rope("rope", "rope_group", {"heads"},
                                {"x", "y", "amax"},
                                {"cos", "sin", "positions"});
  static const QuantizeMerger casts;
  static const GeneratedMerger generated;
  static const LaunchMerger *const mergers[] = {&adamw, &histories, &rope,
                                                &casts, &generated};
  return mergers;
}
