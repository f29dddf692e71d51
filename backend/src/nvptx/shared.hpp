// How a tile lies in a shared buffer, and matrix fragments read from it.
#pragma once
#include "nvptx/fragments.hpp"
#include "nvptx/lowering.hpp"

namespace flextile::backend {

inline constexpr int panel_row = 128;   // bytes: what the copy engine swizzles at most
/// Columns of a panel.
constexpr int panel_columns(ElementType element) { return panel_row / byte_size(element); }

/// A stage of a buffer: rows of `pitch` bytes. With a swizzle, 16-byte chunk c of row r lies at chunk c ^ key(r) of its
/// row, so that the eight rows that ldmatrix reads at once lie in different banks. key(r) = r / divisor % group.
/// Swizzled rows of several 128 bytes are cut into panels of 128 bytes, one after the other, as wgmma and TMA want them.
struct SharedShape {
  std::int64_t base = 0;
  int stage_bytes = 0;
  int pitch = 0;           // from row to row of a panel; 128 where there are several
  int panels = 1;
  int panel_bytes = 0;     // from panel to panel
  int divisor = 1;
  int group = 1;
  int element_bytes = 2;
};
SharedShape shared_shape(const ir::Function& function, ir::Value buffer);

/// The boxes in which the copy engine fetches or stores a stage: panels of a swizzled buffer, else equal parts of a row.
struct StageBoxes {
  int count = 1;
  int columns = 0;
  int bytes = 0;           // from box to box
  int swizzle = 0;
};
inline constexpr int most_box_extent = 256;   // of the copy engine, along each axis
StageBoxes stage_boxes(const ir::Function& function, ir::Value buffer);
/// Columns of a buffer without a swizzle that has room for `count` elements in boxes that begin at multiples of 128 bytes.
int boxed_columns(int count, ElementType element);

/// key(row) * 16, for the row in `row`.
llvm::Value* swizzle_key(Lowering& l, const SharedShape& shape, llvm::Value* row);

/// The 16-byte chunks of a stage go around the threads: neighbouring threads copy neighbouring chunks.
void lower_async_copy(Lowering& l, const ir::Operation& operation);

/// Byte address of an element of a stage that starts `stage` bytes into the buffer.
struct RowColumn {
  llvm::Value* row;
  llvm::Value* column;
};
llvm::Value* element_address(Lowering& l, const SharedShape& shape, llvm::Value* stage, RowColumn at);
/// Where stage number `stage` starts in its buffer.
llvm::Value* stage_bytes(Lowering& l, const SharedShape& shape, ir::Value stage);

/// Reads 8x8 matrices of 16-bit elements with ldmatrix.
class FragmentReader {
 public:
  /// `left`: fragments of A; else of B. `layout` is the operand's own layout as the dot needs it.
  FragmentReader(Lowering& l, FragmentSource source, const Layout& layout, bool left);
  /// Four registers: for A the fragment of rows `outer`..+15, K `inner`..+15; for B two neighbouring fragments of
  /// columns `outer`..+15. `pair` false (B only): columns `outer`..+7, two registers.
  Registers read(int outer, int inner, bool pair = true);

 private:
  Lowering& l_;
  bool transposed_;
  SharedShape shape_;
  llvm::Value* row_start_ = nullptr;   // byte address of the lane's row
  llvm::Value* column_ = nullptr;      // the lane's column, in bytes
  llvm::Value* key_ = nullptr;         // the swizzle of the lane's row
  llvm::Value* chunk_ = nullptr;       // column ^ key; null where the warp's own columns forbid to split the sum
};

}  // namespace flextile::backend
