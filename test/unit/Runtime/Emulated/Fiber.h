//===- Fiber.h - code on a stack of its own -------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_EMULATED_FIBER_H
#define TE_UNITTEST_RUNTIME_EMULATED_FIBER_H

#include <functional>
#include <memory>

namespace te::emulated {

/// Runs body() whenever it is resumed, from where it suspended itself, in turns
/// with the code that resumes it.
class Fiber {
public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();

  /// Runs the body until it suspends itself or ends. The next time after its
  /// end, it starts again.
  void resume();
  /// Called in the body.
  void suspend();

  struct Contexts;

private:
  std::unique_ptr<Contexts> contexts;
};

} // namespace te::emulated

#endif // TE_UNITTEST_RUNTIME_EMULATED_FIBER_H
