// The GPU code of attention, run in the PTX emulator: numbers, races and stray accesses on a machine without a GPU.
#include "mask_kernels.hpp"
#include "support/attention_case.hpp"
#include "support/run_ptx.hpp"
#include "tile_table.hpp"

using namespace flextile;
using namespace flextile::tests;

namespace {

/// Flattened arguments as HostEntry takes them, and the memory they point to.
class Arguments {
 public:
  void add(const TensorRef& tensor, bool as_pointer = false) {
    memory.push_back({tensor.data(), static_cast<std::size_t>(tensor.bytes())});
    put(reinterpret_cast<std::uint64_t>(tensor.data()));
    if (as_pointer) return;
    for (std::int64_t size : tensor.shape()) put(static_cast<std::uint64_t>(size));
    for (std::int64_t stride : tensor.strides()) put(static_cast<std::uint64_t>(stride));
  }
  void add(float value) { put(std::bit_cast<std::uint32_t>(value)); }
  void add(std::int64_t value) { put(static_cast<std::uint64_t>(value)); }
  std::vector<void*> pointers() {
    std::vector<void*> result;
    for (std::uint64_t& value : values_) result.push_back(&value);
    return result;
  }
  std::vector<test::MemoryRange> memory;

 private:
  void put(std::uint64_t value) { values_.push_back(value); }
  std::vector<std::uint64_t> values_;
};

/// Every program of the kernel that trace_attention gives, for a mask and a score mod, against the loops.
/// `meant`: what the loops compute in place of the score mod.
template <class T, class Score, class Mask, class Meant>
void check_ptx(const AttentionSizes& s, const Score& score_mod, const Mask& mask_mod, const AttentionCompileOptions& wish, const Target& target, const Meant& meant) {
  CAPTURE(describe(s));
  const AttentionInputs<T> in(Device::host(), s);
  const BlockMask mask = create_block_mask(mask_mod, {.batch = s.batch, .heads = s.heads, .q_len = s.q_len, .kv_len = s.kv_len, .q_block = wish.q_block,
                                                      .kv_block = wish.kv_block, .device = Device::host()});
  const ir::Mod score = erase_score(score_mod);
  AttentionCompileOptions options = wish;
  options.dim = static_cast<int>(s.dim), options.value_dim = static_cast<int>(s.value_dim);
  options.element = element_type_of<T>, options.return_lse = true;
  const CompiledKernel kernel = compile_attention(&score, &mask.mod(), options, target, {.line_info = false, .binary = false});
  const AttentionConfig config = choose_config({options.element, options.dim, options.value_dim, options.q_block, options.kv_block}, target);

  Attended<T> attended{zeros<T>(Device::host(), {s.batch, s.heads, s.q_len, s.value_dim}), zeros<f32>(Device::host(), {s.batch, s.heads, s.q_len}), {}};
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  Arguments arguments;
  for (const TensorRef& tensor : {TensorRef(in.q), TensorRef(in.k), TensorRef(in.v), TensorRef(attended.out), TensorRef(attended.lse)}) arguments.add(tensor);
  arguments.add(mask.rows().order);
  arguments.add(mask.rows().entries, true);
  arguments.add(static_cast<float>(scale));
  arguments.add(std::int64_t(2));                          // heads at once
  arguments.add(std::int64_t(1));                          // blocks that come last
  for (const ir::TensorHandle& tensor : score.tensors) arguments.add(TensorRef(tensor));
  for (const ir::TensorHandle& tensor : mask.mod().tensors) arguments.add(TensorRef(tensor));
  std::vector<void*> pointers = arguments.pointers();
  const auto programs = static_cast<std::int32_t>(mask.q_tiles() * config.row_parts * s.heads * s.batch);
  for (std::int32_t program = 0; program < programs; ++program)
    test::run_ptx(kernel, pointers.data(), {{program, 0, 0}, {programs, 1, 1}}, arguments.memory, program % 2 == 1);
  check_attended(in, attended, scale, meant, mask_mod, target);
  CHECK(kernel.resident == (target == Target::sm_90a()));
  for (const std::uint32_t workers : {1u, 2u, 3u}) {       // each takes over several programs
    if (!kernel.resident) break;
    CAPTURE(workers);
    attended.out.fill(0.0f), attended.lse.fill(0.0f);
    test::run_workers(kernel, pointers.data(), std::min<std::uint32_t>(workers, static_cast<std::uint32_t>(programs)), {programs, 1, 1}, arguments.memory);
    check_attended(in, attended, scale, meant, mask_mod, target);
  }
}

template <class T, class Score, class Mask>
void check_ptx(const AttentionSizes& s, const Score& score_mod, const Mask& mask_mod, const AttentionCompileOptions& wish, const Target& target = Target::sm_80()) {
  check_ptx<T>(s, score_mod, mask_mod, wish, target, score_mod);
}

std::vector<ir::Parameter> with_unit_stride(std::vector<ir::Parameter> signature, bool unit_stride) {
  for (ir::Parameter& parameter : signature) parameter.unit_stride = unit_stride && parameter.type.is_view();
  return signature;
}

void run_all(const ir::Function& function, Arguments& arguments, std::int64_t programs, const Target& target) {
  const CompiledKernel kernel = compile(function, target, {.line_info = false, .binary = false});
  std::vector<void*> pointers = arguments.pointers();
  const auto count = static_cast<std::int32_t>(programs);
  for (std::int32_t program = 0; program < count; ++program)
    test::run_ptx(kernel, pointers.data(), {{program, 0, 0}, {count, 1, 1}}, arguments.memory, program % 2 == 1);
}

/// The lists that the GPU kernels make of a mask of two heads, against those of the host.
void check_mask_ptx(int q_block, int kv_block, std::int64_t q_len, std::int64_t kv_len, const Target& target) {
  CAPTURE(q_block);
  CAPTURE(kv_block);
  const Device device = Device::host();
  const Tensor<i32> ids = document_ids(device, 400, 3, 60);
  const auto mask_mod = [ids](auto, auto h, auto q, auto kv) { return ids[q] == ids[kv] && q - kv < 25 + h * 10; };
  const BlockMask mask = create_block_mask(mask_mod, {.heads = 2, .q_len = q_len, .kv_len = kv_len, .q_block = q_block, .kv_block = kv_block, .device = device});
  const ir::Mod mod = erase_mask(mask_mod);
  const Tensor<u8> classes = full<u8>(device, {2, mask.q_tiles(), mask.kv_tiles()}, 77);

  const attention::ClassifyKernel classify{mod.fragment, q_block, kv_block};
  Arguments arguments;
  arguments.add(classes);
  for (std::int64_t number : {std::int64_t(2), q_len, kv_len, std::int64_t(0), std::int64_t(0)}) arguments.add(number);
  arguments.add(ids);
  run_all(classify.trace(with_unit_stride(classify.signature(), true)), arguments, 2 * mask.q_tiles() * ceil_div(mask.kv_tiles(), classify.tiles_per_program()), target);

  for (const bool by_column : {false, true}) {
    CAPTURE(by_column);
    const TensorRef table = by_column ? classes.transpose(1, 2) : classes;
    const std::int64_t lists = table.size(1), tiles = table.size(2);
    const Tensor<i64> starts = zeros<i64>(device, {2 * lists});
    const Tensor<i32> counts = zeros<i32>(device, {2 * lists}), entries = zeros<i32>(device, {2 * lists * tiles});
    const attention::CompactKernel compact;
    Arguments given;
    given.add(table);
    given.add(starts, true);
    given.add(counts, true);
    given.add(entries, true);
    for (std::int64_t number : {tiles, std::int64_t(0), std::int64_t(0), std::int64_t(0), lists}) given.add(number);
    run_all(compact.trace(with_unit_stride(compact.signature(), !by_column)), given, 2 * lists, target);
    const attention::TileTable expected(by_column ? mask.columns() : mask.rows()), actual(TileLists{starts, counts, {}, entries, false});
    CHECK(actual.counts == expected.counts);
    for (std::int64_t row = 0; row < 2 * lists; ++row) {
      std::vector<std::int64_t> a, b;
      actual.for_each(row, [&](std::int64_t tile, bool partial) { a.push_back(2 * tile + partial); });
      expected.for_each(row, [&](std::int64_t tile, bool partial) { b.push_back(2 * tile + partial); });
      CHECK(a == b);
    }

    const Tensor<i64> order = full<i64>(device, {2 * lists, 3}, -1);
    const attention::OrderKernel ranking;
    Arguments ranked;
    ranked.add(starts, true);
    ranked.add(counts, true);
    ranked.add(order, true);
    ranked.add(lists);
    run_all(ranking.trace(ranking.signature()), ranked, 2 * ceil_div(lists, ranking.lists_per_program), target);
    CHECK(order.to_host() == (by_column ? mask.columns() : mask.rows()).order.to_host());
  }
}

}  // namespace

