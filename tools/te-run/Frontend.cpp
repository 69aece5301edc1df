//===- Frontend.cpp - te-run's calls of the compiler ----------------------===//

#include "Frontend.h"
#include "Probes.h"

#include "TEDialect/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace te::run {
namespace {

/// Every phase ends with its te-verify-stage.
class PhaseClock final : public PassInstrumentation {
public:
  explicit PhaseClock(Trace &trace)
      : trace(trace), phases(mlir::te::getPhaseNames()) {}

  void runAfterPass(Pass *pass, Operation *) override {
    if (pass->getArgument() != "te-verify-stage" || next == phases.size())
      return;
    trace.span(phases[next++].str(), begin);
    begin = Trace::Clock::now();
  }

private:
  Trace &trace;
  SmallVector<StringRef> phases;
  size_t next = 0;
  Trace::Clock::time_point begin = Trace::Clock::now();
};

llvm::json::Value toJson(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(value);
      number && number.getValue().isFinite())
    return number.getValueAsDouble();
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

} // namespace

void tracePhases(PassManager &manager, Trace &trace) {
  manager.addInstrumentation(std::make_unique<PhaseClock>(trace));
}

std::vector<LaunchLabel> labelsOf(const mlir::te::CompiledStep &step) {
  std::vector<LaunchLabel> labels;
  for (const mlir::te::LaunchInfo &launch : step.launches()) {
    llvm::json::Object parameters;
    for (NamedAttribute parameter : launch.parameters)
      parameters[parameter.getName().getValue()] = toJson(parameter.getValue());
    llvm::json::Object details{{"kernel", launch.kernel},
                               {"location", launch.location},
                               {"parameters", std::move(parameters)}};
    labels.push_back({launch.kernel + " " + launch.name, std::move(details)});
  }
  return labels;
}

std::vector<Workspace> workspacesOf(const mlir::te::CompiledStep &step,
                                    ArrayRef<int64_t> taken) {
  std::vector<Workspace> rows;
  std::map<std::pair<StringRef, StringRef>, size_t> places;
  for (auto [launch, bytes] : llvm::zip_equal(step.launches(), taken)) {
    if (launch.workspaceBytes == 0 && bytes == 0)
      continue;
    auto [place, isNew] =
        places.try_emplace({launch.kernel, launch.name}, rows.size());
    if (isNew)
      rows.push_back({launch.kernel, launch.name, 0, 0});
    Workspace &row = rows[place->second];
    row.planned = std::max(row.planned, launch.workspaceBytes);
    row.bytes = std::max(row.bytes, bytes);
  }
  // Largest first, ties by name.
  llvm::sort(rows, [](const Workspace &a, const Workspace &b) {
    return std::tuple(-a.bytes, -a.planned, a.kernel, a.name) <
           std::tuple(-b.bytes, -b.planned, b.kernel, b.name);
  });
  return rows;
}

std::string locationOf(const mlir::te::CompiledStep &step, StringRef layer) {
  auto find = [&](const Twine &name, size_t skip) -> std::string {
    const std::string wanted = (name + " fprop").str();
    for (const mlir::te::LaunchInfo &launch : step.launches())
      // A cast of what a product made has the product's location.
      if (StringRef(launch.kernel).ends_with("matmul") &&
          launch.name == wanted && skip-- == 0)
        return launch.location;
    return {};
  };
  if (std::string exact = find(layer, 0); !exact.empty())
    return exact;
  auto [base, number] = layer.rsplit('.');
  size_t skip = 0;
  return number.getAsInteger(10, skip) ? "" : find(base, skip);
}

std::vector<StepArgument> argumentsOf(const mlir::te::CompiledStep &step,
                                      const llvm::StringSet<> &weights) {
  using mlir::te::ArgumentInfo;
  std::vector<StepArgument> arguments;
  for (const ArgumentInfo &info : step.arguments()) {
    arguments.push_back(
        {{info.qualifiedName(), info.type, info.shape,
          weights.contains(info.name), info.isRecipeState, info.init},
         info.role == ArgumentInfo::Role::Result,
         info.carriedInput,
         info.arenaOffset,
         isFiniteCheck(info),
         isStatistics(info)});
    if (info.groups) {
      arguments.back().rows = info.groups->rows;
      arguments.back().alignment = info.groups->alignment;
    }
  }
  return arguments;
}

} // namespace te::run
