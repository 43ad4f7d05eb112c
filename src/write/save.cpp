// Saves tensors in a file, or in the files of a model, and returns the bytes of a file.
//
// The headers are built and the tensors are checked before the first file is made. write_inputs() does the rest.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "format/header/new_header.h"
#include "os/memory.h"
#include "write/file_head.h"
#include "write/input.h"
#include "write/tensor_file.h"

namespace safetensors {
namespace write {
namespace {

using Inputs = std::vector<Input>;

// Error: data_length.
Status check_length(const Input& input) {
  const TensorInfo& tensor = *input.planned;
  const std::size_t given = input.bytes.size();
  if (input.from != nullptr || given == tensor.nbytes()) return {};
  return base::make_error(Errc::data_length, base::tensor_named(tensor.name) + ": " + std::to_string(given) +
                                                 " bytes given, " + std::string(to_string(tensor.dtype)) + " " +
                                                 to_string(tensor.shape) + " needs " + std::to_string(tensor.nbytes()));
}

// Makes the header, and sets `planned` of the inputs. Errors: data_length, and those of HeaderBuilder::build().
Result<Header> plan(Span<const TensorData> tensors, Inputs& inputs, const std::optional<MetadataPairs>& metadata,
                    const LayoutOptions& options) {
  Result<std::vector<format::NewTensor>> described = format::new_tensors(tensors.size(), [&](std::size_t i) {
    return format::new_tensor(tensors[i].name, tensors[i].dtype, tensors[i].shape);
  });
  if (!described) return std::move(described).error();
  const Result<std::string> member = metadata ? format::metadata_member(*metadata) : std::string();
  if (!member) return member.error();
  Result<format::NewHeaderText> text = format::new_header_text(*std::move(described), *member, options);
  if (!text) return std::move(text).error();
  Result<Header> header = format::new_header(*std::move(text));
  for (std::size_t i = 0; header && i < inputs.size(); ++i) {
    inputs[i].planned = header->find(tensors[i].name);
    if (Status status = check_length(inputs[i]); !status) header = std::move(status).error();
  }
  return header;
}

Status save_file(std::string_view path, Span<const TensorData> tensors, Inputs inputs,
                 const std::optional<MetadataPairs>& metadata, const WriteOptions& options,
                 const LayoutOptions& layout_options) {
  const Result<Header> header = plan(tensors, inputs, metadata, layout_options);
  if (!header) return header.error();
  const CheckpointFile file{{}, *header};
  WriteSession session(options, path, {&file, 1}, false, std::this_thread::get_id());
  Status status = session.create_file(path, *header, options);
  return status ? write_inputs(session, {&inputs, 1}, options) : status;
}

// The inputs of each file. Error also: the tensors are not those of the layout.
Result<std::vector<Inputs>> inputs_of_files(Span<const NamedTensor> tensors, const CheckpointLayout& layout) {
  std::vector<Inputs> inputs(layout.files().size());
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
    Input& input = inputs[*file].emplace_back(tensor);
    input.planned = &planned;
    if (Status status = check_length(input); !status) return std::move(status).error();
  }
  for (const CheckpointFile& file : layout.files()) {
    for (const TensorInfo& planned : file.header.tensors()) {
      if (!seen.contains(planned.name))
        return base::make_error(Errc::incomplete_write, base::tensor_named(planned.name) + " of the layout is missing");
    }
  }
  return inputs;
}

Status save_model(std::string_view path, Span<const NamedTensor> tensors, const CheckpointLayout& layout,
                  const CheckpointWriteOptions& options) {
  Result<std::vector<Inputs>> inputs = inputs_of_files(tensors, layout);
  if (!inputs) return std::move(inputs).error();
  WriteSession session(options.write, path, layout.files(), false, std::this_thread::get_id());
  Status status = session.create_model(path, layout, options);
  return status ? write_inputs(session, *inputs, options.write) : status;
}

}  // namespace
}  // namespace write

inline namespace v0 {

Result<Header> layout(Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                      const LayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<Header> {
    write::Inputs inputs(tensors.begin(), tensors.end());
    return write::plan(tensors, inputs, metadata, options);
  });
}

Result<Array> serialize(Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                        const LayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<Array> {
    write::Inputs inputs(tensors.begin(), tensors.end());
    const Result<Header> header = write::plan(tensors, inputs, metadata, options);
    if (!header) return header.error();
    const Result<write::FileSize> size = write::size_of(*header);
    if (!size) return size.error();
    Result<std::shared_ptr<std::byte>> memory = os::allocate(size->file);
    if (!memory) return std::move(memory).error();
    const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(size->file));
    const auto put = [&](std::uint64_t offset, std::span<const std::byte> part) -> Status {
      std::ranges::copy(part, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      return {};
    };
    (void)write::write_head(*header, size->head, put);
    for (const write::Input& input : inputs) (void)put(size->head + input.planned->begin, input.bytes);
    return Array(Dtype::U8, Shape{size->file}, bytes, *std::move(memory), MemoryKind::owned);
  });
}

Status save(PathView path, Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
            const WriteOptions& options, const LayoutOptions& layout_options) noexcept {
  return base::guarded([&] {
    write::Inputs inputs(tensors.begin(), tensors.end());
    return write::save_file(path, tensors, std::move(inputs), metadata, options, layout_options);
  });
}

Status save(PathView path, Span<const NamedTensor> tensors, const MetadataPairs& metadata, const WriteOptions& options,
            const LayoutOptions& layout_options) noexcept {
  return write::with_path(path, [&] {
    std::vector<TensorData> data;
    data.reserve(tensors.size());
    for (const NamedTensor& tensor : tensors)
      data.push_back({tensor.name(), tensor.dtype(), tensor.shape(), tensor.bytes()});
    const auto pairs = metadata.empty() ? std::nullopt : std::optional(metadata);
    write::Inputs inputs(tensors.begin(), tensors.end());
    return write::save_file(path, data, std::move(inputs), pairs, options, layout_options);
  });
}

Status save_checkpoint(PathView folder, Span<const NamedTensor> tensors, const CheckpointLayoutOptions& layout,
                       const CheckpointWriteOptions& options) noexcept {
  return write::with_path(folder, [&]() -> Status {
    std::vector<CheckpointTensor> described;
    described.reserve(tensors.size());
    for (const NamedTensor& tensor : tensors)
      described.push_back({.name = tensor.name(), .dtype = tensor.dtype(), .shape = tensor.shape()});
    const Result<CheckpointLayout> made = CheckpointLayout::make(described, layout);
    return made ? write::save_model(folder, tensors, *made, options) : Status(made.error());
  });
}

Status save_checkpoint(PathView folder, Span<const NamedTensor> tensors, const CheckpointLayout& layout,
                       const CheckpointWriteOptions& options) noexcept {
  return write::with_path(folder, [&] { return write::save_model(folder, tensors, layout, options); });
}

}  // namespace v0
}  // namespace safetensors
