// The GPU code of attention, run in the PTX emulator: numbers, races and stray accesses on a machine without a GPU.
#include "support/attention_case.hpp"
#include "support/run_ptx.hpp"

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
template <class T, class Score, class Mask>
void check_ptx(const AttentionSizes& s, const Score& score_mod, const Mask& mask_mod, const AttentionCompileOptions& wish, const Target& target = Target::sm_80()) {
  CAPTURE(describe(s));
  const AttentionInputs<T> in(Device::host(), s);
  const BlockMask mask = create_block_mask(mask_mod, {.batch = s.batch, .heads = s.heads, .q_len = s.q_len, .kv_len = s.kv_len, .q_block = wish.q_block,
                                                      .kv_block = wish.kv_block, .device = Device::host()});
  const ir::Mod score = erase_score(score_mod);
  AttentionCompileOptions options = wish;
  options.dim = static_cast<int>(s.dim), options.value_dim = static_cast<int>(s.value_dim);
  options.element = element_type_of<T>, options.return_lse = true;
  const ir::Function function = trace_attention(&score, &mask.mod(), options, target);
  const AttentionConfig config = choose_config({options.element, options.dim, options.value_dim, options.q_block, options.kv_block}, target);

  Attended<T> attended{zeros<T>(Device::host(), {s.batch, s.heads, s.q_len, s.value_dim}), zeros<f32>(Device::host(), {s.batch, s.heads, s.q_len}), {}};
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  Arguments arguments;
  for (const TensorRef& tensor : {TensorRef(in.q), TensorRef(in.k), TensorRef(in.v), TensorRef(attended.out), TensorRef(attended.lse)}) arguments.add(tensor);
  arguments.add(mask.rows().starts);
  arguments.add(mask.rows().counts);
  arguments.add(mask.rows().entries, true);
  arguments.add(static_cast<float>(scale));
  for (const ir::TensorHandle& tensor : score.tensors) arguments.add(TensorRef(tensor));
  for (const ir::TensorHandle& tensor : mask.mod().tensors) arguments.add(TensorRef(tensor));
  std::vector<void*> pointers = arguments.pointers();
  const auto programs = static_cast<std::int32_t>(mask.q_tiles() * config.row_parts * s.heads * s.batch);
  for (std::int32_t program = 0; program < programs; ++program)
    test::run_ptx(function, pointers.data(), {{program, 0, 0}, {programs, 1, 1}}, arguments.memory, target, program % 2 == 1);
  check_attended(in, attended, scale, score_mod, mask_mod);
}

}  // namespace

TEST_CASE("PTX of attention: bf16, causal") {
  check_ptx<bf16>({1, 1, 2, 1, 80, 90, 64, 64}, same_score, masks::causal, {.q_block = 64, .kv_block = 64});
}

TEST_CASE("PTX of attention: f16, documents and a score mod, dims that are padded") {
  const Tensor<i32> ids = document_ids(Device::host(), 100, 4, 30);
  check_ptx<f16>({1, 1, 2, 2, 100, 100, 24, 40}, scores::alibi(2), masks::document(ids), {.q_block = 32, .kv_block = 64});
}

TEST_CASE("PTX of attention: f32") { check_ptx<f32>({1, 1, 1, 1, 40, 70, 32, 32}, scores::softcap(5), masks::causal, {.q_block = 32, .kv_block = 32}); }

TEST_CASE("PTX of attention: tiles that are no multiple of 16") {
  check_ptx<bf16>({1, 1, 1, 1, 60, 50, 16, 16}, same_score, masks::sliding_window(20), {.q_block = 24, .kv_block = 20});
}
