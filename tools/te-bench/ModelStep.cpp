//===- ModelStep.cpp - a training step on one rank ------------------------===//

#include "ModelStep.h"

#include "Ranks.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/WithColor.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>

using mlir::te::ArgumentInfo;
using namespace te::bench;

int64_t te::bench::elementsOf(const ArgumentInfo &info) {
  return std::accumulate(info.shape.begin(), info.shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

bool te::bench::isLoss(const ArgumentInfo &info) {
  return info.role == ArgumentInfo::Role::Result && info.name == "loss" &&
         info.type == TE_RT_F32 && info.shape.empty();
}

/// What an argument holds, as a block that is repeated.
static std::vector<char> contentOf(const ArgumentInfo &info,
                                   std::mt19937 &generator) {
  // A cached cast, of which no step reads the first value.
  if (info.init && std::isnan(*info.init))
    return std::vector<char>(std::min<int64_t>(info.bytes, 1 << 20), '\xff');
  const int64_t count = std::min<int64_t>(elementsOf(info), (1 << 20) + 7);
  if (info.type == TE_RT_I32) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (int32_t &value : values)
      value = static_cast<int32_t>(generator() % 256);
    return {reinterpret_cast<char *>(values.data()),
            reinterpret_cast<char *>(values.data() + count)};
  }
  std::vector<float> values(static_cast<size_t>(count));
  const bool isMatrix = info.shape.size() > 1;
  std::normal_distribution<float> normal(0.0f, info.isWeight ? 0.02f : 0.5f);
  for (float &value : values)
    value = info.init           ? *info.init
            : isMatrix          ? normal(generator)
            : info.name == "lr" ? 1e-5f
                                : 1.0f;
  if (info.type == TE_RT_F32)
    return {reinterpret_cast<char *>(values.data()),
            reinterpret_cast<char *>(values.data() + count)};
  if (info.type != TE_RT_BF16) {
    llvm::WithColor::error(llvm::errs(), "te-bench")
        << "expected arguments in f32, bf16 or i32, but got " << info.typeName
        << " of '" << info.name << "'\n";
    std::_Exit(1);
  }
  std::vector<char> halves;
  for (float value : values) {
    const auto bits = llvm::bit_cast<uint32_t>(value);
    halves.push_back(static_cast<char>(bits >> 16));
    halves.push_back(static_cast<char>(bits >> 24));
  }
  return halves;
}

LoadedStep::LoadedStep(te_rt_context *context,
                       const mlir::te::CompiledStep &step, int rank)
    : memory(context) {
  std::mt19937 generator(static_cast<unsigned>(rank + 1));
  for (const ArgumentInfo &info : step.arguments()) {
    if (info.carriedInput >= 0) {
      pointers.push_back(pointers[static_cast<size_t>(info.carriedInput)]);
      continue;
    }
    argumentBytes += info.bytes;
    weightElements += info.isWeight ? elementsOf(info) : 0;
    pointers.push_back(memory.allocate(info.bytes));
    if (info.role == ArgumentInfo::Role::Result) {
      if (isLoss(info))
        loss = pointers.back();
      continue;
    }
    if (info.name == "skip_weight_update")
      skipCasts.pointer = pointers.back();
    if (info.name == "skip_optimizer")
      skipOptimizer.pointer = pointers.back();
    const std::vector<char> block = contentOf(info, generator);
    for (int64_t done = 0; done < info.bytes;
         done += static_cast<int64_t>(block.size()))
      need(te_rt_copy_to_device(
               context, static_cast<char *>(pointers.back()) + done,
               block.data(),
               std::min(info.bytes - done, static_cast<int64_t>(block.size()))),
           "copy");
  }
  const auto start = std::chrono::steady_clock::now();
  need(te_rt_instance_create(context, &step.module(), &instance),
       "loading the step");
  loadMs = std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now() - start)
               .count();
  need(te_rt_instance_memory(instance, &arenaBytes, &workspaceBytes), "memory");
}

void LoadedStep::set(Flag &flag, bool value) {
  const float number = value ? 1.0f : 0.0f;
  if (!flag.pointer || flag.value == number)
    return;
  need(te_rt_copy_to_device(memory.owner(), flag.pointer, &number,
                            sizeof(number)),
       "copy");
  flag.value = number;
}

void LoadedStep::replayPeriod(int microBatches,
                              const std::function<void()> &each) {
  for (int i = 0; i < microBatches; ++i) {
    set(skipCasts, i != 0);
    set(skipOptimizer, i + 1 != microBatches);
    each ? each() : replay();
  }
}

void LoadedStep::replay() {
  need(te_rt_instance_run_graph(instance, pointers.data()), "step");
}

std::vector<float> LoadedStep::trace(size_t launches) {
  std::vector<float> times(launches);
  need(te_rt_instance_trace(
           instance, pointers.data(),
           [](void *user, int32_t slot, const char *, float milliseconds) {
             static_cast<float *>(user)[slot] = milliseconds;
           },
           times.data()),
       "trace");
  return times;
}

float LoadedStep::readLoss() const {
  float value = 0.0f;
  need(te_rt_copy_to_host(memory.owner(), &value, loss, sizeof(value)), "copy");
  return value;
}
