//===- RandomStepTest.cpp - random steps against a direct evaluation ------===//
//
// Random straight-line programs, most of whose values are carried, returned
// twice or read late, are compiled and compared with the same program evaluated
// on vectors. A wrong lifetime, offset or in-place write changes a value.
// Values are integers below 2^24, so f32 arithmetic is exact. The matmul is
// with a permutation, so it moves elements and must not run in place.
//
//===----------------------------------------------------------------------===//

#include "JIT/StepHarness.h"

#include "gtest/gtest.h"

#include <random>

using namespace ::te::test;

namespace {

constexpr int kSize = 8;
constexpr const char *kType = "tensor<8x8xf32>";
using Matrix = std::vector<float>;

struct Program {
  std::string text;
  std::map<std::string, Matrix> inputs, expected;
};

Program makeProgram(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return int(random() % n); };
  Program program;
  std::vector<Matrix> values;
  std::string arguments = "%p: tensor<8x8xf32> {te.name = \"p\"}", body;

  // Row i of the permutation is the unit vector of order[i].
  std::vector<int> order(kSize);
  for (int i = 0; i < kSize; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  Matrix &permutation = program.inputs["p"];
  permutation.assign(kSize * kSize, 0);
  for (int i = 0; i < kSize; ++i)
    permutation[i * kSize + order[i]] = 1;

  auto name = [](int value) { return "%v" + std::to_string(value); };
  const int numArguments = 1 + below(4), numOps = 1 + below(16);
  for (int i = 0; i < numArguments; ++i) {
    Matrix &x = values.emplace_back();
    for (int e = 0; e < kSize * kSize; ++e)
      x.push_back(below(17) - 8);
    program.inputs["a" + std::to_string(i)] = x;
    arguments += ", " + name(i) + ": " + kType + " {te.name = \"a" +
                 std::to_string(i) + "\"}";
  }
  for (int i = 0; i < numOps; ++i) {
    const int a = below(values.size()), b = below(values.size());
    const int kind = below(5);
    Matrix y(kSize * kSize);
    for (int e = 0; e < kSize * kSize; ++e)
      switch (kind) {
      case 0:
        y[e] = values[a][e] + values[b][e];
        break;
      case 1:
        y[e] = values[a][e] - values[b][e];
        break;
      case 2:
        y[e] = std::max(values[a][e], values[b][e]);
        break;
      case 3:
        y[e] = -values[a][e];
        break;
      default:
        y[e] = values[a][e / kSize * kSize + order[e % kSize]];
      }
    const std::string result = name(values.size()) + " = ";
    const std::string pair = name(a) + ", " + name(b);
    if (kind <= 2)
      body += result +
              (kind == 0   ? "arith.addf "
               : kind == 1 ? "arith.subf "
                           : "arith.maximumf ") +
              pair + " : " + kType + "\n";
    else if (kind == 3)
      body += result + "arith.negf " + name(a) + " : " + kType + "\n";
    else
      body += result + "te.matmul " + name(a) +
              ", %p contract = [1, 1] : " + kType + ", " + kType + " -> " +
              kType + "\n";
    values.push_back(std::move(y));
  }

  std::string types, operands;
  auto addResult = [&](const std::string &resultName) {
    const int value = below(values.size());
    program.expected[resultName] = values[value];
    types += (types.empty() ? "" : ", ") + std::string(kType) +
             " {te.name = \"" + resultName + "\"}";
    operands += (operands.empty() ? "" : ", ") + name(value);
  };
  for (int i = 0; i < numArguments; ++i)
    if (below(3) != 0)
      addResult("a" + std::to_string(i));
  for (int i = 0; i < 1 + below(3); ++i)
    addResult("r" + std::to_string(i));
  std::string returned = operands + " : ";
  for (size_t i = 0; i < program.expected.size(); ++i)
    returned += (i ? ", " : "") + std::string(kType);
  program.text = "func.func @step(" + arguments + ") -> (" + types + ") {\n" +
                 body + "return " + returned + "\n}\n";
  return program;
}

TEST(RandomStep, EqualsTheDirectEvaluation) {
  int64_t arena = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Program program = makeProgram(seed);
    SCOPED_TRACE(program.text);
    std::string error;
    std::unique_ptr<Step> step = Step::compile(program.text, &error);
    ASSERT_TRUE(step) << error;
    arena += step->compiled().module().arena_bytes;
    Values inputs;
    for (auto &[name, matrix] : program.inputs)
      inputs[name] = bytesOf(matrix);
    Values outputs = step->run(inputs);
    for (auto &[name, matrix] : program.expected)
      ASSERT_EQ(valuesOf<float>(outputs[name]), matrix) << name;
    // Arguments without a next state keep their value.
    for (auto &[name, matrix] : program.inputs)
      if (!program.expected.count(name))
        ASSERT_EQ(valuesOf<float>(outputs["after." + name]), matrix) << name;
  }
  EXPECT_GT(arena, 0) << "no program had a temporary";
}

} // namespace
