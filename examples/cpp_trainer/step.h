//===- step.h - a compiled step and its states ----------------------------===//
//
// What a C++ host needs around a shared object of te-compile: load it, keep its
// buffers, and save and resume what it carries. Everything it knows of the step
// is in the table in the shared object.
//
//===----------------------------------------------------------------------===//

#ifndef TRAINER_STEP_H
#define TRAINER_STEP_H

#include "Support/Files.h"
#include "Support/Safetensors.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using Bytes = std::vector<uint8_t>;

// By te_rt_dtype.
inline constexpr const char *kTypeNames[] = {
    "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I32", "F4", "F8_E8M0"};

/// Throws what the runtime says.
inline void check(te_rt_status status) {
  if (status != TE_RT_OK)
    throw std::runtime_error(te_rt_last_error());
}

inline void require(bool condition, const std::string &message) {
  if (!condition)
    throw std::runtime_error(message);
}

/// A loaded step with its buffers. Everything goes when the process ends.
class Step {
public:
  Step(const std::string &path, te_rt_context *context) : context(context) {
    void *file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(file, file ? "" : dlerror());
    auto *module = static_cast<te_rt_module *>(dlsym(file, "te_module"));
    signature =
        static_cast<te_rt_signature *>(dlsym(file, "te_module_signature"));
    require(module && signature && signature->magic == TE_RT_SIGNATURE_MAGIC &&
                signature->version == uint32_t(te_rt_version()),
            "'" + path + "' is no step of this release");
    check(te_rt_instance_create(context, module, &instance));
    for (int i = 0; i < signature->num_arguments; ++i) {
      const te_rt_argument_info &info = signature->arguments[i];
      void *pointer = nullptr;
      if (info.carried_input >= 0) {
        states.push_back(info.carried_input);
        pointer = pointers[info.carried_input];
      } else {
        check(te_rt_alloc(context, info.bytes, &pointer));
      }
      pointers.push_back(pointer);
      // Of a state, the argument.
      index.insert({info.name, i});
    }
  }

  const te_rt_argument_info &info(int i) const {
    return signature->arguments[i];
  }
  int find(const std::string &name) const {
    const auto at = index.find(name);
    require(at != index.end(), "the step has no '" + name + "'");
    return at->second;
  }
  void write(int i, const void *bytes, size_t size) {
    require(int64_t(size) == info(i).bytes,
            "expected " + std::to_string(info(i).bytes) + " bytes of '" +
                info(i).name + "', but got " + std::to_string(size));
    check(te_rt_copy_to_device(context, pointers[i], bytes, size));
  }
  Bytes read(int i) const {
    Bytes bytes(info(i).bytes);
    check(te_rt_copy_to_host(context, bytes.data(), pointers[i], bytes.size()));
    return bytes;
  }
  void run(void *stream) {
    check(te_rt_instance_run(instance, pointers.data(), stream));
  }

  const te_rt_signature *signature = nullptr;
  /// The arguments that the step carries from run to run.
  std::vector<int> states;

private:
  te_rt_context *context;
  te_rt_instance *instance = nullptr;
  std::vector<void *> pointers;
  std::map<std::string, int> index;
};

/// The checkpoint of te-run, which reads it with --load.
inline void save(const Step &step, const std::string &path, int64_t count) {
  te::support::Safetensors file;
  file.metadata = {{"te.format", "1"},
                   {"te.step", std::to_string(count)},
                   {"te.recipe", step.signature->recipe},
                   {"te.version", "trainer"}};
  std::vector<Bytes> data;
  data.reserve(step.states.size());
  for (int i : step.states) {
    const te_rt_argument_info &info = step.info(i);
    std::vector<int64_t> shape(info.shape, info.shape + info.rank);
    if (info.dtype == TE_RT_F4E2M1FN)
      shape.back() *= 2; // two elements a byte
    data.push_back(step.read(i));
    file.tensors[info.name] = {kTypeNames[info.dtype], shape, data.back()};
  }
  // Complete or absent: written beside its place, then renamed.
  const std::string part = path + ".part";
  std::ofstream os(part, std::ios::binary);
  std::string error;
  const auto sink = [&](const void *bytes, size_t size) {
    return bool(os.write(static_cast<const char *>(bytes), size));
  };
  const bool written =
      te::support::writeSafetensors(sink, file, error) && os.flush();
  os.close();
  require(written && !std::rename(part.c_str(), path.c_str()),
          "cannot write '" + path + "': " + error);
}

/// Returns how many steps were run to get there.
inline int64_t load(Step &step, const std::string &path) {
  Bytes bytes;
  te::support::Safetensors file;
  std::string error;
  require(te::support::readFile(path, bytes, error) &&
              te::support::parseSafetensors(bytes, file, error),
          "cannot read '" + path + "': " + error);
  require(file.metadata["te.recipe"] == step.signature->recipe,
          "'" + path + "' was saved under " + file.metadata["te.recipe"] +
              ", but the step has " + step.signature->recipe);
  for (int i : step.states) {
    const auto at = file.tensors.find(step.info(i).name);
    require(at != file.tensors.end(),
            "'" + path + "' has no state '" + step.info(i).name + "'");
    require(at->second.dtype == kTypeNames[step.info(i).dtype],
            "'" + at->first + "' of '" + path + "' has another type");
    step.write(i, at->second.data.data(), at->second.data.size());
  }
  return std::stoll(file.metadata["te.step"]);
}

#endif // TRAINER_STEP_H
