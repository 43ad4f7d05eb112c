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

constexpr std::size_t kStagingBytes = std::size_t{1} << 20;   // small pieces are gathered in a staging buffer
constexpr std::size_t kMinUnstaged = std::size_t{128} << 10;  // bytes; larger pieces do not pass through it

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

// Returns whether several threads may read the source of the piece.
bool concurrent(const Piece& piece) {
  if (piece.from == nullptr) return true;
  const File file = piece.from->file();
  return file.source().concurrent();
}

// Fills bytes from `offset` on from one piece after the other. Error: of reading.
Status gather(const Piece* piece, std::uint64_t offset, std::span<std::byte> bytes) {
  for (; !bytes.empty(); ++piece) {
    const std::uint64_t skipped = offset - piece->offset;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), piece->size - skipped));
    if (piece->from == nullptr) {
      std::memcpy(bytes.data(), piece->bytes.data() + skipped, size);
    } else {
      const File file = piece->from->file();
      Status read = os::read_exactly(file.source(), piece->from->info().file_offset + skipped, bytes.first(size));
      if (!read) return base::with_path(std::move(read).error(), file.path());
    }
    offset += size;
    bytes = bytes.subspan(size);
  }
  return {};
}

// Writes the images to their files and finishes each file. Uses at most kDirectThreads threads, and only the calling
// thread if a source must not be read by several: two Files can share that source, and each has a lock of its own.
// Memory: at most 8 MiB for files that are written directly, and 1.25 MiB per thread for the others. Only the calling
// thread calls progress, also while it waits for the other threads.
class ImageWriter {
 public:
  ImageWriter(std::span<const Image> images, Files files, const io::Progress& progress)
      : meter_(progress, total_of(images), 0, {}, std::this_thread::get_id()), jobs_(images.size()) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      Job& job = jobs_[i];
      job.image = &images[i];
      job.file = &files[i]->file();
      job.direct = job.file->direct();
      job.first = count_;
      job.remaining = job.direct ? io::Chunks{0, images[i].size}.count() : 1;
      count_ += job.remaining;
      any_direct_ = any_direct_ || job.direct;
      one_thread_ = one_thread_ || !std::ranges::all_of(images[i].pieces, concurrent);
    }
  }

  // Errors: those of FileWriter, cancelled.
  Status write() {
    unsigned threads = any_direct_ ? io::kDirectThreads : std::min(os::usable_processors(), io::kDirectThreads);
    if (one_thread_) threads = 1;
    const Callback<bool()> ask = [this] { return meter_.ask(); };
    base::Cancellation cancellation(ask);
    Status status = os::run_parallel(
        count_, threads, [this](std::size_t index) { return run(index); }, &cancellation);
    return status ? meter_.finish() : status;
  }

 private:
  struct Job {
    const Image* image = nullptr;
    io::FileWriter* file = nullptr;
    bool direct = false;
    std::size_t first = 0;                  // index of the file's first task
    std::atomic<std::size_t> remaining{0};  // tasks
  };

  static std::uint64_t total_of(std::span<const Image> images) {
    std::uint64_t total = 0;
    for (const Image& image : images) total += image.size;
    return total;
  }

  // One task per chunk of a file with direct I/O, and one task per other file. The last task of a file finishes it.
  Status run(std::size_t index) {
    const auto after = std::partition_point(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.first <= index; });
    Job& job = *std::prev(after);
    Status status = job.direct ? write_chunk(job, index - job.first) : write_buffered(*job.file, job.image->pieces);
    if (!status) return status;
    return job.remaining.fetch_sub(1) == 1 ? job.file->finish() : Status();
  }

  // Finds the first piece of the chunk by binary search, because a file can have millions of pieces.
  Status write_chunk(const Job& job, std::size_t index) {
    const std::vector<Piece>& pieces = job.image->pieces;
    const io::Chunks::Range chunk = io::Chunks{0, job.image->size}[index];
    const auto first = std::partition_point(
        pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.offset + piece.size <= chunk.offset; });
    const auto skipped = static_cast<std::size_t>(chunk.offset - first->offset);
    Status status =
        first->from == nullptr && first->size - skipped >= chunk.size
            ? job.file->write_chunk(chunk.offset, first->bytes.subspan(skipped, chunk.size), bounce_buffers_)
            : write_gathered(*job.file, chunk, &*first);
    return status ? meter_.add(chunk.size) : status;
  }

  Status write_gathered(io::FileWriter& file, const io::Chunks::Range& chunk, const Piece* piece) {
    const Result<io::BounceBufferPool::Lease> buffer = bounce_buffers_.take();
    if (!buffer) return buffer.error();
    const std::span<std::byte> bytes(buffer->at(chunk.offset), chunk.size);
    Status status = gather(piece, chunk.offset, bytes);
    return status ? file.write_chunk(chunk.offset, bytes, bounce_buffers_) : status;
  }

  // Writes one piece after the other through the page cache. Gathers small pieces, because a system call costs as much
  // as a copy of many kilobytes.
  Status write_buffered(io::FileWriter& file, std::span<const Piece> pieces) {
    std::vector<std::byte> staged;
    const auto flush = [&](std::uint64_t end) -> Status {
      const std::size_t size = staged.size();
      if (size == 0) return {};
      if (Status status = file.write_at(end - size, staged); !status) return status;
      staged.clear();
      return meter_.add(size);
    };
    for (const Piece& piece : pieces) {
      const bool small = piece.from == nullptr && piece.size < kMinUnstaged;
      if (!small || staged.size() + piece.size > kStagingBytes) {
        if (Status status = flush(piece.offset); !status) return status;
      }
      if (small) {
        staged.reserve(kStagingBytes);
        staged.insert(staged.end(), piece.bytes.begin(), piece.bytes.end());
        continue;
      }
      Status status = piece.from != nullptr
                          ? copy_tensor(file, piece.offset, *piece.from, meter_)
                          : meter_.in_steps(piece.size, [&](std::uint64_t at, std::uint64_t size) {
                              return file.write_at(
                                  piece.offset + at,
                                  piece.bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)));
                            });
      if (!status) return status;
    }
    return flush(pieces.back().offset + pieces.back().size);
  }

  io::ProgressMeter meter_;
  io::BounceBufferPool bounce_buffers_;
  std::vector<Job> jobs_;
  std::size_t count_ = 0;
  bool any_direct_ = false;
  bool one_thread_ = false;
};

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
    if (input.from != nullptr) continue;
    if (Status status = check_length(*header.find(input.data.name), input.data.bytes.size()); !status) return status;
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

