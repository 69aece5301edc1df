//===- Xla.cpp - compiled steps as custom calls of XLA --------------------===//
//
// Three tables: devices, each with its own context and mutex; programs; and
// calls, by the numbers that custom calls carry. A handler finds its call,
// locks the device, and runs launches of the program's instance for XLA's
// stream there. The lock is necessary because a context is not thread-safe; on
// a GPU it is held while work is enqueued, on the CPU while the work runs.
//
// An instance has no arena: each call gives it the memory that XLA has for it.
// An instance therefore has no data between two calls, and one for each stream
// is enough.
//
//===----------------------------------------------------------------------===//

#include "te-c/te_xla.h"

#include "TEDialect/Runtime/te_runtime.h"

#include "xla/ffi/api/c_api.h"

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

thread_local std::string lastError;

te_rt_status fail(te_rt_status status, std::string message) {
  lastError = std::move(message);
  return status;
}

/// Short enough for a string to take it without an allocation.
constexpr const char *kOutOfMemory = "out of memory";

/// Runs the body of a function of the C API.
template <typename Body> te_rt_status guarded(Body body) noexcept {
  te_rt_status status;
  const char *text;
  try {
    return body();
  } catch (const std::bad_alloc &) {
    status = TE_RT_OUT_OF_MEMORY;
    text = kOutOfMemory;
  } catch (const std::exception &) {
    status = TE_RT_INTERNAL;
    text = "internal error";
  }
  lastError.assign(text);
  return status;
}

struct Program {
  int64_t id;
  std::string name;
  bool cuda;
  te_rt_module module;
  /// Of each of the step's pointers. carried: the state that it is the next
  /// value of, or its own place.
  std::vector<int64_t> bytes;
  std::vector<int32_t> carried;
  std::vector<std::string> names;
  std::atomic<bool> alive = true;
  std::atomic<int64_t> runs = 0;
};

struct Call {
  std::shared_ptr<Program> program;
  int32_t begin, end;
  std::vector<int32_t> arguments, results;
};

struct Device {
  std::mutex mutex;
  te_rt_context *context = nullptr;
  /// By program and stream.
  std::map<std::pair<int64_t, void *>, te_rt_instance *> instances;

  /// The mutex must be held.
  te_rt_status instance(const Program &program, void *stream, int32_t index,
                        te_rt_instance **found);
};

/// Where an instance waits for the first stream that a program is called on.
char noStream;

te_rt_status Device::instance(const Program &program, void *stream,
                              int32_t index, te_rt_instance **found) {
  if (auto it = instances.find({program.id, stream}); it != instances.end()) {
    *found = it->second;
    return TE_RT_OK;
  }
  if (auto waiting = instances.extract({program.id, &noStream})) {
    waiting.key().second = stream;
    *found = instances.insert(std::move(waiting)).position->second;
    return TE_RT_OK;
  }
  if (!context)
    if (te_rt_status status = te_rt_context_create_on_device(
            program.cuda ? "cuda" : "reference", index, &context))
      return fail(status, te_rt_last_error());
  // A place first: an instance without one would be lost.
  const auto place = instances.insert({{program.id, stream}, nullptr}).first;
  if (te_rt_status status =
          te_rt_instance_create_without_arena(context, &program.module, found))
    return instances.erase(place), fail(status, te_rt_last_error());
  place->second = *found;
  return TE_RT_OK;
}

class Tables {
public:
  std::shared_ptr<Device> device(bool cuda, int32_t index) {
    std::lock_guard lock(mutex);
    const Place place = {cuda, cuda ? index : 0};
    if (const auto it = devices.find(place); it != devices.end())
      return it->second;
    const auto device = std::make_shared<Device>();
    devices.insert({place, device});
    return device;
  }

  std::shared_ptr<Program> program(int64_t id) {
    std::lock_guard lock(mutex);
    auto it = programs.find(id);
    return it == programs.end() ? nullptr : it->second;
  }

  std::shared_ptr<const Call> call(int64_t id) {
    std::lock_guard lock(mutex);
    auto it = calls.find(id);
    return it == calls.end() ? nullptr : it->second;
  }

  void add(std::shared_ptr<Program> program) {
    std::lock_guard lock(mutex);
    program->id = next++;
    programs[program->id] = std::move(program);
  }

  int64_t add(std::shared_ptr<const Call> call) {
    std::lock_guard lock(mutex);
    calls[next] = std::move(call);
    return next++;
  }

