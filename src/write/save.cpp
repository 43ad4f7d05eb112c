// Saves tensors in a file, or in the files of a model, and returns the bytes of a file.
//
// The headers are built first, so that the offset of every byte is known. Then several threads write the pieces of all
// files, with one list of tasks. A piece is in memory, or it is a tensor of another file. A file with direct I/O is cut
// into chunks of 2 MiB, one task each, so a single large file uses all threads. A chunk that lies in one piece of
// memory is written from its place; other chunks are gathered in a bounce buffer. A file through the page cache is one
// task, which writes the pieces in file order.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/printable.h"
#include "format/header/new_header.h"
#include "io/atomic_file.h"
#include "io/progress.h"
#include "os/memory.h"
#include "os/parallel.h"
#include "os/regular_file.h"
#include "write/checkpoint_folder.h"
#include "write/file_head.h"
#include "write/tensor_file.h"

namespace safetensors {
namespace write {
namespace {

constexpr std::size_t kMinUngathered = std::size_t{128} << 10;  // bytes; smaller pieces are gathered in a buffer

using Tensors = std::span<const NamedTensor>;
using Files = std::span<const std::unique_ptr<io::AtomicFile>>;

// A tensor to save. If `from` is null, `data` has the elements. Else `from` has them.
struct Input {
  TensorData data;
  const Tensor* from = nullptr;
};
using Inputs = std::span<const Input>;

struct Piece {
  std::uint64_t offset = 0;               // from the start of the file
  std::uint64_t size = 0;                 // in bytes
  std::span<const std::byte> bytes = {};  // if `from` is null
  const Tensor* from = nullptr;           // a tensor of another file, which has the bytes
};

// A file of tensors. The pieces point into head and into the tensors.
struct Image {
  std::shared_ptr<const std::string> head;
  std::vector<Piece> pieces;  // in file order from byte 0 on, without gaps and without empty pieces
  std::uint64_t size = 0;     // bytes of all pieces
};

// The bytes of an image. An error of reading has the path of the file that was read.
class ImageSource final : public Source {
 public:
  explicit ImageSource(const Image& image) noexcept : image_(image) {}
  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return image_.size; }
  // Fills `bytes` from one piece after the other.
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> bytes) const noexcept override {
    return base::guarded([&]() -> Result<std::size_t> {
      std::size_t done = 0;
      for (auto piece = piece_at(offset); done < bytes.size() && piece != image_.pieces.end(); ++piece) {
        const std::uint64_t skipped = offset + done - piece->offset;
        const auto to = bytes.subspan(
            done, static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size() - done, piece->size - skipped)));
        done += to.size();
        if (piece->from == nullptr) {
          std::memcpy(to.data(), piece->bytes.data() + skipped, to.size());
          continue;
        }
        const File file = piece->from->file();
        Status read = os::read_exactly(file.source(), piece->from->info().file_offset + skipped, to);
        if (!read) return base::with_path(std::move(read).error(), file.path());
      }
      return done;
    });
  }
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept override {
    const Piece& piece = *piece_at(offset);
    const std::uint64_t skipped = offset - piece.offset;
    if (piece.from != nullptr || piece.size - skipped < size) return {};
    return {piece.bytes.subspan(static_cast<std::size_t>(skipped), static_cast<std::size_t>(size)), nullptr};
  }

 private:
  // By binary search, because a file can have millions of pieces.
  [[nodiscard]] std::vector<Piece>::const_iterator piece_at(std::uint64_t offset) const {
    return std::ranges::partition_point(image_.pieces,
                                        [&](const Piece& piece) { return piece.offset + piece.size <= offset; });
  }

  const Image& image_;
};

// Small pieces are gathered in a buffer, because a system call costs as much as a copy of many kilobytes.
bool is_small(const Piece& piece) noexcept {
  return piece.from == nullptr && piece.size < kMinUngathered;
}

// Writes one piece after the other through the page cache.
Status write_buffered(const Image& image, io::FileWriter& file, io::ProgressMeter& meter) {
  const ImageSource source(image);
  Status status;
  for (auto piece = image.pieces.begin(); status && piece != image.pieces.end();) {
    const auto first = piece++;
    if (is_small(*first)) piece = std::find_if_not(piece, image.pieces.end(), is_small);
    const std::uint64_t begin = first->offset;
    const std::uint64_t end = std::prev(piece)->offset + std::prev(piece)->size;
    status = first->from != nullptr ? copy_tensor(file, begin, *first->from, meter)
                                    : meter.in_steps(end - begin, [&](std::uint64_t at, std::uint64_t size) {
                                        return file.copy_at(begin + at, source, begin + at, size);
                                      });
  }
  return status;
}

// Returns whether several threads may read the source of the piece.
bool concurrent(const Piece& piece) {
  if (piece.from == nullptr) return true;
  const File file = piece.from->file();
  return file.source().concurrent();
}

