//===- CompilerTest.cpp - a host program that knows only the two C ABIs ---===//

#include "TEDialect/Runtime/te_runtime.h"
#include "te-c/te_compiler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" int32_t te_capi_test_version(void);

namespace {

constexpr const char *kDouble = R"(
func.func @double(%x: tensor<8xf32> {te.name = "x", te.weight, te.init = 3.0 : f32})
    -> (tensor<8xf32> {te.name = "y"}) {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
)";

constexpr const char *kLinear = R"(
module attributes {te.recipe = #te.recipe<float8_current_scaling>} {
  func.func @linear(%x: tensor<32x64xbf16> {te.name = "x"}, %w: tensor<16x64xbf16> {te.name = "w", te.weight})
      -> (tensor<32x16xbf16> {te.name = "y"}) {
    %y = te.linear %x, %w : tensor<32x64xbf16>, tensor<16x64xbf16> -> tensor<32x16xbf16>
    return %y : tensor<32x16xbf16>
  }
}
)";

te_compile_request requestOf(const char *source, const char *entry) {
  te_compile_request request = {};
  request.struct_size = sizeof(request);
  request.source = source;
  request.source_size = std::strlen(source);
  request.entry = entry;
  request.backend = "reference";
  return request;
}

struct Program {
  explicit Program(const te_compile_request &request)
      : status(te_compile(&request, &program)) {}
  Program(const Program &) = delete;
  ~Program() { te_program_destroy(program); }

  const te_rt_argument_info &argument(int32_t index) const {
    return *te_program_argument(program, index);
  }

  te_program *program = nullptr;
  te_compile_status status;
};

TEST(Compiler, HeaderIsC) {
  EXPECT_EQ(te_capi_test_version(), te_rt_version());
}

TEST(Compiler, StepRunsAndDescribesItsArguments) {
  Program program(requestOf(kDouble, "double"));
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  ASSERT_EQ(te_program_num_arguments(program.program), 2);
  const te_rt_argument_info &x = program.argument(0), &y = program.argument(1);
  EXPECT_STREQ(x.name, "x");
  EXPECT_STREQ(x.value_type, "tensor<8xf32>");
  EXPECT_EQ(x.dtype, TE_RT_F32);
  ASSERT_EQ(x.rank, 1);
  EXPECT_EQ(x.shape[0], 8);
  EXPECT_EQ(x.bytes, 32);
  EXPECT_EQ(x.role, TE_RT_ARGUMENT);
  EXPECT_EQ(x.part, TE_RT_PART_VALUE);
  EXPECT_EQ(x.flags, uint32_t(TE_RT_IS_WEIGHT | TE_RT_HAS_INIT));
  EXPECT_EQ(x.init, 3.0f);
  EXPECT_STREQ(y.name, "y");
  EXPECT_EQ(y.role, TE_RT_RESULT);
  EXPECT_EQ(y.carried_input, -1);
  EXPECT_EQ(y.flags, 0u);
  EXPECT_EQ(y.arena_offset, -1);
  EXPECT_EQ(te_program_argument(program.program, 2), nullptr);
  EXPECT_EQ(te_program_argument(program.program, -1), nullptr);

  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
  ASSERT_EQ(te_rt_instance_create(context, te_program_module(program.program),
                                  &instance),
            TE_RT_OK);
  alignas(16) float in[8] = {0, 1, 2, 3, 4, 5, 6, 7}, out[8] = {};
  void *arguments[] = {in, out};
  EXPECT_EQ(te_rt_instance_run(instance, arguments, nullptr), TE_RT_OK);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(out[i], 2 * in[i]);
  te_rt_instance_destroy(instance);
  te_rt_context_destroy(context);
}

TEST(Compiler, SaysWhereResultsInTheArenaAre) {
  te_compile_request request = requestOf(kLinear, "linear");
  request.vjp = 1;
  request.pipeline = "target=reference results-in-arena=grad.w";
  Program program(request);
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  const te_rt_module *module = te_program_module(program.program);
  const int32_t count = te_program_num_arguments(program.program);
  for (int32_t i = 0; i < count; ++i) {
    const te_rt_argument_info &info = program.argument(i);
    if (std::string(info.name) != "grad.w") {
      EXPECT_EQ(info.arena_offset, -1) << info.name;
      continue;
    }
    EXPECT_GE(info.arena_offset, 0);
    EXPECT_LE(info.arena_offset + info.bytes, module->arena_bytes);
    int32_t first = -1, last = -1;
    ASSERT_EQ(te_program_argument_uses(program.program, i, &first, &last),
              TE_COMPILE_OK);
    EXPECT_GE(first, 0);
    EXPECT_LT(last, te_program_num_launches(program.program));
  }
}

