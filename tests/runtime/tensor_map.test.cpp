// Tensor maps: what the driver is asked for, what it refuses, and boxes that a kernel fetches with them.
#include <numeric>

#include "kernels.hpp"
#include "kernel_record.hpp"
#include "tensor_map.hpp"

using namespace flextile;
using runtime::tensor_map_request;
using runtime::TensorMapRequest;

namespace {

ir::TensorHandle handle(ElementType element, const TensorShape& sizes, const TensorShape& strides, void* data) {
  ir::TensorHandle tensor;
  tensor.element = element;
  tensor.rank = static_cast<std::uint8_t>(sizes.size());
  tensor.data = data;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) tensor.sizes[axis] = sizes[axis], tensor.strides[axis] = strides[axis];
  return tensor;
}

std::vector<std::uint64_t> listed(const auto* values, std::size_t count) { return {values, values + count}; }

/// The kernel of the PTX below as the compiler would hand it over. It takes `from`, `to` and a map of `from`.
CompiledKernel fetching_kernel() {
  CompiledKernel kernel;
  kernel.kernel_name = "fetch_box";
  kernel.target = Target::cuda(90);
  kernel.parameters = {{"from", ir::Type::view(ElementType::f32, 2), true, true, true}, {"to", ir::Type::pointer(ElementType::f32)}};
  kernel.resource_usage.threads = 32;
  kernel.tensor_maps = {{0, {8, 32}, 128}};
  kernel.ptx_text = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry fetch_box(.param .u64 from, .param .u32 rows, .param .u32 columns, .param .u64 row_stride, .param .u64 column_stride,
                          .param .u64 to, .param .align 64 .b8 map[128])
{
  .shared .align 1024 .b8 tile[1024];
  .shared .align 8 .b64 arrived;
  .reg .pred %other, %done;
  .reg .b32 %thread, %x, %y, %column, %row, %program, %width, %tile, %arrived, %step;
  .reg .b64 %map, %to, %offset;
  .reg .b32 %value;
  mov.u32 %thread, %tid.x;
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ctaid.y;
  mov.u32 %tile, tile;
  mov.u32 %arrived, arrived;
  setp.ne.u32 %other, %thread, 0;
  @%other bra started;
  mbarrier.init.shared.b64 [%arrived], 1;
  fence.proxy.async;
  mbarrier.arrive.expect_tx.shared.b64 _, [%arrived], 1024;
  mov.b64 %map, map;
  cvta.param.u64 %map, %map;
  shl.b32 %column, %x, 5;
  shl.b32 %row, %y, 3;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {%column, %row}], [%arrived];
started:
  bar.sync 0;
waiting:
  mbarrier.try_wait.parity.shared.b64 %done, [%arrived], 0;
  @!%done bra waiting;
  mov.u32 %width, %nctaid.x;
  mad.lo.u32 %program, %y, %width, %x;
  ld.param.u64 %to, [to];
  mul.wide.u32 %offset, %program, 1024;
  add.u64 %to, %to, %offset;
  mul.wide.u32 %offset, %thread, 4;
  add.u64 %to, %to, %offset;
  mad.lo.u32 %tile, %thread, 4, %tile;
  mov.u32 %step, 0;
copying:
  ld.shared.b32 %value, [%tile];
  st.global.b32 [%to], %value;
  add.u32 %tile, %tile, 128;
  add.u64 %to, %to, 128;
  add.u32 %step, %step, 1;
  setp.lt.u32 %other, %step, 8;
  @%other bra copying;
  ret;
}
)";
  return kernel;
}

/// Box (row, column) of 8 x 32 as it lies in shared memory: 16-byte chunk c of row r at c ^ r.
std::vector<f32> swizzled_box(const std::vector<f32>& values, int rows, int columns, int first_row, int first_column) {
  std::vector<f32> box(256, 0);
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 32; ++column)
      if (first_row + row < rows && first_column + column < columns)
        box[static_cast<std::size_t>(row * 32 + ((column / 4) ^ row) * 4 + column % 4)] =
            values[static_cast<std::size_t>((first_row + row) * columns + first_column + column)];
  return box;
}

bool has_copy_engine(const Device& device) { return !device.is_host() && test::runs_kernels(device) && device.properties().compute_capability >= 90; }

}  // namespace

TEST_CASE("tensor map: the driver's axes are the view's in reverse, its strides are bytes") {
  alignas(16) char data[16];
  const ir::TensorHandle tensor = handle(ElementType::bf16, {2, 8, 100, 64}, {51200, 64, 512, 1}, data);
  const TensorMapRequest request = tensor_map_request({0, {1, 1, 128, 64}, 128}, tensor, nullptr);
  CHECK(request.address == data);
  CHECK(request.rank == 4);
  CHECK(request.element == 9);
  CHECK(request.swizzle == 3);
  CHECK(listed(request.sizes, 5) == std::vector<std::uint64_t>{64, 100, 8, 2, 0});
  CHECK(listed(request.strides, 4) == std::vector<std::uint64_t>{1024, 128, 102400, 0});
  CHECK(listed(request.box, 5) == std::vector<std::uint64_t>{64, 128, 1, 1, 0});
}

