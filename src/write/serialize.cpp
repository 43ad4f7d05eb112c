// Writes files whose tensors are all in memory. The header is built first, so that the offset of every byte is known.
// Then several threads write the pieces of all files.
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "format/header/header.h"
#include "io/atomic_file.h"
#include "io/write_images.h"
#include "os/memory.h"
#include "write/file_head.h"
#include "write/image.h"

namespace safetensors {
inline namespace v0 {
namespace {

using io::Piece;
using write::Image;

Result<format::BuiltHeader> lay_out(std::span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
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
  Result<format::BuiltHeader> built = format::build_header(builder, options);
  if (!built) return built;
  if (Status status = write::check_lengths(built->header, tensors); !status) return std::move(status).error();
  return built;
}

Result<Image> make_image(std::span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                         const LayoutOptions& options) {
  const Result<format::BuiltHeader> built = lay_out(tensors, metadata, options);
  if (!built) return built.error();
  Result<std::string> head = write::file_head(built->text);
  if (!head) return std::move(head).error();
  return write::make_image(built->header, *std::move(head), tensors);
}

Status write_image(std::string_view path, const Image& image, const WriteOptions& options) {
  const Result<std::unique_ptr<io::AtomicFile>> file =
      io::AtomicFile::create(path, image.size, write::to_atomic_file_options(options));
  if (!file) return file.error();
  const io::Image target[] = {{&(*file)->file(), image.pieces, image.size}};
  if (Status status = io::write_images(target, options.progress); !status) return status;
  return (*file)->commit();
}

using Replacements = std::vector<std::unique_ptr<io::AtomicFile>>;

// Reserves disk space for all files before the first byte is written.
Result<Replacements> make_replacements(std::span<const FileContents> files, std::span<const Image> images,
                                       const WriteOptions& options) {
  Replacements made;
  std::set<io::AtomicFile::Place> places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    Result<std::unique_ptr<io::AtomicFile>> file =
        io::AtomicFile::create(files[i].path, images[i].size, write::to_atomic_file_options(options));
    if (!file) return std::move(file).error();
    if (!places.insert((*file)->place()).second)
      return base::make_error(Errc::invalid_argument, "two of the files to be written have this path", files[i].path);
    made.push_back(std::move(*file));
  }
  return made;
}

}  // namespace

Result<Header> layout(Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                      const LayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<Header> {
    Result<format::BuiltHeader> built = lay_out(tensors, metadata, options);
    if (!built) return std::move(built).error();
    return std::move(built->header);
  });
}

Result<Serialized> serialize(Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                             const LayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<Serialized> {
    const Result<Image> image = make_image(tensors, metadata, options);
    if (!image) return image.error();
    Serialized result;
    if (image->size <= std::numeric_limits<std::ptrdiff_t>::max() && os::fits_in_machine(image->size)) {
      result.size = static_cast<std::size_t>(image->size);
      result.data.reset(new (std::nothrow) std::byte[result.size]);
    }
    if (!result.data)
      return base::make_error(Errc::out_of_memory, "cannot allocate " + std::to_string(image->size) + " bytes");
    for (const Piece& piece : image->pieces)
      std::memcpy(result.data.get() + piece.offset, piece.bytes.data(), piece.bytes.size());
    return result;
  });
}

Status save(PathView path, Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
            const WriteOptions& options, const LayoutOptions& layout_options) noexcept {
  return base::guarded([&]() -> Status {
    const Result<Image> image = make_image(tensors, metadata, layout_options);
    if (!image) return image.error();
    return write_image(path, *image, options);
  });
}

Status write_files(Span<const FileContents> files, const WriteOptions& options,
                   const LayoutOptions& layout_options) noexcept {
  return base::guarded([&]() -> Status {
    std::vector<Image> images;
    images.reserve(files.size());
    for (const FileContents& file : files) {
      Result<Image> image = make_image(file.tensors, file.metadata, layout_options);
      if (!image) return base::with_path(std::move(image).error(), file.path);
      images.push_back(std::move(*image));
    }
    Result<Replacements> made = make_replacements(files, images, options);
    if (!made) return std::move(made).error();
    std::vector<io::Image> targets;
    targets.reserve(images.size());
    for (std::size_t i = 0; i < images.size(); ++i)
      targets.push_back({&(*made)[i]->file(), images[i].pieces, images[i].size});
    if (Status status = io::write_images(targets, options.progress); !status) return status;
    return io::replace_all(*made);
  });
}

}  // namespace v0
}  // namespace safetensors
