// Saves tensors. If all are in memory, serialize.cpp writes them. If some are in other files, a Writer copies them.
#include <safetensors/save.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "write/file_head.h"

namespace safetensors {
namespace write {
namespace {

Result<Header> make_header(std::span<const NamedTensor> tensors, const MetadataPairs& metadata,
                           const LayoutOptions& options) {
  HeaderBuilder builder;
  for (const NamedTensor& tensor : tensors) {
    if (Status status = builder.add(tensor.name(), tensor.dtype(), tensor.shape()); !status)
      return std::move(status).error();
  }
  for (const auto& [key, value] : metadata) {
    if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
  }
  Result<Header> header = builder.build(options);
  if (!header) return header;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.tensor() != nullptr) continue;
    Status status = check_length(*header->find(tensor.name()), tensor.bytes().size());
    if (!status) return std::move(status).error();
  }
  return header;
}

// Writes tensors in memory with several threads.
Status save_memory(PathView path, std::span<const NamedTensor> tensors, const MetadataPairs& metadata,
                   const WriteOptions& options, const LayoutOptions& layout_options) {
  std::vector<TensorData> data;
  data.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors)
    data.push_back({tensor.name(), tensor.dtype(), tensor.shape(), tensor.bytes()});
  const auto pairs = metadata.empty() ? std::nullopt : std::optional(metadata);
  return save(path, data, pairs, options, layout_options);
}

Status save_mixed(std::string_view path, std::span<const NamedTensor> tensors, const Header& header,
                  const WriteOptions& options) {
  Result<Writer> writer = Writer::create(path, header, options);
  if (!writer) return std::move(writer).error();
  for (const NamedTensor& tensor : tensors) {
    Status status = tensor.tensor() != nullptr ? writer->copy(tensor.name(), *tensor.tensor())
                                               : writer->write(tensor.name(), 0, tensor.bytes());
    if (!status) return status;
  }
  return writer->commit();
}

Status save_all(PathView path, std::span<const NamedTensor> tensors, const MetadataPairs& metadata,
                const WriteOptions& options, const LayoutOptions& layout_options) {
  if (std::ranges::all_of(tensors, [](const NamedTensor& tensor) { return tensor.tensor() == nullptr; }))
    return save_memory(path, tensors, metadata, options, layout_options);
  const Result<Header> header = make_header(tensors, metadata, layout_options);
  if (!header) return header.error();
  return save_mixed(path, tensors, *header, options);
}

}  // namespace
}  // namespace write

inline namespace v0 {

Status save(PathView path, Span<const NamedTensor> tensors, const MetadataPairs& metadata, const WriteOptions& options,
            const LayoutOptions& layout_options) noexcept {
  return base::guarded([&]() -> Status {
    Status status = write::save_all(path, tensors, metadata, options, layout_options);
    if (status) return status;
    return base::with_path(std::move(status).error(), path);
  });
}

}  // namespace v0
}  // namespace safetensors