TEST_CASE("PTX of the mask kernels") {
  for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
    CAPTURE(target.name());
    check_mask_ptx(32, 16, 100, 90, target);
    check_mask_ptx(128, 128, 300, 200, target);
    check_mask_ptx(13, 24, 60, 90, target);
    check_mask_ptx(8, 8, 20, 30, target);
  }
}

TEST_CASE("mask kernels of all sizes of tiles compile, also where a mod needs no memory") {
  const ir::Mod causal = erase_mask([](auto, auto, auto q, auto kv) { return q >= kv; }), rows = erase_mask([](auto, auto, auto q, auto) { return q >= 0; });
  for (const ir::Mod* mod : {&causal, &rows})
    for (const int q_block : {8, 13, 16, 24, 128, 256})
      for (const int kv_block : {8, 24, 80, 200, 256})
        for (const Target& target : {Target::sm_80(), Target::parse("sm_90"), Target::sm_90a()}) {
          CAPTURE(q_block);
          CAPTURE(kv_block);
          CAPTURE(target.name());
          const attention::ClassifyKernel classify{mod->fragment, q_block, kv_block};
          CHECK_NOTHROW(compile(classify.trace(classify.signature()), target, {.line_info = false, .binary = false}));
        }
}

TEST_CASE("PTX of attention: bf16, causal") {
  check_ptx<bf16>({1, 1, 2, 1, 80, 90, 64, 64}, same_score, masks::causal, {.q_block = 64, .kv_block = 64});
}