  /// Calls `visit` with each device while its mutex is held. No table is locked
  /// meanwhile, and nothing is allocated.
  template <typename Visit> void eachDevice(Visit visit) {
    Place last;
    for (std::shared_ptr<Device> device = deviceAfter(nullptr, last); device;
         device = deviceAfter(&last, last)) {
      std::lock_guard lock(device->mutex);
      visit(*device);
    }
  }

  void remove(int64_t id) {
    std::lock_guard lock(mutex);
    programs.erase(id);
    std::erase_if(calls, [&](const auto &entry) {
      return entry.second->program->id == id;
    });
  }

private:
  using Place = std::pair<bool, int32_t>;

  /// The first device, or the one after `last`, and its place.
  std::shared_ptr<Device> deviceAfter(const Place *last, Place &place) {
    std::lock_guard lock(mutex);
    const auto next = last ? devices.upper_bound(*last) : devices.begin();
    if (next == devices.end())
      return nullptr;
    place = next->first;
    return next->second;
  }

  std::mutex mutex;
  std::map<Place, std::shared_ptr<Device>> devices;
  std::unordered_map<int64_t, std::shared_ptr<Program>> programs;
  std::unordered_map<int64_t, std::shared_ptr<const Call>> calls;
  int64_t next = 1;
};

/// Never destroyed: XLA's threads may outlive the end of main().
Tables &tables() {
  static auto *const instance = new Tables;
  return *instance;
}

/// Ends a program on all devices. Its code is not used afterwards.
void destroy(const std::shared_ptr<Program> &program) {
  // Before the locks: who waits for one of them then sees it.
  program->alive = false;
  tables().remove(program->id);
  tables().eachDevice([&](Device &device) {
    std::erase_if(device.instances, [&](const auto &entry) {
      if (entry.first.first != program->id)
        return false;
      te_rt_instance_destroy(entry.second);
      return true;
    });
  });
}

//===----------------------------------------------------------------------===//
// The handlers
//===----------------------------------------------------------------------===//

XLA_FFI_Error *error(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code,
                     const char *message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = code;
  return frame->api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error *invalid(const XLA_FFI_CallFrame *frame,
                       const std::string &message) {
  return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
               ("te: " + message).c_str());
}

XLA_FFI_Error *failed(const XLA_FFI_CallFrame *frame, te_rt_status status,
                      const std::string &message) {
  const XLA_FFI_Error_Code code =
      status == TE_RT_INVALID_ARGUMENT ? XLA_FFI_Error_Code_INVALID_ARGUMENT
      : status == TE_RT_OUT_OF_MEMORY  ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
      : status == TE_RT_UNSUPPORTED    ? XLA_FFI_Error_Code_UNIMPLEMENTED
                                       : XLA_FFI_Error_Code_INTERNAL;
  return error(frame, code, ("te: " + message).c_str());
}

int64_t bitsOf(XLA_FFI_DataType type) {
  switch (type) {
  case XLA_FFI_DataType_F32:
  case XLA_FFI_DataType_S32:
    return 32;
  case XLA_FFI_DataType_BF16:
  case XLA_FFI_DataType_F16:
    return 16;
  case XLA_FFI_DataType_U8:
  case XLA_FFI_DataType_F8E4M3FN:
  case XLA_FFI_DataType_F8E5M2:
  case XLA_FFI_DataType_F8E8M0FNU:
    return 8;
  default:
    return 0;
  }
}

std::string sizes(const XLA_FFI_Buffer &buffer) {
  std::string text = "[";
  for (int64_t i = 0; i < buffer.rank; ++i)
    text += (i ? ", " : "") + std::to_string(buffer.dims[i]);
  return text + "]";
}

/// The pointers and the arena of one run.
class Bindings {
public:
  Bindings(const XLA_FFI_CallFrame *frame, const Program &program)
      : frame(frame), program(program), pointers(program.module.num_arguments) {
  }