TEST(Compiler, IsInterruptedBeforeAPass) {
  te_compile_request request = requestOf(kLinear, "linear");
  int calls = 0;
  request.user = &calls;
  request.is_interrupted = [](void *user) -> int32_t {
    return ++*static_cast<int *>(user) == 3;
  };
  te_program *program = nullptr;
  EXPECT_EQ(te_compile(&request, &program), TE_COMPILE_INTERRUPTED);
  EXPECT_EQ(program, nullptr);
  EXPECT_STREQ(te_compiler_last_error(), "the compilation was interrupted");
  EXPECT_EQ(calls, 3);
  request.is_interrupted = [](void *) -> int32_t { return 0; };
  EXPECT_EQ(te_compile(&request, &program), TE_COMPILE_OK);
  te_program_destroy(program);
}

// The cut between forward and backward: the first launch that reads the
// cotangent is after the last one that writes the result.
TEST(Compiler, UsesOfArgumentsPartForwardFromBackward) {
  te_compile_request request = requestOf(kLinear, "linear");
  request.vjp = 1;
  Program program(request);
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  struct Uses {
    int32_t first = -2, last = -2;
  } result, cotangent, gradient;
  for (int32_t i = 0; i < te_program_num_arguments(program.program); ++i) {
    const std::string name = program.argument(i).name;
    Uses uses;
    ASSERT_EQ(
        te_program_argument_uses(program.program, i, &uses.first, &uses.last),
        TE_COMPILE_OK);
    (name == "y" ? result : name == "grad.y" ? cotangent : gradient) = uses;
  }
  EXPECT_GE(result.first, 0);
  EXPECT_LT(result.last, cotangent.first);
  // The last of the arguments is grad.w.
  EXPECT_GT(gradient.first, cotangent.first);
  EXPECT_LT(gradient.last, te_program_num_launches(program.program));

  te_launch_info launch = {};
  launch.struct_size = sizeof(launch);
  ASSERT_EQ(te_program_launch(program.program, result.last, &launch),
            TE_COMPILE_OK);
  EXPECT_STREQ(launch.name, "w fprop");
  EXPECT_EQ(te_program_launch(program.program, -1, &launch), TE_COMPILE_USAGE);
}

TEST(Compiler, ReportsAndIrAreText) {
  te_compile_request request = requestOf(kLinear, "linear");
  request.pipeline = "report=precision,memory compile-to=fuse";
  request.ir_only = 1;
  Program program(request);
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  EXPECT_EQ(te_program_module(program.program), nullptr);
  const std::string ir = te_program_ir(program.program),
                    report = te_program_report(program.program);
  EXPECT_NE(ir.find("te.scaled_matmul"), std::string::npos) << ir;
  EXPECT_NE(report.find("fprop"), std::string::npos) << report;
  EXPECT_STREQ(te_program_recipe(program.program),
               "#te.recipe<float8_current_scaling>");
}

TEST(Compiler, DiagnosticsSayWhere) {
  te_compile_request request =
      requestOf("func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
                "  %y = math.atan %x : tensor<8xf32>\n"
                "  return %y : tensor<8xf32>\n}\n",
                "f");
  request.source_name = "model.mlir";
  Program program(request);
  EXPECT_EQ(program.status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_EQ(program.program, nullptr);
  const std::string said = te_compiler_last_error();
  EXPECT_EQ(said.find("model.mlir:2:8: error: the runtime has no kernel for "
                      "'math.atan'"),
            0u)
      << said;
}

TEST(Compiler, DiagnosticsWithoutAPlaceNameTheLayer) {
  te_compile_request request =
      requestOf("func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
                "  %y = math.atan %x : tensor<8xf32> loc(\"the layer\")\n"
                "  return %y : tensor<8xf32>\n}\n",
                "f");
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_EQ(std::string(te_compiler_last_error())
                .find("the layer: error: the runtime has no kernel"),
            0u)
      << te_compiler_last_error();
  request.pipeline = "report-format=xml";
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_EQ(std::string(te_compiler_last_error())
                .find("error: expected 'report-format'"),
            0u)
      << te_compiler_last_error();
}

// The text names a layer as the data does, whatever its name is.
TEST(Compiler, LayersWithoutAPlaceHaveTheirName) {
  const auto messageFor = [](const char *place) {
    const std::string source =
        std::string("func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
                    "  %y = math.atan %x : tensor<8xf32> loc(") +
        place + ")\n  return %y : tensor<8xf32>\n}\n";
    EXPECT_EQ(Program(requestOf(source.c_str(), "f")).status,
              TE_COMPILE_DIAGNOSTICS);
    return std::string(te_compiler_last_error());
  };
  const std::string error =
      ": error: the runtime has no kernel for 'math.atan'";
  EXPECT_EQ(messageFor(R"("the \"layer\"")").find("the \"layer\"" + error), 0u)
      << te_compiler_last_error();
  EXPECT_EQ(messageFor(R"("model"("layer"))").find("layer" + error), 0u)
      << te_compiler_last_error();
  EXPECT_EQ(messageFor(R"(fused["layer", "model"])").find("model" + error), 0u)
      << te_compiler_last_error();
}

