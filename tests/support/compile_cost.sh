#!/usr/bin/env bash
# compile_cost.sh ARGUMENTS FOLDER: what flextile costs at compile time, in processor seconds: the header beside <string>, one more
# kernel, one more mod. ARGUMENTS is a file with the compiler and its options, one a line. Prints; fails only where the
# sources do not compile.
set -u
mapfile -t compiler <"$1"
folder=$2

# cost FILE: least processor seconds of two compilations to an object file.
cost() {
  local best=999 TIMEFORMAT=%U taken
  for _ in 1 2; do
    taken=$({ time "${compiler[@]}" -O1 -c "$1" -o "$folder/cost.o" 2>"$folder/cost.log"; } 2>&1) || { cat "$folder/cost.log" >&2; exit 1; }
    best=$(echo "$taken $best" | awk '{print $1 < $2 ? $1 : $2}')
  done
  echo "$best"
}

echo '#include <string>' >"$folder/cost_string.cpp"
echo '#include <flextile/flextile.hpp>' >"$folder/cost_header.cpp"
# source KERNELS MODS: as many different kernels and mods after the header.
source_of() {
  echo '#include <flextile/flextile.hpp>'
  echo 'using namespace flextile;'
  for ((i = 1; i <= $1; ++i)); do
    echo "ir::Function kernel$i() { return kernel(\"k$i\", [](TensorView<const f32, 2> x, TensorView<f32, 2> y) { Scalar row = program_id(0) * $i;" \
      "Tile v = x.load<128>(row, 0); Tile e = exp2((v - max(v)) * $i.0f); y.store(e / sum(e), row, 0); }).trace(); }"
  done
  for ((i = 1; i <= $2; ++i)); do
    echo "ir::Mod mod$i(Tensor<i32> a) { return erase_mask([a](auto, auto, auto q, auto kv) { return q >= kv && a[q] == a[kv] && q - kv < $i * 8; }); }"
  done
}
source_of 1 1 >"$folder/cost_one.cpp"
source_of 6 1 >"$folder/cost_kernels.cpp"
source_of 1 6 >"$folder/cost_mods.cpp"

string=$(cost "$folder/cost_string.cpp") && header=$(cost "$folder/cost_header.cpp") && one=$(cost "$folder/cost_one.cpp") &&
  kernels=$(cost "$folder/cost_kernels.cpp") && mods=$(cost "$folder/cost_mods.cpp") || exit 1
awk -v s="$string" -v h="$header" -v o="$one" -v k="$kernels" -v m="$mods" 'BEGIN {
  printf "#include <string>                 %.2f s\n#include <flextile/flextile.hpp>  %.2f s, %.1f times as much (goal: at most 4)\n", s, h, h / s
  printf "one more kernel                   %.2f s (goal: at most 0.1)\none more mod                      %.2f s (goal: at most 0.1)\n", (k - o) / 5, (m - o) / 5 }'