TEST_CASE("PTX of attention: f16, documents and a score mod, dims that are padded") {
  const Tensor<i32> ids = document_ids(Device::host(), 100, 4, 30);
  check_ptx<f16>({1, 1, 2, 2, 100, 100, 24, 40}, scores::alibi(2), masks::document(ids), {.q_block = 32, .kv_block = 64});
}

TEST_CASE("PTX of attention: products of warpgroups") {
  const Tensor<i32> ids = document_ids(Device::host(), 200, 4, 70);
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 128, 64}, same_score, masks::document(ids), {.q_block = 128, .kv_block = 128}, Target::sm_90a());
  check_ptx<bf16>({1, 1, 1, 1, 200, 280, 64, 128}, same_score, masks::causal, {.q_block = 192, .kv_block = 128}, Target::sm_90a());
  check_ptx<f16>({1, 1, 1, 1, 200, 140, 64, 128}, scores::alibi(2), masks::causal, {.q_block = 128, .kv_block = 64}, Target::sm_90a());
}

TEST_CASE("PTX of attention: masks as bits of words") {
  auto check = [](const auto& mask) {
    check_ptx<bf16>({1, 1, 1, 1, 70, 140, 64, 64}, same_score, mask, {.q_block = 128, .kv_block = 128}, Target::sm_90a());
    check_ptx<bf16>({1, 1, 1, 1, 70, 140, 64, 64}, same_score, mask, {.q_block = 192, .kv_block = 128}, Target::sm_90a());
    check_ptx<bf16>({1, 1, 1, 1, 70, 140, 64, 64}, same_score, mask, {.q_block = 64, .kv_block = 80});
  };
  for (const i32 width : {37, std::numeric_limits<i32>::max(), std::numeric_limits<i32>::min()}) {
    CAPTURE(width);
    const Tensor<i32> window = full<i32>(Device::host(), {1}, width);
    check([window](auto, auto, auto q, auto kv) { return q - kv < window[0] && kv - q <= window[0]; });
    check([window](auto, auto, auto q, auto kv) { return !(q - kv > window[0]) || kv >= window[0]; });
  }
  // Literals at the ends of i32, on either side.
  constexpr i32 most = std::numeric_limits<i32>::max(), least = std::numeric_limits<i32>::min();
  auto overlapped = [](const auto& mask) { check_ptx<bf16>({1, 1, 1, 1, 70, 140, 64, 64}, same_score, mask, {.q_block = 192, .kv_block = 128}, Target::sm_90a()); };
  overlapped([](auto, auto, auto q, auto kv) { return q >= kv && q - kv < most && most > q - kv; });
  overlapped([](auto, auto, auto q, auto kv) { return q >= kv && kv >= least && kv - q > -most; });
  overlapped([](auto, auto, auto q, auto kv) { return q >= kv || q - kv > most - 1 || kv - q < least + 100; });
  const Tensor<i32> ids = document_ids(Device::host(), 200, 4, 70);
  check([ids](auto, auto, auto q, auto kv) { return q >= kv && ids[q] == ids[kv] && q - kv < 50; });
  check([ids](auto, auto, auto q, auto kv) { return (ids[q] == ids[kv] && q >= kv) && ((ids[kv] == 1 || kv < 100) && q - kv < 50); });
  check([](auto, auto, auto q, auto kv) { return (q > kv) != (kv <= 90); });
  check([](auto, auto, auto q, auto kv) { return kv < q + 3 && (q < 30 || kv > 20); });
  check([](auto, auto, auto q, auto kv) { return (kv <= q && q / 16 == kv / 16) || kv < 5; });
  const std::string ptx = compile_flex_attention(masks::sliding_window(1024), {.dim = 128}, Target::sm_90a(), {.binary = false}).ptx();
  CHECK(ptx.find("bmsk.clamp.b32") != std::string::npos);
  // What stands between conditions on what is read too.
  const Tensor<i32> window = full<i32>(Device::host(), {1}, 100);
  const auto mixed = [ids, window](auto, auto, auto q, auto kv) { return q >= kv && ids[q] == ids[kv] && q - kv < window[0]; };
  CHECK(compile_flex_attention(mixed, {.dim = 128}, Target::sm_90a(), {.binary = false}).ptx().find("bmsk.clamp.b32") != std::string::npos);
}