// A diagnostic that the source has no place for has notes that it has one for.
TEST(Compiler, NotesHaveTheirPlace) {
  te_compile_request request =
      requestOf("func.func @f(%x: tensor<16x16xbf16>) -> tensor<16x16xbf16> {\n"
                "  %y = te.hadamard %x : tensor<16x16xbf16> loc(\"layer\")\n"
                "  return %y : tensor<16x16xbf16>\n}\n",
                "f");
  request.source_name = "model.mlir";
  request.vjp = 1;
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  const std::string said = te_compiler_last_error();
  EXPECT_EQ(said.find("layer: error: "), 0u) << said;
  EXPECT_NE(said.find("\nmodel.mlir:1:1: note: differentiated here\n"
                      "func.func @f("),
            std::string::npos)
      << said;
}

te_diagnostic diagnosticAt(int32_t index, const te_program *program = nullptr) {
  te_diagnostic diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  EXPECT_EQ(program ? te_program_diagnostic(program, index, &diagnostic)
                    : te_compiler_diagnostic(index, &diagnostic),
            TE_COMPILE_OK)
      << te_compiler_last_error();
  return diagnostic;
}

// There is an error for each layer, whose fields have the values of its text.
TEST(Compiler, DiagnosticsAreData) {
  te_compile_request request =
      requestOf("func.func @f(%x: tensor<32x24xbf16> {te.name = \"x\"},\n"
                "    %w: tensor<16x24xbf16> {te.name = \"w\", te.weight})\n"
                "    -> tensor<32x16xbf16> {\n"
                "  %y = te.linear %x, %w : tensor<32x24xbf16>, "
                "tensor<16x24xbf16> -> tensor<32x16xbf16>\n"
                "  return %y : tensor<32x16xbf16>\n}\n",
                "f");
  request.source_name = "model.mlir";
  request.pipeline = "recipe=mxfp8_block_scaling target=sm_90";
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  ASSERT_EQ(te_compiler_num_diagnostics(), 1) << te_compiler_last_error();
  const te_diagnostic said = diagnosticAt(0);
  EXPECT_EQ(said.severity, TE_SEVERITY_ERROR);
  EXPECT_STREQ(said.code, "no-kernel");
  EXPECT_STREQ(said.location, "model.mlir:4:8");
  EXPECT_STREQ(said.layer, "w");
  EXPECT_EQ(std::string(said.message).find("expected a product that 'sm_90' "),
            0u)
      << said.message;
  // Compiling another program does not change it.
  EXPECT_EQ(Program(requestOf(kDouble, "double")).status, TE_COMPILE_OK);
  EXPECT_EQ(te_compiler_num_diagnostics(), 1);

  // The struct of an older host is shorter. The memory after it does not
  // change.
  te_diagnostic shorter = {};
  shorter.struct_size = offsetof(te_diagnostic, layer);
  const char *unchanged = "unchanged";
  shorter.layer = unchanged;
  EXPECT_EQ(te_compiler_diagnostic(0, &shorter), TE_COMPILE_OK);
  EXPECT_STREQ(shorter.location, "model.mlir:4:8");
  EXPECT_EQ(shorter.layer, unchanged);

  EXPECT_EQ(te_compiler_diagnostic(1, &shorter), TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(),
               "expected a diagnostic below 1, but got 1");
  EXPECT_EQ(te_compiler_diagnostic(-1, &shorter), TE_COMPILE_USAGE);
  EXPECT_EQ(te_compiler_diagnostic(0, nullptr), TE_COMPILE_USAGE);
}

