//===- ParallelLayer.cpp - the layer, and a step on one rank --------------===//

#include "Parallel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using mlir::te::ArgumentInfo;

namespace te::bench {

std::string matrix(int64_t rows, int64_t columns) {
  return llvm::formatv("tensor<{0}x{1}xbf16>", rows, columns);
}

std::string layerOf(const Sizes &sizes, int64_t ranks) {
  const bool alone = ranks == 1;
  const std::string group = std::to_string(ranks);
  const auto parallel = [&](const char *mode) {
    return alone ? std::string()
                 : std::string(" parallel <") + mode + ", group = " + group +
                       ", sequence>";
  };
  const auto split = [&](int axis) {
    return alone ? std::string()
                 : ", te.sharding = [#te.shard<axis = " + std::to_string(axis) +
                       ", group = " + group + ">]";
  };
  const int64_t own = sizes.tokens / ranks, all = sizes.tokens;
  const int64_t hidden = sizes.hidden, ffn = sizes.ffn / ranks;
  const int64_t width = hidden / ranks;
  const int64_t kvWidth = hidden / sizes.heads * sizes.kvHeads / ranks;
  const std::string x = matrix(own, hidden), q = matrix(all, width);
  const std::string kv = matrix(all, kvWidth);
  const std::string gamma = "tensor<" + std::to_string(hidden) + "xbf16>";
  const std::string table = llvm::formatv("tensor<{0}x{1}xf32>", sizes.sequence,
                                          hidden / sizes.heads / 2);
  std::string text = "module";
  if (!alone)
    text += llvm::formatv(" attributes {{te.groups = [#te.group<id = {0}, name "
                          "= \"tp\", axis = \"tp\", size = {0}>]}",
                          ranks);
  text += " {\n  func.func @layer(";
  const auto argument = [&](const char *name, const std::string &type,
                            const std::string &more) {
    text += std::string("%") + name + ": " + type + " {te.name = \"" + name +
            "\"" + more + "},\n    ";
  };
  const std::string rows = ", te.weight" + split(0);
  const std::string columns = ", te.weight" + split(1);
  argument("x", x, split(0));
  argument("cos", table, "");
  argument("sin", table, "");
  argument("g1", gamma, ", te.weight");
  argument("wq", matrix(width, hidden), rows);
  argument("wk", matrix(kvWidth, hidden), rows);
  argument("wv", matrix(kvWidth, hidden), rows);
  argument("wo", matrix(hidden, width), columns);
  argument("g2", gamma, ", te.weight");
  argument("wu", matrix(2 * ffn, hidden), rows);
  argument("wd", matrix(hidden, ffn), columns);
  text.resize(text.rfind(','));
  text += ")\n      -> (" + x + " {te.name = \"y\"" + split(0) + "}) {\n";
  const auto op = [&](const std::string &line) {
    text += "    " + line + "\n";
  };
  const auto linear = [&](const char *to, const char *from, const char *w,
                          const char *mode, const std::string &in,
                          const std::string &weight, const std::string &out) {
    op(std::string("%") + to + " = te.linear %" + from + ", %" + w +
       parallel(mode) + " : " + in + ", " + weight + " -> " + out);
  };
  op("%n1 = te.rms_norm %x, %g1 {epsilon = 1.0e-5 : f32} : " + x + ", " +
     gamma);
  linear("q0", "n1", "wq", "column", x, matrix(width, hidden), q);
  linear("k0", "n1", "wk", "column", x, matrix(kvWidth, hidden), kv);
  linear("v", "n1", "wv", "column", x, matrix(kvWidth, hidden), kv);
  const std::string heads = std::to_string(sizes.heads / ranks);
  const std::string kvHeads = std::to_string(sizes.kvHeads / ranks);
  op("%q = te.rope %q0, %cos, %sin {heads = " + heads + " : i64} : " + q +
     ", " + table);
  op("%k = te.rope %k0, %cos, %sin {heads = " + kvHeads + " : i64} : " + kv +
     ", " + table);
  op("%a = te.attention %q, %k, %v {heads = " + heads + " : i64, kv_heads = " +
     kvHeads + " : i64, sequence = " + std::to_string(sizes.sequence) +
     " : i64, causal} : " + q + ", " + kv);
  linear("o", "a", "wo", "row", q, matrix(hidden, width), x);
  op("%r = arith.addf %x, %o : " + x);
  op("%n2 = te.rms_norm %r, %g2 {epsilon = 1.0e-5 : f32} : " + x + ", " +
     gamma);
  const std::string wide = matrix(all, 2 * ffn), narrow = matrix(all, ffn);
  linear("u", "n2", "wu", "column", x, matrix(2 * ffn, hidden), wide);
  op("%h = te.activation <swiglu> %u : " + wide + " -> " + narrow);
  linear("d", "h", "wd", "row", narrow, matrix(hidden, ffn), x);
  op("%y = arith.addf %r, %d : " + x);
  op("return %y : " + x);
  return text + "  }\n}\n";
}

LoadedLayer::LoadedLayer(te_rt_context *context,
                         const mlir::te::CompiledStep &step)
    : memory(context) {
  arguments.resize(sets);
  for (const ArgumentInfo &info : step.arguments()) {
    const bool isResult = info.role == ArgumentInfo::Role::Result;
    const bool rotates = !isResult && (info.name == "x" ||
                                       llvm::StringRef(info.name) == "grad.y");
    int64_t count = 1;
    for (int64_t size : info.shape)
      count *= size;
    void *pointer = nullptr;
    for (std::vector<void *> &set : arguments) {
      if (info.carriedInput >= 0)
        pointer = set[static_cast<size_t>(info.carriedInput)];
      else if (isResult && !pointer)
        pointer = memory.allocate(info.bytes);
      else if (!isResult && (!pointer || rotates))
        pointer = memory.allocateRandom(
            count, info.type,
            llvm::StringRef(info.name).starts_with("w") ? 0.02f : 1.0f);
      set.push_back(pointer);
    }
  }
  need(te_rt_instance_create(context, &step.module(), &instance),
       "loading the layer");
  for (auto [index, info] : llvm::enumerate(step.arguments()))
    if (info.role == ArgumentInfo::Role::Result)
      results.push_back({index, info.bytes});
}

std::vector<size_t> LoadedLayer::twoSteps() {
  std::vector<size_t> hashes;
  for (bool captured : {true, false}) {
    need(captured ? te_rt_instance_run_graph(instance, arguments[0].data())
                  : te_rt_instance_run(instance, arguments[0].data(), nullptr),
         "layer");
    need(te_rt_synchronize(memory.owner()), "synchronize");
    for (auto [index, bytes] : results)
      hashes.push_back(hash(index, bytes));
  }
  return hashes;
}

std::vector<size_t>
LoadedLayer::hashesOfArguments(const mlir::te::CompiledStep &step) {
  std::vector<size_t> hashes;
  for (int i = 0; i < 2; ++i)
    for (auto [index, info] : llvm::enumerate(step.arguments()))
      if (info.role != ArgumentInfo::Role::Result)
        hashes.push_back(hash(index, info.bytes));
  return hashes;
}

size_t LoadedLayer::hash(size_t index, int64_t bytes) const {
  std::string host(static_cast<size_t>(bytes), '\0');
  need(te_rt_copy_to_host(memory.owner(), host.data(), arguments[0][index],
                          bytes),
       "copy");
  return std::hash<std::string>()(host);
}

} // namespace te::bench
