//===- FakeCudnn.cpp - libcudnn.so.9 for tests ----------------------------===//
//
// The entry points that the frontend calls for a graph of attention. A
// descriptor stores its attributes. The machine determines the number of engine
// configurations of a problem and the scratch memory of a plan. An execution
// checks that memory and computes nothing.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <cudnn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace te::fake;

namespace {

cudnnStatus_t injectedError() {
  static const cudnnStatus_t codes[] = {CUDNN_STATUS_ALLOC_FAILED,
                                        CUDNN_STATUS_EXECUTION_FAILED,
                                        CUDNN_STATUS_NOT_SUPPORTED};
  return codes[book().errorVariant()];
}

/// Null for null, which the frontend passes after it failed to create an
/// object, and which cuDNN rejects.
Object *use(const void *handle, Kind kind, const char *call) {
  return handle ? book().use(handle, kind, call) : nullptr;
}

size_t elementBytes(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_CHAR:
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  default:
    return 4;
  }
}

void notePointwise(cudnnPointwiseMode_t mode) {
  for (auto [each, name] : {std::pair(CUDNN_POINTWISE_GEN_INDEX, "index"),
                            {CUDNN_POINTWISE_BINARY_SELECT, "select"},
                            {CUDNN_POINTWISE_TANH_FWD, "tanh"},
                            {CUDNN_POINTWISE_TANH_BWD, "tanh gradient"}})
    if (mode == each)
      book().attentionModes.push_back(name);
}

template <typename T> T attribute(const Object *object, int key) {
  T value = {};
  const auto found = object->attributes.find(key);
  if (found != object->attributes.end() && found->second.size() >= sizeof(T))
    std::memcpy(&value, found->second.data(), sizeof(T));
  return value;
}

} // namespace

#define ENTER(name)                                                            \
  if (book().enter(#name, true))                                               \
  return injectedError()

extern "C" {

// These do not count as calls: they are made after failures, or return
// constants.
size_t cudnnGetVersion() {
  return static_cast<size_t>(book().machine.cudnnVersion);
}
const char *cudnnGetErrorString(cudnnStatus_t) { return "a text of cuDNN"; }
void cudnnGetLastErrorString(char *message, size_t size) {
  std::snprintf(message, size, "more of it");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  ENTER(cudnnCreate);
  *handle = reinterpret_cast<cudnnHandle_t>(book().create(Kind::cudnnHandle));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const bool fails = book().enter("cudnnDestroy", true);
  book().destroy(handle, Kind::cudnnHandle, "cudnnDestroy");
  return fails ? injectedError() : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  ENTER(cudnnSetStream);
  Object *object = use(handle, Kind::cudnnHandle, "cudnnSetStream");
  if (!object || !use(stream, Kind::stream, "cudnnSetStream"))
    return CUDNN_STATUS_BAD_PARAM;
  object->parent = reinterpret_cast<Object *>(stream);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  ENTER(cudnnGetStream);
  Object *object = use(handle, Kind::cudnnHandle, "cudnnGetStream");
  if (!object)
    return CUDNN_STATUS_BAD_PARAM;
  *stream = reinterpret_cast<cudaStream_t>(object->parent);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                             cudnnBackendDescriptor_t *descriptor) {
  ENTER(cudnnBackendCreateDescriptor);
  Object *object = book().create(Kind::cudnnDescriptor);
  object->type = type;
  *descriptor = reinterpret_cast<cudnnBackendDescriptor_t>(object);
  return CUDNN_STATUS_SUCCESS;
}

// Always releases; the frontend does not check the status.
cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  // The frontend also releases objects that it failed to create.
  if (descriptor)
    book().destroy(descriptor, Kind::cudnnDescriptor,
                   "cudnnBackendDestroyDescriptor");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *elements) {
  ENTER(cudnnBackendSetAttribute);
  Object *object =
      use(descriptor, Kind::cudnnDescriptor, "cudnnBackendSetAttribute");
  if (!object || (count != 0 && !elements))
    return CUDNN_STATUS_BAD_PARAM;
  if (name == CUDNN_ATTR_POINTWISE_MODE)
    notePointwise(*static_cast<const cudnnPointwiseMode_t *>(elements));
  const auto *begin = static_cast<const unsigned char *>(elements);
  object->attributes[name].assign(begin, begin + static_cast<size_t>(count) *
                                                     elementBytes(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                         cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t, int64_t asked,
                         int64_t *count, void *elements) {
  ENTER(cudnnBackendGetAttribute);
  if (!use(descriptor, Kind::cudnnDescriptor, "cudnnBackendGetAttribute"))
    return CUDNN_STATUS_BAD_PARAM;
  const auto give = [&](auto value) {
    std::memcpy(elements, &value, sizeof(value));
    return 1;
  };
  int64_t found = 0;
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    found = book().machine.cudnnEngines;
    break;
  // The function would fill the caller's descriptors.
  case CUDNN_ATTR_ENGINECFG_ENGINE:
    found = 1;
    break;
  case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    found = give(book().machine.cudnnWorkspaceBytes);
    break;
  case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
    found = give(int32_t{0});
    break;
  case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    found = give(int64_t{7});
    break;
  default: // Notes and knobs: there are none.
    break;
  }
  if (count)
    *count = elements ? std::min(found, asked) : found;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  ENTER(cudnnBackendFinalize);
  return use(descriptor, Kind::cudnnDescriptor, "cudnnBackendFinalize")
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variants) {
  ENTER(cudnnBackendExecute);
  const char *const call = "cudnnBackendExecute";
  Object *with = use(handle, Kind::cudnnHandle, call);
  Object *pack = use(variants, Kind::cudnnDescriptor, call);
  if (!with || !pack || !use(plan, Kind::cudnnDescriptor, call))
    return CUDNN_STATUS_BAD_PARAM;
  if (const int64_t bytes = book().machine.cudnnWorkspaceBytes)
    if (!book().touch(
            attribute<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
            static_cast<size_t>(bytes), call))
      return CUDNN_STATUS_BAD_PARAM;
  const auto found =
      pack->attributes.find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t at = 0; found != pack->attributes.end() &&
                      at + sizeof(void *) <= found->second.size();
       at += sizeof(void *)) {
    void *pointer = nullptr;
    std::memcpy(&pointer, &found->second[at], sizeof(pointer));
    book().attentionPointers.push_back(pointer);
    if (!book().isDeviceMemory(pointer, 1))
      book().attentionScalars.push_back(*static_cast<const float *>(pointer));
  }
  book().enqueue(with->parent, "cudnnBackendExecute");
  return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
