// What the functions that save have in common: descriptions of tensors, options and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "support.h"

namespace safetensors::python {

// The start of the error texts of functions that save.
inline constexpr const char* kSaving = "Error while serializing: ";

// The caller owns the bytes, and keeps them alive and unchanged while the tensor is saved.
struct TensorSpec {
  Dtype dtype = Dtype::U8;
  std::vector<std::uint64_t> shape;  // in elements, as in the header
  std::uintptr_t data = 0;
  std::size_t size = 0;  // in bytes
};

// Returns the TensorSpec of an object, valid as long as the object. Raises TypeError for an object of another type and
// for a TensorSpec that was never initialized.
[[nodiscard]] const TensorSpec& to_spec(nb::handle object, const char* argument);

class TensorsToSave {
 public:
  // dict: names to TensorSpec, or to {"dtype", "shape", "data"}. Raises TypeError and SafetensorError.
  explicit TensorsToSave(nb::handle dict);
  // Valid as long as this object.
  [[nodiscard]] std::span<const TensorData> data() const noexcept { return data_; }

 private:
  void add(std::string_view name, nb::handle value);
  TensorSpec from_dict(std::string_view name, nb::handle value);

  std::vector<std::pair<nb::object, nb::object>> items_;  // own the names and TensorSpecs that data_ refers to
  std::vector<Buffer> buffers_;
  std::vector<TensorSpec> specs_;  // reserved: elements never move
  std::vector<TensorData> data_;
};

// Returns the layout of a _CheckpointLayout. Raises TypeError for an object of another type.
[[nodiscard]] const CheckpointLayout& to_layout(nb::handle object);

// options: those of SaveOptions.start() in _write/save_checkpoint.py, without progress. Raises SafetensorError,
// TypeError.
[[nodiscard]] CheckpointWriteOptions to_checkpoint_options(const nb::kwargs& options);

// metadata: a dict of str to str, or None. Raises TypeError.
[[nodiscard]] std::optional<MetadataPairs> to_metadata(nb::handle metadata);
// name: "full", "file" or "none". Raises SafetensorError.
[[nodiscard]] Durability to_durability(nb::handle name);
// Whether the environment variable SAFETENSORS_IN_PLACE_IF_NO_RENAME is "1". Raises SafetensorError for other texts.
[[nodiscard]] bool in_place_if_no_rename();
// Options of the functions that save whole files. A symlink at the path is replaced, as in the reference: the file
// behind it may be a blob that other links share. durability: as in to_durability().
[[nodiscard]] WriteOptions to_write_options(nb::handle durability);
[[noreturn]] void raise_saving(const Error& error);

}  // namespace safetensors::python
