// The compiler as a whole: what it keeps, dumps, replaces, refuses, and that threads do not disturb each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <unistd.h>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

#include "../../backend/src/stages.hpp"

using namespace flextile;
namespace fs = std::filesystem;

namespace {

/// out[i] = x[i] * factor + 1 for 128 elements per program.
ir::Function scale_kernel(const std::string& name, double factor = 2) {
  ir::Function function(name, {{.name = "x", .type = ir::Type::pointer(ElementType::f32), .read_only = true},
                               {.name = "out", .type = ir::Type::pointer(ElementType::f32)},
                               {.name = "n", .type = ir::Type::scalar(ElementType::i32)}});
  ir::Builder builder(function);
  builder.set_location("samples/scale.cpp", 7);
  const ir::Value i = builder.binary(ir::Opcode::add, builder.binary(ir::Opcode::mul, builder.program_id(0), builder.constant(ElementType::i32, std::int64_t{128})), builder.arange(128));
  const ir::Value inside = builder.binary(ir::Opcode::lt, i, function.parameter(2));
  const ir::Value x = builder.load(builder.offset(function.parameter(0), i), inside);
  const ir::Value scaled = builder.binary(ir::Opcode::mul, x, builder.constant(ElementType::f32, factor));
  const ir::Value sum = builder.binary(ir::Opcode::add, scaled, builder.constant(ElementType::f32, 1.0));
  builder.store(builder.offset(function.parameter(1), i), sum, inside);
  builder.return_values();
  return function;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / ("flextile_pipeline_test_" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}
bool contains(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

template <class Thrown> std::string message_of(auto&& call) {
  try {
    call();
  } catch (const Thrown& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("stages are kept on request, in order, and every one parses") {
  const CompiledKernel quiet = compile(scale_kernel("scale"), Target::host());
  CHECK(quiet.stages.empty());
  CHECK(quiet.tile_ir() == ir::print(scale_kernel("scale")));
  CHECK(quiet.kernel_name == "scale");
  CHECK(quiet.parameters.size() == 3);
  for (const Target& target : {Target::host(), Target::sm_80(), Target::sm_90a()}) {
    const CompiledKernel kernel = compile(scale_kernel("scale"), target, {.keep_stages = true});
    REQUIRE(kernel.stages.size() >= 7);
    CHECK(kernel.stages.front().pass == "traced");
    CHECK(kernel.stages[1].pass == "canonicalise");
    for (const Stage& stage : kernel.stages) {
      CAPTURE(stage.pass);
      CHECK(ir::print(ir::parse(stage.text)) == stage.text);
    }
  }
}

TEST_CASE("a GPU kernel has PTX, LLVM IR and resources on a machine without a GPU") {
  const CompiledKernel kernel = compile(scale_kernel("scale"), Target::sm_90a());
  CHECK(contains(kernel.ptx(), ".entry scale("));
  CHECK(contains(kernel.ptx(), ".target sm_90a"));
  CHECK(contains(kernel.ptx(), ".loc"));
  CHECK(contains(kernel.ptx(), "samples/scale.cpp"));
  CHECK(contains(kernel.ptx(), "fma.rn.f32"));               // x * 2 + 1 is one expression
  CHECK(contains(kernel.llvm_ir(), "nvptx64-nvidia-cuda"));
  CHECK(kernel.resource_usage.threads == 128);
  CHECK(contains(kernel.resources(), "threads         128 per program"));
  if (!kernel.binary.empty()) {
    CHECK(kernel.resource_usage.registers > 0);
    CHECK(kernel.resource_usage.spill_stores == 0);
  }
  const CompiledKernel text_only = compile(scale_kernel("scale"), Target::sm_90a(), {.line_info = false, .binary = false});
  CHECK(text_only.binary.empty());
  CHECK_FALSE(contains(text_only.ptx(), ".loc\t"));
  CHECK(text_only.resource_usage.registers == -1);
}

TEST_CASE("dumps: one folder per kernel and variant, names of any length") {
  Folder folder;
  const CompileOptions options{.dump_folder = folder.path.string()};
  compile(scale_kernel("scale"), Target::host(), options);
  compile(scale_kernel("scale", 3), Target::host(), options);
  compile(scale_kernel(std::string(200, 'k')), Target::sm_80(), options);
  const std::vector<std::string> files = folder.files();
  int traced = 0, cut = 0, ptx = 0, resources = 0;
  for (const std::string& file : files) {
    traced += contains(file, "00.traced.tile");
    cut += file.starts_with(std::string(80, 'k') + "-");
    ptx += file.ends_with("kernel.ptx");
    resources += file.ends_with("resources.txt");
    CHECK(fs::file_size(folder.path / file) > 0);
  }
  CHECK(traced == 3);
  CHECK(cut >= 12);
  CHECK(ptx == 1);
  CHECK(resources == 1);
}

TEST_CASE("FLEXTILE_DUMP writes the same for programs that pass no options") {
  Folder folder;
  ::setenv("FLEXTILE_DUMP", folder.path.c_str(), 1);
  compile(scale_kernel("scale"), Target::host());
  ::unsetenv("FLEXTILE_DUMP");
  CHECK(folder.files().size() >= 8);
}

TEST_CASE("a folder that cannot be written is reported") {
  const std::string message = message_of<ArgumentError>([] { compile(scale_kernel("scale"), Target::host(), {.dump_folder = "/proc/nowhere"}); });
  CHECK(message.starts_with("flextile: [dump] dump_folder is \"/proc/nowhere\" and must be a folder that can be made and written: "));
}

TEST_CASE("an edited dump takes the place of a pass's result") {
  Folder dumped, edited;
  edited.path += "_edited";
  compile(scale_kernel("scale"), Target::host(), {.dump_folder = dumped.path.string()});
  std::string file;
  for (const std::string& name : dumped.files()) {
    if (contains(name, ".contract.tile")) file = name;
  }
  std::string text = read(dumped.path / file);
  REQUIRE(contains(text, "value = 2.0"));
  for (std::size_t at; (at = text.find("value = 2.0")) != std::string::npos;) text.replace(at, 11, "value = 5.0");
  write(edited.path / file, text);
  const CompileOptions options{.keep_stages = true, .replace_folder = edited.path.string()};
  CHECK(contains(compile(scale_kernel("scale"), Target::host(), options).stages.back().text, "value = 5.0"));
  CHECK_FALSE(contains(compile(scale_kernel("scale", 3), Target::host(), options).stages.back().text, "value = 5.0"));   // another variant

  write(edited.path / "scale.contract.tile", text);          // for every variant
  CHECK(contains(compile(scale_kernel("scale", 3), Target::host(), options).stages.back().text, "value = 5.0"));

  write(edited.path / "scale.contract.tile", "func @scale(");
  std::string message = message_of<CompileError>([&] { compile(scale_kernel("scale", 3), Target::host(), options); });
  CHECK(contains(message, "scale.contract.tile cannot replace the result of pass contract"));
  write(edited.path / "scale.contract.tile", "func @scale(%0 \"x\": ptr<f32>) num_warps(4) {\n  return\n}\n");
  message = message_of<CompileError>([&] { compile(scale_kernel("scale", 3), Target::host(), options); });
  CHECK(contains(message, "changes the parameters of the kernel"));
}

TEST_CASE("kernels that break a rule are the caller's error, never a crash") {
  CHECK(contains(message_of<CompileError>([] { compile(ir::Function{}, Target::host()); }), "no name"));
  for (const char* name : {"../up", "two words", "7up", "a\"b", "ünits"}) {
    CHECK(contains(message_of<CompileError>([&] { compile(scale_kernel(name), Target::host()); }), "is no name for a kernel: take letters, digits and _"));
  }
  ir::Function open = scale_kernel("open");
  open.block(open.body()).operations.pop_back();
  CHECK(contains(message_of<CompileError>([&] { compile(open, Target::host()); }), "kernel \"open\""));
  ir::Function empty("empty", {});
  CHECK(contains(message_of<CompileError>([&] { compile(empty, Target::host()); }), "kernel \"empty\""));
  ir::Function returns("returns", {{.name = "n", .type = ir::Type::scalar(ElementType::i32)}});
  ir::Builder(returns).return_values({returns.parameter(0)});
  CHECK(contains(message_of<CompileError>([&] { compile(returns, Target::host()); }), "a kernel returns nothing"));
  CHECK(contains(message_of<ArgumentError>([] { compile(scale_kernel("scale"), Target::parse("host:pentium9")); }), "no CPU \"pentium9\""));
}

TEST_CASE("tiles that no GPU thread could hold are refused with the numbers, the host takes them") {
  ir::Function function("big", {{.name = "x", .type = ir::Type::view(ElementType::f32, 2)}});
  ir::Builder builder(function);
  const ir::Value zero = builder.constant(ElementType::i32, std::int64_t{0});
  const ir::Value tile = builder.view_load(function.parameter(0), {zero, zero}, {1024, 128});
  builder.set_location("samples/big.cpp", 12);
  builder.view_store(function.parameter(0), builder.unary(ir::Opcode::exp2, tile), {zero, zero});
  builder.return_values();
  const std::string message = message_of<CompileError>([&] { compile(function, Target::sm_80()); });
  CHECK(contains(message, "kernel \"big\""));
  CHECK(contains(message, "tile<1024x128xf32> takes 1024 registers of each of the program's 128 threads, which have 255"));
  CHECK_FALSE(compile(function, Target::host()).binary.empty());
}

TEST_CASE("a pass that breaks the IR is named, and the IR is written") {
  Folder folder;
  const CompileOptions options{.dump_folder = folder.path.string()};
  const ir::Function traced = scale_kernel("scale");
  backend::Stages stages(traced, Target::host(), options);
  ir::Function broken = traced;
  broken.set_type(broken.operation(ir::OperationId{2}).results[0], ir::Type::scalar(ElementType::f64));
  const std::string message = message_of<InternalError>([&] { stages.after("choose_layouts", broken); });
  CHECK(contains(message, "flextile: internal error after pass choose_layouts: "));
  const std::size_t where = message.find("(IR written to ");
  REQUIRE(where != std::string::npos);
  const std::string path = message.substr(where + 15, message.find(')', where) - where - 15);
  CHECK(fs::file_size(path) > 100);
}

TEST_CASE("many threads compile at once") {
  const std::string expected_ptx = compile(scale_kernel("scale"), Target::sm_80()).ptx();
  const std::string expected_ir = compile(scale_kernel("scale"), Target::host()).llvm_ir();
  std::vector<std::thread> threads;
  std::vector<int> failures(6, 0);
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 4; ++round) {
        failures[thread] += compile(scale_kernel("scale"), Target::sm_80()).ptx() != expected_ptx;
        failures[thread] += compile(scale_kernel("scale"), Target::host()).llvm_ir() != expected_ir;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : failures) CHECK(count == 0);
}

TEST_CASE("the compiler's version names everything that shapes code") {
  const std::string version = compiler_version();
  CHECK(contains(version, "flextile 0."));
  CHECK(contains(version, "LLVM 22."));
  CHECK(contains(version, "nvJitLink "));
  CHECK(version == compiler_version());
}
