// Many tensors and slices, of one file or many, into memory: read by several threads within a budget.
#pragma once

#include <safetensors/arena.h>
#include <safetensors/array.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace safetensors {
inline namespace v0 {

// Memory of a CUDA device.
struct DeviceMemory {
  int device = -1;  // its ordinal; -1: none
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // in bytes, exactly those of the result
};

// Where a result goes: the caller's memory, or a device's. Without either: owned memory.
struct Destination {
  // Exactly as large as the result; with strides at least as far as its last element reaches.
  std::span<std::byte> bytes = {};
  // In bytes, one for each dimension of the result; none: C order. Two elements may not share a byte. Copied by add().
  std::span<const std::uint64_t> strides = {};
  // Instead of bytes. What is read goes there through page-locked memory; it is all there when execute() returns, or
  // when a Stream hands the item out.
  DeviceMemory device = {};
};

struct AddOptions {
  // The dtype of the result. Between F64, F32, F16, BF16 and the F8s (from F8_E8M0 only), rounded once to the nearest,
  // ties to even. What is too large becomes an infinity; of F8_E4M3 its largest number, of the FNUZ dtypes NaN.
  std::optional<Dtype> cast = std::nullopt;
};

// Which part the page cache plays.
enum class Cache : std::uint8_t {
  keep,  // what is cached comes from the cache, the rest from the device past it: the cache stays as it is
  fill,  // everything comes through the cache and stays there: for files that will be read again soon
  drop,  // everything comes through the cache and leaves it when it was read
  // What is read at once from 64 KiB on comes from the device, if the file system lets it. Less comes through the
  // cache, and leaves it.
  bypass,
};

struct ReadOptions {
  // That read; of execute() the caller's is one of them. 0: one for each processor the process may use, 16 at most, and
  // 8 to 16 where reads wait for a device or a network.
  unsigned threads = 0;
  // Bytes read at once; 0: 2 MiB, and 16 MiB from network file systems.
  std::uint64_t chunk_bytes = 0;
  // The most bytes read or converted at one time and, of a stream, waiting to be taken. 0: as many as threads x chunk
  // are; a stream's: 256 MiB. A larger item of a stream goes alone. Besides, a thread has up to 2 MiB of its own for
  // slices of short runs and for reads past the page cache. At most half of it, but at least 2 MiB a device, is
  // page-locked memory on the way to devices; 0: 128 MiB a device, of a stream for all of them.
  std::uint64_t memory_budget = 0;
  Cache cache = Cache::keep;
  // Where owned memory comes from; it must outlive the call, of a stream the Stream. Null: from the system, and each
  // page of 2 MiB goes back to it with the last Array on it.
  Arena* arena = nullptr;
  // Called by execute()'s or Stream::next()'s own thread now and then (next() also while it waits), and at the end,
  // with the bytes of results that are there (on devices: that are being copied there; at the end they are) and that
  // there will be; false ends the work with Errc::cancelled. Must not
  // throw.
  std::function<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
  // Called for every byte of every result once, in pieces, as soon as they are there and still in a processor's cache:
  // the number of the item in the order of add(), where the piece begins in the result, and the piece (C order,
  // whatever the destination's strides). Several threads call it at once; it must not throw.
  std::function<void(std::size_t item, std::uint64_t offset, std::span<const std::byte> bytes)> on_chunk = nullptr;
  // Of destinations on a device. Copies begin after what this stream (a CUstream) was given before the call: an
  // allocator may have handed out memory that earlier work still uses. Of the one device that the plan has destinations
  // on, else invalid_argument. Null: the default stream of each.
  void* device_stream = nullptr;
  // The library of the CUDA driver, opened when a plan has a destination on a device; null: libcuda.so.1.
  const char* cuda_driver = nullptr;
};

// What a plan did.
struct ReadReport {
  std::uint64_t bytes = 0;           // of the results
  std::uint64_t bytes_buffered = 0;  // read through the page cache, or from a Source of the caller's
  std::uint64_t bytes_direct = 0;    // read past the page cache, in whole blocks
  std::uint64_t bytes_mapped = 0;    // copied from memory that a Source gave
  std::uint64_t bytes_device = 0;    // copied to devices
  std::uint64_t pinned_bytes = 0;    // of page-locked memory that they went through
  std::uint64_t reads = 0;           // calls that read
  std::uint64_t page_faults = 0;     // of the threads that read: near bytes / 2 MiB where memory is in huge pages
  unsigned threads = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of the threads that read
  // What was wished for and could not be had, a sentence each, the file named: huge pages, reads past the cache.
  std::vector<std::string> fallbacks = {};
};

struct ReadResult {
  // In the order of add(), at multiples of 64 bytes. Of a Destination: over its bytes, which it does not keep alive,
  // MemoryKind::borrowed; of one with strides or on a device: no bytes.
  std::vector<Array> arrays;
  ReadReport report;
};

class Stream;

// What to read, and where to. Plans are reusable; const calls from any thread. Keeps its tensors' files open.
class ReadPlan {
 public:
  SAFETENSORS_API ReadPlan() noexcept;
  SAFETENSORS_API ReadPlan(ReadPlan&&) noexcept;
  SAFETENSORS_API ReadPlan& operator=(ReadPlan&&) noexcept;
  SAFETENSORS_API ~ReadPlan();

  // Errors: buffer_size (of the destination), invalid_argument (strides, devices), dtype_mismatch (cast),
  // out_of_memory, Slice::resolve's; the plan is then as it was.
  SAFETENSORS_API Status add(const Tensor& tensor, const Destination& destination = {},
                             const AddOptions& options = {}) noexcept;
  SAFETENSORS_API Status add(const Tensor& tensor, const Slice& slice, const Destination& destination = {},
                             const AddOptions& options = {}) noexcept;

  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  // Of all results, in bytes.
  [[nodiscard]] SAFETENSORS_API std::uint64_t nbytes() const noexcept;

  // Reads everything that was added, in the order of the files. Never maps. Of slices, runs of 64 KiB and more are read
  // exactly, shorter ones as Tensor::read_into does; small tensors that lie near each other together. The first error
  // stops all threads before it is returned; what was in the destinations is then lost. Errors: out_of_memory,
  // read_failed, file_truncated (tensor, path and offset are named), cancelled; of a file that a Checkpoint has to open
  // again file_changed, open_failed (tensor and path are named); of devices unsupported (no driver), invalid_argument
  // (no such device), device_failed.
  [[nodiscard]] SAFETENSORS_API Result<ReadResult> execute(const ReadOptions& options = {}) const noexcept;

  // Reads in the background and hands each item out when it is complete. Begun in the order of add().
  // Errors: out_of_memory, and of devices as execute().
  [[nodiscard]] SAFETENSORS_API Result<Stream> stream(const ReadOptions& options = {}) const noexcept;

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

struct StreamItem {
  std::size_t index = 0;  // of the item, in the order of add()
  Array array;            // as ReadResult::arrays; the caller's alone
};

// The items of a plan in the order in which they become complete. Its threads wait while memory_budget bytes are
// read, being read, or not yet taken. The plan may be changed or destroyed meanwhile. One thread at a time calls
// next(). Not to be used in a forked child, where it may only be destroyed.
class Stream {
 public:
  SAFETENSORS_API Stream(Stream&&) noexcept;
  SAFETENSORS_API Stream& operator=(Stream&&) noexcept;
  // Stops the threads and waits for them, for as long as the reads under way take. In a forked child, which does not
  // have them, what it holds is left alone.
  SAFETENSORS_API ~Stream();

  // The next complete item, waited for; nullopt after the last. After an error, which stops all reading, every call
  // returns it. Errors: as ReadPlan::execute.
  [[nodiscard]] SAFETENSORS_API Result<std::optional<StreamItem>> next() noexcept;

  // Stops reading; a next() that waits and every later one return Errc::cancelled. From any thread.
  SAFETENSORS_API void cancel() noexcept;

  // Of what has been read until now.
  [[nodiscard]] SAFETENSORS_API Result<ReadReport> report() const noexcept;

 private:
  friend class ReadPlan;
  struct State;
  struct Delete {
    void operator()(State* state) const noexcept;
  };
  using Owner = std::unique_ptr<State, Delete>;
  explicit Stream(Owner state) noexcept;
  Owner state_;
};

}  // namespace v0
}  // namespace safetensors
