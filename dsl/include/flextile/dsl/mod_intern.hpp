// Fragments that live as long as the program: one per text, found again by what a mod's call adds to its type.
#pragma once
#include <flextile/ir/function.hpp>
#include <string>

namespace flextile {

/// A fragment that lives as long as the program. Equal texts are one fragment.
struct InternedFragment {
  ir::Function function;
  std::string text;
  std::uint64_t key;
  InternedFragment* next;
};

/// The one fragment with this function's text.
inline const InternedFragment* intern(ir::Function function) {
  static InternedFragment* fragments = nullptr;
  std::string text = print(function);
  std::uint64_t key = 14695981039346656037ull;  // FNV-1a
  for (char character : text) key = (key ^ static_cast<unsigned char>(character)) * 1099511628211ull;
  InternedFragment* fresh = nullptr;
  InternedFragment* head = __atomic_load_n(&fragments, __ATOMIC_ACQUIRE);
  for (;;) {
    for (InternedFragment* known = head; known; known = known->next) {
      if (known->key == key && known->text == text) {
        delete fresh;
        return known;
      }
    }
    if (!fresh) fresh = new InternedFragment{static_cast<ir::Function&&>(function), text, key, nullptr};
    fresh->next = head;
    if (__atomic_compare_exchange_n(&fragments, &head, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
  }
}

/// The fragments of one mod type, by what its calls add. Entries are never removed, so readers need no lock.
class ModCache {
 public:
  struct Entry {
    std::vector<std::uint64_t> key;
    const InternedFragment* fragment;
    bool reads_batch, reads_head;
    Entry* next;
  };
  const Entry* find(const std::vector<std::uint64_t>& key) const {
    for (Entry* entry = __atomic_load_n(&head_, __ATOMIC_ACQUIRE); entry; entry = entry->next) {
      if (entry->key == key) return entry;
    }
    return nullptr;
  }
  const Entry* add(Entry&& entry) {
    Entry* fresh = new Entry(static_cast<Entry&&>(entry));
    fresh->next = __atomic_load_n(&head_, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&head_, &fresh->next, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return fresh;
  }

 private:
  Entry* head_ = nullptr;
};

}  // namespace flextile
