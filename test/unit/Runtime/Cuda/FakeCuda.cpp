//===- FakeCuda.cpp - the book behind the fake vendor libraries -----------===//
//
// Lifetimes of objects, memory, and fault injection. See FakeCuda.h.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <algorithm>
#include <cstdlib>

namespace te::fake {

Book &book() {
  // Never destroyed: static devices of a test end after it would be.
  static Book *const instance = [] {
    auto *made = new Book;
    const auto number = [](const char *variable) {
      const char *text = std::getenv(variable);
      return text ? std::atoi(text) : 0;
    };
    if (const int algorithms = number("TE_FAKE_ALGORITHMS"))
      made->machine.algorithms = algorithms;
    if (const int multiprocessors = number("TE_FAKE_MULTIPROCESSORS"))
      made->machine.multiprocessors = multiprocessors;
    made->machine.algorithmTimes = {{number("TE_FAKE_FASTEST"), 0.5f}};
    made->machine.gemmMilliseconds = number("TE_FAKE_GEMM_MILLISECONDS");
    return made;
  }();
  return *instance;
}

Object *&currentContext() {
  static thread_local Object *current = nullptr;
  return current;
}

void Book::reset() {
  for (const auto &[pointer, bytes] : memory)
    std::free(const_cast<void *>(pointer));
  *this = Book();
  currentContext() = nullptr;
}

void Book::failCall(int index, int errorVariant) {
  callsUntilFailure = index;
  variant = errorVariant;
}

std::vector<std::string> Book::leaks() const {
  std::vector<std::string> found;
  for (const std::unique_ptr<Object> &object : objects)
    if (object->alive)
      found.push_back(kindName(object->kind));
  for (const auto &[pointer, bytes] : memory)
    found.push_back(std::to_string(bytes) + " bytes of memory");
  return found;
}

int Book::count(const std::string &name) const {
  return static_cast<int>(std::count(calls.begin(), calls.end(), name));
}

bool Book::enter(const char *name, bool needsContext) {
  calls.push_back(name);
  if (needsContext && (!currentContext() || !currentContext()->alive))
    violation(std::string(name) + " without a current context");
  if (callsUntilFailure < 0 || callsUntilFailure-- > 0)
    return false;
  failedCall = name;
  return true;
}

std::string Book::kindName(Kind kind) const {
  static const char *const names[] = {
      "context",      "stream",          "event",      "module",
      "function",     "graph",           "graph exec", "cublasLt handle",
      "matmul desc",  "matrix layout",   "preference", "communicator",
      "cudnn handle", "cudnn descriptor"};
  return names[static_cast<int>(kind)];
}

Object *Book::create(Kind kind) {
  objects.push_back(std::make_unique<Object>());
  Object *const object = objects.back().get();
  object->kind = kind;
  known.emplace(object, object);
  return object;
}

Object *Book::functionOf(Object *module, const std::string &name) {
  Object *&function = functions[{module, name}];
  if (!function) {
    function = create(Kind::function);
    function->parent = module;
    function->name = name;
  }
  return function;
}

Object *Book::use(const void *handle, Kind kind, const char *call) {
  const auto found = known.find(handle);
  if (found == known.end() || found->second->kind != kind) {
    violation(std::string(call) + " on something that is no " + kindName(kind));
    return nullptr;
  }
  if (found->second->alive)
    return found->second;
  violation(std::string(call) + " on a dead " + kindName(kind));
  return nullptr;
}

void Book::destroy(const void *handle, Kind kind, const char *call) {
  Object *object = use(handle, kind, call);
  if (!object)
    return;
  object->alive = false;
  if (object->capturing)
    violation(std::string(call) + " on a capturing stream");
  if (kind == Kind::module)
    for (const std::unique_ptr<Object> &other : objects)
      if (other->parent == object)
        other->alive = false;
  if (kind == Kind::context)
    for (const std::string &leak : leaks())
      violation(leak + " outlives the context");
}

void *Book::allocate(size_t bytes) {
  void *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  memory[pointer] = bytes;
  return pointer;
}

void Book::release(void *pointer, const char *call) {
  if (memory.erase(pointer) == 0)
    return violation(std::string(call) + " on something not allocated");
  std::free(pointer);
}

bool Book::isDeviceMemory(const void *pointer, size_t bytes) const {
  auto next = memory.upper_bound(pointer);
  if (next == memory.begin())
    return false;
  const auto &[start, size] = *std::prev(next);
  const size_t offset =
      static_cast<const char *>(pointer) - static_cast<const char *>(start);
  return offset <= size && bytes <= size - offset;
}

bool Book::touch(const void *pointer, size_t bytes, const char *call) {
  if (isDeviceMemory(pointer, bytes))
    return true;
  violation(std::string(call) + " outside live memory");
  return false;
}

void Book::enqueue(Object *stream, const std::string &work) {
  placed.push_back({stream, work});
  ++stream->enqueued;
  if (stream->capturing)
    stream->origin->work.push_back(work);
  else
    executed.push_back(work);
}

int Book::numberOf(const Object *object) const {
  int number = 0;
  for (const std::unique_ptr<Object> &other : objects) {
    if (other.get() == object)
      break;
    number += other->kind == object->kind;
  }
  return number;
}

bool Book::endCapture(Object *origin) {
  bool isJoined = true;
  for (const std::unique_ptr<Object> &object : objects) {
    if (object->kind != Kind::stream || object->origin != origin)
      continue;
    if (object.get() != origin && object->joined < object->enqueued)
      isJoined = false;
    object->capturing = false;
    object->origin = nullptr;
  }
  return isJoined;
}

bool Book::anyStuck() const {
  return std::any_of(
      objects.begin(), objects.end(),
      [](const std::unique_ptr<Object> &object) { return object->stuck; });
}

void Book::unstick() {
  for (const std::unique_ptr<Object> &object : objects)
    object->stuck = false;
}

bool Book::anyCapture() const {
  return std::any_of(
      objects.begin(), objects.end(),
      [](const std::unique_ptr<Object> &object) { return object->capturing; });
}

} // namespace te::fake
