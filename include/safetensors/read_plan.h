/// @file
/// Reads many tensors and slices, from one or several files, with several threads and within a limit of memory.
#pragma once

#include <safetensors/array.h>
#include <safetensors/callback.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/slice.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The destination of a result: memory of the caller or memory of a device. By default, the result gets new memory.
struct Destination {
  /// Memory of the caller. Two destinations of a plan must not overlap. execute() and stream() check this for memory in
  /// C order and for memory of devices, but not for `strides`. The size of the memory must be exactly the size of the
  /// result. With `strides`, the memory must reach at least to the end of the last element. It must stay valid until
  /// the read is over.
  Span<std::byte> bytes = {};
  /// Distance between neighbouring elements in bytes, one value per dimension of the result. Empty: C order. Two
  /// elements must not share a byte. ReadPlan::add() copies the values.
  Span<const std::uint64_t> strides = {};
  /// The ordinal of the CUDA device whose memory `bytes` is, or -1 for memory of the host. The data goes to a device
  /// through pinned memory. The copy is complete when execute() returns, or when a Stream returns the item. Such a
  /// destination has no strides.
  int device = -1;
};

/// Modes in which reads use the page cache of the system.
enum class Cache : std::uint8_t {
  /// Works as `fill` if the files and the results together fit into half of the memory of the machine, or of the limit
  /// of the control group. Otherwise works as `keep`. Files whose data is in the cache already do not count. All other
  /// files count with their whole size. So the next process that reads the files finds them in the cache, unless they
  /// are too large for it. The decision is made once, when the plan begins.
  automatic,
  /// Read cached data from the cache, and all other data directly from the device, so that the cache stays as it is.
  /// Reads of less than 64 KiB, from a network, and from a file system without direct reads go through the cache.
  keep,
  /// Read all data through the cache, and keep it there. Use this for files that you will read again soon.
  fill,
};

/// Options of ReadPlan::execute() and ReadPlan::stream(). Every member has a default. 0 means that the library chooses.
struct ReadOptions {
  /// Number of reader threads. execute() uses the calling thread as one of them.
  /// 0: one per usable processor (at most 16). More if reads wait: 16 for a network, 8 for a device, and two per
  /// processor (at most 8) if they fill the page cache.
  /// A plan with little work, or with a small memory_limit, uses fewer threads.
  unsigned threads = 0;

  /// Limit of the memory of the host, in bytes. It covers:
  /// - the bytes that are being read or converted;
  /// - pinned memory for destinations on devices: up to half of the limit, but at least 2 MiB per device;
  /// - for a Stream, the results that wait for next(), except those on devices. If an item is larger than the limit
  ///   for results, a Stream reads this item alone.
  ///
  /// The limit does not cover the results of execute() and those that next() has returned. It does not cover up to
  /// 4 MiB per thread for gathering short pieces of slices and for unaligned direct I/O.
  ///
  /// 0: for execute(), 2 MiB per thread (16 MiB on network file systems), and 32 MiB of pinned memory per device (128
  /// MiB for files on a network). For stream(), 256 MiB.
  std::uint64_t memory_limit = 0;

  /// Mode in which the reads use the page cache.
  Cache cache = Cache::automatic;

  /// Called with the number of bytes completed and the total, from time to time and once at the end.
  /// Runs in the thread that calls execute() or Stream::next(). next() also calls it while it waits. Return false to
  /// cancel (Errc::cancelled). Must not throw. Copies to a device may still be in flight until the last call.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;

  /// Called once, after all results have memory and before execute() waits for their bytes. `arrays` has all results,
  /// in the order of add(). Use it to make objects over the arrays while other threads already read.
  ///
  /// Shapes, dtypes and addresses are final. The bytes are undefined until execute() returns, so do not read or write
  /// them. If execute() fails, they stay undefined. `arrays` is valid during the call. A copy of an Array keeps its
  /// memory alive, as always.
  ///
  /// Runs in the thread that calls execute(). If that is the only reader thread, reading begins after the call. Return
  /// false to cancel (Errc::cancelled). Must not throw. Only for execute(): a Stream ignores it.
  Callback<bool(Span<const Array> arrays)> on_reserved = nullptr;

  /// A CUDA stream (CUstream) for destinations on a device. Copies begin after the work that this stream received
  /// before the call, because earlier work may still use the memory of a destination. All destinations on devices must
  /// then be on one device, the one of this stream. Otherwise the error is invalid_argument. Null: the default stream
  /// of each device.
  void* device_stream = nullptr;
};

