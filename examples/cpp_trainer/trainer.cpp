//===- trainer.cpp - a training program around a compiled step ------------===//
//
//     trainer byte_lm.so text.txt --steps=100 --save=model.safetensors
//
// Trains what te-compile made of examples/byte_lm/train.mlir on the bytes of a
// file. Needs libte_runtime and no compiler. Whatever the step carries is
// state, kept on the device, saved and resumed; so one trainer serves every
// recipe. A batch depends on the seed and the number of the step alone, so a
// resumed run equals an uninterrupted one in every bit.
//
//===----------------------------------------------------------------------===//

#include "step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#ifdef TRAINER_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace {

constexpr int64_t kContext = 8; // bytes the model sees before a position

/// A stream of this program; null is the context's own, and on the CPU all
/// there is.
class Stream {
public:
  Stream(bool wanted, [[maybe_unused]] int device) {
#ifdef TRAINER_HAS_CUDA
    if (wanted)
      require(!cudaSetDevice(device) &&
                  !cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
              "cannot make a CUDA stream");
#else
    require(!wanted, "this trainer was built without CUDA: it has no streams");
#endif
  }
  void *get() const { return stream; }
  /// Waits for the step: copies of the runtime follow its own stream only.
  void wait() const {
#ifdef TRAINER_HAS_CUDA
    require(!stream || !cudaStreamSynchronize(stream), "the step failed");
#endif
  }

private:
#ifdef TRAINER_HAS_CUDA
  cudaStream_t stream = nullptr;
#else
  void *stream = nullptr;
#endif
};

/// Vectors of parameters are ones, matrices normal(0, 1/sqrt(columns)); other
/// states are what the step says they start as, or zeros.
void initialize(Step &step, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto uniform = [&] {
    return double((random() >> 11) + 1) / 9007199254740993.0;
  };
  for (int i : step.states) {
    const te_rt_argument_info &info = step.info(i);
    Bytes bytes(info.bytes);
    const bool isMatrix = info.flags & TE_RT_IS_WEIGHT && info.rank > 1;
    if (info.dtype == TE_RT_F32)
      for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float value = info.flags & TE_RT_HAS_INIT ? info.init : 0.0f;
        if (isMatrix)
          value = float(std::sqrt(-2 * std::log(uniform()) /
                                  double(info.shape[info.rank - 1])) *
                        std::cos(2 * M_PI * uniform()));
        else if (info.flags & TE_RT_IS_WEIGHT)
          value = 1.0f;
        std::memcpy(&bytes[at], &value, sizeof(float));
      }
    step.write(i, bytes.data(), bytes.size());
  }
}

/// Fills what changes from step to step.
void feed(Step &step, const Bytes &text, uint64_t seed, int64_t count,
          float rate) {
  const int64_t positions = step.info(step.find("targets")).shape[0];
  std::seed_seq mix{uint32_t(seed), uint32_t(seed >> 32), uint32_t(count)};
  std::mt19937_64 random(mix);
  std::vector<int32_t> context, targets;
  for (int64_t p = 0; p < positions; ++p) {
    const uint64_t at = kContext + random() % (text.size() - kContext);
    context.insert(context.end(), &text[at - kContext], &text[at]);
    targets.push_back(text[at]);
  }
  const float number = float(count);
  const float warm = rate * std::min(1.0f, number / 10);
  step.write(step.find("context"), context.data(), context.size() * 4);
  step.write(step.find("targets"), targets.data(), targets.size() * 4);
  step.write(step.find("step"), &number, sizeof(number));
  step.write(step.find("lr"), &warm, sizeof(warm));
}

/// Joins group `id` as `rank` of `ranks`. The first rank writes the file that
/// the others wait for.
void bindGroup(te_rt_context *context, int id, int ranks, int rank,
               const std::string &path) {
  char bytes[TE_RT_GROUP_ID_BYTES] = {};
  if (ranks > 1 && rank == 0) {
    check(te_rt_group_unique_id(bytes));
    std::ofstream(path + ".part", std::ios::binary).write(bytes, sizeof(bytes));
    require(!std::rename((path + ".part").c_str(), path.c_str()),
            "cannot write '" + path + "'");
  } else if (ranks > 1) {
    std::ifstream file;
    while (file.open(path, std::ios::binary), !file.is_open())
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    require(bool(file.read(bytes, sizeof(bytes))),
            "cannot read '" + path + "'");
  }
  check(te_rt_context_bind_group(context, id, ranks > 1 ? bytes : nullptr,
                                 ranks, rank));
}

int train(const std::vector<std::string> &files,
          std::map<std::string, std::string> options) {
  const std::string backend = options["backend"];
  te_rt_context *context = nullptr;
  const int rank = std::stoi(options["rank"]);
  // A GPU for each rank of this host.
  check(rank && backend == "cuda"
            ? te_rt_context_create_on_device("cuda", rank, &context)
            : te_rt_context_create(backend.c_str(), &context));
  if (!options["group"].empty())
    bindGroup(context, std::stoi(options["group"]), std::stoi(options["ranks"]),
              rank, options["id-file"]);
  const Stream stream(options["stream"] == "own", rank);
  Step step(files[0], context);
  Bytes text;
  std::string error;
  require(te::support::readFile(files[1], text, error), error);
  require(int64_t(text.size()) > kContext, "the text is too short");

  const uint64_t seed = std::stoull(options["seed"]);
  int64_t count = 0;
  initialize(step, seed);
  if (!options["load"].empty())
    count = load(step, options["load"]);
  const int64_t last = std::stoll(options["steps"]);
  const int64_t every = std::stoll(options["save-every"]);
  while (count < last) {
    feed(step, text, seed, ++count, std::stof(options["lr"]));
    step.run(stream.get());
    stream.wait();
    float loss = 0;
    const Bytes bytes = step.read(step.find("loss"));
    std::memcpy(&loss, bytes.data(), sizeof(loss));
    std::printf("step %lld loss %.9g\n", (long long)count, loss);
    require(std::isfinite(loss), "the loss is not finite");
    if (!options["save"].empty() &&
        (count == last || (every && count % every == 0)))
      save(step, options["save"], count);
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> files;
  std::map<std::string, std::string> options = {
      {"backend", "auto"}, {"steps", "100"},   {"lr", "1e-3"},
      {"seed", "0"},       {"load", ""},       {"save", ""},
      {"save-every", "0"}, {"stream", "null"}, {"group", ""},
      {"ranks", "1"},      {"rank", "0"},      {"id-file", ""}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--"))
      files.push_back(argument);
    else if (equals != std::string::npos &&
             options.contains(argument.substr(2, equals - 2)))
      options[argument.substr(2, equals - 2)] = argument.substr(equals + 1);
    else
      files.clear(), i = argc;
  }
  if (files.size() != 2) {
    std::fprintf(stderr, "usage: trainer STEP.so TEXT [--option=value]...\n");
    for (const auto &[name, value] : options)
      std::fprintf(stderr, "  --%s=%s\n", name.c_str(), value.c_str());
    return 2;
  }
  try {
    return train(files, options);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "trainer: %s\n", error.what());
    return 1;
  }
}
