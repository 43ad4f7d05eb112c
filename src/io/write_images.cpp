// Writes files from pieces in memory, with one list of tasks for all files.
//
// A file with direct I/O is cut into chunks of 2 MiB, one task each, so a single large file uses all threads. A chunk
// that lies in one piece is written from its place; other chunks are gathered in a bounce buffer. A file through the
// page cache is one task, which writes the pieces in file order.
#include "io/write_images.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "os/parallel.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{1} << 20;   // small pieces are gathered in a staging buffer
constexpr std::size_t kMinUnstaged = std::size_t{128} << 10;  // bytes; larger pieces are written without it

// Writes one piece after the other through the page cache. Gathers small pieces, because a system call costs as much as
// a copy of many kilobytes.
class BufferedImage {
 public:
  BufferedImage(FileWriter& file, ProgressMeter& meter) : file_(file), meter_(meter) {}

  Status write(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces) {
      if (Status status = append(piece.bytes); !status) return status;
    }
    return flush();
  }

 private:
  Status append(std::span<const std::byte> bytes) {
    if (bytes.size() < kMinUnstaged && staged_size_ + bytes.size() <= kStagingBytes) {
      if (!staged_) staged_.reset(new std::byte[kStagingBytes]);
      std::copy(bytes.begin(), bytes.end(), staged_.get() + staged_size_);
      staged_size_ += bytes.size();
      return {};
    }
    if (Status status = flush(); !status) return status;
    if (bytes.size() < kMinUnstaged) return append(bytes);
    for (std::size_t begin = 0; begin < bytes.size(); begin += kMaxBytesPerReport) {
      if (Status status = put(bytes.subspan(begin, std::min(kMaxBytesPerReport, bytes.size() - begin))); !status)
        return status;
    }
    return {};
  }
  Status flush() {
    const std::size_t size = std::exchange(staged_size_, 0);
    return size == 0 ? Status() : put({staged_.get(), size});
  }
  Status put(std::span<const std::byte> bytes) {
    if (Status status = file_.write_at(position_, bytes); !status) return status;
    position_ += bytes.size();
    return meter_.add(bytes.size());
  }

  FileWriter& file_;
  ProgressMeter& meter_;
  std::unique_ptr<std::byte[]> staged_;
  std::size_t staged_size_ = 0;
  std::uint64_t position_ = 0;
};

// One task per chunk of a file with direct I/O, and one task per other file. The last task of a file finishes it.
class ImageTasks final : public os::Tasks {
 public:
  ImageTasks(std::span<const Image> images, ProgressMeter& meter) : meter_(meter), jobs_(images.size()) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      const Chunks chunks{0, images[i].size};
      jobs_[i].image = &images[i];
      jobs_[i].direct = images[i].file->direct() && images[i].size != 0;
      jobs_[i].first = count_;
      const std::size_t tasks = jobs_[i].direct ? chunks.count() : 1;
      jobs_[i].remaining = tasks;
      count_ += tasks;
      any_direct_ = any_direct_ || jobs_[i].direct;
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] unsigned threads() const noexcept {
    return any_direct_ ? kDirectThreads : std::min(os::usable_processors(), kDirectThreads);
  }

  [[nodiscard]] Status run(std::size_t index) noexcept override {
    return base::guarded([&]() -> Status {
      const auto after =
          std::partition_point(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.first <= index; });
      Job& job = *std::prev(after);
      Status status = job.direct ? write_chunk(*job.image, index - job.first)
                                 : BufferedImage(*job.image->file, meter_).write(job.image->pieces);
      if (!status) return status;
      return job.remaining.fetch_sub(1) == 1 ? job.image->file->finish() : Status();
    });
  }

 private:
  struct Job {
    const Image* image = nullptr;
    bool direct = false;
    std::size_t first = 0;                  // index of the file's first task
    std::atomic<std::size_t> remaining{0};  // tasks
  };

  // Finds the first piece of the chunk by binary search, because a file can have millions of pieces.
  Status write_chunk(const Image& image, std::size_t index) {
    const Chunks::Range chunk = Chunks{0, image.size}[index];
    const auto first = std::partition_point(image.pieces.begin(), image.pieces.end(), [&](const Piece& piece) {
      return piece.offset + piece.bytes.size() <= chunk.offset;
    });
    Status status = first->offset + first->bytes.size() - chunk.offset >= chunk.size
                        ? image.file->write_chunk(
                              chunk.offset,
                              first->bytes.subspan(static_cast<std::size_t>(chunk.offset - first->offset), chunk.size),
                              bounce_buffers_)
                        : write_gathered(image, chunk, &*first);
    return status ? meter_.add(chunk.size) : status;
  }

  Status write_gathered(const Image& image, Chunks::Range chunk, const Piece* piece) {
    const Result<BounceBufferPool::Lease> buffer = bounce_buffers_.take();
    if (!buffer) return buffer.error();
    std::byte* const bytes = buffer->at(chunk.offset);
    for (std::size_t done = 0; done < chunk.size; ++piece) {
      const auto skipped = static_cast<std::size_t>(chunk.offset + done - piece->offset);
      const std::size_t size = std::min(chunk.size - done, piece->bytes.size() - skipped);
      std::memcpy(bytes + done, piece->bytes.data() + skipped, size);
      done += size;
    }
    return image.file->write_chunk(chunk.offset, {bytes, chunk.size}, bounce_buffers_);
  }

  ProgressMeter& meter_;
  BounceBufferPool bounce_buffers_;
  std::vector<Job> jobs_;
  std::size_t count_ = 0;
  bool any_direct_ = false;
};

}  // namespace

Status write_images(std::span<const Image> images, const Progress& progress) noexcept {
  return base::guarded([&]() -> Status {
    std::uint64_t total = 0;
    for (const Image& image : images) total += image.size;
    ProgressMeter meter(progress, total, 0, {}, std::this_thread::get_id());
    ImageTasks tasks(images, meter);
    if (Status status = os::run_parallel(tasks, tasks.count(), tasks.threads()); !status) return status;
    return meter.finish();
  });
}

}  // namespace safetensors::io