// Writes the images to their files and finishes each file. Uses at most kDirectThreads threads, and only the calling
// thread if a source must not be read by several: two Files can share that source, and each has a lock of its own.
// Memory: that of the buffers for files that are written directly, and 1 MiB per thread for the others. Only the
// calling thread calls progress, also while it waits for the other threads. Errors: those of FileWriter, cancelled.
Status write_images(std::span<const Image> images, Files files, io::BounceBufferPool& buffers,
                    const io::Progress& progress) {
  // A file with direct I/O has one task per chunk, every other file has one task. The last task of a file finishes it.
  struct Job {
    bool direct = false;
    std::size_t first = 0;  // index of the file's first task
    std::atomic<std::size_t> remaining{0};
  };
  std::vector<Job> jobs(images.size());
  std::size_t count = 0;
  std::uint64_t total = 0;
  unsigned threads = std::min(os::usable_processors(), io::kDirectThreads);
  for (std::size_t i = 0; i < images.size(); ++i) {
    files[i]->file().share_bounce_buffers(buffers);
    jobs[i].direct = files[i]->file().direct();
    jobs[i].first = count;
    jobs[i].remaining = jobs[i].direct ? (images[i].size - 1) / io::kDirectChunk + 1 : 1;
    count += jobs[i].remaining;
    total += images[i].size;
    if (jobs[i].direct) threads = io::kDirectThreads;
  }
  for (const Image& image : images) {
    if (!std::ranges::all_of(image.pieces, concurrent)) threads = 1;
  }
  io::ProgressMeter meter(progress, total, 0, {}, std::this_thread::get_id());
  const Callback<bool()> ask = [&] { return meter.ask(); };
  base::Cancellation cancellation(ask);
  const auto run = [&](std::size_t task) -> Status {
    const auto job = std::prev(std::ranges::upper_bound(jobs, task, {}, &Job::first));
    const auto i = static_cast<std::size_t>(job - jobs.begin());
    io::FileWriter& file = files[i]->file();
    Status status;
    if (job->direct) {
      const std::uint64_t offset = (task - job->first) * io::kDirectChunk;
      const std::uint64_t size = std::min<std::uint64_t>(io::kDirectChunk, images[i].size - offset);
      status = file.copy_at(offset, ImageSource(images[i]), offset, size);
      if (status) status = meter.add(size);
    } else {
      status = write_buffered(images[i], file, meter);
    }
    return status && job->remaining.fetch_sub(1) == 1 ? file.finish() : status;
  };
  Status status = os::run_parallel(count, threads, run, &cancellation);
  return status ? meter.finish() : status;
}

// Errors: data_length, and those of HeaderBuilder::build().
Result<Header> make_header(Inputs inputs, const std::optional<MetadataPairs>& metadata, const LayoutOptions& options) {
  Result<std::vector<format::NewTensor>> described = format::new_tensors(inputs.size(), [&](std::size_t i) {
    return format::new_tensor(inputs[i].data.name, inputs[i].data.dtype, inputs[i].data.shape);
  });
  if (!described) return std::move(described).error();
  const Result<std::string> member = metadata ? format::metadata_member(*metadata) : std::string();
  if (!member) return member.error();
  Result<format::NewHeaderText> text = format::new_header_text(*std::move(described), *member, options);
  return text ? format::new_header(*std::move(text)) : std::move(text).error();
}

Status check_lengths(const Header& header, Inputs inputs) {
  for (const Input& input : inputs) {
    const TensorInfo& tensor = *header.find(input.data.name);
    const std::size_t given = input.data.bytes.size();
    if (input.from != nullptr || given == tensor.nbytes()) continue;
    return base::make_error(Errc::data_length, base::tensor_named(tensor.name) + ": " + std::to_string(given) +
                                                   " bytes given, " + std::string(to_string(tensor.dtype)) + " " +
                                                   to_string(tensor.shape) + " needs " +
                                                   std::to_string(tensor.nbytes()));
  }
  return {};
}

// The header must have all tensors. Errors: data_length, header_too_large, size_overflow.
Result<Image> make_image(const Header& header, Inputs inputs) {
  if (Status status = check_lengths(header, inputs); !status) return std::move(status).error();
  const Result<std::string> text = header.text();
  if (!text) return text.error();
  Result<std::string> head = file_head(*text);
  if (!head) return std::move(head).error();
  const Result<std::uint64_t> size = file_size(head->size(), header.data_bytes());
  if (!size) return size.error();
  Image image{.head = std::make_shared<const std::string>(*std::move(head)), .pieces = {}, .size = *size};
  image.pieces.reserve(inputs.size() + 1);
  image.pieces.push_back({.size = image.head->size(), .bytes = bytes_of(*image.head)});
  for (const Input& input : inputs) {
    const TensorInfo& tensor = *header.find(input.data.name);
    if (tensor.nbytes() != 0)
      image.pieces.push_back({image.head->size() + tensor.begin, tensor.nbytes(), input.data.bytes, input.from});
  }
  std::ranges::sort(image.pieces, {}, &Piece::offset);
  return image;
}