/// The report on the work of a plan. It helps to find out why a load is slow.
///
/// `bytes_buffered` and `bytes_direct` are the bytes that the system or the Source returned. They include gaps that are
/// read with the pieces of a slice or with small tensors, the rest of blocks, and the bytes of a read that failed
/// later. Their sum may be larger than `bytes`. They include neither the read-ahead of the system nor probes of the
/// page cache. A map needs no reads: `bytes_mapped` counts only the bytes that were copied, without the gaps between
/// them.
struct ReadReport {
  std::uint64_t bytes = 0;           ///< bytes of the results
  std::uint64_t bytes_buffered = 0;  ///< bytes read through the page cache, or from a Source of the caller
  std::uint64_t bytes_direct = 0;    ///< bytes read directly from the device, in whole blocks
  std::uint64_t bytes_mapped = 0;    ///< bytes copied from memory that a Source provided, or from a map
  std::uint64_t bytes_device = 0;    ///< bytes copied to devices
  std::uint64_t pinned_bytes = 0;    ///< size of the pinned memory for these copies, in bytes
  std::uint64_t reads = 0;           ///< number of calls that read
  unsigned threads = 0;              ///< number of reader threads
  Cache cache = Cache::keep;         ///< the mode that the plan used, never Cache::automatic
  /// Files for which direct reads are unavailable: a sentence for each.
  std::vector<std::string> fallbacks = {};
};

namespace detail {
struct PlanNames;
}

/// The results of ReadPlan::execute() and read_packed().
struct ReadResult {
  /// The arrays, in the order of add(). New memory is aligned to 64 bytes.
  ///
  /// For an item with a Destination, the Array is a view of the memory of the caller (MemoryKind::borrowed). It does
  /// not keep that memory alive. For a destination with strides or on a device, the Array has no bytes.
  std::vector<Array> arrays;
  ReadReport report;  ///< bytes, times and fallbacks of the plan
  Array memory = {};  ///< after read_packed(): the buffer that all arrays share, dtype U8; else empty

  /// Returns the array of the tensor with this name, or nullptr. If several items have this name, returns the first.
  /// The pointer is valid until `arrays` changes. `arrays` must still have the order that execute() returned.
  [[nodiscard]] SAFETENSORS_API const Array* find(std::string_view name) const& noexcept;
  detail::GiveTheObjectANameFirst find(std::string_view name) const&& = delete;
  /// Returns the array of the tensor with this name. Throws Exception if the plan read no such tensor.
  [[nodiscard]] const Array& operator[](std::string_view name) const& {
    if (const Array* array = find(name)) return *array;
    detail::throw_error(
        {Errc::not_found, 0, Error::kNoOffset, {}, "the plan read no tensor `" + printable(name) + "`"});
  }
  detail::GiveTheObjectANameFirst operator[](std::string_view name) const&& = delete;

  std::shared_ptr<const detail::PlanNames> names = nullptr;  ///< for find()
};

class Stream;

/// A list of tensors and slices to read, and of their destinations.
///
/// You may execute a plan several times. It keeps the files of its tensors open. Call const functions from any thread.
class ReadPlan {
 public:
  /// Makes an empty plan.
  ReadPlan() noexcept = default;
  /// @{
  /// Moves the items.
  ReadPlan(ReadPlan&&) noexcept = default;
  ReadPlan& operator=(ReadPlan&&) noexcept = default;
  /// @}

  /// Adds a tensor, or a slice of it, as the next item. On error, the plan does not change.
  ///
  /// `cast` is the dtype of the result. nullopt: the dtype of the tensor.
  /// - Floats: casts are possible between F64, F32, F16, BF16 and the F8 dtypes. F8_E8M0 can be cast from, but not cast
  ///   to. Values are rounded once, to the nearest, ties to even. A value that is too large becomes an infinity. In
  ///   F8_E4M3 it becomes the largest number, and in the FNUZ dtypes NaN.
  /// - Integers: casts are possible between I8, I16, I32, I64, U8, U16, U32 and U64. Every value is checked, and
  ///   a cast never changes a value. A value outside the range of the new dtype is the error value_out_of_range.
  /// - There are no casts between floats and integers.
  ///
  /// Errors: buffer_size (the size of the destination is wrong), invalid_argument (strides or device), dtype_mismatch
  /// (this cast is not possible), out_of_memory, and those of Slice::resolve().
  SAFETENSORS_API Status add(const Tensor& tensor, const Slice& slice = {}, const Destination& destination = {},
                             std::optional<Dtype> cast = std::nullopt) noexcept;

  /// Returns the number of items.
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  /// Returns the size of all results in bytes.
  [[nodiscard]] SAFETENSORS_API std::uint64_t nbytes() const noexcept;

