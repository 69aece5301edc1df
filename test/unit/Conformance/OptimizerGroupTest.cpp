//===- OptimizerGroupTest.cpp - one launch that updates many tensors ------===//
//
// A group has the bytes of one adamw for each of its tensors, whatever their
// sizes, addresses and number, in place or not.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"

#include <array>
#include <cmath>
#include <tuple>

using namespace te::conformance;

namespace {

constexpr int32_t kTypes[] = {TE_RT_F32, TE_RT_BF16, TE_RT_F16};
constexpr int kMost = 32;
using Counts = std::array<int64_t, kMost>;

struct Types {
  int32_t param, grad, moment;
};

/// The seed of tensor `i`.
int32_t seedOf(int i) { return 17 * i - 5; }

/// A plan of adamw_group.
PlanFunction groupOf(const Types &types, const Counts &counts) {
  return [=](te_rt_instance *instance, int32_t slot) {
    std::array<int32_t, kMost> seeds;
    for (int i = 0; i < kMost; ++i)
      seeds[i] = seedOf(i);
    return std::apply(
        [&](auto... values) {
          return te_rt_plan_adamw_group(instance, slot, values...);
        },
        std::tuple_cat(std::tuple(types.param, types.grad, 0.9f, 0.95f, 1e-8f,
                                  0.1f, types.moment),
                       counts, seeds));
  };
}

/// The parameter, the gradient, m and v of a tensor.
using Tensor = std::array<Array, 4>;

Tensor makeTensor(const Types &types, int64_t count, int number) {
  Tensor tensor{makeArray("normal", types.param, count, number),
                makeArray("normal", types.grad, count, number + 100),
                makeArray("normal", types.moment, count, number + 200),
                makeArray("normal", types.moment, count, number + 300)};
  for (int64_t i = 0; i < count; ++i)
    tensor[3].set(i, std::fabs(tensor[3].at(i)));
  // Not all divide without special cases.
  if (count > 8) {
    tensor[1].set(1, NAN);
    tensor[1].set(2, INFINITY);
    for (int64_t i = 4; i < 8; ++i)
      for (int k : {1, 2, 3})
        tensor[k].set(i, 0.0);
  }
  return tensor;
}

/// The new parameter, m and v.
using Updated = std::array<Array, 3>;

/// How buffers lie in memory, and what all tensors share.
struct Form {
  int offset;
  bool inPlace;
  Buffer gradScale, skip;
};

class OptimizerGroup : public BackendTest {
protected:
  const std::vector<float> lr{0.3f}, step{7};

  Updated one(const Types &types, const Tensor &x, int number,
              const Form &form) {
    const auto count = static_cast<int64_t>(x[0].size());
    Updated result{Array(types.param, count), Array(types.moment, count),
                   Array(types.moment, count)};
    device().run(TE_PLAN(adamw, count, types.param, types.grad, 0.9f, 0.95f,
                         1e-8f, 0.1f, types.moment, seedOf(number)),
                 {in(x[0].bytes), in(x[1].bytes), in(x[2].bytes),
                  in(x[3].bytes), in(lr), in(step), form.gradScale,
                  out(result[0].bytes), out(result[1].bytes),
                  out(result[2].bytes), form.skip});
    return result;
  }

  /// The buffers of a group in the order of its row; `results` are written.
  std::vector<Buffer> buffersOf(const std::vector<Tensor> &tensors,
                                std::vector<Updated> &results,
                                const Form &form) {
    std::vector<Buffer> buffers;
    auto each = [&](auto bufferOf) {
      for (size_t i = 0; i < kMost; ++i)
        buffers.push_back(i < tensors.size() && tensors[i][0].size() != 0
                              ? bufferOf(i)
                              : none());
    };
    for (int k = 0; k < 4; ++k)
      each([&](size_t i) {
        // Some of the tensors keep their alignment.
        return unaligned(in(tensors[i][k].bytes), i % 3 ? form.offset : 0);
      });
    for (const Buffer &shared : {in(lr), in(step), form.gradScale})
      buffers.push_back(shared);
    for (int k = 0; k < 3; ++k)
      each([&](size_t i) {
        const int state = (k == 0 ? 0 : k + 1) * kMost + static_cast<int>(i);
        return form.inPlace ? outOn(state, results[i][k].bytes)
                            : unaligned(out(results[i][k].bytes),
                                        i % 3 ? form.offset : 0);
      });
    buffers.push_back(form.skip);
    return buffers;
  }

