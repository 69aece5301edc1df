//===- Step.h - a compiled step, its states and its groups, for C++ -------===//
//
// What a training program needs around a shared object of te-compile: load it,
// own its buffers, set its inputs, run it, and save and resume what it
// carries. All information about the step comes from the table in the shared
// object. Failures throw std::runtime_error with the runtime's sentence. This
// is one header over the C API; it needs TE::step of find_package(TE).
//
//     te::Step step("byte_lm.so", te::makeContext("auto"));
//     step.initialize(/*seed=*/0);
//     step.set("lr", 1e-3f);
//     step.run();
//     std::printf("%g\n", step.number("loss"));
//     step.save("model.safetensors", /*count=*/1);
//
//===----------------------------------------------------------------------===//

#ifndef TE_CPP_STEP_H
#define TE_CPP_STEP_H

#include "Support/Checkpoint.h"
#include "Support/Files.h"
#include "Support/OutputFile.h"
#include "Support/StepFile.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace te {

using Bytes = std::vector<uint8_t>;

/// Throws the error of the runtime.
inline void check(te_rt_status status) {
  if (status != TE_RT_OK)
    throw std::runtime_error(te_rt_last_error());
}

inline void require(bool condition, const std::string &message) {
  if (!condition)
    throw std::runtime_error(message);
}

inline Bytes readFile(const std::string &path) {
  Bytes bytes;
  std::string error;
  require(support::readFile(path, bytes, error), error);
  return bytes;
}

/// A context of 'auto', 'cuda' or 'reference'; `device` is the number of a GPU.
/// It lives until the process ends.
inline te_rt_context *makeContext(const std::string &backend, int device = 0) {
  te_rt_context *context = nullptr;
  check(device && backend == "cuda"
            ? te_rt_context_create_on_device("cuda", device, &context)
            : te_rt_context_create(backend.c_str(), &context));
  return context;
}

