// Printer and parser: the round trip, and what the parser says of text that is wrong.
#include <doctest/doctest.h>

#include <cmath>
#include <flextile/ir/error.hpp>

#include "ir/every_operation.hpp"
#include "ir/sentence.hpp"

using namespace flextile;
using namespace flextile::ir;

TEST_CASE("parse(print(f)) prints the same text for every operation") {
  for (const Function& function : functions_with_every_operation()) {
    std::string text = print(function);
    Function parsed = parse(text);
    CHECK(print(parsed) == text);
    CHECK(parsed.parameters == function.parameters);
    CHECK(parsed.files == function.files);
    CHECK(parsed.layouts == function.layouts);
    CHECK(parsed.num_warps == function.num_warps);
    CHECK(parsed.name == function.name);
  }
}

TEST_CASE("an occupancy other than 1 is part of the text, and checked") {
  Function function("f", {});
  Builder(function).return_values();
  CHECK(print(function).find("occupancy") == std::string::npos);
  function.occupancy = 3;
  const std::string text = print(function);
  CHECK(text.find("num_warps(4) occupancy(3) {") != std::string::npos);
  CHECK(parse(text).occupancy == 3);
  CHECK(print(parse(text)) == text);
  function.num_warps = 32;
  std::string fault;
  try {
    verify(function, "a test");
  } catch (const InternalError& error) {
    fault = error.what();
  }
  CHECK_MESSAGE(contains(fault, "occupancy is 3 with 32 warps: must be from 1 to 32, and at most 64 warps together"), fault);
  CHECK_THROWS_AS(parse("func @f() num_warps(4) occupancy(0) {\n return\n}"), CompileError);
}

TEST_CASE("constants keep every bit through the text") {
  const double numbers[] = {
      0.0,      -0.0,      0.1, 1.0 / 3, 1e300, -5e-324, 1.7976931348623157e308, 123456789.0, 0x1p53, std::nextafter(1.0, 2.0),
      INFINITY, -INFINITY, NAN};
  for (double number : numbers) {
    Function function("f", {});
    Builder builder(function);
    builder.constant(ElementType::f64, number);
    builder.return_values();
    Function parsed = parse(print(function));
    double read = parsed.operation(OperationId{0}).attributes.number(AttributeName::value);
    if (std::isnan(number)) {
      CHECK(std::isnan(read));
    } else {
      CHECK(read == number);
      CHECK(std::signbit(read) == std::signbit(number));
    }
  }
}

TEST_CASE("the text of a small kernel") {
  Function function("scale", {{"x", Type::pointer(ElementType::f32), false, true}});
  Builder builder(function);
  builder.set_location("scale.cpp", 7);
  Value pointers = builder.offset(function.parameter(0), builder.arange(64));
  function.set_layout(pointers, {{{2, 0, 1}}, {{32, 0, 2}}, {{4, -1, 0}}});
  builder.set_location("scale.cpp", 8);
  Value x = builder.load(pointers);
  builder.store(pointers, builder.binary(Opcode::mul, x, builder.constant(ElementType::f32, 0.5)));
  builder.return_values();
  CHECK(print(function) == R"(file 1 "scale.cpp"
layout 0 = registers[2:1@0] lanes[32:2@0] warps[4:*]
func @scale(%0 "x": ptr<f32> {aligned}) num_warps(4) {
  %1 = arange {start = 0} : tile<64xi32> loc(1:7)
  %2 = broadcast %0 : tile<64xptr<f32>> loc(1:7)
  %3 = offset %2, %1 : tile<64xptr<f32>> #0 loc(1:7)
  %4 = load %3 : tile<64xf32> loc(1:8)
  %5 = constant {value = 0.5} : f32 loc(1:8)
  %6 = broadcast %5 : tile<64xf32> loc(1:8)
  %7 = mul %4, %6 : tile<64xf32> loc(1:8)
  store %3, %7 loc(1:8)
  return loc(1:8)
}
)");
}

TEST_CASE("text with comments and other spacing parses") {
  Function function = parse("// edited\nfunc @f ( %7 \"n\" : i32 )\nnum_warps(4){ %9=add %7,%7:i32 // twice\n return %9}");
  CHECK(print(function) == "func @f(%0 \"n\": i32) num_warps(4) {\n  %1 = add %0, %0 : i32\n  return %1\n}\n");
}