TEST_CASE("PTX of attention: hidden scores that are infinite or no numbers stay hidden") {
  for (const auto& [q_block, kv_block] : {std::pair{128, 128}, {192, 128}}) {
    CAPTURE(q_block);
    const AttentionCompileOptions tiles{.q_block = q_block, .kv_block = kv_block};
    check_ptx<bf16>({1, 1, 1, 1, 150, 200, 64, 64}, [](auto score, auto, auto, auto q, auto kv) { return where(kv > q, infinity, score); }, masks::causal, tiles, Target::sm_90a());
    check_ptx<bf16>({1, 1, 1, 1, 150, 200, 64, 64}, [](auto score, auto, auto, auto q, auto kv) { return score + 0.01f * sqrt(cast<f32>(q - kv)); }, masks::causal, tiles, Target::sm_90a());
  }
}

TEST_CASE("mask kernels and attention of every mask of the catalogue, and of long conditions, compile") {
  const Tensor<i32> ids = document_ids(Device::host(), 200, 4, 70);
  const auto deep = [ids](auto, auto h, auto q, auto kv) {
    const auto far = abs((((((((q - kv) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1) * 2 + 1);
    return far < 4000 && ids[q] == ids[kv] && q >= kv && (far % 3 != 1 || h == 0) && ids[kv] != 2 && kv < 190 && far > -7;
  };
  std::vector<ir::Mod> all{erase_mask(deep)};
  for (const std::string& name : mask_names()) all.push_back(named_mask(name));
  for (const ir::Mod& mod : all)
    for (const Target& target : {Target::sm_80(), Target::sm_90a(), Target::host()}) {
      CAPTURE(target.name());
      const attention::ClassifyKernel classify{mod.fragment, 128, 128};
      CHECK_NOTHROW(compile(classify.trace(classify.signature()), target, {.line_info = false, .binary = false}));
      CHECK_NOTHROW(compile_attention(nullptr, &mod, {.dim = 64}, target, {.line_info = false, .binary = false}));
    }
}

TEST_CASE("PTX of attention: captured slopes say which keys come first") {
  const Tensor<f32> slopes = empty<f32>(Device::host(), {2});
  slopes.copy_from(std::vector<f32>{0.5f, -0.5f});
  const auto captured = [slopes](auto score, auto, auto h, auto q, auto kv) { return score + slopes[h] * (kv - q); };
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 64, 64}, captured, masks::causal, {.q_block = 192, .kv_block = 128}, Target::sm_90a());
  check_ptx<bf16>({1, 1, 2, 2, 70, 140, 64, 64}, captured, masks::sliding_window(60), {.q_block = 48, .kv_block = 80});
}

TEST_CASE("PTX of attention: a score mod's quick instructions") {
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 64, 64}, scores::softcap(5), masks::causal, {.q_block = 128, .kv_block = 128}, Target::sm_90a());
}

TEST_CASE("PTX of attention: products of warpgroups, head dims that end within a panel") {
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 80, 96}, same_score, masks::causal, {.q_block = 128, .kv_block = 128}, Target::sm_90a());
  check_ptx<f16>({1, 1, 1, 1, 200, 130, 96, 80}, scores::alibi(2), masks::causal, {.q_block = 192, .kv_block = 80}, Target::sm_90a());
  check_ptx<bf16>({1, 1, 2, 2, 70, 140, 40, 192}, same_score, masks::sliding_window(60), {.q_block = 128, .kv_block = 80}, Target::sm_90a());
}

