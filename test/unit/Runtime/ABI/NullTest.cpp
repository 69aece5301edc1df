//===- NullTest.cpp - every exported function, called with null pointers --===//
//
// None may crash, and what returns a status returns TE_RT_INVALID_ARGUMENT with
// a message that names a pointer. The headers are read to see that no function
// is left out.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime_compiled.h"
#include "TEDialect/Runtime/te_runtime_mpi.h"
#include "TEDialect/Runtime/te_runtime_tcp.h"
#include "te-c/te_xla.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

/// The functions that were called, by name.
std::set<std::string> &called() {
  static std::set<std::string> names;
  return names;
}

char message[TE_RT_MESSAGE_BYTES];

/// A call with `name(arguments)` that has to be refused; `text` is its message.
void refused(const char *name, const char *text,
             const std::function<te_rt_status()> &call) {
  called().insert(name);
  EXPECT_EQ(call(), TE_RT_INVALID_ARGUMENT) << name;
  EXPECT_NE(std::string(text).find("null"), std::string::npos)
      << name << ": '" << text << "'";
}

#define REFUSED(name, ...)                                                     \
  do {                                                                         \
    const te_rt_status status = name(__VA_ARGS__);                             \
    refused(#name, te_rt_last_error(), [&] { return status; });                \
  } while (false)
#define REFUSED_SAYS(name, ...)                                                \
  do {                                                                         \
    const te_rt_status status = name(__VA_ARGS__, message);                    \
    refused(#name, message, [&] { return status; });                           \
    EXPECT_EQ(name(__VA_ARGS__, nullptr), TE_RT_INVALID_ARGUMENT);             \
  } while (false)
/// A call that is allowed.
#define ALLOWED(name, ...) (called().insert(#name), name(__VA_ARGS__))

/// The functions that the header declares to be exported.
std::set<std::string> declaredIn(const std::string &header) {
  std::ifstream file(std::filesystem::path(TE_INCLUDE_DIR) / header);
  std::stringstream text;
  text << file.rdbuf();
  const std::string source = text.str();
  // Kernels are expanded from their list and have a test of their own.
  const std::regex function(R"(TE_(?:RT|XLA)_API[^;#]*?\b(te_\w+)\()");
  std::set<std::string> names;
  for (std::sregex_iterator at(source.begin(), source.end(), function), end;
       at != end; ++at)
    names.insert((*at)[1]);
  EXPECT_FALSE(names.empty()) << header;
  return names;
}

void expectAllCalled(const std::string &header) {
  for (const std::string &name : declaredIn(header))
    EXPECT_TRUE(called().contains(name)) << name << " of " << header;
}

TEST(Null, Context) {
  te_rt_context *context = nullptr;
  ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
  void *pointer = nullptr;
  te_rt_communicator silent = {2, 0, nullptr, nullptr};

  REFUSED(te_rt_context_create, nullptr, &context);
  REFUSED(te_rt_context_create, "reference", nullptr);
  REFUSED(te_rt_context_create_on_device, nullptr, 0, &context);
  REFUSED(te_rt_context_create_on_device, "reference", 0, nullptr);
  REFUSED(te_rt_group_unique_id, nullptr);
  REFUSED(te_rt_context_bind_group, nullptr, 0, nullptr, 2, 0);
  REFUSED(te_rt_context_bind_group, context, 0, nullptr, 2, 0);
  REFUSED(te_rt_context_bind_communicator, nullptr, 0, &silent);
  REFUSED(te_rt_context_bind_communicator, context, 0, nullptr);
  REFUSED(te_rt_context_bind_communicator, context, 0, &silent);
  REFUSED(te_rt_context_bind_nccl, nullptr, 0, &silent, 2, 0);
  REFUSED(te_rt_context_bind_nccl, context, 0, nullptr, 2, 0);
  REFUSED(te_rt_context_set_group_timeout, nullptr, 1);
  const te_rt_gemm_options gemms = {};
  REFUSED(te_rt_context_set_gemm_options, nullptr, &gemms);
  REFUSED(te_rt_context_set_gemm_options, context, nullptr);
  REFUSED(te_rt_alloc, nullptr, 1, &pointer);
  REFUSED(te_rt_alloc, context, 1, nullptr);
  REFUSED(te_rt_free, nullptr, nullptr);
  EXPECT_EQ(te_rt_free(context, nullptr), TE_RT_OK);
  REFUSED(te_rt_copy_to_device, nullptr, message, message, 1);
  REFUSED(te_rt_copy_to_device, context, nullptr, message, 1);
  REFUSED(te_rt_copy_to_device, context, message, nullptr, 1);
  REFUSED(te_rt_copy_to_host, nullptr, message, message, 1);
  REFUSED(te_rt_copy_to_host, context, nullptr, message, 1);
  REFUSED(te_rt_copy_to_host, context, message, nullptr, 1);
  REFUSED(te_rt_check_group_sizes, nullptr, 1, 128, 128);
  REFUSED(te_rt_synchronize, nullptr);
  REFUSED(te_rt_timer_mark, nullptr, 0);
  REFUSED(te_rt_timer_elapsed_ms, nullptr, nullptr);
  REFUSED(te_rt_timer_elapsed_ms, context, nullptr);
  EXPECT_STREQ(ALLOWED(te_rt_context_backend, nullptr), "");
  EXPECT_STREQ(ALLOWED(te_rt_context_description, nullptr), "");
  ALLOWED(te_rt_context_destroy, nullptr);
  EXPECT_EQ(ALLOWED(te_rt_version), TE_RT_VERSION);
  EXPECT_NE(ALLOWED(te_rt_last_error), nullptr);
  te_rt_context_destroy(context);
}

te_rt_status loadNothing(te_rt_instance *) { return TE_RT_OK; }
void stepNothing(te_rt_instance *, char *, void *const *) {}

TEST(Null, Instance) {
  te_rt_context *context = nullptr;
  ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
  const te_rt_module module = {
      TE_RT_MODULE_MAGIC, TE_RT_VERSION, 256,     0, 1, loadNothing,
      stepNothing,        nullptr,       nullptr, 0, 0};
  te_rt_instance *instance = nullptr, *other = nullptr;
  ASSERT_EQ(te_rt_instance_create(context, &module, &instance), TE_RT_OK);
  void *arguments[] = {nullptr};
  int64_t bytes = 0;
  const auto trace = [](void *, int32_t, const char *, float) {};

  te_rt_module partial = module;
  partial.load = nullptr;
  REFUSED(te_rt_instance_create, context, &partial, &other);
  partial = module;
  partial.step = nullptr;
  REFUSED(te_rt_instance_create, context, &partial, &other);
  te_rt_module nameless = module;
  const te_rt_kernel_use use = {nullptr, 0};
  nameless.kernels = &use;
  nameless.num_kernels = 1;
  EXPECT_EQ(te_rt_instance_create(context, &nameless, &other),
            TE_RT_INVALID_ARGUMENT);
  REFUSED(te_rt_instance_create, nullptr, &module, &other);
  REFUSED(te_rt_instance_create, context, nullptr, &other);
  REFUSED(te_rt_instance_create, context, &module, nullptr);
  REFUSED(te_rt_instance_create_without_arena, nullptr, &module, &other);
  REFUSED(te_rt_instance_create_without_arena, context, nullptr, &other);
  REFUSED(te_rt_instance_create_without_arena, context, &module, nullptr);
  REFUSED(te_rt_instance_set_arena, nullptr, message, 256);
  REFUSED(te_rt_instance_set_arena, instance, nullptr, 256);
  for (te_rt_instance *each :
       {static_cast<te_rt_instance *>(nullptr), instance})
    for (void *const *list : {static_cast<void *const *>(nullptr),
                              static_cast<void *const *>(arguments)}) {
      REFUSED(te_rt_instance_run, each, list, nullptr);
      REFUSED(te_rt_instance_run_part, each, list, nullptr, 0, 0);
      REFUSED(te_rt_instance_run_graph, each, list);
      REFUSED(te_rt_instance_run_part_graph, each, list, nullptr, 0, 0);
      REFUSED(te_rt_instance_trace, each, list, trace, nullptr);
    }
  void *given[] = {message};
  REFUSED(te_rt_instance_trace, instance, given, nullptr, nullptr);
  REFUSED(te_rt_instance_release_graph, nullptr);
  REFUSED(te_rt_instance_memory, nullptr, &bytes, &bytes);
  REFUSED(te_rt_instance_memory, instance, nullptr, &bytes);
  REFUSED(te_rt_instance_memory, instance, &bytes, nullptr);
  REFUSED(te_rt_instance_workspace, nullptr, 0, &bytes);
  REFUSED(te_rt_instance_workspace, instance, 0, nullptr);
  te_rt_gemm_info gemm = {};
  REFUSED(te_rt_instance_gemm, nullptr, 0, &gemm);
  REFUSED(te_rt_instance_gemm, instance, 0, nullptr);
  ALLOWED(te_rt_instance_destroy, nullptr);
  te_rt_instance_destroy(instance);
  te_rt_context_destroy(context);
  expectAllCalled("TEDialect/Runtime/te_runtime.h");
}

TEST(Null, CompiledCode) {
  REFUSED(te_rt_launch, nullptr, 0, nullptr);
  REFUSED(te_rt_order, nullptr, 0, 0, -1);
#define TE_RT_I64(name) , 0
#define TE_RT_I32(name) , 0
#define TE_RT_F32(name) , 0.0f
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  REFUSED(te_rt_plan_##name, nullptr, 0 parameters);
#include "TEDialect/Runtime/te_runtime_kernels.inc"
  called().insert("te_rt_plan_");
  expectAllCalled("TEDialect/Runtime/te_runtime_compiled.h");
}

#if TE_HAS_TCP
TEST(Null, Tcp) {
  te_tcp *tcp = nullptr;
  te_rt_communicator communicator = {};
  const int32_t ranks[] = {0};
  const te_tcp_options options = {"127.0.0.1", 1, 1,    "a job",
                                  1,           0, 1000, nullptr};
  REFUSED_SAYS(te_tcp_create, nullptr, &tcp);
  REFUSED_SAYS(te_tcp_create, &options, nullptr);
  te_tcp_options partial = options;
  partial.host = nullptr;
  REFUSED_SAYS(te_tcp_create, &partial, &tcp);
  partial = options;
  partial.job = nullptr;
  REFUSED_SAYS(te_tcp_create, &partial, &tcp);
  ASSERT_EQ(te_tcp_create(&options, &tcp, nullptr), TE_RT_OK);
  REFUSED_SAYS(te_tcp_communicator, nullptr, 0, ranks, 1, &communicator);
  REFUSED_SAYS(te_tcp_communicator, tcp, 0, nullptr, 1, &communicator);
  REFUSED_SAYS(te_tcp_communicator, tcp, 0, ranks, 1, nullptr);
  EXPECT_EQ(te_tcp_destroy(tcp, 1000, nullptr), TE_RT_OK);
  EXPECT_EQ(ALLOWED(te_tcp_destroy, nullptr, 1000, nullptr), TE_RT_OK);
  expectAllCalled("TEDialect/Runtime/te_runtime_tcp.h");
}
#endif

#if TE_HAS_MPI
TEST(Null, Mpi) {
  te_rt_communicator communicator = {};
  const int32_t ranks[] = {0};
  called().insert("te_mpi_create");
  EXPECT_EQ(te_mpi_create(nullptr, message), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(message, "'mpi' is null");
  EXPECT_EQ(te_mpi_create(nullptr, nullptr), TE_RT_INVALID_ARGUMENT);
  REFUSED_SAYS(te_mpi_communicator, nullptr, 0, ranks, 1, &communicator);
  EXPECT_EQ(ALLOWED(te_mpi_destroy, nullptr, 1000, nullptr), TE_RT_OK);
  EXPECT_EQ(ALLOWED(te_mpi_size, nullptr), 0);
  EXPECT_EQ(ALLOWED(te_mpi_rank, nullptr), 0);
  EXPECT_EQ(ALLOWED(te_mpi_local_rank, nullptr), 0);
  EXPECT_EXIT(ALLOWED(te_mpi_abort, nullptr, 7), testing::ExitedWithCode(7),
              "");
  called().insert("te_mpi_abort");
  expectAllCalled("TEDialect/Runtime/te_runtime_mpi.h");
}
#endif

#if TE_HAS_XLA
TEST(Null, Xla) {
  int64_t number = 0;
  const auto refusedByXla = [&](const char *name, te_rt_status status) {
    refused(name, te_xla_last_error(), [&] { return status; });
  };
#define REFUSED_XLA(name, ...) refusedByXla(#name, name(__VA_ARGS__))
  const te_rt_module module = {
      TE_RT_MODULE_MAGIC, TE_RT_VERSION, 0,       0, 1, loadNothing,
      stepNothing,        nullptr,       nullptr, 0, 0};
  const te_rt_argument_info argument = {"x", "", nullptr, 4, 0, 0, 0,
                                        0,   -1, 0,       0, 0, 0};
  REFUSED_XLA(te_xla_program_create, nullptr, &argument, "reference", 0, "p",
              &number);
  REFUSED_XLA(te_xla_program_create, &module, nullptr, "reference", 0, "p",
              &number);
  REFUSED_XLA(te_xla_program_create, &module, &argument, nullptr, 0, "p",
              &number);
  REFUSED_XLA(te_xla_program_create, &module, &argument, "reference", 0,
              nullptr, &number);
  REFUSED_XLA(te_xla_program_create, &module, &argument, "reference", 0, "p",
              nullptr);
  te_rt_argument_info nameless = argument;
  nameless.name = nullptr;
  EXPECT_EQ(
      te_xla_program_create(&module, &nameless, "reference", 0, "p", &number),
      TE_RT_INVALID_ARGUMENT);
  ASSERT_EQ(
      te_xla_program_create(&module, &argument, "reference", 0, "p", &number),
      TE_RT_OK)
      << te_xla_last_error();
  int64_t call = 0;
  const te_xla_call_request request = {sizeof(request), 0,      0, 1, 0,
                                       nullptr,         nullptr};
  REFUSED_XLA(te_xla_call_create, number, nullptr, &call);
  REFUSED_XLA(te_xla_call_create, number, &request, nullptr);
  REFUSED_XLA(te_xla_call_create, number, &request, &call);
  te_xla_call_request negative = request;
  negative.num_arguments = -1;
  EXPECT_EQ(te_xla_call_create(number, &negative, &call),
            TE_RT_INVALID_ARGUMENT);
  REFUSED_XLA(te_xla_program_counts, number, nullptr, &call);
  REFUSED_XLA(te_xla_program_counts, number, &call, nullptr);
  ALLOWED(te_xla_program_destroy, number);
  EXPECT_EQ(ALLOWED(te_xla_runtime_version), TE_RT_VERSION);
  EXPECT_EQ(ALLOWED(te_xla_execute_cpu, nullptr), nullptr);
  EXPECT_STREQ(ALLOWED(te_xla_last_error),
               "te_xla_execute_cpu: 'frame' is null");
  EXPECT_EQ(ALLOWED(te_xla_execute_cuda, nullptr), nullptr);
  EXPECT_STREQ(te_xla_last_error(), "te_xla_execute_cuda: 'frame' is null");
  expectAllCalled("te-c/te_xla.h");
}
#endif

} // namespace