TEST(Compiler, DiagnosticsHaveCodes) {
  te_compile_request request =
      requestOf("func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
                "  %y = math.atan %x : tensor<8xf32> loc(\"the layer\")\n"
                "  return %y : tensor<8xf32>\n}\n",
                "f");
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_STREQ(diagnosticAt(0).code, "no-kernel");
  EXPECT_STREQ(diagnosticAt(0).layer, "the layer");
  EXPECT_STREQ(diagnosticAt(0).location, "");
  request =
      requestOf("func.func @f(%x: tensor<16x16xbf16>) -> tensor<16x16xbf16> {\n"
                "  %y = te.hadamard %x : tensor<16x16xbf16>\n"
                "  return %y : tensor<16x16xbf16>\n}\n",
                "f");
  request.vjp = 1;
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  ASSERT_EQ(te_compiler_num_diagnostics(), 2);
  EXPECT_STREQ(diagnosticAt(0).code, "not-differentiable");
  EXPECT_EQ(diagnosticAt(1).severity, TE_SEVERITY_NOTE);
  EXPECT_STREQ(diagnosticAt(1).message, "differentiated here");

  request = requestOf(kLinear, "linear");
  request.vjp = 1;
  request.pipeline = "remat=ops:te.activation";
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_STREQ(diagnosticAt(0).code, "remat-unknown");
  request.pipeline = "memory-budget=1";
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_STREQ(diagnosticAt(0).code, "memory-budget");
  request.pipeline = "recipes=none";
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  ASSERT_EQ(te_compiler_num_diagnostics(), 1);
  EXPECT_STREQ(diagnosticAt(0).code, "pipeline");
  EXPECT_STREQ(diagnosticAt(0).message, te_compiler_last_error());
  EXPECT_EQ(Program(requestOf(kDouble, "single")).status, TE_COMPILE_USAGE);
  EXPECT_STREQ(diagnosticAt(0).code, "entry");
  request.source = nullptr;
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  EXPECT_STREQ(diagnosticAt(0).code, "request");
  request = requestOf("func.func @f(", "f");
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  EXPECT_STREQ(diagnosticAt(0).code, "");
  EXPECT_STREQ(diagnosticAt(0).location, "-:1:13");
}

// Like te_compiler_last_error, the result of a compilation belongs to its
// thread.
TEST(Compiler, DiagnosticsAreAThreadsOwn) {
  EXPECT_EQ(Program(requestOf(kDouble, "single")).status, TE_COMPILE_USAGE);
  std::thread([] {
    EXPECT_EQ(te_compiler_num_diagnostics(), 0);
    EXPECT_EQ(Program(requestOf("func.func @f(", "f")).status,
              TE_COMPILE_DIAGNOSTICS);
    EXPECT_STREQ(diagnosticAt(0).code, "");
  }).join();
  EXPECT_STREQ(diagnosticAt(0).code, "entry");
}

TEST(Compiler, ProgramsWithoutWarningsHaveNoDiagnostics) {
  Program program(requestOf(kDouble, "double"));
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  EXPECT_EQ(te_program_num_diagnostics(program.program), 0);
  te_diagnostic said = {};
  said.struct_size = sizeof(said);
  EXPECT_EQ(te_program_diagnostic(program.program, 0, &said), TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(),
               "expected a diagnostic below 0, but got 0");
}

TEST(Compiler, RequestsAreChecked) {
  te_compile_request request = requestOf(kDouble, "single");
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(),
               "'entry': expected the name of a function with a body, but got "
               "'single'; the program has 'double'");
  request = requestOf(kDouble, "double");
  request.pipeline = "recipes=none";
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  EXPECT_NE(std::string(te_compiler_last_error()).find("recipes"),
            std::string::npos);
  request.pipeline = "compile-to=fuse";
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  request.pipeline = "report-format=xml";
  EXPECT_EQ(Program(request).status, TE_COMPILE_DIAGNOSTICS);
  request.source = nullptr;
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(), "'source' is null");
  te_program *program = nullptr;
  EXPECT_EQ(te_compile(nullptr, &program), TE_COMPILE_USAGE);
}