TEST_CASE("PTX of attention: a bias of every position is fetched with keys and values") {
  const Tensor<bf16> bias = random_normal<bf16>(Device::host(), {150, 200}, 5);
  const auto biased = [bias](auto score, auto, auto, auto q, auto kv) { return score + bias(q, kv); };
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 64, 64}, biased, masks::causal, {.q_block = 128, .kv_block = 128}, Target::sm_90a());
  const CompiledKernel kernel = compile_flex_attention(biased, masks::causal, {.dim = 128}, Target::sm_90a(), {.binary = false});
  CHECK(kernel.explain().find("[load] tile<128x64xbf16> by the copy engine") != std::string::npos);
  CHECK(kernel.ptx().find("ld.global.b16") == std::string::npos);
}

TEST_CASE("PTX of attention: of a bias of every distance a window is fetched with keys and values") {
  const Tensor<bf16> bias = random_normal<bf16>(Device::host(), {2, 400}, 5);
  const Tensor<f32> wide = random_normal<f32>(Device::host(), {2, 512}, 6);
  const Tensor<f16> one = random_normal<f16>(Device::host(), {220}, 7);
  const auto back = [bias](auto score, auto, auto h, auto q, auto kv) { return score + bias(h, q - kv + 200); };
  const auto forth = [wide](auto score, auto, auto h, auto q, auto kv) { return score + wide(h, 200 + kv - q); };
  const auto both = [bias, one](auto score, auto, auto h, auto q, auto kv) { return score + bias(h, kv - (q - 190)) * one[q - kv + 140]; };
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 64, 64}, back, masks::causal, {.q_block = 128, .kv_block = 128}, Target::sm_90a());
  check_ptx<bf16>({2, 1, 2, 1, 200, 300, 128, 128}, forth, masks::sliding_window(150), {.q_block = 192, .kv_block = 80}, Target::sm_90a());
  check_ptx<f16>({1, 1, 2, 2, 70, 140, 64, 64}, both, masks::prefix_lm(90), {.q_block = 128, .kv_block = 128}, Target::sm_90a());
  const Tensor<i32> integers = [] {
    std::vector<i32> values;
    for (int i = 0; i < 512; ++i) values.push_back(i * 37 % 11 - 5);
    return from_host<i32>(Device::host(), values, {512});
  }();
  const auto whole = [integers](auto score, auto, auto, auto q, auto kv) { return score + cast<f32>(integers[(q + 1200000000) - (kv - 1200000000) - 2147483647 - 252516353 + 200]); };
  check_ptx<bf16>({1, 1, 2, 1, 150, 200, 64, 64}, [integers](auto score, auto, auto, auto q, auto kv) { return score + cast<f32>(integers[q - kv + 200]); }, masks::causal, {.q_block = 128, .kv_block = 128}, Target::sm_90a());
  const ir::Mod wrapped = erase_score(whole), plain = erase_score([integers](auto score, auto, auto, auto q, auto kv) { return score + cast<f32>(integers[q - kv + 200]); });
  const CompileOptions text{.line_info = false, .binary = false};
  CHECK(compile_attention(&wrapped, nullptr, {.dim = 128}, Target::sm_90a(), text).ptx() == compile_attention(&plain, nullptr, {.dim = 128}, Target::sm_90a(), text).ptx());   // constants that wrap
  // Distances that the table does not have: below its first, beyond its last, and boxes that lie outside altogether.
  for (const int shift : {-140, 0, 60, 500}) {
    CAPTURE(shift);
    const auto few = [bias, shift](auto score, auto, auto h, auto q, auto kv) { return score + bias(h, q - kv + shift); };
    const auto meant = [bias, shift](auto score, auto, auto h, auto q, auto kv) {
      const auto at = q - kv + shift;
      return where(at >= 0 && at < 400, score + bias(h, max(0, min(at, 399))), score);
    };
    check_ptx<bf16>({1, 1, 2, 1, 150, 200, 64, 64}, few, masks::causal, {.q_block = 128, .kv_block = 128}, Target::sm_90a(), meant);
  }
  for (const auto& [mod, windows] : {std::pair{erase_score(back), 1}, {erase_score(forth), 1}, {erase_score(both), 2}}) {
    const CompiledKernel kernel = compile_attention(&mod, nullptr, {.dim = 128}, Target::sm_90a(), {.binary = false});
    CHECK(std::count_if(kernel.tensor_maps.begin(), kernel.tensor_maps.end(), [](const TensorMap& map) { return map.swizzle == 0; }) == windows);
    CHECK(kernel.ptx().find("ld.global.b16") == std::string::npos);
    CHECK(kernel.ptx().find("ld.global.b32") == std::string::npos);
  }
}

TEST_CASE("PTX of attention: f32") { check_ptx<f32>({1, 1, 3, 1, 40, 70, 32, 32}, scores::softcap(5), masks::causal, {.q_block = 32, .kv_block = 32}); }

TEST_CASE("PTX of attention: tiles that are no multiple of 16") {
  check_ptx<bf16>({1, 1, 1, 1, 60, 50, 16, 16}, same_score, masks::sliding_window(20), {.q_block = 24, .kv_block = 20});
}