TEST_CASE("tensor map: an axis of one element gets a legal stride, whatever it has") {
  alignas(16) char data[16];
  for (const std::int64_t odd : {std::int64_t{0}, std::int64_t{3}, std::int64_t{-7}, std::int64_t{1} << 50}) {
    const TensorMapRequest request = tensor_map_request({0, {1, 16, 32}, 64}, handle(ElementType::f32, {1, 20, 1}, {odd, 48, odd}, data), nullptr);
    CHECK(listed(request.sizes, 3) == std::vector<std::uint64_t>{1, 20, 1});
    CHECK(listed(request.strides, 2) == std::vector<std::uint64_t>{192, 16});
    CHECK(request.swizzle == 2);
  }
}

TEST_CASE("tensor map: an empty tensor is one zero") {
  alignas(16) char data[16], zeros[16] = {};
  const TensorMapRequest request = tensor_map_request({0, {1, 128, 64}, 128}, handle(ElementType::f16, {4, 0, 64}, {0, 64, 1}, data), zeros);
  CHECK(request.address == zeros);
  CHECK(listed(request.sizes, 3) == std::vector<std::uint64_t>{1, 1, 1});
  CHECK(listed(request.strides, 2) == std::vector<std::uint64_t>{16, 16});
  CHECK(listed(request.box, 3) == std::vector<std::uint64_t>{64, 128, 1});
}

TEST_CASE("tensor map: what is stored to an empty tensor misses the zeros that others read") {
  alignas(16) char data[16], zeros[512] = {};
  const ir::TensorHandle empty = handle(ElementType::bf16, {0, 64}, {64, 1}, data), some = handle(ElementType::bf16, {8, 64}, {64, 1}, data);
  const TensorMapRequest request = tensor_map_request({0, {64, 64}, 128, true}, empty, zeros);
  CHECK(request.address == zeros + 256);
  CHECK(listed(request.sizes, 2) == std::vector<std::uint64_t>{1, 1});
  CHECK(tensor_map_request({0, {64, 64}, 128, true}, some, zeros).address == data);
}

TEST_CASE("tensor map: f32 that is rounded on its way is another type to the driver") {
  alignas(16) char data[16];
  const ir::TensorHandle tensor = handle(ElementType::f32, {20, 64}, {64, 1}, data);
  CHECK(tensor_map_request({0, {8, 32}, 128, false, true}, tensor, nullptr).element == 11);
  CHECK(tensor_map_request({0, {8, 32}, 128}, tensor, nullptr).element == 7);
}

TEST_CASE("tensor map: every element type has the driver's number") {
  const std::pair<ElementType, std::int32_t> numbers[] = {
      {ElementType::i1, 0},  {ElementType::i8, 0},  {ElementType::i16, 1}, {ElementType::i32, 3}, {ElementType::i64, 5},
      {ElementType::u8, 0},  {ElementType::u16, 1}, {ElementType::u32, 2}, {ElementType::u64, 4}, {ElementType::f16, 6},
      {ElementType::f8e4m3, 0}, {ElementType::f8e5m2, 0},
      {ElementType::bf16, 9}, {ElementType::f32, 7}, {ElementType::f64, 8}};
  static_assert(std::size(numbers) == element_type_count);
  alignas(16) char data[16];
  for (const auto& [element, number] : numbers) {
    CAPTURE(name(element));
    CHECK(tensor_map_request({0, {16}, 0}, handle(element, {16}, {1}, data), nullptr).element == number);
  }
  for (const auto& [bytes, mode] : {std::pair(0, 0), std::pair(32, 1), std::pair(64, 2), std::pair(128, 3)})
    CHECK(tensor_map_request({0, {16}, bytes}, handle(ElementType::u8, {16}, {1}, data), nullptr).swizzle == mode);
}

