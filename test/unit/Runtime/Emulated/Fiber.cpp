//===- Fiber.cpp - code on a stack of its own -----------------------------===//

// Fibers switch with longjmp, because swapcontext makes a system call. The
// checked variant of longjmp refuses to change the stack.
#undef _FORTIFY_SOURCE

#include "Runtime/Emulated/Fiber.h"

#include <csetjmp>
#include <cstddef>
#include <ucontext.h>
#include <utility>

namespace te::emulated {

static constexpr size_t kStackBytes = 256 * 1024;

struct Fiber::Contexts {
  std::function<void()> body;
  std::unique_ptr<char[]> memory{new char[kStackBytes]};
  bool started = false;
  jmp_buf inside, outside;
};

/// What starts to run, for a function that takes no pointer.
static Fiber::Contexts *starting = nullptr;

static void switchTo(jmp_buf from, jmp_buf to) {
  if (_setjmp(from) == 0)
    _longjmp(to, 1);
}

static void runBody() {
  Fiber::Contexts &own = *starting;
  for (;;) {
    own.body();
    switchTo(own.inside, own.outside);
  }
}

Fiber::Fiber(std::function<void()> body)
    : contexts(std::make_unique<Contexts>()) {
  contexts->body = std::move(body);
}
Fiber::~Fiber() = default;

void Fiber::resume() {
  if (contexts->started)
    return switchTo(contexts->outside, contexts->inside);
  contexts->started = true;
  starting = contexts.get();
  if (_setjmp(contexts->outside) != 0)
    return;
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = contexts->memory.get();
  start.uc_stack.ss_size = kStackBytes;
  makecontext(&start, runBody, 0);
  setcontext(&start);
}

void Fiber::suspend() { switchTo(contexts->inside, contexts->outside); }

} // namespace te::emulated
