//===- GoldenTest.cpp - TransformerEngine's own outputs, bit for bit ------===//
//
// A small set of arrays is in test/golden. More, recorded on a GPU, are beside
// the checkout or in the folder of the environment variable TE_GOLDEN_DIR, if
// they are there. Both are looked for from the current folder, so that an
// installed program does not have the path of its build in it. Without both,
// the test is skipped with a message. Every current_*, delayed_*, block1d_*,
// block2d_* and nvfp4_* case runs, and every sequence of delayed scaling. Data,
// scales and histories must be equal. The padding of scales is undefined or
// absent in the recording, and is not compared.
//
//===----------------------------------------------------------------------===//

#include "Conformance/Harness.h"
#include "Conformance/Oracle.h"
#include "Support/Npz.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

using namespace te::conformance;
using te::support::NpyArray;
using te::support::NpzArchive;

namespace {

/// The parts of a name such as "block1d_e4m3_0_128x256_normal" or
/// "delayed_e4m3_128x256_normal".
struct Case {
  std::string name, recipe, input;
  int32_t fp8Type;
  bool pow2;
};

Case parseCase(const std::string &name) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (int i = 0; i < (name.starts_with("delayed") ? 2 : 3); ++i) {
    const size_t end = name.find('_', begin);
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return {name, parts[0], "in_" + name.substr(begin),
          parts[1] == "e4m3" ? TE_RT_F8E4M3FN : TE_RT_F8E5M2,
          parts.back() == "1"};
}

class Golden : public BackendTest {
protected:
  /// The arrays of both sets, whose cases have different names.
  struct Vectors {
    NpzArchive arrays;
    bool recorded = false;
  };

  void SetUp() override { open("quantizers_1.npz", vectors); }

  static void open(const std::string &file, Vectors &vectors) {
    if (!vectors.arrays.empty())
      return;
    const char *variable = std::getenv("TE_GOLDEN_DIR");
    const std::string recorded = variable ? variable : "../shared/golden";
    for (const std::string &folder : {recorded, std::string("test/golden")}) {
      const std::string path = folder + "/" + file;
      if (!std::filesystem::exists(path))
        continue;
      NpzArchive arrays;
      std::string error;
      ASSERT_TRUE(te::support::readNpz(path, arrays, error)) << error;
      vectors.arrays.merge(arrays);
      ASSERT_TRUE(arrays.empty()) << path << ": cases of the other set";
      vectors.recorded |= folder == recorded;
    }
    if (vectors.arrays.empty())
      GTEST_SKIP() << "no golden vectors (" << file
                   << ") here; run this where 'test/golden' is, or set "
                      "TE_GOLDEN_DIR to their folder";
  }

  /// How many cases there are, of `small` and `recorded` ones.
  static size_t count(size_t small, size_t recorded) {
    return small + (vectors.recorded ? recorded : 0);
  }

  std::vector<Case> cases(const std::string &recipe) const {
    std::set<std::string> names;
    for (const auto &[name, array] : vectors.arrays)
      if (name.starts_with(recipe + "_"))
        names.insert(name.substr(0, name.find('/')));
    std::vector<Case> result;
    for (const std::string &name : names)
      result.push_back(parseCase(name));
    return result;
  }

  const NpyArray &array(const std::string &name) const {
    return vectors.arrays.at(name);
  }

  void expectBytes(const Case &c, const char *what,
                   const std::vector<uint8_t> &actual) {
    const std::vector<uint8_t> &expected = array(c.name + "/" + what).data;
    ASSERT_EQ(expected.size(), actual.size()) << c.name;
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_EQ(int(expected[i]), int(actual[i]))
          << c.name << " " << what << " at " << i;
  }