  /// Null where all is well.
  XLA_FFI_Error *bind(const char *what, int64_t count, void **buffers,
                      const std::vector<int32_t> &places) {
    if (count != static_cast<int64_t>(places.size()) || (count && !buffers))
      return invalid(frame, "expected " + std::to_string(places.size()) + " " +
                                what + "s of '" + program.name + "', but got " +
                                std::to_string(count));
    for (int64_t i = 0; i < count; ++i) {
      const auto *buffer = static_cast<XLA_FFI_Buffer *>(buffers[i]);
      if (!buffer || (buffer->rank && !buffer->dims))
        return invalid(frame, std::string(what) + " " + std::to_string(i) +
                                  " of '" + program.name + "' is null");
      if (XLA_FFI_Error *problem = bind(what, *buffer, places[i]))
        return problem;
    }
    return nullptr;
  }

  /// Runs these launches of `instance`, once everything is bound.
  te_rt_status run(te_rt_instance *instance, void *stream, int32_t begin,
                   int32_t end) {
    if (memory)
      if (te_rt_status status = te_rt_instance_set_arena(
              instance, memory, program.module.arena_bytes))
        return status;
    // Pointers that the range does not use, and those of no bytes.
    void *other = memory ? memory : &unused;
    for (size_t i = 0; i < pointers.size(); ++i) {
      pointers[i] = pointers[program.carried[i]];
      if (!pointers[i])
        pointers[i] = other;
    }
    return te_rt_instance_run_part(instance, pointers.data(), stream, begin,
                                   end);
  }

private:
  XLA_FFI_Error *bind(const char *what, const XLA_FFI_Buffer &buffer,
                      int32_t place) {
    const bool arena = place == TE_XLA_ARENA;
    auto problem = [&](const std::string &expected) {
      return invalid(frame, std::string(what) + " '" +
                                (arena ? "arena" : program.names[place]) +
                                "' of '" + program.name + "': expected " +
                                expected);
    };
    int64_t bits = bitsOf(buffer.dtype);
    for (int64_t i = 0; i < buffer.rank; ++i)
      bits *= buffer.dims[i];
    const int64_t wanted =
        arena ? program.module.arena_bytes : program.bytes[place];
    if (arena ? bits < wanted * 8 : bits != wanted * 8)
      return problem(std::to_string(wanted) + " bytes, but got " +
                     std::to_string(bits / 8) + " as " + sizes(buffer));
    if (reinterpret_cast<uintptr_t>(buffer.data) % 16)
      return problem("memory aligned to 16 bytes, but it is not");
    void *&slot = arena ? memory : pointers[program.carried[place]];
    if (slot && slot != buffer.data)
      return problem("the memory of the value before it, but got other memory");
    slot = buffer.data;
    return nullptr;
  }

  const XLA_FFI_CallFrame *frame;
  const Program &program;
  std::vector<void *> pointers;
  void *memory = nullptr;
  alignas(16) char unused = 0;
};

/// The floating-point environment that C promises, for as long as this lives.
/// XLA's threads flush subnormal numbers to zero, which changes what the
/// reference backend computes; threads that it starts take theirs from here.
class PlainArithmetic {
public:
  PlainArithmetic() {
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&before); }
  PlainArithmetic(const PlainArithmetic &) = delete;
  PlainArithmetic &operator=(const PlainArithmetic &) = delete;

private:
  std::fenv_t before;
};

/// The attribute 'call'; 0, which is not the number of a call, if it is
/// missing.
int64_t callNumber(const XLA_FFI_Attrs &attributes) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan &name = *attributes.names[i];
    if (attributes.types[i] != XLA_FFI_AttrType_SCALAR || name.len != 4 ||
        std::memcmp(name.ptr, "call", 4) != 0)
      continue;
    const auto *scalar = static_cast<XLA_FFI_Scalar *>(attributes.attrs[i]);
    if (scalar->dtype == XLA_FFI_DataType_S64)
      return *static_cast<int64_t *>(scalar->value);
  }
  return 0;
}

/// The stream and the number of the GPU that XLA calls for.
XLA_FFI_Error *place(const XLA_FFI_CallFrame *frame, void **stream,
                     int32_t *device) {
  XLA_FFI_Stream_Get_Args streamArgs{};
  streamArgs.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  streamArgs.ctx = frame->ctx;
  if (XLA_FFI_Error *problem = frame->api->XLA_FFI_Stream_Get(&streamArgs))
    return problem;
  XLA_FFI_DeviceOrdinal_Get_Args deviceArgs{};
  deviceArgs.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  deviceArgs.ctx = frame->ctx;
  if (XLA_FFI_Error *problem =
          frame->api->XLA_FFI_DeviceOrdinal_Get(&deviceArgs))
    return problem;
  *stream = streamArgs.stream;
  *device = deviceArgs.device_ordinal;
  return nullptr;
}