TEST_CASE("parse errors name the line, the column and what was expected") {
  auto wrong = [](std::string body) { return sentence([&] { parse("func @f(%0: i32) num_warps(4) {\n" + body); }); };
  CHECK(wrong("  %1 = ad %0, %0 : i32\n}") ==
        "flextile: compile error in tile IR text, line 2, column 8\n  expected an operation, found \"ad\"");
  CHECK(wrong("  %1 = add %0 %0 : i32\n}") == "flextile: compile error in tile IR text, line 2, column 15\n  expected \":\", found \"%\"");
  CHECK(wrong("  %1 = add %0, %2 : i32\n}") ==
        "flextile: compile error in tile IR text, line 2, column 16\n  %2 is not defined before it, or not visible here");
  CHECK(wrong("  %0 = add %0, %0 : i32\n}") == "flextile: compile error in tile IR text, line 2, column 3\n  %0 is defined a second time");
  CHECK(wrong("  %1 = add %0, %0 : i33\n}") ==
        "flextile: compile error in tile IR text, line 2, column 21\n  expected a type (f32, tile<64xf32>, ptr<f32>, view<2xf32>, "
        "shared<2x64xf32> or token), found \"i33\"");
  CHECK(wrong("  %1 = add %0, %0 : f32\n  return\n}") ==
        "flextile: compile error in tile IR text, line 2, column 3\n  [add] result is f32: must be i32");
  CHECK(wrong("  %1 = add %0, %0 : i32\n}") ==
        "flextile: compile error in tile IR text, line 2, column 3\n  ends a block and is no terminator");
  CHECK(wrong("}") == "flextile: compile error in tile IR text, line 1, column 1\n  the body is empty: it ends in return");
  CHECK(wrong("  return") ==
        "flextile: compile error in tile IR text, line 2, column 9\n  expected an operation or \"}\", found the end of the text");
  CHECK(contains(wrong("  return loc(1:2)\n}"), "expected a file from 0 to 0, found \"1\""));
  CHECK(contains(wrong("  %1 = arange {start = 0} : tile<4xi32> #0\n"), "expected a layout"));
  CHECK(contains(wrong("  %1 = arange {begin = 0} : tile<4xi32>\n"), "expected an attribute's name, found \"begin\""));
  CHECK(contains(wrong("  %1 = arange {start = 0, start = 1} : tile<4xi32>\n"), "given twice"));
  CHECK(contains(wrong("  %1 = arange {start = 0} : tile<2x2x2x2x2x2xi32>\n"), "at most 5 axes, found 6"));
  CHECK(contains(wrong("  %1 = arange {start = 0} : tile<99999999999xi32>\n"), "extent from 1 to 2147483647"));
  CHECK(contains(wrong("  %1 = arange {start = 0} : tile<2097152xi32>\n return}"), "a tile has at most 1048576"));
  CHECK(contains(sentence([] { parse(""); }), "line 1, column 1\n  expected \"file\", \"layout\" or \"func\", found the end of the text"));
  CHECK(contains(sentence([] { parse("func @f() num_warps(0) {return}"); }), "a number of warps from 1 to 32"));
}

TEST_CASE("a value is not visible outside the block that defines it") {
  std::string text = R"(func @f(%0: i1, %1: i32) num_warps(4) {
  if %0 {
    %2 = neg %1 : i32
    yield
  } {
    yield
  }
  return %2
})";
  CHECK(contains(sentence([&] { parse(text); }), "line 8, column 10\n  %2 is not defined before it, or not visible here"));
}

TEST_CASE("the parser answers any garbage with an error") {
  std::string deep = "func @f(%0: i1) num_warps(4) {\n";
  for (int i = 0; i < 100000; ++i) deep += "if %0 {";
  CHECK(contains(sentence([&] { parse(deep); }), "nested blocks"));

  std::uint64_t state = 12345;
  auto random = [&](std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state >> 33) % below);
  };
  constexpr char letters[] = "{}()[]<>%#@^:,=\"x0123456789-.eif \n";
  int accepted = 0;
  for (const Function& function : functions_with_every_operation()) {
    const std::string original = print(function);
    for (int round = 0; round < 1500; ++round) {
      std::string text = original;
      for (std::size_t change = 0; change <= random(3); ++change) {
        std::size_t place = random(text.size());
        switch (random(4)) {
          case 0:
            text.erase(place, 1 + random(8));
            break;
          case 1:
            text[place] = letters[random(sizeof(letters) - 1)];
            break;
          case 2:
            text.insert(place, 1, letters[random(sizeof(letters) - 1)]);
            break;
          default:
            text.insert(place, text.substr(random(text.size()), random(40)));
            break;
        }
      }
      try {
        Function parsed = parse(text);
        verify(parsed, "after parsing garbage");
        std::string again = print(parsed);
        CHECK(print(parse(again)) == again);
        ++accepted;
      } catch (const CompileError&) {
      }
    }
  }
  CHECK(accepted > 0);
}