  static Vectors vectors;
};

Golden::Vectors Golden::vectors;

TEST_P(Golden, CurrentScaling) {
  const std::vector<Case> all = cases("current");
  ASSERT_GE(all.size(), count(60, 50));
  for (const Case &c : all) {
    const NpyArray &x = array(c.input + "/x");
    const int64_t rows = x.shape[0], cols = x.shape[1];
    std::vector<float> amax(1), rowScale(1), colScale(1);
    std::vector<uint8_t> row(rows * cols), col(rows * cols);
    device().run(TE_PLAN(amax, rows * cols, TE_RT_BF16, TE_RT_BF16),
                 {in(x.data), out(amax)});
    device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, TE_RT_BF16,
                         TE_RT_BF16, c.fp8Type, 1, c.pow2, 0.0f),
                 {in(x.data), in(amax), out(row), out(rowScale), out(col),
                  out(colScale), none()});
    expectBytes(c, "data", row);
    expectBytes(c, "transpose", col);
    for (const auto &each : {rowScale, colScale})
      ASSERT_EQ(0, std::memcmp(each.data(),
                               array(c.name + "/scale_inv").data.data(), 4))
          << c.name;
  }
}

TEST_P(Golden, DelayedScaling) {
  const std::vector<Case> all = cases("delayed");
  ASSERT_GE(all.size(), count(18, 40));
  for (const Case &c : all) {
    const NpyArray &x = array(c.input + "/x");
    const int64_t rows = x.shape[0], cols = x.shape[1];
    std::vector<float> scaleInv(1), amax(1);
    std::vector<uint8_t> row(rows * cols), col(rows * cols);
    device().run(TE_PLAN(quantize_tensor, 1, rows, cols, rows, cols, TE_RT_BF16,
                         TE_RT_BF16, c.fp8Type, 0, 0, 0.0f),
                 {in(x.data), in(std::vector<float>{7.3f}), out(row),
                  out(scaleInv), out(col), none(), out(amax)});
    expectBytes(c, "data", row);
    expectBytes(c, "transpose", col);
    ASSERT_EQ(0, std::memcmp(scaleInv.data(),
                             array(c.name + "/scale_inv").data.data(), 4))
        << c.name;
    ASSERT_EQ(0,
              std::memcmp(amax.data(), array(c.name + "/amax").data.data(), 4))
        << c.name << ": " << amax[0];
  }
}

// 24 steps of one linear layer: from the amaxes of its tensors to the histories
// and scales after every step.
class GoldenSequence : public Golden {
protected:
  void SetUp() override { open("modules_1.npz", vectors); }

  /// Element `i` of an array of f64, or the value of an f32.
  static float number(const NpyArray &from, size_t i) {
    if (from.numElements() == 1) {
      float value;
      std::memcpy(&value, from.data.data(), 4);
      return value;
    }
    double value;
    std::memcpy(&value, from.data.data() + i * 8, 8);
    return static_cast<float>(value);
  }

  /// One direction: `sources` are the arrays of amaxes of its slots. The last
  /// slot is not used.
  void check(const std::string &name, const std::string &prefix,
             const std::vector<std::string> &sources, float fp8Max) {
    const NpyArray &scales = array(name + "/" + prefix + "_scale");
    const NpyArray &histories = array(name + "/" + prefix + "_hist");
    const int64_t steps = histories.shape[0], length = histories.shape[1],
                  slots = histories.shape[2];
    ASSERT_EQ(slots, int64_t(sources.size()) + 1);
    std::vector<float> history(length * slots), scale(slots, 1.0f);
    const int32_t algorithm = name.ends_with("most_recent");
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<float> amax(slots);
      for (size_t i = 0; i < sources.size(); ++i)
        amax[i] = number(array(name + "/" + sources[i]), step);
      std::vector<float> newHistory(history.size()), newScale(slots);
      device().run(
          TE_PLAN(delayed_scaling_update, slots, length, algorithm, fp8Max, 0),
          {in(amax), in(history), in(scale), out(newHistory), out(newScale)});
      history = newHistory, scale = newScale;
      ASSERT_EQ(0,
                std::memcmp(scale.data(), scales.data.data() + step * slots * 4,
                            slots * 4))
          << name << " " << prefix << " scale, step " << step;
      ASSERT_EQ(0,
                std::memcmp(history.data(),
                            histories.data.data() + step * history.size() * 4,
                            history.size() * 4))
          << name << " " << prefix << " history, step " << step;
    }
  }

  static Vectors vectors;
  const NpyArray &array(const std::string &name) const {
    return vectors.arrays.at(name);
  }
};

