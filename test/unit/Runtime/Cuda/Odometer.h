//===- Odometer.h - all combinations of choices ---------------------------===//

#ifndef TE_UNITTEST_RUNTIME_CUDA_ODOMETER_H
#define TE_UNITTEST_RUNTIME_CUDA_ODOMETER_H

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace te::fake {

/// Iterates over all combinations of choices, which are not known in advance:
/// each round asks the same questions in the same order. There are millions of
/// rounds, so what is the same in all of them is computed in the first.
class Odometer {
public:
  /// The next value of `name`; `list` makes all of them from the name.
  template <typename List> auto choose(const char *name, List list) {
    if (position == digits.size()) {
      const auto values = list(name);
      digits.push_back({name, {values.begin(), values.end()}, 0});
    }
    const Digit &digit = digits[position++];
    return static_cast<typename decltype(list(name))::value_type>(
        digit.values[digit.at]);
  }

  /// Starts the next round; returns false after the last one.
  bool next() {
    position = 0;
    for (Digit &digit : digits) {
      if (++digit.at < digit.values.size())
        return true;
      digit.at = 0;
    }
    return false;
  }

  /// The choices of this round: " rows=37 type=1".
  std::string text() const {
    std::ostringstream text;
    text.precision(17);
    for (const Digit &digit : digits)
      text << " " << digit.name << "=" << digit.values[digit.at];
    return text.str();
  }

private:
  struct Digit {
    const char *name;
    // Exact for f32 and for integers below 2^53, which addresses are.
    std::vector<double> values;
    size_t at;
  };
  std::vector<Digit> digits;
  size_t position = 0;
};

} // namespace te::fake

#endif // TE_UNITTEST_RUNTIME_CUDA_ODOMETER_H
