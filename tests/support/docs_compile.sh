#!/usr/bin/env bash
# docs_compile.sh ARGUMENTS PAGE FOLDER: the ```cpp blocks of a Markdown page compile (syntax and types; nothing is run).
# ARGUMENTS is a file with the compiler and its options, one a line; FOLDER takes the translation unit that is made of the page.
#
# How a block becomes part of it, after #include <flextile/flextile.hpp> and using namespace flextile:
# - #include lines come first, wherever they stand.
# - A block with main() stands as it is, in a namespace of its own.
# - Of other blocks, paragraphs that begin with template, inline, static, struct or namespace are declarations, which later blocks
#   of the page may use; the other paragraphs are the body of a function. A paragraph ends at an empty line.
# - What a fragment takes for granted is declared in a comment before it, which readers of the page do not see:
#       <!-- given: Device device; Tensor<f32> x; -->
#   on one line or several. It counts for the next block only, and begins that function's body.
# Messages of the compiler name the page and its lines.
set -euo pipefail
mapfile -t compiler <"$1"
page=$2
unit=$3/$(basename "$page").cpp

awk -v page="$page" '
  function at(line) { return "#line " line " \"" page "\"\n" }
  function end_paragraph() {
    if (paragraph == "") return
    if (first ~ /^(template|inline|static|struct|namespace)[ <]/) declarations = declarations at(start) paragraph
    else body = body at(start) paragraph
    paragraph = ""
  }
  in_given {
    if (sub(/-->.*/, "")) in_given = 0
    given = given at(NR) $0 "\n"
    next
  }
  !in_block && /^<!-- given:/ {
    in_given = !/-->/
    sub(/^<!-- given:/, ""); sub(/-->.*/, "")
    given = given at(NR) $0 "\n"
    next
  }
  !in_block && /^```cpp/ { in_block = 1; whole = declarations = body = paragraph = ""; has_main = 0; ++blocks; block_line = NR + 1; next }
  !in_block && /^ *```/ { other = !other; next }
  !in_block && !other && !/^<!--/ && !/^ *$/ { given = "" }
  in_block && /^```/ {
    in_block = 0
    end_paragraph()
    if (has_main) program = program "namespace program_" blocks " {\n" at(block_line) whole "}\n"
    else program = program declarations "[[maybe_unused]] static void block_" blocks "() {\n" given body "}\n"
    given = ""
    next
  }
  in_block && /^ *#include/ { includes = includes at(NR) $0 "\n"; whole = whole "\n"; next }
  in_block {
    whole = whole $0 "\n"
    if (/int main\(/) has_main = 1
    if (/^ *$/) { end_paragraph(); next }
    if (paragraph == "") { first = $0; start = NR }
    paragraph = paragraph $0 "\n"
  }
  END {
    if (in_block) { print page ": the block of line " block_line - 1 " does not end" >"/dev/stderr"; exit 1 }
    printf "%s#include <flextile/flextile.hpp>\n#include <iostream>\nusing namespace flextile;\n%s// %d blocks\n", includes, program, blocks
  }' "$page" >"$unit"

echo "$page: $(tail -1 "$unit" | tr -dc 0-9) blocks"
if [ "$(tail -1 "$unit")" = "// 0 blocks" ]; then exit 0; fi
exec "${compiler[@]}" -fsyntax-only -fdiagnostics-color=never "$unit"