Result<Image> make_image(Inputs inputs, const std::optional<MetadataPairs>& metadata, const LayoutOptions& options) {
  const Result<Header> header = make_header(inputs, metadata, options);
  return header ? make_image(*header, inputs) : header.error();
}

Input input_of(const NamedTensor& tensor) {
  return {{tensor.name(), tensor.dtype(), tensor.shape(), tensor.bytes()}, tensor.tensor()};
}

Input input_of(const TensorData& tensor) {
  return {tensor};
}

template <class Tensor>
std::vector<Input> inputs_of(Span<const Tensor> tensors) {
  std::vector<Input> inputs;
  inputs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) inputs.push_back(input_of(tensor));
  return inputs;
}

Status save_file(PathView path, Inputs inputs, const std::optional<MetadataPairs>& metadata,
                 const WriteOptions& options, const LayoutOptions& layout_options) {
  const Result<Image> image = make_image(inputs, metadata, layout_options);
  if (!image) return image.error();
  io::BounceBufferPool buffers;
  const Result<std::unique_ptr<io::AtomicFile>> file =
      io::AtomicFile::create(path, image->size, to_atomic_file_options(options));
  if (!file) return file.error();
  Status status = write_images({&*image, 1}, {&*file, 1}, buffers, options.progress);
  return status ? (*file)->commit() : status;
}

// The image of each file. Error also: the tensors are not those of the layout.
Result<std::vector<Image>> make_images(Tensors tensors, const CheckpointLayout& layout) {
  std::vector<std::vector<Input>> inputs(layout.files().size());
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
    inputs[*file].push_back(input_of(tensor));
  }
  for (const CheckpointFile& file : layout.files()) {
    for (const TensorInfo& planned : file.header.tensors()) {
      if (!seen.contains(planned.name))
        return base::make_error(Errc::incomplete_write, base::tensor_named(planned.name) + " of the layout is missing");
    }
  }
  std::vector<Image> images;
  images.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Result<Image> image = make_image(layout.files()[i].header, inputs[i]);
    if (!image) return std::move(image).error();
    images.push_back(*std::move(image));
  }
  return images;
}

Status save_model(std::string_view path, Tensors tensors, const CheckpointLayout& layout,
                  const CheckpointWriteOptions& options) {
  const Result<std::vector<Image>> images = make_images(tensors, layout);
  if (!images) return images.error();
  Result<std::unique_ptr<CheckpointFolder>> folder = CheckpointFolder::open(path, layout, options);
  if (!folder) return std::move(folder).error();
  io::BounceBufferPool buffers;
  std::vector<std::unique_ptr<io::AtomicFile>> files;
  for (std::size_t i = 0; i < images->size(); ++i) {
    auto file = (*folder)->create_file(i, (*images)[i].size);
    if (!file) return std::move(file).error();
    files.push_back(std::move(*file));
  }
  Status status = write_images(*images, files, buffers, options.write.progress);
  return status ? (*folder)->commit(files) : status;
}

}  // namespace
}  // namespace write

inline namespace v0 {

Result<Header> layout(Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                      const LayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<Header> {
    const std::vector<write::Input> inputs = write::inputs_of(tensors);
    Result<Header> header = write::make_header(inputs, metadata, options);
    if (!header) return header;
    if (Status status = write::check_lengths(*header, inputs); !status) return std::move(status).error();
    return header;
  });
}

Result<Array> serialize(Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
                        const LayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<Array> {
    const Result<write::Image> image = write::make_image(write::inputs_of(tensors), metadata, options);
    if (!image) return image.error();
    Result<std::shared_ptr<std::byte>> memory = os::allocate(image->size);
    if (!memory) return std::move(memory).error();
    const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(image->size));
    if (Status status = os::read_exactly(write::ImageSource(*image), 0, bytes); !status)
      return std::move(status).error();
    return Array(Dtype::U8, Shape{image->size}, bytes, *std::move(memory), MemoryKind::owned);
  });
}

Status save(PathView path, Span<const TensorData> tensors, const std::optional<MetadataPairs>& metadata,
            const WriteOptions& options, const LayoutOptions& layout_options) noexcept {
  return base::guarded(
      [&] { return write::save_file(path, write::inputs_of(tensors), metadata, options, layout_options); });
}

Status save(PathView path, Span<const NamedTensor> tensors, const MetadataPairs& metadata, const WriteOptions& options,
            const LayoutOptions& layout_options) noexcept {
  return write::with_path(path, [&] {
    const auto pairs = metadata.empty() ? std::nullopt : std::optional(metadata);
    return write::save_file(path, write::inputs_of(tensors), pairs, options, layout_options);
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
