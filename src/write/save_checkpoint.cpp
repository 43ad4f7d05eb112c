// Saves a model of several files. Tensors in memory are written by several threads, as write_files() writes them. If
// some tensors are in other files, a CheckpointWriter copies them.
#include <safetensors/checkpoint_writer.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "write/checkpoint_folder.h"
#include "write/file_head.h"
#include "write/image.h"
#include "write/tensor_file.h"

namespace safetensors {
namespace write {
namespace {

using Tensors = std::span<const NamedTensor>;

Result<CheckpointLayout> lay_out(Tensors tensors, const CheckpointLayoutOptions& options) {
  std::vector<CheckpointTensor> described;
  described.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors)
    described.push_back({.name = tensor.name(), .dtype = tensor.dtype(), .shape = tensor.shape()});
  return CheckpointLayout::make(described, options);
}

// The tensors must be those of the layout.
Status check_tensors(Tensors tensors, const CheckpointLayout& layout) {
  std::set<std::string_view> seen;
  for (const NamedTensor& tensor : tensors) {
    const std::string name = base::tensor_named(tensor.name());
    const std::optional<std::size_t> file = layout.file_of(tensor.name());
    if (!file) return base::make_error(Errc::not_found, "no " + name + " in the layout");
    if (!seen.insert(tensor.name()).second) return base::make_error(Errc::duplicate_name, name + " is given twice");
    const TensorInfo& planned = *layout.files()[*file].header.find(tensor.name());
    if (planned.dtype != tensor.dtype())
      return base::make_error(Errc::dtype_mismatch, name + ": is " + std::string(to_string(tensor.dtype())) +
                                                        ", in the layout " + std::string(to_string(planned.dtype)));
    if (!std::ranges::equal(planned.shape, tensor.shape()))
      return base::make_error(Errc::shape_mismatch, name + ": has shape " + to_string(tensor.shape()) +
                                                        ", in the layout " + to_string(planned.shape));
  }
  for (const CheckpointFile& file : layout.files()) {
    for (const TensorInfo& planned : file.header.tensors()) {
      if (!seen.contains(planned.name))
        return base::make_error(Errc::incomplete_write, base::tensor_named(planned.name) + " of the layout is missing");
    }
  }
  return {};
}

// The image of each file. The tensors must be in memory.
Result<std::vector<Image>> make_images(Tensors tensors, const CheckpointLayout& layout) {
  std::vector<std::vector<TensorData>> data(layout.files().size());
  for (const NamedTensor& tensor : tensors)
    data[*layout.file_of(tensor.name())].push_back({tensor.name(), tensor.dtype(), tensor.shape(), tensor.bytes()});
  std::vector<Image> images;
  images.reserve(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Header& header = layout.files()[i].header;
    if (Status status = check_lengths(header, data[i]); !status) return std::move(status).error();
    Result<std::string> head = head_of(header);
    if (!head) return std::move(head).error();
    Result<Image> image = make_image(header, *std::move(head), data[i]);
    if (!image) return std::move(image).error();
    images.push_back(*std::move(image));
  }
  return images;
}

Status save_memory(std::string_view path, Tensors tensors, const CheckpointLayout& layout,
                   const CheckpointWriteOptions& options) {
  const Result<std::vector<Image>> images = make_images(tensors, layout);
  if (!images) return images.error();
  Result<std::unique_ptr<CheckpointFolder>> folder = CheckpointFolder::open(path, layout, options);
  if (!folder) return std::move(folder).error();
  std::vector<std::unique_ptr<io::AtomicFile>> files;
  std::vector<io::Image> targets;
  for (std::size_t i = 0; i < images->size(); ++i) {
    const Image& image = (*images)[i];
    const FilePlace place = (*folder)->place_of(i);
    auto file = io::AtomicFile::create(place.path, image.size, (*folder)->file_options(), place.shown);
    if (!file) return (*folder)->explain(std::move(file).error());
    files.push_back(std::move(*file));
    targets.push_back({&files.back()->file(), image.pieces, image.size});
  }
  if (Status status = io::write_images(targets, options.write.progress); !status) return status;
  return (*folder)->commit(files);
}

Status save_mixed(PathView path, Tensors tensors, const CheckpointLayout& layout,
                  const CheckpointWriteOptions& options) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.tensor() != nullptr) continue;
    const CheckpointFile& file = layout.files()[*layout.file_of(tensor.name())];
    Status status = check_length(*file.header.find(tensor.name()), tensor.bytes().size());
    if (!status) return status;
  }
  Result<CheckpointWriter> writer = CheckpointWriter::create(path, layout, options);
  if (!writer) return std::move(writer).error();
  for (const NamedTensor& tensor : tensors) {
    Status status = tensor.tensor() != nullptr ? writer->copy(tensor.name(), *tensor.tensor())
                                               : writer->write(tensor.name(), 0, tensor.bytes());
    if (!status) return status;
  }
  return writer->commit();
}

Status save_all(PathView folder, Tensors tensors, const CheckpointLayout& layout,
                const CheckpointWriteOptions& options) {
  const bool memory = std::ranges::all_of(tensors, [](const NamedTensor& t) { return t.tensor() == nullptr; });
  Status status = memory ? save_memory(folder, tensors, layout, options) : save_mixed(folder, tensors, layout, options);
  if (status) return status;
  return base::with_path(std::move(status).error(), folder);
}

}  // namespace
}  // namespace write

inline namespace v0 {

Status save_checkpoint(PathView folder, Span<const NamedTensor> tensors, const CheckpointLayoutOptions& layout,
                       const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Status {
    const Result<CheckpointLayout> made = write::lay_out(tensors, layout);
    if (!made) return base::with_path(Error(made.error()), folder);
    return write::save_all(folder, tensors, *made, options);
  });
}

Status save_checkpoint(PathView folder, Span<const NamedTensor> tensors, const CheckpointLayout& layout,
                       const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Status {
    if (Status status = write::check_tensors(tensors, layout); !status)
      return base::with_path(std::move(status).error(), folder);
    return write::save_all(folder, tensors, layout, options);
  });
}

}  // namespace v0
}  // namespace safetensors
