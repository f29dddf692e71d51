#include "kernel_file.hpp"

#include <cstring>
#include <type_traits>

namespace flextile::runtime {
namespace {

constexpr char magic[8] = {'f', 'l', 'e', 'x', 't', 'i', 'l', 'e'};
constexpr std::uint32_t format = 8;

struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t reserved;
  std::uint64_t length;
  std::uint64_t checksum;
};

/// Appends fields.
struct Writer {
  std::string bytes;

  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  void field(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void field(const std::string& text) {
    field(static_cast<std::uint64_t>(text.size()));
    bytes += text;
  }
  template <class T>
  void field(const std::vector<T>& list) {
    field(static_cast<std::uint64_t>(list.size()));
    for (const T& item : list) each_field(*this, item);
  }
};

/// Reads fields in the same order; after the first that does not fit, `good` is false and nothing more is read.
struct Reader {
  std::string_view rest;
  bool good = true;

  const char* take(std::uint64_t count) {
    good = good && count <= rest.size();
    if (!good) return nullptr;
    const char* at = rest.data();
    rest.remove_prefix(count);
    return at;
  }
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  void field(T& value) {
    if (const char* at = take(sizeof value)) std::memcpy(&value, at, sizeof value);
  }
  void field(std::string& text) {
    std::uint64_t size = 0;
    field(size);
    if (const char* at = take(size)) text.assign(at, size);
  }
  template <class T>
  void field(std::vector<T>& list) {
    std::uint64_t size = 0;
    field(size);
    for (std::uint64_t i = 0; good && i < size; ++i) each_field(*this, list.emplace_back());
  }
};

// One list of fields for both directions: `T` is const when writing.

template <class Archive>
void each_field(Archive& archive, const std::string& text) { archive.field(text); }
template <class Archive>
void each_field(Archive& archive, std::string& text) { archive.field(text); }

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, Stage>
void each_field(Archive& archive, T& stage) {
  archive.field(stage.pass);
  archive.field(stage.text);
}

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, ir::Parameter>
void each_field(Archive& archive, T& parameter) {
  archive.field(parameter.name);
  archive.field(parameter.type.kind);
  archive.field(parameter.type.element);
  archive.field(parameter.type.rank);
  archive.field(parameter.type.stages);
  for (auto& extent : parameter.type.extents) archive.field(extent);
  archive.field(parameter.read_only);
  archive.field(parameter.aligned);
  archive.field(parameter.unit_stride);
}

template <class Archive>
void each_field(Archive& archive, const std::int32_t& number) { archive.field(number); }
template <class Archive>
void each_field(Archive& archive, std::int32_t& number) { archive.field(number); }

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, TensorMap>
void each_field(Archive& archive, T& map) {
  archive.field(map.parameter);
  archive.field(map.box);
  archive.field(map.swizzle);
  archive.field(map.writes);
  archive.field(map.tf32);
}

template <class Archive, class T>
  requires std::is_same_v<std::remove_const_t<T>, CompiledKernel>
void each_field(Archive& archive, T& kernel) {
  archive.field(kernel.kernel_name);
  archive.field(kernel.target.kind);
  archive.field(kernel.target.sm);
  archive.field(kernel.target.arch_specific);
  archive.field(kernel.target.cpu);
  archive.field(kernel.parameters);
  archive.field(kernel.tile_ir_text);
  archive.field(kernel.llvm_ir_text);
  archive.field(kernel.ptx_text);
  archive.field(kernel.binary);
  archive.field(kernel.resource_usage.registers);
  archive.field(kernel.resource_usage.spill_stores);
  archive.field(kernel.resource_usage.spill_loads);
  archive.field(kernel.resource_usage.shared_memory);
  archive.field(kernel.resource_usage.threads);
  archive.field(kernel.resource_usage.stack);
  archive.field(kernel.resource_usage.log);
  archive.field(kernel.tensor_maps);
  archive.field(kernel.resident);
  archive.field(kernel.overlaps);
  archive.field(kernel.explanation);
  archive.field(kernel.stages);
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t odd_a = 0x9E3779B97F4A7C15u, odd_b = 0xD6E8FEB86659FD93u;
  std::uint64_t hash = seed ^ (bytes.size() * odd_a);
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * odd_b;
    hash ^= hash >> 32;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  mix(tail);
  mix(hash >> 29);
  return hash;
}

std::string write_kernel_file(const CompiledKernel& kernel, std::string_view key) {
  Writer writer;
  writer.bytes.resize(sizeof(Header));
  each_field(writer, kernel);
  const std::string_view payload = std::string_view(writer.bytes).substr(sizeof(Header));
  Header header{{}, format, 0, payload.size(), hash_bytes(payload, hash_bytes(key, format))};
  std::memcpy(header.magic, magic, sizeof magic);
  std::memcpy(writer.bytes.data(), &header, sizeof header);
  return static_cast<std::string&&>(writer.bytes);
}

bool read_kernel_file(std::string_view bytes, std::string_view key, CompiledKernel& kernel) {
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view payload = bytes.substr(sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) != 0 || header.format != format || header.length != payload.size() ||
      header.checksum != hash_bytes(payload, hash_bytes(key, format)))
    return false;
  Reader reader{payload};
  each_field(reader, kernel);
  return reader.good && reader.rest.empty();
}

}  // namespace flextile::runtime