std::vector<Input> inputs_of(std::span<const TensorData> tensors) {
  std::vector<Input> inputs;
  inputs.reserve(tensors.size());
  for (const TensorData& tensor : tensors) inputs.push_back({tensor});
  return inputs;
}

Status save_file(PathView path, Inputs inputs, const std::optional<MetadataPairs>& metadata,
                 const WriteOptions& options, const LayoutOptions& layout_options) {
  const Result<Image> image = make_image(inputs, metadata, layout_options);
  if (!image) return image.error();
  const Result<std::unique_ptr<io::AtomicFile>> file =
      io::AtomicFile::create(path, image->size, to_atomic_file_options(options));
  if (!file) return file.error();
  Status status = ImageWriter({&*image, 1}, {&*file, 1}, options.progress).write();
  return status ? (*file)->commit() : status;
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

// The image of each file.
Result<std::vector<Image>> make_images(Tensors tensors, const CheckpointLayout& layout) {
  std::vector<std::vector<Input>> inputs(layout.files().size());
  for (const NamedTensor& tensor : tensors) inputs[*layout.file_of(tensor.name())].push_back(input_of(tensor));
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
  std::vector<std::unique_ptr<io::AtomicFile>> files;
  for (std::size_t i = 0; i < images->size(); ++i) {
    auto file = (*folder)->create_file(i, (*images)[i].size);
    if (!file) return std::move(file).error();
    files.push_back(std::move(*file));
  }
  if (Status status = ImageWriter(*images, files, options.write.progress).write(); !status) return status;
  return (*folder)->commit(files);
}

// Calls save(), and gives its error the path if it has none.
template <class Save>
Status with_path(PathView path, const Save& save) noexcept {
  return base::guarded([&]() -> Status {
    Status status = save();
    if (status) return status;
    return base::with_path(std::move(status).error(), path);
  });
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
    if (Status status = write::gather(image->pieces.data(), 0, bytes); !status) return std::move(status).error();
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
    std::vector<write::Input> inputs;
    inputs.reserve(tensors.size());
    std::ranges::transform(tensors, std::back_inserter(inputs), write::input_of);
    const auto pairs = metadata.empty() ? std::nullopt : std::optional(metadata);
    return write::save_file(path, inputs, pairs, options, layout_options);
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
  return write::with_path(folder, [&]() -> Status {
    Status status = write::check_tensors(tensors, layout);
    return status ? write::save_model(folder, tensors, layout, options) : status;
  });
}

}  // namespace v0
}  // namespace safetensors