XLA_FFI_Error *execute(XLA_FFI_CallFrame *frame, bool cuda) {
  // Before it calls for the first time, XLA asks what a handler was made for.
  if (frame->extension_start &&
      frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    auto *metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension *>(frame->extension_start)
            ->metadata;
    metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    metadata->api_version.extension_start = nullptr;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
    return invalid(frame, "expected to be called to execute");

  const int64_t number = callNumber(frame->attrs);
  const std::shared_ptr<const Call> call = tables().call(number);
  const std::string gone =
      "expected a compiled function that is alive, but that of call " +
      std::to_string(number) +
      " is gone; keep the object that te_mlir.jax gave as long as what was "
      "jitted with it";
  if (!call)
    return invalid(frame, gone);
  Program &program = *call->program;
  if (program.cuda != cuda)
    return invalid(frame, "expected '" + program.name + "' to be called on " +
                              (program.cuda ? "CUDA" : "the CPU") +
                              ", which it was compiled for, but got " +
                              (cuda ? "CUDA" : "the CPU"));
  void *stream = nullptr;
  int32_t index = 0;
  if (cuda)
    if (XLA_FFI_Error *problem = place(frame, &stream, &index))
      return problem;

  Bindings bindings(frame, program);
  if (XLA_FFI_Error *problem = bindings.bind("argument", frame->args.size,
                                             frame->args.args, call->arguments))
    return problem;
  if (XLA_FFI_Error *problem = bindings.bind("result", frame->rets.size,
                                             frame->rets.rets, call->results))
    return problem;

  const std::shared_ptr<Device> device = tables().device(cuda, index);
  std::lock_guard lock(device->mutex);
  if (!program.alive)
    return invalid(frame, gone);
  const PlainArithmetic plain;
  te_rt_instance *instance = nullptr;
  if (te_rt_status status = device->instance(program, stream, index, &instance))
    return failed(frame, status, lastError);
  if (te_rt_status status =
          bindings.run(instance, stream, call->begin, call->end))
    return failed(frame, status, te_rt_last_error());
  ++program.runs;
  return nullptr;
}

/// No exception may reach XLA, which is compiled without.
XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame, bool cuda) {
  // Errors are made by the API of the frame.
  if (!frame || !frame->api) {
    guarded([&] {
      return fail(
          TE_RT_INVALID_ARGUMENT,
          std::string(cuda ? "te_xla_execute_cuda" : "te_xla_execute_cpu") +
              ": '" + (frame ? "frame->api" : "frame") + "' is null");
    });
    return nullptr;
  }
  try {
    return execute(frame, cuda);
  } catch (const std::bad_alloc &) {
    return error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, kOutOfMemory);
  } catch (const std::exception &exception) {
    return error(frame, XLA_FFI_Error_Code_INTERNAL, exception.what());
  }
}

} // namespace

int32_t te_xla_runtime_version(void) { return TE_RT_VERSION; }

const char *te_xla_last_error(void) { return lastError.c_str(); }

static te_rt_status createProgram(const te_rt_module *module,
                                  const te_rt_argument_info *arguments,
                                  const char *backend, int32_t device,
                                  const char *name, int64_t *program) {
  if (!module || !backend || !name || !program ||
      (module->num_arguments && !arguments))
    return fail(TE_RT_INVALID_ARGUMENT,
                "te_xla_program_create: expected no null pointer");
  const bool cuda = std::strcmp(backend, "cuda") == 0;
  if (!cuda && std::strcmp(backend, "reference") != 0)
    return fail(TE_RT_INVALID_ARGUMENT,
                "te_xla_program_create: expected 'backend' to be 'reference' "
                "or 'cuda', but got '" +
                    std::string(backend) + "'");
  auto made = std::make_shared<Program>();
  made->name = name;
  made->cuda = cuda;
  made->module = *module;
  for (int32_t i = 0; i < module->num_arguments; ++i) {
    const te_rt_argument_info &info = arguments[i];
    if (!info.name || info.carried_input >= module->num_arguments)
      return fail(TE_RT_INVALID_ARGUMENT,
                  "te_xla_program_create: expected argument " +
                      std::to_string(i) +
                      " to have a name, and to be the next value of one of " +
                      std::to_string(module->num_arguments) + ", but got " +
                      std::to_string(info.carried_input));
    made->bytes.push_back(info.bytes);
    made->names.push_back(info.name);
    made->carried.push_back(info.carried_input < 0 ? i : info.carried_input);
  }
  const std::shared_ptr<Device> where = tables().device(cuda, device);
  tables().add(made);
  te_rt_instance *instance;
  const te_rt_status status = guarded([&] {
    std::lock_guard lock(where->mutex);
    return where->instance(*made, &noStream, device, &instance);
  });
  if (status)
    return destroy(made), status;
  *program = made->id;
  return TE_RT_OK;
}

