// Several threads write the tensors of all files, with one list of tasks. A file with direct I/O is cut into chunks of
// 2 MiB, one task each, so a single large file uses all threads. So is a file with tensors that are cast. Any other
// file goes through the page cache, where the system lets one thread at a time write to it. It is one task, which
// writes from the first byte to the last.
//
// Tensors in memory that follow each other are gathered in a buffer. A range of one tensor is written from its place.
#include "write/input.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "base/cancellation.h"
#include "file/file.h"
#include "format/dtype/cast.h"
#include "os/memory.h"
#include "os/parallel.h"

namespace safetensors::write {
namespace {

// In bytes. Smaller tensors are gathered, because a system call costs as much as a copy of many kilobytes.
constexpr std::size_t kMinUngathered = std::size_t{128} << 10;
constexpr std::uint64_t kMaxCast = std::uint64_t{1} << 20;  // bytes that are cast at once, before or after the cast

// The work on one file.
struct FileWork {
  WriteSession* session;
  TensorFile* file;
  std::vector<Input> inputs;  // in the order of their bytes, and without empty tensors
  bool chunked = false;       // a task for each chunk of the file; else one task
  std::size_t first_task = 0;

  // task: counted over all files.
  Status run(std::size_t task) const {
    if (!chunked) return write(0, ~std::uint64_t{0});
    const std::uint64_t start = file->data_start();
    const std::uint64_t chunk = std::uint64_t{task - first_task} * io::kDirectChunk;
    return write(std::max(chunk, start) - start, std::max(chunk + io::kDirectChunk, start) - start);
  }

  // Writes the range [begin, end) of the data of the file. It must lie in one chunk, if the work is chunked.
  Status write(std::uint64_t begin, std::uint64_t end) const {
    const auto gathers = [&](const Input& input) {
      return input.from == nullptr && (chunked || input.planned->nbytes() < kMinUngathered);
    };
    const auto last = inputs.end();
    // By binary search, because a file can have millions of tensors.
    auto input = std::ranges::partition_point(inputs, [&](const Input& other) { return other.planned->end <= begin; });
    Status status;
    while (status && input != last && input->planned->begin < end) {
      const auto first = input++;
      const std::uint64_t from = std::max(begin, first->planned->begin);
      if (gathers(*first))
        input = std::find_if(input, last, [&](const Input& next) {
          return !gathers(next) || next.planned->begin >= end ||
                 std::min(end, next.planned->end) - from > io::kDirectChunk;
        });
      const std::uint64_t to = std::min(end, std::prev(input)->planned->end);
      const std::uint64_t offset = from - first->planned->begin;
      if (first->losses != nullptr)
        status = cast(*first, offset, to - first->planned->begin);
      else if (first->from != nullptr)
        status = file->copy(from, *first->from, offset, to - from);
      else if (input - first == 1)
        status = file->write(
            from, first->bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(to - from)));
      else
        status = gather({first, input}, from, to);
    }
    return status;
  }

  Status gather(std::span<const Input> parts, std::uint64_t begin, std::uint64_t end) const {
    // A chunk lies in its buffer as a direct write needs it. Other bytes begin where the buffer begins. A small file
    // needs no buffer of pages.
    const Result<std::shared_ptr<std::byte>> memory =
        !chunked && end - begin < kMinUngathered
            ? os::allocate(end - begin)
            : session->bounce_buffers.take(chunked ? file->data_start() + begin : 0);
    if (!memory) return memory.error();
    for (const Input& input : parts) {
      const std::uint64_t from = std::max(begin, input.planned->begin);
      const std::uint64_t to = std::min(end, input.planned->end);
      std::memcpy(memory->get() + (from - begin), input.bytes.data() + (from - input.planned->begin),
                  static_cast<std::size_t>(to - from));
    }
    return file->write(begin, {memory->get(), static_cast<std::size_t>(end - begin)});
  }