Golden::Vectors GoldenSequence::vectors;

TEST_P(GoldenSequence, DelayedScaling) {
  int found = 0;
  for (const auto &[key, each] : vectors.arrays)
    if (key.starts_with("delayed_seq_") && key.ends_with("/f_scale")) {
      const std::string name = key.substr(0, key.find('/'));
      check(name, "f", {"amax_x", "amax_w"}, 448.0f);
      check(name, "b", {"amax_dy"}, 57344.0f);
      ++found;
    }
  EXPECT_EQ(found, vectors.recorded ? 10 : 4);
}

class GoldenBlock : public Golden {
protected:
  void expectScales(const Case &c, const char *what, int32_t scheme,
                    int64_t outer, int64_t inner,
                    const std::vector<float> &actual) {
    const NpyArray &expected = array(c.name + "/" + what);
    ASSERT_EQ(expected.data.size(), actual.size() * 4) << c.name;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; i += 128) {
        const int64_t at = scaleIndex(scheme, outer, inner, o, i);
        ASSERT_EQ(0, std::memcmp(&expected.data[at * 4], &actual[at], 4))
            << c.name << " " << what << " at " << at;
      }
  }

  void check(const std::string &recipe, int32_t scheme) {
    const std::vector<Case> all = cases(recipe);
    ASSERT_GE(all.size(), count(60, 50));
    for (const Case &c : all) {
      const NpyArray &x = array(c.input + "/x");
      const int64_t rows = x.shape[0], cols = x.shape[1];
      std::vector<uint8_t> row(rows * cols), col(rows * cols);
      std::vector<float> rowScale(scaleCount(scheme, rows, cols));
      std::vector<float> colScale(scaleCount(scheme, cols, rows));
      device().run(
          TE_PLAN(quantize_block, 1, rows, cols, rows, cols, TE_RT_BF16,
                  TE_RT_BF16, c.fp8Type, scheme, c.pow2, 0.0f),
          {in(x.data), out(row), out(rowScale), out(col), out(colScale)});
      expectBytes(c, "row", row);
      expectBytes(c, "col", col);
      expectScales(c, "row_scale_inv", scheme, rows, cols, rowScale);
      expectScales(c, "col_scale_inv", scheme, cols, rows, colScale);
    }
  }
};

TEST_P(GoldenBlock, OneDimensional) { check("block1d", TE_RT_BLOCK_1X128); }
TEST_P(GoldenBlock, TwoDimensional) { check("block2d", TE_RT_BLOCK_128X128); }

class GoldenNvfp4 : public Golden {
protected:
  struct Variant {
    int32_t scheme = TE_RT_NV_1X16, rowScaled = 0, scaleMax = 448,
            fourOverSix = 0;
    bool hadamard = false;
  };