/// Joins group `id` as `rank` of `ranks`, before a step is loaded. The first
/// rank writes the file `path`, and the others wait for it, at most `patience`.
/// The file must not exist before.
inline void
bindGroup(te_rt_context *context, int id, int ranks, int rank,
          const std::string &path,
          std::chrono::seconds patience = std::chrono::minutes(10)) {
  char bytes[TE_RT_GROUP_ID_BYTES] = {};
  if (ranks > 1 && rank == 0) {
    check(te_rt_group_unique_id(bytes));
    support::OutputFile file;
    std::string error;
    require(file.open(path, error) && file.write(bytes, sizeof(bytes)) &&
                file.commit(error),
            error);
  } else if (ranks > 1) {
    const auto end = std::chrono::steady_clock::now() + patience;
    std::ifstream file;
    while (file.open(path, std::ios::binary), !file.is_open()) {
      require(std::chrono::steady_clock::now() < end,
              "expected rank 0 of group " + std::to_string(id) + " to write '" +
                  path + "' within " + std::to_string(patience.count()) +
                  " s, but it is not there");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    require(bool(file.read(bytes, sizeof(bytes))),
            "cannot read '" + path + "'");
  }
  check(te_rt_context_bind_group(context, id, ranks > 1 ? bytes : nullptr,
                                 ranks, rank));
}

/// A loaded step with its buffers. The context has to outlive it. A file that
/// is cut off or damaged is refused before any of it runs.
class Step {
public:
  Step(const std::string &path, te_rt_context *context) : context(context) {
    std::string damage;
    require(support::checkStepFile(path, damage), damage);
    file.reset(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    require(file != nullptr, file ? "" : dlerror());
    auto *module = static_cast<te_rt_module *>(dlsym(file.get(), "te_module"));
    signature = static_cast<te_rt_signature *>(
        dlsym(file.get(), "te_module_signature"));
    require(module && signature && signature->magic == TE_RT_SIGNATURE_MAGIC,
            "expected '" + path + "' to be a step of te-compile");
    require(signature->version == uint32_t(te_rt_version()),
            "expected '" + path + "' to have ABI version " +
                std::to_string(te_rt_version()) + ", but got " +
                std::to_string(signature->version) + "; compile it again");
    void *const arena = allocate(module->arena_bytes);
    te_rt_instance *loaded = nullptr;
    check(te_rt_instance_create_without_arena(context, module, &loaded));
    instance.reset(loaded);
    check(te_rt_instance_set_arena(loaded, arena, module->arena_bytes));
    for (int i = 0; i < signature->num_arguments; ++i) {
      const te_rt_argument_info &info = signature->arguments[i];
      void *pointer = nullptr;
      if (info.carried_input >= 0) {
        states.push_back(info.carried_input);
        pointer = pointers[info.carried_input];
      } else if (info.arena_offset >= 0) {
        pointer = static_cast<char *>(arena) + info.arena_offset;
      } else {
        pointer = allocate(info.bytes);
      }
      pointers.push_back(pointer);
      // Of a state, the argument.
      index.insert({info.name, i});
    }
  }

  const te_rt_argument_info &info(const std::string &name) const {
    return signature->arguments[find(name)];
  }

  /// Whether the step has an argument or result of that name.
  bool has(const std::string &name) const { return index.contains(name); }

  /// The address of an argument or result on the device.
  void *pointer(const std::string &name) const { return pointers[find(name)]; }

  /// Sets the elements of an argument, or the value of one that is an f32
  /// number.
  template <typename T>
  void set(const std::string &name, const std::vector<T> &values) {
    write(find(name), values.data(), values.size() * sizeof(T));
  }
  void set(const std::string &name, float value) {
    write(find(name), &value, sizeof(value));
  }

  /// The bytes of an argument or result, and a result that is one f32.
  Bytes read(const std::string &name) const { return read(find(name)); }
  float number(const std::string &name) const {
    float value = 0;
    const Bytes bytes = read(name);
    require(info(name).dtype == TE_RT_F32 && bytes.size() == sizeof(value),
            "'" + name + "' is not an f32 number");
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  /// Enqueues the step on a CUstream; null is the context's own stream, for
  /// which functions that read results wait.
  void run(void *stream = nullptr) {
    check(te_rt_instance_run(instance.get(), pointers.data(), stream));
  }

  /// Sets vectors of parameters to ones and matrices to normal(0,
  /// 1/sqrt(columns)), also parameters that are no state. Other states start as
  /// the step says, or as zeros. Throws before it sets anything where a
  /// parameter is neither f32, bf16 nor f16.
  void initialize(uint64_t seed) {
    std::vector<int> filled = states;
    // After the states, whose values thus do not depend on the others.
    for (int i = 0; i < signature->num_arguments; ++i)
      if (isWeight(i) && signature->arguments[i].role == TE_RT_ARGUMENT &&
          std::find(states.begin(), states.end(), i) == states.end())
        filled.push_back(i);
    for (int i : filled)
      require(!isWeight(i) || isFloat(signature->arguments[i].dtype),
              "expected parameter '" +
                  std::string(signature->arguments[i].name) +
                  "' to be f32, bf16 or f16, but got " +
                  signature->arguments[i].value_type + "; set it by name");
    std::mt19937_64 random(seed);
    const auto uniform = [&] {
      return double((random() >> 11) + 1) / 9007199254740993.0;
    };
    for (int i : filled) {
      const te_rt_argument_info &info = signature->arguments[i];
      if (!isWeight(i)) {
        const Bytes bytes = initialValue(i);
        write(i, bytes.data(), bytes.size());
        continue;
      }
      Bytes bytes(info.bytes);
      const size_t size = info.dtype == TE_RT_F32 ? 4 : 2;
      for (size_t at = 0; at < bytes.size(); at += size) {
        const float value =
            info.rank > 1 ? float(std::sqrt(-2 * std::log(uniform()) /
                                            double(info.shape[info.rank - 1])) *
                                  std::cos(2 * M_PI * uniform()))
                          : 1.0f;
        const uint32_t bits = encode(info.dtype, value);
        std::memcpy(&bytes[at], &bits, size);
      }
      write(i, bytes.data(), bytes.size());
    }
  }

  /// Writes the states and the number of steps: a checkpoint that te-run reads
  /// with --load. The file is complete, and on the disk, or as it was before.
  void save(const std::string &path, int64_t count) const {
    support::OutputFile output;
    std::string error;
    require(output.open(path, error), error);
    support::Safetensors file;
    file.metadata = support::checkpointMetadata({signature->recipe, count},
                                                storedStates(), "te-cpp");
    std::vector<Bytes> data;
    data.reserve(states.size());
    for (int i : states) {
      const te_rt_argument_info &info = signature->arguments[i];
      data.push_back(read(i));
      file.tensors[info.name] = {typeName(info), storedShape(info),
                                 data.back()};
    }
    const auto sink = [&](const void *bytes, size_t size) {
      return output.write(bytes, size);
    };
    // Where it is the sink that failed, the commit says why.
    require((support::writeSafetensors(sink, file, error) || error.empty()) &&
                output.commit(error),
            error);
  }

  /// Reads a checkpoint of `save` or te-run; returns the number of steps that
  /// were run before it. If it was saved under another recipe, states of
  /// recipes that the step does not know are left, and its own that the file
  /// does not have start as `initialize` starts them; `warn` gets one sentence
  /// that counts them. If the file does not fit in any other way, it throws,
  /// and the states are as they were.
  int64_t load(
      const std::string &path,
      const std::function<void(const std::string &)> &warn =
          [](const std::string &text) {
            std::fprintf(stderr, "warning: %s\n", text.c_str());
          }) {
    const Bytes bytes = readFile(path);
    support::Safetensors file;
    support::RestoredStates restored;
    std::string error;
    const bool parsed = support::parseSafetensors(bytes, file, error);
    require(parsed, "cannot read " + support::inQuotes(path) + ": " + error);
    std::vector<std::string> errors;
    if (!support::restoreStates(file, path, signature->recipe, storedStates(),
                                restored, errors))
      throw std::runtime_error(errors.front());
    if (!restored.warning.empty())
      warn(restored.warning);
    // Before any is written, because memory may run out.
    std::vector<Bytes> initial(states.size());
    for (size_t i = 0; i < states.size(); ++i)
      if (!restored.values[i])
        initial[i] = initialValue(states[i]);
    for (size_t i = 0; i < states.size(); ++i)
      if (const support::SafetensorsView *view = restored.values[i])
        write(states[i], view->data.data(), view->data.size());
      else
        write(states[i], initial[i].data(), initial[i].size());
    return restored.saved.step;
  }

private:
  struct CloseFile {
    void operator()(void *file) const { dlclose(file); }
  };
  struct DestroyInstance {
    void operator()(te_rt_instance *instance) const {
      te_rt_instance_destroy(instance);
    }
  };
  struct FreeBuffer {
    void operator()(void *buffer) const { (void)te_rt_free(context, buffer); }
    te_rt_context *context;
  };

  void *allocate(int64_t bytes) {
    void *buffer = nullptr;
    check(te_rt_alloc(context, bytes, &buffer));
    return buffers.emplace_back(Buffer(buffer, FreeBuffer{context})).get();
  }
  int find(const std::string &name) const {
    const auto at = index.find(name);
    if (at == index.end())
      throw std::runtime_error("the step has no '" + name + "'");
    return at->second;
  }
  void write(int i, const void *bytes, size_t size) {
    const te_rt_argument_info &info = signature->arguments[i];
    // Without memory for the text: states are written all or none.
    if (int64_t(size) != info.bytes)
      throw std::runtime_error("expected " + std::to_string(info.bytes) +
                               " bytes of '" + info.name + "', but got " +
                               std::to_string(size));
    check(te_rt_copy_to_device(context, pointers[i], bytes, size));
  }
  Bytes read(int i) const {
    Bytes bytes(signature->arguments[i].bytes);
    check(te_rt_copy_to_host(context, bytes.data(), pointers[i], bytes.size()));
    return bytes;
  }
  /// What the step says of a first run, or zeros.
  Bytes initialValue(int i) const {
    const te_rt_argument_info &info = signature->arguments[i];
    Bytes bytes(info.bytes);
    const bool hasInit = info.flags & TE_RT_HAS_INIT;
    const bool isInteger = info.dtype == TE_RT_I32;
    if (hasInit && std::isnan(info.init)) {
      // No value of a type, whatever its bits.
      std::fill(bytes.begin(), bytes.end(), 0xff);
    } else if (hasInit && (isInteger || isFloat(info.dtype))) {
      const size_t size = isInteger || info.dtype == TE_RT_F32 ? 4 : 2;
      const uint32_t bits =
          isInteger ? static_cast<uint32_t>(static_cast<int32_t>(info.init))
                    : encode(info.dtype, info.init);
      for (size_t at = 0; at < bytes.size(); at += size)
        std::memcpy(&bytes[at], &bits, size);
    }
    return bytes;
  }
  bool isWeight(int i) const {
    return signature->arguments[i].flags & TE_RT_IS_WEIGHT;
  }
  static bool isFloat(int32_t dtype) {
    return dtype == TE_RT_F32 || dtype == TE_RT_BF16 || dtype == TE_RT_F16;
  }
  /// The bits of a finite number, rounded to the nearest one of the type: ties
  /// to even.
  static uint32_t encode(int32_t dtype, float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (dtype == TE_RT_F32)
      return bits;
    if (dtype == TE_RT_BF16)
      return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    // f16. Numbers below 2^-14 have the spacing 2^-24, which is also that of
    // the f32 from 0.5 on after the fraction.
    const uint32_t sign = bits >> 16 & 0x8000;
    const float size = std::fabs(value);
    if (size < 0x1p-14f)
      return sign | (std::bit_cast<uint32_t>(size + 0.5f) & 0x7ff);
    const uint32_t magnitude = std::bit_cast<uint32_t>(size) - (112u << 23);
    return sign |
           std::min((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13, 0x7c00u);
  }

  /// The name of the type in safetensors.
  static const char *typeName(const te_rt_argument_info &info) {
    static constexpr const char *names[] = {
        "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I32", "F4", "F8_E8M0"};
    return names[info.dtype];
  }

  /// The shape in safetensors, which counts elements.
  static std::vector<int64_t> storedShape(const te_rt_argument_info &info) {
    std::vector<int64_t> shape(info.shape, info.shape + info.rank);
    if (info.dtype == TE_RT_F4E2M1FN)
      shape.back() *= 2; // two elements a byte
    return shape;
  }
  /// The states as a checkpoint has them.
  std::vector<support::CheckpointState> storedStates() const {
    std::vector<support::CheckpointState> stored;
    stored.reserve(states.size());
    for (int i : states) {
      const te_rt_argument_info &info = signature->arguments[i];
      stored.push_back({info.name, typeName(info), storedShape(info),
                        (info.flags & TE_RT_IS_RECIPE_STATE) != 0});
    }
    return stored;
  }

  using Buffer = std::unique_ptr<void, FreeBuffer>;

  te_rt_context *context;
  // Destroyed from the last to the first: the instance waits for work that uses
  // the buffers, and has code of the file.
  std::unique_ptr<void, CloseFile> file;
  std::vector<Buffer> buffers;
  std::unique_ptr<te_rt_instance, DestroyInstance> instance;
  const te_rt_signature *signature = nullptr;
  /// The arguments that the step carries from run to run.
  std::vector<int> states;
  std::vector<void *> pointers;
  std::map<std::string, int> index;
};

} // namespace te

#endif // TE_CPP_STEP_H