  /// Reads all items and waits for them.
  ///
  /// Files are read in the order in which the plan first names them, and each file by offset. In slices, pieces of 64
  /// KiB and more are read exactly, and shorter pieces as in Tensor::read_into(). On a network file system, gaps of up
  /// to 64 KiB between shorter pieces are read, too. If the bytes are in the page cache, shorter pieces may be copied
  /// from a map that raises no SIGBUS, unless the access of the file is Access::read. During this copy, which takes
  /// milliseconds, other programs that open the file for writing have to wait. Small tensors that are close to each
  /// other are read together. The first error stops all threads before the call returns. The contents of the
  /// destinations are then undefined.
  ///
  /// Errors:
  /// - out_of_memory, cancelled;
  /// - overlapping_destination: two destinations overlap; the error names both tensors, and nothing was read;
  /// - read_failed, file_truncated: the error names the tensor, the path and the offset;
  /// - value_out_of_range: an integer does not fit into the dtype of its cast. The error names the tensor, the position
  ///   of the element in the tensor, its value, and the path and the offset of the element. If there are several such
  ///   elements, it names one of them;
  /// - file_changed, open_failed: for a file that a Checkpoint opens again; the error names the tensor and the path;
  /// - unsupported (no driver), invalid_argument (no such device), device_failed: for destinations on devices.
  [[nodiscard]] SAFETENSORS_API Result<ReadResult> execute(const ReadOptions& options = {}) const noexcept;

  /// Starts to read the items in the background, in the order of add(). Stream::next() returns each item when it is
  /// complete.
  /// Errors: out_of_memory, overlapping_destination, and the errors of execute() for devices.
  [[nodiscard]] SAFETENSORS_API Result<Stream> stream(const ReadOptions& options = {}) const noexcept;

 private:
  friend class Stream;
  friend SAFETENSORS_API Result<ReadResult> read_packed(const ReadPlan&, std::uint64_t, const ReadOptions&) noexcept;
  struct State;
  std::shared_ptr<State> state_;
};

/// Reads all items of a plan into one new buffer, one behind the other in the order of add(). This is what an engine
/// does with a model: it owns one block of memory and knows where each weight begins:
/// @code
/// ReadPlan plan;
/// for (const Tensor& tensor : model) plan.add(tensor).value();
/// const ReadResult weights = read_packed(plan, 256).value();
/// const std::byte* block = weights.memory.bytes().data();
/// const std::size_t offset = weights["w"].bytes().data() - block;
/// @endcode
///
/// The buffer is in huge pages. It is much faster to fill than memory from malloc(), because the system provides 2 MiB
/// per page fault instead of 4 KiB. Each array and the buffer itself keep all of it alive. Each array begins at a
/// multiple of `alignment`, a power of two from 1 to 4096. The bytes between two arrays are 0.
///
/// As in every plan, several items may have one name: slices of one tensor, or tensors of several files. All of them
/// are in the buffer, and ReadResult::find() returns the first.
///
/// For memory of your own, give each item a Destination, and call ReadPlan::execute(). The options work as there. The
/// arrays that ReadOptions::on_reserved gets do not keep the buffer alive.
/// Errors: invalid_argument (the alignment, or an item has a Destination), size_overflow, and those of
/// ReadPlan::execute().
[[nodiscard]] SAFETENSORS_API Result<ReadResult> read_packed(const ReadPlan& plan, std::uint64_t alignment = 64,
                                                             const ReadOptions& options = {}) noexcept;

/// A complete item of a Stream.
struct StreamItem {
  std::size_t index = 0;  ///< index of the item, in the order of add()
  Array array;            ///< as in ReadResult::arrays; the Stream keeps no copy
};

/// Reads a plan in the background and returns its items in the order in which they become complete.
///
/// Its threads wait while the memory_limit is full of results that wait for next(). You may change or destroy the plan
/// in the meantime. Only one thread at a time may call next(). In a forked child, you may only destroy the Stream.
class Stream {
 public:
  /// @{
  /// Moves the work and its threads.
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;
  /// @}
  /// Stops the threads and waits for them. This takes as long as the reads that have already started. A forked child
  /// does not have these threads; there, the resources of the Stream are not released.
  ~Stream() = default;

  /// Waits for the next complete item and returns it. Returns nullopt after the last item.
  ///
  /// An error stops all reading. next() first returns the items that were complete before. Then it returns the error,
  /// and every later call returns the same error.
  /// Errors: those of ReadPlan::execute().
  [[nodiscard]] SAFETENSORS_API Result<std::optional<StreamItem>> next() noexcept;

  /// Waits until next() can return without waiting: with an item, with an error, or after the last item. Returns false
  /// if that takes longer than this number of milliseconds. 0 or less does not wait. Takes no item and does not call
  /// ReadOptions::progress. Call it from any thread.
  [[nodiscard]] SAFETENSORS_API bool wait_for(std::int64_t milliseconds) const noexcept;

  /// Stops reading. A waiting next() and all later calls of it return Errc::cancelled. Call it from any thread.
  SAFETENSORS_API void cancel() noexcept;

  /// Returns a report on the bytes read until now. Call it from any thread. Error: out_of_memory.
  [[nodiscard]] SAFETENSORS_API Result<ReadReport> report() const noexcept;

 private:
  friend class ReadPlan;
  struct State;
  explicit Stream(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  // Only this object owns it. A shared_ptr needs no complete State to destroy it.
  std::shared_ptr<State> state_;
};

}  // namespace v0
}  // namespace safetensors