  /// The recorded scales have no padding.
  void expectScales(const std::string &name, int64_t outer, int64_t inner,
                    const std::vector<uint8_t> &actual) {
    const NpyArray &expected = array(name);
    ASSERT_EQ(int64_t(expected.data.size()), outer * inner / 16) << name;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t g = 0; g < inner / 16; ++g)
        ASSERT_EQ(int(expected.data[o * (inner / 16) + g]),
                  int(actual[o * ((inner / 16 + 3) / 4 * 4) + g]))
            << name << " at " << o << ", " << g;
  }
  void expectBytes(const std::string &name,
                   const std::vector<uint8_t> &actual) {
    const std::vector<uint8_t> &expected = array(name).data;
    ASSERT_EQ(expected.size(), actual.size()) << name;
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_EQ(int(expected[i]), int(actual[i])) << name << " at " << i;
  }
  void expectAmax(const std::string &name, const std::vector<float> &actual) {
    const std::vector<uint8_t> &expected = array(name).data;
    ASSERT_EQ(expected.size(), actual.size() * 4) << name;
    ASSERT_EQ(0, std::memcmp(expected.data(), actual.data(), expected.size()))
        << name;
  }

  /// One usage of x: its bytes, scales and amax.
  void check(const std::string &name, const std::string &usage,
             const std::vector<uint8_t> &x, int64_t rows, int64_t cols,
             const Variant &v) {
    const bool isRow = usage == "row";
    const int64_t outer = isRow ? rows : cols, inner = isRow ? cols : rows;
    const int64_t amaxes = v.rowScaled ? rows : 1;
    std::vector<float> amax(amaxes), copy(amaxes);
    if (v.rowScaled)
      device().run(TE_PLAN(amax_rows, rows, cols, TE_RT_BF16),
                   {in(x), out(amax)});
    else
      device().run(TE_PLAN(amax, rows * cols, TE_RT_BF16, TE_RT_BF16),
                   {in(x), out(amax)});
    std::vector<uint8_t> data(rows * cols / 2);
    std::vector<uint8_t> scale((outer + 127) / 128 * 128 *
                               ((inner / 16 + 3) / 4 * 4));
    std::vector<Buffer> buffers = {in(x), in(amax), none()};
    buffers.resize(9, none());
    buffers[isRow ? 3 : 6] = out(data);
    buffers[isRow ? 4 : 7] = out(scale);
    buffers[isRow ? 5 : 8] = out(copy);
    device().run(TE_PLAN(quantize_nvfp4, 1, rows, cols, rows, cols, TE_RT_BF16,
                         v.scheme, v.rowScaled, v.scaleMax, v.fourOverSix, 0,
                         0),
                 buffers);
    expectBytes(name + "/" + usage, data);
    expectScales(name + "/" + usage + "_scale", outer, inner, scale);
    expectAmax(name + "/amax_" + usage, copy);
  }
};

TEST_P(GoldenNvfp4, EveryVariant) {
  const std::pair<const char *, Variant> variants[] = {
      {"nvfp4_1d_", {}},
      {"nvfp4_2d_", {.scheme = TE_RT_NV_16X16}},
      {"nvfp4_rht_", {.hadamard = true}},
      {"nvfp4_4over6_nv_", {.fourOverSix = 1}},
      {"nvfp4_4over6_256_", {.scaleMax = 256, .fourOverSix = 1}},
      {"nvfp4_rowscaled_", {.rowScaled = 1}}};
  for (const auto &[prefix, variant] : variants) {
    size_t found = 0;
    for (const auto &[key, each] : vectors.arrays) {
      if (!key.starts_with(prefix) || !key.ends_with("/row"))
        continue;
      const std::string name = key.substr(0, key.find('/'));
      const NpyArray &x = array("in" + name.substr(name.find("_nv_")) + "/x");
      const int64_t rows = x.shape[0], cols = x.shape[1];
      ++found;
      check(name, "row", x.data, rows, cols, variant);
      if (HasFatalFailure())
        return;
      if (!vectors.arrays.contains(name + "/col"))
        continue;
      std::vector<uint8_t> source = x.data;
      if (variant.hadamard)
        device().run(TE_PLAN(hadamard, rows, cols), {in(x.data), out(source)});
      check(name, "col", source, rows, cols, variant);
      if (HasFatalFailure())
        return;
    }
    EXPECT_EQ(found, count(9, 9)) << prefix;
  }
}

TE_FOR_EACH_BACKEND(Golden);
TE_FOR_EACH_BACKEND(GoldenBlock);
TE_FOR_EACH_BACKEND(GoldenNvfp4);
TE_FOR_EACH_BACKEND(GoldenSequence);

} // namespace
