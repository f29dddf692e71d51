#include "storage.hpp"

namespace flextile::runtime {
namespace {

void retain_storage(void* storage) { static_cast<Storage*>(storage)->references.fetch_add(1, std::memory_order_relaxed); }

void release_storage(void* pointer) {
  auto* storage = static_cast<Storage*>(pointer);
  if (storage->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete storage;
}

}  // namespace

Storage::~Storage() {
  std::vector<StreamState*> others;
  for (const Use& use : uses) others.push_back(use.stream);
  if (block.address) {
    device->memory.release(block, others);
    return;
  }
  for (StreamState* stream : others) release(stream);
  if (deleter) deleter(owner);
}

ir::TensorHandle make_handle(Storage* storage) {
  ir::TensorHandle handle(storage, retain_storage, release_storage);
  handle.device = storage->device->index;
  handle.data = storage->block.address;
  return handle;
}

void use_on_slowly(Storage& storage, StreamState* stream) {
  if (stream->device->index < 0) return;       // the host works in order
  if (is_capturing(stream)) return;            // capture() ordered the streams before, and the graph keeps the memory
  std::lock_guard lock(storage.mutex);
  Storage::Use* found = nullptr;
  for (Storage::Use& use : storage.uses)
    if (use.stream == stream) found = &use;
  if (!found) {
    storage.uses.push_back({stream, false});
    retain(stream);
    found = &storage.uses.back();
  }
  if (!found->ordered) {
    order_after(stream, &storage.device->default_stream);
    found->ordered = true;
  }
  storage.recent.store(stream, std::memory_order_release);
}

void use_on_default_stream(Storage& storage) {
  std::lock_guard lock(storage.mutex);
  if (storage.uses.empty() || is_capturing(&storage.device->default_stream)) return;
  for (Storage::Use& use : storage.uses) {
    if (!is_capturing(use.stream)) order_after(&storage.device->default_stream, use.stream);
    use.ordered = false;
  }
  storage.recent.store(nullptr, std::memory_order_release);
}

}  // namespace flextile::runtime
