// Attention kernels compile for every target on a machine without a GPU.
#include <doctest/doctest.h>

#include <flextile/flextile.hpp>

using namespace flextile;

TEST_CASE("a mask mod for sm_80: texts and resources") {
  const CompiledKernel kernel = compile_flex_attention(masks::causal, {.dim = 64, .element = ElementType::bf16}, Target::sm_80());
  CHECK(kernel.tile_ir().find("dot") != std::string::npos);
  CHECK(kernel.llvm_ir().find("flex_attention") != std::string::npos);
  CHECK(kernel.ptx().find(".target sm_80") != std::string::npos);
  CHECK(kernel.ptx().find("mma.sync") != std::string::npos);
  CHECK(kernel.ptx().find(".loc") != std::string::npos);
  CHECK(kernel.resource_usage.threads == 32 * choose_config({ElementType::bf16, 64, 64, 128, 128}, Target::sm_80()).num_warps);
}

TEST_CASE("every dim and element type, on the host and on two GPUs") {
  for (const Target& target : {Target::host(), Target::sm_80(), Target::sm_90a()})
    for (ElementType element : {ElementType::f32, ElementType::f16, ElementType::bf16})
      for (int dim : {1, 40, 80, 128, 256}) {
        CAPTURE(target.name());
        CAPTURE(name(element));
        CAPTURE(dim);
        const CompiledKernel kernel = compile_flex_attention(scores::alibi(4), masks::causal, {.dim = dim, .element = element}, target, {.binary = false});
        CHECK_FALSE(kernel.llvm_ir().empty());
      }
}

TEST_CASE("mods of the catalogue compile") {
  for (const std::string& mask_name : mask_names()) {
    CAPTURE(mask_name);
    const ir::Mod mask = named_mask(mask_name);
    CHECK_FALSE(compile_attention(nullptr, &mask, {.dim = 64}, Target::sm_80(), {.binary = false}).ptx().empty());
  }
  for (const std::string& score_name : score_names()) {
    CAPTURE(score_name);
    const ir::Mod score = named_score(score_name);
    CHECK_FALSE(compile_attention(&score, nullptr, {.dim = 64}, Target::sm_80(), {.binary = false}).ptx().empty());
  }
}

TEST_CASE("options that cannot be") {
  CHECK_THROWS_AS(compile_flex_attention(masks::causal, {.dim = 0}, Target::host()), ArgumentError);
  CHECK_THROWS_AS(compile_flex_attention(masks::causal, {.dim = 257}, Target::host()), ArgumentError);
  CHECK_THROWS_AS(compile_flex_attention(masks::causal, {.element = ElementType::i32}, Target::host()), ArgumentError);
  CHECK_THROWS_AS(compile_flex_attention(masks::causal, {.q_block = 4}, Target::host()), ArgumentError);
}

TEST_CASE("the loops on a GPU: a producer that fetches, rings that nobody meets at, a select per masked score") {
  const Tensor<i32> ids = document_ids(Device::host(), 512);
  const CompiledKernel kernel = compile_flex_attention(masks::document(ids), {.dim = 128}, Target::sm_90a(), {.binary = false});
  const std::string& ptx = kernel.ptx_text;
  auto count = [&](const std::string& word) {
    int n = 0;
    for (std::size_t at = ptx.find(word); at != std::string::npos; at = ptx.find(word, at + 1)) ++n;
    return n;
  };
  CHECK(count("bar.sync \t0;") == 1);          // all threads meet once, when the rings' barriers are made: never in the loop
  CHECK(count("setmaxnreg.dec") == 1);         // the producer's four warps leave their registers to the consumers
  CHECK(count("setmaxnreg.inc") == 1);
  CHECK(count("elect.sync") == 2);             // one thread makes the barriers; one of each of the producer's warps fetches
  CHECK(count(".mbarrier::complete_tx::bytes") == 6);   // two panels of 64 columns each: a query tile in front of the producer's loop, keys and values in it
  CHECK(count("mbarrier.arrive.expect_tx") == 3);
  CHECK(count("atom.relaxed.gpu.global.inc") == 2);   // the next program, taken by one warp: in one of the steps, or where there are none
  CHECK(count("mbarrier.pending_count") == 0); // nobody asks whether it was the last to release a stage
  CHECK(count("cp.async.cg") == 0);
  CHECK(count("fence.proxy.async") == 2);      // there too, since no thread writes what wgmma reads; and where the copy engine stores
  CHECK(count(".tile.bulk_group") == 2);       // two panels of the result, through the query's stage
  CHECK(count("stmatrix") == 8);               // of 16 columns each
  CHECK(count("st.global.v4") == 0);
  CHECK(count("vote.sync.any") == 3 + 2);      // an iteration is there three times: the first has no product to overlap with, the others are with and without a mask
  CHECK(count("0f7F7FFFFF") == 2);             // those two wait for the product of the iteration before behind half of their exponentials
  const AttentionShape shape{.element = ElementType::bf16, .dim = 128, .value_dim = 128, .q_block = 128, .kv_block = 128};
  const AttentionConfig config = choose_config(shape, Target::sm_90a());
  const int threads = 32 * config.num_warps;
  const int masked = 2 * config.block_m * config.block_n / threads, rescaled = config.block_m * config.padded_value_dim / threads;
  CHECK(count("selp.f32") <= 2 * masked + 3 * (rescaled + 24));                   // and a few per row
  CHECK(count("selp.b64") == 0);
}

