// layout, serialize and write_file: files whose tensors are all in memory.
#include <safetensors/writer.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "api/file_image.h"
#include "io/guard.h"
#include "io/memory.h"
#include "io/replace.h"
#include "io/system_error.h"

namespace safetensors {
inline namespace v0 {
namespace {

constexpr std::size_t kStaged = std::size_t{1} << 20;   // small tensors are written together
constexpr std::size_t kLarge = std::size_t{128} << 10;  // larger ones by themselves
constexpr std::size_t kStep = std::size_t{16} << 20;    // at most, between two reports of progress

struct Piece {
  std::uint64_t begin;
  std::span<const std::byte> bytes;
};

struct Image {
  std::string head;
  std::vector<Piece> pieces;  // in order, without gaps
  std::uint64_t size = 0;
};

Status check_lengths(const Header& header, std::span<const TensorData> tensors) {
  for (const TensorData& tensor : tensors) {
    const std::uint64_t needed = header.find(tensor.name)->nbytes();
    if (tensor.bytes.size() == needed) continue;
    return io::plain_error(Errc::data_length, api::tensor_named(tensor.name) + ": " +
                                                  std::to_string(tensor.bytes.size()) + " bytes given, " +
                                                  std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape) +
                                                  " needs " + std::to_string(needed));
  }
  return {};
}

Result<Header> lay_out(std::span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                       const LayoutOptions& options) {
  HeaderBuilder builder;
  for (const TensorData& tensor : tensors) {
    if (Status status = builder.add(tensor.name, tensor.dtype, tensor.shape); !status) return std::move(status).error();
  }
  if (metadata) {
    if (Status status = builder.metadata_present(); !status) return std::move(status).error();
  }
  for (const auto& [key, value] : metadata ? *metadata : MetadataPairs()) {
    if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
  }
  Result<Header> header = builder.build(options);
  if (!header) return header;
  if (Status status = check_lengths(*header, tensors); !status) return std::move(status).error();
  return header;
}

Result<Image> make_image(std::span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                         const LayoutOptions& options) {
  const Result<Header> header = lay_out(tensors, metadata, options);
  if (!header) return header.error();
  const Result<std::string> text = header->text();
  if (!text) return text.error();
  Result<std::string> head = api::file_head(*text);
  if (!head) return std::move(head).error();
  const Result<std::uint64_t> size = api::file_size(*head, header->data_bytes());
  if (!size) return size.error();
  Image image{.head = std::move(*head), .pieces = {}, .size = *size};
  image.pieces.reserve(tensors.size());
  for (const TensorData& tensor : tensors) {
    if (!tensor.bytes.empty()) image.pieces.push_back({header->find(tensor.name)->begin, tensor.bytes});
  }
  std::sort(image.pieces.begin(), image.pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return image;
}

// Writes one after the other, small pieces together: a system call costs as much as copying many kilobytes.
class SequentialWriter {
 public:
  SequentialWriter(io::Replacement& file, std::uint64_t total, const WriteOptions& options)
      : file_(file), total_(total), options_(options) {}

  Status append(std::span<const std::byte> bytes) {
    if (bytes.size() < kLarge && staged_size_ + bytes.size() <= kStaged) {
      if (!staged_) staged_.reset(new std::byte[kStaged]);
      std::copy(bytes.begin(), bytes.end(), staged_.get() + staged_size_);
      staged_size_ += bytes.size();
      return {};
    }
    if (Status status = flush(); !status) return status;
    if (bytes.size() < kLarge) return append(bytes);
    for (std::size_t begin = 0; begin < bytes.size(); begin += kStep) {
      if (Status status = write(bytes.subspan(begin, std::min(kStep, bytes.size() - begin))); !status) return status;
    }
    return {};
  }

  Status flush() {
    const std::size_t size = std::exchange(staged_size_, 0);
    return size == 0 ? Status() : write({staged_.get(), size});
  }

 private:
  Status write(std::span<const std::byte> bytes) {
    if (Status status = file_.write_at(position_, bytes); !status) return status;
    position_ += bytes.size();
    if (!options_.progress || options_.progress(position_, total_)) return {};
    return io::plain_error(Errc::cancelled,
                           "cancelled after " + std::to_string(position_) + " of " + std::to_string(total_) + " bytes");
  }

  io::Replacement& file_;
  const std::uint64_t total_;
  const WriteOptions& options_;
  std::unique_ptr<std::byte[]> staged_;
  std::size_t staged_size_ = 0;
  std::uint64_t position_ = 0;
};

Status write_image(std::string_view path, const Image& image, const WriteOptions& options) {
  const Result<std::unique_ptr<io::Replacement>> file =
      io::Replacement::create(path, image.size, api::to_replace_options(options));
  if (!file) return file.error();
  SequentialWriter out(**file, image.size, options);
  if (Status status = out.append(api::bytes_of(image.head)); !status) return status;
  for (const Piece& piece : image.pieces) {
    if (Status status = out.append(piece.bytes); !status) return status;
  }
  if (Status status = out.flush(); !status) return status;
  return (*file)->commit();
}

}  // namespace

Result<Header> layout(std::span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                      const LayoutOptions& options) noexcept {
  return io::guarded([&] { return lay_out(tensors, metadata, options); });
}

Result<Serialized> serialize(std::span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                             const LayoutOptions& options) noexcept {
  return io::guarded([&]() -> Result<Serialized> {
    const Result<Image> image = make_image(tensors, metadata, options);
    if (!image) return image.error();
    Serialized result;
    if (image->size <= std::numeric_limits<std::ptrdiff_t>::max() && io::fits_in_machine(image->size)) {
      result.size = static_cast<std::size_t>(image->size);
      result.data.reset(new (std::nothrow) std::byte[result.size]);
    }
    if (!result.data)
      return io::plain_error(Errc::out_of_memory, "cannot allocate " + std::to_string(image->size) + " bytes");
    std::memcpy(result.data.get(), image->head.data(), image->head.size());
    for (const Piece& piece : image->pieces)
      std::memcpy(result.data.get() + image->head.size() + piece.begin, piece.bytes.data(), piece.bytes.size());
    return result;
  });
}

Status write_file(std::string_view path, std::span<const TensorData> tensors,
                  const std::optional<MetadataPairs>& metadata, const WriteOptions& options,
                  const LayoutOptions& layout_options) noexcept {
  Status status = io::guarded([&]() -> Status {
    const Result<Image> image = make_image(tensors, metadata, layout_options);
    if (!image) return image.error();
    return write_image(path, *image, options);
  });
  return status;
}

}  // namespace v0
}  // namespace safetensors
