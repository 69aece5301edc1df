//===- trainer.cpp - a training program around a compiled step ------------===//
//
//     trainer byte_lm.so text.txt --steps=100 --save=model.safetensors
//
// Trains examples/byte_lm/train.mlir, compiled by te-compile, on the bytes of a
// file, or what examples/tiny_llama/write_llama.py --pack writes, on its lines,
// as many in each batch as fit. Needs libte_runtime and no compiler. What the
// step carries is state: it stays on the device, and is saved and loaded, so
// one trainer serves every recipe. A batch depends only on the seed and the
// number of the step, so a resumed run equals an uninterrupted one in every
// bit.
//
//===----------------------------------------------------------------------===//

#include "te-cpp/Step.h"

#include <algorithm>

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
      te::require(!cudaSetDevice(device) && !cudaStreamCreateWithFlags(
                                                &stream, cudaStreamNonBlocking),
                  "cannot make a CUDA stream");
#else
    te::require(!wanted,
                "this trainer was built without CUDA: it has no streams");
#endif
  }
  void *get() const { return stream; }
  /// Waits for the step: copies of the runtime follow its own stream only.
  void wait() const {
#ifdef TRAINER_HAS_CUDA
    te::require(!stream || !cudaStreamSynchronize(stream), "the step failed");
#endif
  }

private:
#ifdef TRAINER_HAS_CUDA
  cudaStream_t stream = nullptr;
#else
  void *stream = nullptr;
#endif
};

/// Sets the tables of the rotary embedding.
void setRotation(te::Step &step) {
  const int64_t *const shape = step.info("cos").shape;
  std::vector<float> cos, sin;
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    const int64_t position = i / shape[1], pair = i % shape[1];
    const double angle =
        double(position) * std::pow(10000.0, -double(pair) / double(shape[1]));
    cos.push_back(float(std::cos(angle)));
    sin.push_back(float(std::sin(angle)));
  }
  step.set("cos", cos);
  step.set("sin", sin);
}

/// Fills a batch with lines, one behind the other. Each is a document, which
/// attends to itself only; lines that do not fit are empty ones. What a line
/// has beyond the tables of the rotary embedding is cut off.
void feedLines(te::Step &step, const te::Bytes &text, std::mt19937_64 &random) {
  constexpr int32_t kIgnored = -100; // the target of padding
  const int64_t rows = step.info("tokens").shape[0];
  const int64_t longest = step.info("cos").shape[0];
  std::vector<int32_t> tokens(rows), targets(rows, kIgnored), positions(rows);
  std::vector<int32_t> documents(step.info("documents").shape[0]);
  for (size_t d = 1; d < documents.size(); ++d) {
    // The line behind the next line break.
    auto begin = std::find(text.begin() + int64_t(random() % text.size()),
                           text.end(), '\n');
    begin = text.end() - begin < 2 ? text.begin() : begin + 1;
    auto end = std::find(begin, text.end(), '\n');
    end = std::min(end == text.end() ? end : end + 1, begin + longest + 1);
    const int64_t first = documents[d - 1], length = end - begin - 1;
    documents[d] = int32_t(first);
    if (first + length > rows)
      continue;
    for (int64_t i = 0; i < length; ++i) {
      tokens[first + i] = begin[i];
      targets[first + i] = begin[i + 1];
      positions[first + i] = int32_t(i);
    }
    documents[d] += int32_t(length);
  }
  step.set("tokens", tokens);
  step.set("targets", targets);
  step.set("positions", positions);
  step.set("documents", documents);
}

/// Fills what changes from step to step.
void feed(te::Step &step, const te::Bytes &text, uint64_t seed, int64_t count,
          float rate) {
  std::seed_seq mix{uint32_t(seed), uint32_t(seed >> 32), uint32_t(count)};
  std::mt19937_64 random(mix);
  // Such a step counts, and has a learning rate, by itself.
  if (step.has("documents"))
    return feedLines(step, text, random);
  const int64_t positions = step.info("targets").shape[0];
  std::vector<int32_t> context, targets;
  for (int64_t p = 0; p < positions; ++p) {
    const uint64_t at = kContext + random() % (text.size() - kContext);
    context.insert(context.end(), &text[at - kContext], &text[at]);
    targets.push_back(text[at]);
  }
  step.set("context", context);
  step.set("targets", targets);
  step.set("step", float(count));
  step.set("lr", rate * std::min(1.0f, float(count) / 10));
}

int train(const std::vector<std::string> &files,
          std::map<std::string, std::string> options) {
  const int rank = std::stoi(options["rank"]);
  // A GPU for each rank of this host.
  te_rt_context *context = te::makeContext(options["backend"], rank);
  if (!options["group"].empty())
    te::bindGroup(context, std::stoi(options["group"]),
                  std::stoi(options["ranks"]), rank, options["id-file"]);
  const Stream stream(options["stream"] == "own", rank);
  te::Step step(files[0], context);
  const te::Bytes text = te::readFile(files[1]);
  te::require(int64_t(text.size()) > kContext, "the text is too short");

  const uint64_t seed = std::stoull(options["seed"]);
  int64_t count = 0;
  step.initialize(seed);
  if (step.has("documents"))
    setRotation(step);
  if (!options["load"].empty())
    count = step.load(options["load"]);
  const int64_t last = std::stoll(options["steps"]);
  const int64_t every = std::stoll(options["save-every"]);
  if (count >= last)
    std::fprintf(stderr,
                 "trainer: no step is left: at %lld, and --steps=%lld\n",
                 (long long)count, (long long)last);
  while (count < last) {
    feed(step, text, seed, ++count, std::stof(options["lr"]));
    step.run(stream.get());
    stream.wait();
    const float loss = step.number("loss");
    std::printf("step %lld loss %.9g\n", (long long)count, loss);
    te::require(std::isfinite(loss), "the loss is not finite");
    if (!options["save"].empty() &&
        (count == last || (every && count % every == 0)))
      step.save(options["save"], count);
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
