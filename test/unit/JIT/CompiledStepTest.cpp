//===- CompiledStepTest.cpp - small steps, compiled and run ---------------===//
//
// Every number is a small integer or a power of two, so every result is exact.
//
//===----------------------------------------------------------------------===//

#include "JIT/StepHarness.h"

#include "gtest/gtest.h"

using namespace ::te::test;
using mlir::te::ArgumentInfo;

namespace {

std::unique_ptr<Step> compileOrFail(const std::string &text) {
  std::string error;
  std::unique_ptr<Step> step = Step::compile(text, &error);
  EXPECT_TRUE(step) << error;
  return step;
}

std::vector<char> floats(std::vector<float> values) { return bytesOf(values); }

TEST(CompiledStep, AddsAndMultiplies) {
  auto step = compileOrFail(R"(
    func.func @step(%x: tensor<2x3xf32> {te.name = "x"}, %w: tensor<2x3xf32> {te.name = "w"},
                    %b: tensor<2xf32> {te.name = "b"}) -> (tensor<2x2xf32> {te.name = "y"}) {
      %two = arith.constant dense<2.0> : tensor<2x2xf32>
      %p = te.matmul %x, %w bias %b : tensor<2xf32> contract = [1, 1]
        : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2xf32>
      %y = arith.addf %p, %two : tensor<2x2xf32>
      return %y : tensor<2x2xf32>
    })");
  ASSERT_TRUE(step);
  Values out = step->run({{"x", floats({1, 2, 3, 4, 5, 6})},
                          {"w", floats({1, 0, -1, 2, 1, 0})},
                          {"b", floats({10, 20})}});
  EXPECT_EQ(valuesOf<float>(out["y"]),
            (std::vector<float>{-2 + 12, 4 + 22, -2 + 12, 13 + 22}));
}

TEST(CompiledStep, ContractsEitherAxis) {
  auto step = compileOrFail(R"(
    func.func @step(%x: tensor<2x3xf32> {te.name = "x"}, %w: tensor<2x1xf32> {te.name = "w"})
        -> (tensor<3x1xf32> {te.name = "y"}) {
      %y = te.matmul %x, %w contract = [0, 0]
        : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<3x1xf32>
      return %y : tensor<3x1xf32>
    })");
  ASSERT_TRUE(step);
  Values out =
      step->run({{"x", floats({1, 2, 3, 4, 5, 6})}, {"w", floats({10, 100})}});
  EXPECT_EQ(valuesOf<float>(out["y"]), (std::vector<float>{410, 520, 630}));
}

/// The next state is written in place although the op that computes it reads
/// the old one.
TEST(CompiledStep, WritesACarriedResultInPlace) {
  auto step = compileOrFail(R"(
    func.func @step(%w: tensor<2xf32> {te.name = "w"}, %g: tensor<2xf32> {te.name = "g"})
        -> (tensor<2xf32> {te.name = "y"}, tensor<2xf32> {te.name = "w"}) {
      %y = arith.mulf %w, %w : tensor<2xf32>
      %next = arith.subf %w, %g : tensor<2xf32>
      return %y, %next : tensor<2xf32>, tensor<2xf32>
    })");
  ASSERT_TRUE(step);
  ASSERT_EQ(step->compiled().arguments().size(), 4u);
  EXPECT_EQ(step->compiled().arguments()[3].carriedInput, 0);
  EXPECT_EQ(step->compiled().module().arena_bytes, 0);
  EXPECT_EQ(step->compiled().module().num_plans, 2);
  Values out = step->run({{"w", floats({5, 7})}, {"g", floats({1, 2})}});
  EXPECT_EQ(valuesOf<float>(out["y"]), (std::vector<float>{25, 49}));
  EXPECT_EQ(valuesOf<float>(out["w"]), (std::vector<float>{4, 5}));
  EXPECT_EQ(valuesOf<float>(out["after.w"]), (std::vector<float>{4, 5}));
}

/// The old state is read after the new one is computed.
TEST(CompiledStep, KeepsTheOldStateWhileItIsRead) {
  auto step = compileOrFail(R"(
    func.func @step(%w: tensor<2xf32> {te.name = "w"}, %g: tensor<2xf32> {te.name = "g"})
        -> (tensor<2xf32> {te.name = "w"}, tensor<2xf32> {te.name = "y"}) {
      %next = arith.subf %w, %g : tensor<2xf32>
      %y = arith.mulf %w, %next : tensor<2xf32>
      return %next, %y : tensor<2xf32>, tensor<2xf32>
    })");
  ASSERT_TRUE(step);
  Values out = step->run({{"w", floats({5, 7})}, {"g", floats({1, 2})}});
  EXPECT_EQ(valuesOf<float>(out["w"]), (std::vector<float>{4, 5}));
  EXPECT_EQ(valuesOf<float>(out["y"]), (std::vector<float>{20, 35}));
}

/// A matmul must not write to memory that it reads.
TEST(CompiledStep, DoesNotOverwriteAMatmulOperand) {
  auto step = compileOrFail(R"(
    func.func @step(%w: tensor<2x2xf32> {te.name = "w"}) -> (tensor<2x2xf32> {te.name = "w"}) {
      %next = te.matmul %w, %w contract = [1, 0]
        : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
      return %next : tensor<2x2xf32>
    })");
  ASSERT_TRUE(step);
  Values out = step->run({{"w", floats({1, 1, 1, 0})}});
  EXPECT_EQ(valuesOf<float>(out["w"]), (std::vector<float>{2, 1, 1, 1}));
}

TEST(CompiledStep, SwapsTwoStates) {
  auto step = compileOrFail(R"(
    func.func @step(%a: tensor<2xf32> {te.name = "a"}, %b: tensor<2xf32> {te.name = "b"})
        -> (tensor<2xf32> {te.name = "a"}, tensor<2xf32> {te.name = "b"}) {
      return %b, %a : tensor<2xf32>, tensor<2xf32>
    })");
  ASSERT_TRUE(step);
  Values out = step->run({{"a", floats({1, 2})}, {"b", floats({3, 4})}});
  EXPECT_EQ(valuesOf<float>(out["a"]), (std::vector<float>{3, 4}));
  EXPECT_EQ(valuesOf<float>(out["b"]), (std::vector<float>{1, 2}));
}

TEST(CompiledStep, ReturnsArgumentsConstantsAndAValueTwice) {
  auto step = compileOrFail(R"(
    func.func @step(%a: tensor<2xf32> {te.name = "a"})
        -> (tensor<2xf32> {te.name = "same"}, tensor<3xf32> {te.name = "ones"},
            tensor<2xf32>, tensor<2xf32>) {
      %ones = arith.constant dense<1.0> : tensor<3xf32>
      %n = arith.negf %a : tensor<2xf32>
      return %a, %ones, %n, %n : tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>
    })");
  ASSERT_TRUE(step);
  Values out = step->run({{"a", floats({1, 2})}});
  EXPECT_EQ(valuesOf<float>(out["same"]), (std::vector<float>{1, 2}));
  EXPECT_EQ(valuesOf<float>(out["ones"]), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(valuesOf<float>(out["result2"]), (std::vector<float>{-1, -2}));
  EXPECT_EQ(valuesOf<float>(out["result3"]), (std::vector<float>{-1, -2}));
}

/// A scaled value is passed as its data and its scale. The usage for axis 0 is
/// stored transposed.
TEST(CompiledStep, TakesAndReturnsScaledValues) {
  auto step = compileOrFail(R"(
    !row = !te.scaled<2x3xf8E4M3FN, per_tensor, contract = 1>
    !col = !te.scaled<2x3xf8E4M3FN, per_tensor, contract = 0>
    func.func @step(%x: tensor<2x3xf32> {te.name = "x"}, %s: tensor<f32> {te.name = "s"},
                    %q: !row {te.name = "q"})
        -> (!col {te.name = "c"}, tensor<2x3xf32> {te.name = "d"}, !row {te.name = "q"}) {
      %row, %col = te.quantize %x scale %s : tensor<2x3xf32> -> !row, !col
      %d = te.dequantize %q : !row -> tensor<2x3xf32>
      return %col, %d, %row : !col, tensor<2x3xf32>, !row
    })");
  ASSERT_TRUE(step);
  llvm::ArrayRef<ArgumentInfo> arguments = step->compiled().arguments();
  ASSERT_EQ(arguments.size(), 9u);
  EXPECT_EQ(arguments[2].qualifiedName(), "q.data");
  EXPECT_EQ(arguments[3].qualifiedName(), "q.scale");
  EXPECT_EQ(arguments[4].shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(arguments[4].typeName, "f8E4M3FN");
  EXPECT_EQ(arguments[4].type, TE_RT_F8E4M3FN);
  EXPECT_EQ(arguments[7].carriedInput, 2);
  EXPECT_EQ(arguments[8].carriedInput, 3);
  // E4M3: 1, 2, 4, 8, 16, -1 are 0x38, 0x40, 0x48, 0x50, 0x58, 0xb8.
  using Bytes = std::vector<uint8_t>;
  Bytes q = {0x38, 0x40, 0x48, 0x50, 0x58, 0xb8};
  Values out = step->run({{"x", floats({0.5, 1, 2, 4, 8, -0.5})},
                          {"s", floats({2})},
                          {"q.data", bytesOf(q)},
                          {"q.scale", floats({0.25})}});
  EXPECT_EQ(valuesOf<uint8_t>(out["c.data"]),
            (Bytes{0x38, 0x50, 0x40, 0x58, 0x48, 0xb8}));
  EXPECT_EQ(valuesOf<float>(out["c.scale"]), (std::vector<float>{0.5}));
  EXPECT_EQ(valuesOf<float>(out["d"]),
            (std::vector<float>{0.25, 0.5, 1, 2, 4, -0.25}));
  EXPECT_EQ(valuesOf<uint8_t>(out["q.data"]), q);
  EXPECT_EQ(valuesOf<float>(out["q.scale"]), (std::vector<float>{0.5}));
}

/// Plans may store their buffers, so equal launches do not share a plan.
TEST(CompiledStep, PlansEveryLaunch) {
  auto step = compileOrFail(R"(
    func.func @step(%a: tensor<2xf32> {te.name = "a"}) -> tensor<1x2xf32> {
      %row = tensor.expand_shape %a [[0, 1]] output_shape [1, 2] : tensor<2xf32> into tensor<1x2xf32>
      %b = te.bias_add %row, %a : tensor<1x2xf32>, tensor<2xf32>
      %c = te.bias_add %b, %a : tensor<1x2xf32>, tensor<2xf32>
      return %c : tensor<1x2xf32>
    })");
  ASSERT_TRUE(step);
  EXPECT_EQ(step->compiled().module().num_plans, 2);
  EXPECT_EQ(valuesOf<float>(step->run({{"a", floats({1, 2})}})["result0"]),
            (std::vector<float>{3, 6}));
}

TEST(CompiledStep, ReportsEveryOpWithoutAKernel) {
  std::string error;
  EXPECT_FALSE(Step::compile(R"(
    func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = te.linear %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
      %z = math.atan %y : tensor<8x8xf32>
      return %z : tensor<8x8xf32>
    })",
                             &error));
  EXPECT_NE(error.find("no kernel for 'te.linear'"), std::string::npos)
      << error;
  EXPECT_NE(error.find("no kernel for 'math.atan'"), std::string::npos)
      << error;
}

} // namespace