TEST_CASE("two warpgroups wait for a late product behind half of their rows, where a score costs little") {
  auto votes = [](int q_block, int kv_block, int dim, auto... mods) {
    const std::string ptx = compile_flex_attention(mods..., {.dim = dim, .q_block = q_block, .kv_block = kv_block}, Target::sm_90a(), {.binary = false}).ptx();
    int count = 0;
    for (std::size_t at = 0; (at = ptx.find("0f7F7FFFFF", at)) != std::string::npos; ++at) {
      ++count;
      const std::size_t wait = ptx.find("wgmma.wait_group.sync.aligned", at), line = ptx.find('\n', wait);
      CHECK(ptx.substr(wait, line - wait) == "wgmma.wait_group.sync.aligned 0;");   // nothing else is waited for in between
      CHECK(ptx.substr(at, wait - at).find("ex2.approx") == std::string::npos);
    }
    return count;
  };
  CHECK(votes(128, 128, 128, masks::causal) == 2);
  CHECK(votes(128, 80, 256, masks::causal) == 2);
  CHECK(votes(192, 80, 128, masks::causal) == 0);                          // three warpgroups: another one works meanwhile
  CHECK(votes(128, 128, 64, masks::causal) == 0);                          // two programs on a multiprocessor: no product is late
  CHECK(votes(128, 128, 128, scores::softcap(20), masks::causal) == 0);    // its work takes as long as the product
}

TEST_CASE("chunks as long as tiles are told apart by one number a tile") {
  const auto chunks = [](auto, auto, auto q, auto kv) { return q >= kv && q / 1024 == kv / 1024; };
  auto shifts = [&](int q_block, int kv_block) {
    const std::string ptx = compile_flex_attention(chunks, {.dim = 128, .q_block = q_block, .kv_block = kv_block}, Target::sm_90a(), {.binary = false}).ptx();
    int count = 0;
    for (std::size_t at = 0; (at = ptx.find("shr.s32", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(shifts(128, 128) < 40);
  CHECK(shifts(192, 80) > 80);                                             // a tile of 80 columns may lie in two chunks
}

TEST_CASE("a table of distances that is not fetched is read once a diagonal") {
  const Tensor<i8> table = zeros<i8>(Device::host(), {8, 1024});
  const auto distances = [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + 511); };
  const std::string ptx = compile_flex_attention(distances, masks::causal, {.dim = 128}, Target::sm_90a(), {.binary = false}).ptx();
  int reads = 0, weights = 0;
  for (std::size_t at = 0; (at = ptx.find("ld.global.b8", at)) != std::string::npos; ++at) ++reads;
  for (std::size_t at = 0; (at = ptx.find("ex2.approx", at)) != std::string::npos; ++at) ++weights;
  CHECK(reads > 0);
  CHECK(reads < weights * 2 / 3);   // a thread's rows are 8 apart, as its columns are: but for the ends of a diagonal two scores share one
}

TEST_CASE("explain() says why products are waited for, and what the schedule follows from") {
  const Tensor<f32> table = zeros<f32>(Device::host(), {8, 1024});
  const auto distances = [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + 511); };
  auto explained = [](int dim, auto... mods) { return compile_flex_attention(mods..., {.dim = dim}, Target::sm_90a(), {.binary = false}).explain(); };
  CHECK(explained(64, masks::causal).find("[for] each product is waited for: two at once are more than a thread's registers hold, of which each program") != std::string::npos);
  CHECK(explained(128, masks::causal).find("each product is waited for") == std::string::npos);
  CHECK(explained(128, distances, masks::causal).find("the score mod reads a table by distance") != std::string::npos);
  CHECK(explained(128, distances, masks::causal).find("[gather]") == std::string::npos);
  const auto clipped = [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, min(q - kv + 511, 1000)); };
  CHECK(explained(128, clipped, masks::causal).find("the score mod reads memory for each score") != std::string::npos);
  CHECK(explained(128, clipped, masks::causal).find("[gather] \"score_1\" element by element: its last index is no distance of row and column") != std::string::npos);
  const Tensor<f32> columns = zeros<f32>(Device::host(), {512});
  CHECK(explained(128, [columns](auto score, auto, auto, auto, auto kv) { return score + columns[kv]; }, masks::causal).find("[gather]") == std::string::npos);   // once a column
  const Tensor<f32> odd = zeros<f32>(Device::host(), {8, 1023});
  const auto unaligned = [odd](auto score, auto, auto h, auto q, auto kv) { return score + odd(h, q - kv + 511); };
  CHECK(explained(128, unaligned, masks::causal).find("[gather] \"score_1\" element by element: the table's rows are not known to begin at multiples of 16 bytes") != std::string::npos);
  const Tensor<f32> turned = zeros<f32>(Device::host(), {1024, 8}).transpose(0, 1);
  CHECK(explained(128, [turned](auto score, auto, auto h, auto q, auto kv) { return score + turned(h, q - kv + 511); }, masks::causal).find("[gather] \"score_1\" element by element: the table's rows are not") != std::string::npos);
  CHECK(explained(128, distances).find("; matrix units work at most") == std::string::npos);       // they are what it is up against
  CHECK(explained(64, distances).find("[bound] shared memory") != std::string::npos);
  CHECK(explained(64, distances).find("; matrix units work at most 9") != std::string::npos);
  CHECK(explained(256, distances).find("[gather] \"score_1\" element by element: shared memory has no room for windows of the table") != std::string::npos);
  CHECK(explained(128, scores::alibi(8), masks::causal).find(", the last keys first") != std::string::npos);
}