TEST_CASE("tensor map: a kernel that takes what cannot be made is refused when it is loaded") {
  runtime::Driver able;
  able.cuTensorMapEncodeTiled = [](void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*,
                                   const std::uint32_t*, int, int, int, int) { return 0; };
  const auto refusal = [&](auto change) {
    CompiledKernel kernel = fetching_kernel();
    change(kernel);
    return test::message_of<InternalError>([&] { runtime::require_tensor_maps(kernel, able); });
  };
  CHECK(refusal([](CompiledKernel&) {}).empty());
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps.resize(8, kernel.tensor_maps[0]); }).empty());
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps.resize(9, kernel.tensor_maps[0]); }) ==
        "flextile: internal error: tensor map 8 of kernel \"fetch_box\" is one more than a launch has room for");
  const std::string view = "must be an aligned view of unit stride with 1 to 5 axes";
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps[0].parameter = 2; }).find("parameter 2, which is not there") != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps[0].parameter = 1; }).find("parameter to, which " + view) != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.parameters[0].aligned = false; }).find(view) != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.parameters[0].unit_stride = false; }).find(view) != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.parameters[0].type = ir::Type::view(ElementType::f32, 6); }).find(view) != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps[0].box = {8}; }).find("a box of 1 axes and must have the 2 of parameter from") != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps[0].tf32 = true, kernel.parameters[0].type.element = ElementType::i32; })
            .find("rounds to tf32 and is of parameter from, whose elements are i32") != std::string::npos);
  CHECK(refusal([](CompiledKernel& kernel) { kernel.tensor_maps[0].swizzle = 96; }).find("a swizzle of 96 bytes") != std::string::npos);

  CompiledKernel kernel = fetching_kernel();
  CHECK_SENTENCE(DriverError, "kernel \"fetch_box\" takes tensor maps and the driver has no function cuTensorMapEncodeTiled; CUDA 12.0 or newer is needed",
                 runtime::require_tensor_maps(kernel, runtime::Driver{}));
  kernel.tensor_maps.clear();
  runtime::require_tensor_maps(kernel, runtime::Driver{});
}

TEST_CASE("tensor map: the driver makes one of a tensor, and the sentence says what it refuses") {
  if (Device::count() == 0) {
    MESSAGE("[SKIP] no CUDA device");
    return;
  }
  const Device device = Device::cuda(0);
  if (test::runs_kernels(device) && device.properties().compute_capability < 90) {
    MESSAGE("[SKIP] " << device.properties().name << " has no tensor maps");
    return;
  }
  runtime::DeviceState& state = runtime::device_state(device);
  const runtime::CurrentContext current(state.context);
  CompiledKernel kernel = fetching_kernel();
  const Tensor<f32> x = zeros<f32>(device, {20, 40}), odd = zeros<f32>(device, {20, 41});
  const auto map_of = [&](const TensorRef& tensor) { return runtime::make_tensor_map(kernel, kernel.tensor_maps[0], tensor.handle(), runtime::zeros_on(state)); };
  const runtime::TensorMapImage image = map_of(x);
  CHECK(listed(image.words, 16) != std::vector<std::uint64_t>(16));
  CHECK(listed(image.words, 16) == listed(map_of(x).words, 16));
  const Tensor<f32> nothing = x.slice(0, 3, 3), row = x.slice(0, 3, 4);
  map_of(nothing);
  map_of(row);
  const std::string call = "driver error: cuTensorMapEncodeTiled returned CUDA_ERROR_INVALID_VALUE";
  CHECK_SENTENCE(DriverError, call, map_of(odd));
  CHECK_SENTENCE(DriverError, "kernel \"fetch_box\", argument 0 (from): tensor<20x41xf32> on cuda:0, strides 41x1, box 8x32, swizzle 128 bytes", map_of(odd));
  kernel.tensor_maps[0].box = {8, 64};
  CHECK_SENTENCE(DriverError, call, map_of(x));   // a row of the box is longer than the swizzle
}

TEST_CASE("tensor map: a kernel fetches boxes, zeros outside of the tensor, and nothing but zeros from an empty one") {
  bool found = false;
  for (const Device& device : Device::all()) {
    if (!has_copy_engine(device)) continue;
    found = true;
    const auto record = runtime::load_record(std::make_shared<const CompiledKernel>(fetching_kernel()), runtime::device_state(device));
    const LoadedKernel kernel(record.get());
    std::vector<f32> values(20 * 40);
    std::iota(values.begin(), values.end(), 1.0f);
    const Tensor from = from_host(device, values, {20, 40});
    const Tensor<f32> to = full<f32>(device, {3, 2, 256}, -1);
    const auto check_boxes = [&](const std::vector<f32>& expected, int rows) {
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 2; ++x) CHECK(to.select(0, y).select(0, x).to_host() == swizzled_box(expected, rows, 40, 8 * y, 32 * x));
    };
    for (int repeat = 0; repeat < 2; ++repeat) {
      launch(device.stream(), kernel, Grid{2, 3}, from, to);
      check_boxes(values, 20);
    }
    launch(device.stream(), kernel, Grid{2, 3}, from.slice(0, 7, 8), to);   // one row
    check_boxes(std::vector<f32>(values.begin() + 280, values.begin() + 320), 1);
    launch(device.stream(), kernel, Grid{2, 3}, from.slice(0, 5, 5), to);
    check_boxes({}, 0);
    const Tensor<f32> columns = zeros<f32>(device, {40, 20});
    CHECK_SENTENCE(ArgumentError, "this variant of the kernel needs stride 1", launch(device.stream(), kernel, Grid{2, 3}, columns.transpose(0, 1), to));
    const Graph graph = Graph::capture(device.stream(), [&] { launch(device.stream(), kernel, Grid{2, 3}, from, to); });
    to.fill(0);
    graph.launch(device.stream());
    check_boxes(values, 20);
  }
  if (!found) MESSAGE("[SKIP] no CUDA device of compute capability 9.0");
}
