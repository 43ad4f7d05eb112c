// The tensors of a Rewrite. A model may have 100,000 small tensors, so a tensor takes 32 bytes here, and not the 72
// bytes of a RewriteTensor.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/dtype.h>
#include <safetensors/edit.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bump_allocator.h"
#include "base/memory_resource.h"
#include "format/checkpoint/model_names.h"

namespace safetensors::write {

struct RewriteItem {
  const TensorInfo* from;  // the tensor of the input
  std::string_view name;   // in the output
  std::uint32_t file;      // index of the file of `from`
  Dtype dtype;             // in the output

  [[nodiscard]] bool is_cast() const noexcept { return dtype != from->dtype; }
};

// Keeps the files of the tensors open. Call const functions from any thread.
class RewriteItems {
 public:
  // Throws std::bad_alloc.
  explicit RewriteItems(std::span<const RewriteTensor> tensors);

  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] const RewriteItem& operator[](std::size_t index) const noexcept { return items_[index]; }
  [[nodiscard]] const File& file(const RewriteItem& item) const noexcept { return files_[item.file]; }
  [[nodiscard]] Tensor tensor(const RewriteItem& item) const noexcept;
  [[nodiscard]] std::size_t count_casts() const noexcept;

  // Errors: dtype_mismatch, duplicate_name.
  [[nodiscard]] Status check() const;
  // Call it after check(). Frees the metadata of the options. Errors: those of CheckpointLayout::make().
  [[nodiscard]] Result<CheckpointLayout> lay_out(RewriteOptions options) const;
  // Sorts the items by their place in the output, so that one thread writes each file from its first byte to its last.
  void sort_by(const CheckpointLayout& layout);

 private:
  std::string_view keep(std::string_view name);
  // Returns the index of the first item with the name of an earlier one, or size().
  [[nodiscard]] std::size_t first_repeated() const;
  [[nodiscard]] Error duplicate(const RewriteItem& item) const;
  [[nodiscard]] std::string origin(const RewriteItem& item) const;
  // Returns whether the tensors of every file are in the order of the writer. Ignores tensors without bytes.
  [[nodiscard]] bool in_writers_order() const;
  // The names of the files: those that the options choose, or those that the files of the input have in common.
  [[nodiscard]] format::ModelNames names(const RewriteOptions& options) const;

  std::vector<File> files_;                                         // each once, in the order of their first tensors
  base::BumpAllocator names_{base::heap(), std::size_t{64} << 10};  // the new names
  std::vector<RewriteItem> items_;
};

}  // namespace safetensors::write