te_rt_status te_xla_program_create(const te_rt_module *module,
                                   const te_rt_argument_info *arguments,
                                   const char *backend, int32_t device,
                                   const char *name, int64_t *program) {
  return guarded([&] {
    return createProgram(module, arguments, backend, device, name, program);
  });
}

void te_xla_program_destroy(int64_t program) {
  if (std::shared_ptr<Program> found = tables().program(program))
    destroy(found);
}

static te_rt_status
createCall(int64_t program, const te_xla_call_request *request, int64_t *call) {
  if (!request || !call || request->struct_size < sizeof(te_xla_call_request) ||
      request->num_arguments < 0 || request->num_results < 0 ||
      (request->num_arguments && !request->argument_places) ||
      (request->num_results && !request->result_places))
    return fail(TE_RT_INVALID_ARGUMENT,
                "te_xla_call_create: expected no null pointer, counts of zero "
                "or more, and a struct of this release");
  std::shared_ptr<Program> found = tables().program(program);
  if (!found)
    return fail(TE_RT_INVALID_ARGUMENT,
                "te_xla_call_create: expected 'program' to be alive, but got " +
                    std::to_string(program));
  const te_rt_module &module = found->module;
  if (request->begin < 0 || request->begin > request->end ||
      request->end > module.num_plans)
    return fail(TE_RT_INVALID_ARGUMENT,
                "te_xla_call_create: expected 0 <= 'begin' <= 'end' <= " +
                    std::to_string(module.num_plans) + ", but got " +
                    std::to_string(request->begin) + " and " +
                    std::to_string(request->end));
  auto made = std::make_shared<Call>();
  made->program = found;
  made->begin = request->begin;
  made->end = request->end;
  made->arguments.assign(request->argument_places,
                         request->argument_places + request->num_arguments);
  made->results.assign(request->result_places,
                       request->result_places + request->num_results);
  bool arena = module.arena_bytes == 0;
  for (const std::vector<int32_t> *places : {&made->arguments, &made->results})
    for (int32_t place : *places) {
      arena |= place == TE_XLA_ARENA;
      if (place != TE_XLA_ARENA && (place < 0 || place >= module.num_arguments))
        return fail(TE_RT_INVALID_ARGUMENT,
                    "te_xla_call_create: expected places below " +
                        std::to_string(module.num_arguments) + ", but got " +
                        std::to_string(place));
    }
  if (!arena)
    return fail(TE_RT_INVALID_ARGUMENT,
                "te_xla_call_create: expected a buffer for " +
                    std::to_string(module.arena_bytes) +
                    " bytes of temporaries, but got none");
  *call = tables().add(std::move(made));
  return TE_RT_OK;
}

te_rt_status te_xla_call_create(int64_t program,
                                const te_xla_call_request *request,
                                int64_t *call) {
  return guarded([&] { return createCall(program, request, call); });
}

te_rt_status te_xla_program_counts(int64_t program, int64_t *runs,
                                   int64_t *instances) {
  return guarded([&] {
    std::shared_ptr<Program> found = tables().program(program);
    if (!found || !runs || !instances)
      return fail(TE_RT_INVALID_ARGUMENT,
                  "te_xla_program_counts: expected a program that is alive and "
                  "no null pointer");
    *runs = found->runs;
    *instances = 0;
    tables().eachDevice([&](const Device &device) {
      for (const auto &[key, instance] : device.instances)
        *instances += key.first == program;
    });
    return TE_RT_OK;
  });
}

XLA_FFI_Error *te_xla_execute_cpu(XLA_FFI_CallFrame *frame) {
  return handle(frame, false);
}

XLA_FFI_Error *te_xla_execute_cuda(XLA_FFI_CallFrame *frame) {
  return handle(frame, true);
}
