//===- KernelUsesTest.cpp - which modules a runtime takes -----------------===//
//
// A module is rejected only if a kernel that it uses is missing or has changed.
//
//===----------------------------------------------------------------------===//

#include "Core/KernelUses.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <gtest/gtest.h>

#include <vector>

using te::rt::checkKernels;
using te::rt::Status;
using te_table::KernelRow;

namespace {

uint64_t hashOf(const char *kernel) {
  return te_table::findKernelRow(kernel)->hash;
}

class KernelUses : public testing::Test {
protected:
  /// The result of loading a module with `copy` and `bias_add` in a runtime
  /// with these rows.
  Status check() {
    te_rt_module module = {};
    module.kernels = uses.data();
    module.num_kernels = static_cast<int32_t>(uses.size());
    return checkKernels(module, rows);
  }
  KernelRow &row(std::string_view name) {
    for (KernelRow &row : rows)
      if (row.name == name)
        return row;
    throw std::string(name);
  }

  std::vector<KernelRow> rows{std::begin(te_table::kKernelRows),
                              std::end(te_table::kKernelRows)};
  std::vector<te_rt_kernel_use> uses = {{"copy", hashOf("copy")},
                                        {"bias_add", hashOf("bias_add")}};
};

TEST_F(KernelUses, RowsAreSortedAndHaveHashesOfTheirOwn) {
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_LT(std::string_view(rows[i - 1].name), rows[i].name);
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(rows[i].hash, rows[j].hash)
          << rows[i].name << " and " << rows[j].name;
  }
}

TEST_F(KernelUses, ARowThatIsNotUsedMayChangeOrGo) {
  row("amax").hash ^= 1;
  rows.erase(rows.begin() + (&row("rope") - rows.data()));
  EXPECT_EQ(check().message, "");
}

TEST_F(KernelUses, ARowThatIsUsedMayNotChange) {
  row("bias_add").hash = 0x123456789abcdef0;
  char compiledFor[17];
  std::snprintf(compiledFor, sizeof(compiledFor), "%016llx",
                static_cast<unsigned long long>(hashOf("bias_add")));
  EXPECT_EQ(check().code, TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(check().message,
            "expected kernel 'bias_add' to be the one that the module was "
            "compiled for, row " +
                std::string(compiledFor) +
                ", but got row 123456789abcdef0 in this runtime; compile the "
                "module again with this runtime's release");
}

TEST_F(KernelUses, ARowThatIsUsedMayNotGo) {
  rows.erase(rows.begin() + (&row("copy") - rows.data()));
  EXPECT_EQ(check().code, TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(check().message,
            "expected kernel 'copy', which the module uses, but got a runtime "
            "that has no kernel of this name; compile the module again with "
            "this runtime's release");
}

// A module that is newer than the runtime cannot be loaded.
TEST_F(KernelUses, CreatingAnInstanceChecksThem) {
  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
  te_rt_module module = {
      TE_RT_MODULE_MAGIC,
      TE_RT_VERSION,
      0,
      1,
      0,
      [](te_rt_instance *i) { return te_rt_plan_copy(i, 0, 4); },
      [](te_rt_instance *, char *, void *const *) {},
      nullptr,
      uses.data(),
      2,
      0};
  EXPECT_EQ(te_rt_instance_create(context, &module, &instance), TE_RT_OK)
      << te_rt_last_error();
  te_rt_instance_destroy(instance);
  uses[1].name = "bias_add_of_tomorrow";
  EXPECT_EQ(te_rt_instance_create(context, &module, &instance),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(te_rt_last_error())
                .find("te_rt_instance_create: expected kernel "
                      "'bias_add_of_tomorrow'"),
            std::string::npos)
      << te_rt_last_error();
  module.num_kernels = -1;
  EXPECT_EQ(te_rt_instance_create(context, &module, &instance),
            TE_RT_INVALID_ARGUMENT);
  te_rt_context_destroy(context);
}

} // namespace