// A struct whose caller forgot its size would be read or written as nothing.
TEST(Compiler, StructsHaveASize) {
  te_compile_request request = requestOf(kDouble, "double");
  request.struct_size = 0;
  EXPECT_EQ(Program(request).status, TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(),
               "expected 'struct_size' to be sizeof(te_compile_request), but "
               "got 0");
  EXPECT_STREQ(diagnosticAt(0).code, "request");
  te_diagnostic said = {};
  EXPECT_EQ(te_compiler_diagnostic(0, &said), TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(),
               "expected 'struct_size' to be sizeof(te_diagnostic), but got 0");
  Program program(requestOf(kDouble, "double"));
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  te_launch_info launch = {};
  launch.struct_size = sizeof(launch.struct_size);
  EXPECT_EQ(te_program_launch(program.program, 0, &launch), TE_COMPILE_USAGE);
  EXPECT_STREQ(
      te_compiler_last_error(),
      "expected 'struct_size' to be sizeof(te_launch_info), but got 8");
}

TEST(Compiler, NullIsAnswered) {
  EXPECT_EQ(te_program_module(nullptr), nullptr);
  EXPECT_EQ(te_program_argument(nullptr, 0), nullptr);
  EXPECT_EQ(te_program_num_arguments(nullptr), 0);
  EXPECT_EQ(te_program_num_launches(nullptr), 0);
  EXPECT_STREQ(te_program_recipe(nullptr), "");
  EXPECT_STREQ(te_program_report(nullptr), "");
  EXPECT_STREQ(te_program_diagnostics(nullptr), "");
  EXPECT_STREQ(te_program_ir(nullptr), "");
  EXPECT_EQ(te_program_num_diagnostics(nullptr), 0);
  te_diagnostic said = {};
  EXPECT_EQ(te_program_diagnostic(nullptr, 0, &said), TE_COMPILE_USAGE);

  int32_t slot;
  te_launch_info info = {};
  EXPECT_EQ(te_program_argument_uses(nullptr, 0, &slot, &slot),
            TE_COMPILE_USAGE);
  EXPECT_EQ(te_program_launch(nullptr, 0, &info), TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(), "'program' is null");
  Program program(requestOf(kLinear, "linear"));
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  EXPECT_EQ(te_program_argument_uses(program.program, 0, nullptr, &slot),
            TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(), "'first' is null");
  EXPECT_EQ(te_program_argument_uses(program.program, 0, &slot, nullptr),
            TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(), "'last' is null");
  EXPECT_EQ(te_program_launch(program.program, 0, nullptr), TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(), "'info' is null");
}

// The request of an older host is shorter. Fields that it does not know are
// zero.
TEST(Compiler, ShorterRequestsAreRead) {
  te_compile_request request = requestOf(kLinear, "linear");
  request.ir_only = 1;
  request.struct_size = offsetof(te_compile_request, ir_only);
  Program program(request);
  ASSERT_EQ(program.status, TE_COMPILE_OK) << te_compiler_last_error();
  EXPECT_NE(te_program_module(program.program), nullptr);
}

/// The page is that of te-translate, without reports of the pipeline.
TEST(Compiler, DrawsAStep) {
  te_compile_request request = requestOf(kLinear, "linear");
  request.picture = "html";
  request.pipeline = "report=memory";
  Program page(request);
  ASSERT_EQ(page.status, TE_COMPILE_OK) << te_compiler_last_error();
  const std::string html = te_program_report(page.program);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>")) << html.substr(0, 80);
  EXPECT_NE(html.find("te.scaled_matmul 'w fprop'"), std::string::npos);
  EXPECT_TRUE(html.ends_with("</html>\n"));
  EXPECT_EQ(te_program_module(page.program), nullptr);
  EXPECT_EQ(te_program_num_arguments(page.program), 0);
  EXPECT_STREQ(te_program_recipe(page.program),
               "#te.recipe<float8_current_scaling>");

  request.picture = "json";
  Program json(request);
  ASSERT_EQ(json.status, TE_COMPILE_OK) << te_compiler_last_error();
  EXPECT_EQ(te_program_report(json.program)[0], '{');

  request.picture = "png";
  Program other(request);
  EXPECT_EQ(other.status, TE_COMPILE_USAGE);
  EXPECT_STREQ(te_compiler_last_error(),
               "expected 'picture' to be html, dot or json, but got 'png'");
}

} // namespace