  // Casts the elements that begin in a range of the new tensor, in bytes.
  Status cast(const Input& input, std::uint64_t begin, std::uint64_t end) const {
    const detail::FileState& source = detail::Access<Tensor>::state(*input.from);
    const TensorInfo& from = input.from->info();
    const TensorInfo& to = *input.planned;
    const std::size_t from_size = bits(from.dtype) / 8;
    const std::size_t to_size = bits(to.dtype) / 8;
    const std::uint64_t last = (end + to_size - 1) / to_size;
    std::uint64_t first = (begin + to_size - 1) / to_size;
    for (std::uint64_t count = 0; first < last; first += count) {
      count = std::min(last - first, kMaxCast / std::max(from_size, to_size));
      const auto elements = static_cast<std::size_t>(count);
      std::vector<std::byte> in(elements * from_size);
      std::vector<std::byte> out(elements * to_size);
      if (Status status = source.read(from, from.file_offset + first * from_size, in); !status) return status;
      const std::size_t done = format::try_cast(from.dtype, in.data(), to.dtype, out.data(), elements);
      if (done != elements) {
        const std::uint64_t index = first + done;
        return source.failed(
            from, from.file_offset + index * from_size,
            format::out_of_range(from.dtype, in.data() + done * from_size, to.dtype, index, from.shape));
      }
      const format::CastLosses losses = format::count_cast_losses(from.dtype, in.data(), to.dtype, elements);
      Status status = file->write(to.begin + first * to_size, out);
      const auto add = [&]() -> Status {
        *input.losses += losses;
        return {};
      };
      if (status) status = session->if_open(add);  // one thread at a time
      if (!status) return status;
    }
    return {};
  }
};

}  // namespace

Status write_inputs(WriteSession& session, std::span<std::vector<Input>> inputs, const WriteOptions& options) {
  const auto concurrent = [](const Input& input) {
    return input.from == nullptr || detail::Access<Tensor>::state(*input.from).source->concurrent();
  };
  std::vector<FileWork> files;
  std::size_t tasks = 0;
  bool one_thread = false;
  unsigned threads = std::min(os::usable_processors(), io::kDirectThreads);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    FileWork& work = files.emplace_back(FileWork{&session, session.files[i].get(), std::move(inputs[i])});
    std::erase_if(work.inputs, [](const Input& input) { return input.planned->nbytes() == 0; });
    std::ranges::sort(work.inputs, {}, [](const Input& input) { return input.planned->begin; });
    // A file system that cannot rename may want a file from its first to its last byte.
    work.chunked = work.file->file()->file().direct() ||
                   (!options.in_place_if_no_rename &&
                    std::ranges::any_of(work.inputs, [](const Input& input) { return input.losses != nullptr; }));
    work.first_task = tasks;
    const std::uint64_t data = work.inputs.empty() ? 0 : work.inputs.back().planned->end;
    tasks += work.chunked ? static_cast<std::size_t>((work.file->data_start() + data) / io::kDirectChunk) + 1 : 1;
    if (work.chunked) threads = io::kDirectThreads;
    one_thread = one_thread || !std::ranges::all_of(work.inputs, concurrent);
  }
  if (one_thread) threads = 1;
  std::vector<std::atomic<std::size_t>> left(files.size());  // tasks of each file
  for (std::size_t i = 0; i < files.size(); ++i)
    left[i] = (i + 1 < files.size() ? files[i + 1].first_task : tasks) - files[i].first_task;
  const auto run = [&](std::size_t task) {
    const auto work = std::prev(std::ranges::upper_bound(files, task, {}, &FileWork::first_task));
    Status status = work->run(task);
    // The sync of a file runs while other threads write the next files.
    if (status && --left[static_cast<std::size_t>(work - files.begin())] == 0) status = work->file->file()->finish();
    return status;
  };
  const Callback<bool()> ask = [&] { return session.meter.ask(); };
  base::Cancellation cancellation(ask);
  const Status status = os::run_parallel(tasks, threads, run, &cancellation);
  return status ? session.commit() : status;
}

}  // namespace safetensors::write
