//===- SafetensorsFuzzer.cpp - any bytes as a checkpoint ------------------===//
//
// As a safetensors file, which is written and read again, and as a checkpoint
// of a step with two states, one of them its recipe's.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "Support/Checkpoint.h"

using namespace te::support;
using te::fuzz::require;

/// Whether a tensor has the bytes that its shape and its type say.
static bool isWhole(const SafetensorsView &tensor) {
  unsigned __int128 bits = static_cast<unsigned>(safetensorsBits(tensor.dtype));
  for (int64_t extent : tensor.shape) {
    if (extent < 0 || bits > UINT64_MAX)
      return false;
    bits *= static_cast<uint64_t>(extent);
  }
  return bits == static_cast<unsigned __int128>(tensor.data.size()) * 8;
}

static void restore(const Safetensors &file) {
  const CheckpointState states[] = {{"w", "F32", {2}, false},
                                    {"w.amax", "F32", {}, true}};
  RestoredStates restored;
  std::vector<std::string> errors;
  if (!restoreStates(file, "checkpoint", "#te.recipe<bf16>", states, restored,
                     errors)) {
    require(!errors.empty(), "an error has a sentence");
    return;
  }
  require(restored.values.size() == 2 && restored.values[0],
          "a state that is not the recipe's is there");
  require(restored.values[0]->data.size() == 8, "a state has its size");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string error;
  Safetensors file;
  if (!parseSafetensors({bytes, size}, file, error)) {
    require(!error.empty(), "an error has a sentence");
    return 0;
  }
  for (const auto &[name, tensor] : file.tensors)
    require(isWhole(tensor), "a tensor has its size");
  restore(file);
  std::vector<uint8_t> written;
  const auto sink = [&](const void *part, size_t partSize) {
    const auto *first = static_cast<const uint8_t *>(part);
    written.insert(written.end(), first, first + partSize);
    return true;
  };
  require(writeSafetensors(sink, file, error), "what was read is written");
  Safetensors again;
  require(parseSafetensors(written, again, error), "what was written is read");
  require(again.metadata == file.metadata, "metadata stay as they were");
  require(again.tensors.size() == file.tensors.size(), "no tensor is lost");
  for (const auto &[name, tensor] : file.tensors) {
    const SafetensorsView &other = again.tensors[name];
    require(other.dtype == tensor.dtype && other.shape == tensor.shape &&
                std::equal(tensor.data.begin(), tensor.data.end(),
                           other.data.begin(), other.data.end()),
            "a tensor stays as it was");
  }
  return 0;
}
