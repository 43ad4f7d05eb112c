// Many tensors and slices into memory, read by several threads.
#pragma once

#include <safetensors/array.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/slice.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace safetensors {
inline namespace v0 {

// Where a result goes: the caller's memory, exactly as large as the result. Without bytes: owned memory.
struct Destination {
  std::span<std::byte> bytes = {};
};

struct ReadOptions {
  unsigned threads = 0;  // the caller's one of them; 0: one for each processor the process may use, at most 16
};

struct ReadResult {
  // In the order of add(). Of a Destination: over its bytes, which it does not keep alive, MemoryKind::borrowed.
  std::vector<Array> arrays;
};

// What to read, and where to. Plans are reusable; const calls from any thread. Keeps its tensors' files open.
class ReadPlan {
 public:
  SAFETENSORS_API ReadPlan() noexcept;
  SAFETENSORS_API ReadPlan(ReadPlan&&) noexcept;
  SAFETENSORS_API ReadPlan& operator=(ReadPlan&&) noexcept;
  SAFETENSORS_API ~ReadPlan();

  // Errors: buffer_size, out_of_memory, Slice::resolve's; the plan is then as it was.
  SAFETENSORS_API Status add(const Tensor& tensor, const Destination& destination = {}) noexcept;
  SAFETENSORS_API Status add(const Tensor& tensor, const Slice& slice, const Destination& destination = {}) noexcept;

  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;

  // Reads everything that was added. Never maps. The first error stops all threads before it is returned; what was
  // in the destinations is then lost. Errors: out_of_memory, read_failed, file_truncated; tensor, path and offset are
  // named.
  [[nodiscard]] SAFETENSORS_API Result<ReadResult> execute(const ReadOptions& options = {}) const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace safetensors