  void check(const Types &types, const std::vector<int64_t> &sizes,
             const Form &form) {
    Counts counts{};
    std::vector<Tensor> tensors;
    std::vector<Updated> results;
    for (size_t i = 0; i < sizes.size(); ++i) {
      counts[i] = sizes[i];
      tensors.push_back(makeTensor(types, sizes[i], static_cast<int>(i)));
      results.push_back({Array(types.param, sizes[i]),
                         Array(types.moment, sizes[i]),
                         Array(types.moment, sizes[i])});
    }
    device().run(groupOf(types, counts), buffersOf(tensors, results, form));
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0)
        continue;
      const Updated expected =
          one(types, tensors[i], static_cast<int>(i), form);
      for (int k = 0; k < 3; ++k)
        EXPECT_TRUE(sameBits(expected[k], results[i][k]))
            << "tensor " << i << " of " << sizes[i] << " elements, result " << k
            << ", types " << types.param << " " << types.grad << " "
            << types.moment << ", offset " << form.offset << ", in place "
            << form.inPlace;
    }
  }
};

TEST_P(OptimizerGroup, HasTheBitsOfEachUpdate) {
  // More than one block, less than a run, none, and an odd number.
  const std::vector<int64_t> sizes = {2051, 3, 0, 4096, 128, 1, 37};
  const std::vector<float> half{0.5f};
  for (int32_t param : kTypes)
    for (int32_t grad : kTypes)
      for (int32_t moment : {TE_RT_F32, TE_RT_BF16})
        for (int offset : {0, 4})
          for (bool inPlace : {false, true})
            check({param, grad, moment}, sizes,
                  {offset, inPlace, inPlace ? none() : in(half), none()});
}

TEST_P(OptimizerGroup, TakesFromNoneToAllTensors) {
  const Types types{TE_RT_F32, TE_RT_BF16, TE_RT_BF16};
  check(types, {}, {0, false, none(), none()});
  check(types, {5}, {0, false, none(), none()});
  check(types, {0, 0, 5000}, {0, true, none(), none()});
  std::vector<int64_t> all;
  for (int i = 0; i < kMost; ++i)
    all.push_back(40 * i + 1);
  check(types, all, {4, true, none(), none()});
}

TEST_P(OptimizerGroup, KeepsEveryTensorThatIsSkipped) {
  const std::vector<float> one{1.0f}, zero{0.0f};
  for (const std::vector<float> *skip : {&one, &zero})
    for (int offset : {0, 4})
      for (bool inPlace : {false, true})
        check({TE_RT_F32, TE_RT_BF16, TE_RT_BF16}, {2051, 0, 300, 7},
              {offset, inPlace, none(), in(*skip)});
}

TEST_P(OptimizerGroup, NeedsTheBuffersOfItsTensors) {
  const Types types{TE_RT_F32, TE_RT_F32, TE_RT_F32};
  std::vector<Tensor> tensors{makeTensor(types, 8, 0), makeTensor(types, 8, 1)};
  std::vector<Updated> results(
      2,
      Updated{Array(TE_RT_F32, 8), Array(TE_RT_F32, 8), Array(TE_RT_F32, 8)});
  for (int missing : {0, 1, 2, 3}) {
    std::vector<Buffer> buffers =
        buffersOf(tensors, results, {0, false, none(), none()});
    buffers[missing * kMost + 1] = none();
    EXPECT_EQ(device().tryRun(groupOf(types, {8, 8}), buffers),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_NE(device().message.find(
                  "expected all buffers of tensor 1, whose count is 8"),
              std::string::npos)
        << device().message;
  }
}

TE_FOR_EACH_BACKEND(OptimizerGroup);

} // namespace
