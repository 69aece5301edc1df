//===- FailingMemory.cpp - host memory that runs out on request -----------===//

#include "Memory/FailingMemory.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

namespace {

/// Allocations that still succeed; negative: all do.
std::atomic<int64_t> left = -1;
std::atomic<bool> isLasting = false, hasFailed = false;
std::atomic<int64_t> blocks = 0;
thread_local int exemptions = 0;

bool mayAllocate() {
  if (exemptions > 0 || left.load() < 0)
    return true;
  if (left.fetch_sub(1) > 0)
    return true;
  hasFailed = true;
  // The subtraction ended the count; a lasting one stays at its end.
  if (isLasting)
    left = 0;
  return false;
}

} // namespace

// --wrap makes these the functions of all objects of the program.
extern "C" {
void *__real_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size) {
  return mayAllocate() ? __real_malloc(size) : nullptr;
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return mayAllocate() ? __real_aligned_alloc(alignment, size) : nullptr;
}
// What zlib needs, whose own malloc is that of the system.
int __real_inflateInit2_(z_stream *stream, int bits, const char *version,
                         int size);
int __wrap_inflateInit2_(z_stream *stream, int bits, const char *version,
                         int size) {
  return mayAllocate() ? __real_inflateInit2_(stream, bits, version, size)
                       : Z_MEM_ERROR;
}
}

static void *allocate(size_t size, size_t alignment) {
  void *const memory =
      !mayAllocate() ? nullptr
      : alignment <= alignof(max_align_t)
          ? __real_malloc(size ? size : 1)
          : __real_aligned_alloc(alignment, (size + alignment - 1) / alignment *
                                                alignment);
  if (!memory)
    throw std::bad_alloc();
  ++blocks;
  return memory;
}

static void release(void *memory) noexcept {
  if (memory)
    --blocks;
  std::free(memory);
}

void *operator new(size_t size) { return allocate(size, 1); }
void *operator new[](size_t size) { return allocate(size, 1); }
void *operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void *operator new[](size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void *operator new(size_t size, const std::nothrow_t &) noexcept try {
  return allocate(size, 1);
} catch (const std::bad_alloc &) {
  return nullptr;
}
void *operator new[](size_t size, const std::nothrow_t &tag) noexcept {
  return operator new(size, tag);
}
void operator delete(void *memory) noexcept { release(memory); }
void operator delete[](void *memory) noexcept { release(memory); }
void operator delete(void *memory, size_t) noexcept { release(memory); }
void operator delete[](void *memory, size_t) noexcept { release(memory); }
void operator delete(void *memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void *memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void *memory, size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace te::memory {

int64_t alive() { return blocks; }

Exempt::Exempt() { ++exemptions; }
Exempt::~Exempt() { --exemptions; }

void failAfter(int64_t successes, bool lasting) {
  hasFailed = false;
  isLasting = lasting;
  left = successes;
}

bool recover() {
  left = -1;
  return hasFailed;
}

void sweep(const std::function<void(Attempt &)> &scenario) {
  const struct {
    Reaction reaction;
    bool lasting;
  } ways[] = {{Reaction::Retry, false},
              {Reaction::Retry, true},
              {Reaction::GiveUp, true}};
  for (const auto &[reaction, lasting] : ways) {
    int64_t n = 0;
    for (bool failed = true; failed; ++n) {
      const int64_t before = alive();
      int wrong = 0;
      std::thread run([&, reaction = reaction, lasting = lasting] {
        Attempt attempt(reaction);
        failAfter(n, lasting);
        scenario(attempt);
        failed = recover();
        wrong = attempt.failures();
      });
      run.join();
      ASSERT_EQ(wrong, 0) << "allocation " << n << ", lasting " << lasting;
      ASSERT_EQ(alive(), before)
          << "allocation " << n << ", lasting " << lasting;
    }
    // One that allocates nothing tests nothing.
    EXPECT_GT(n, 1);
  }
}

} // namespace te::memory
