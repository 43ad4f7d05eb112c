// Writes tensors that are all known when the call begins: save() and Rewrite use it.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <span>
#include <vector>

#include "format/dtype/cast_losses.h"
#include "write/tensor_file.h"

namespace safetensors::write {

// A tensor to write. If `from` is null, `bytes` has the elements. Else `from` has them.
struct Input {
  explicit Input(const TensorData& tensor) : bytes(tensor.bytes) {}
  explicit Input(const NamedTensor& tensor) : bytes(tensor.bytes()), from(tensor.tensor()) {}
  Input(const Tensor& tensor, const TensorInfo& of_file) : from(&tensor), planned(&of_file) {}

  std::span<const std::byte> bytes;
  const Tensor* from = nullptr;          // of another file
  format::CastLosses* losses = nullptr;  // not null: the elements are cast, and what that loses is added here
  const TensorInfo* planned = nullptr;   // the tensor in the header of the new file
};

// Writes all files of a session, and commits it. inputs: for each file, all of its tensors, with `planned`, in any
// order. Takes them. options: those of the session.
//
// Uses at most io::kDirectThreads threads, and only the calling thread if a source must not be read by several: two
// Files can share that source, and each has a lock of its own. Memory: that of the bounce buffers of the session, which
// is 8 MiB, and per thread 2 MiB for small tensors or for casts. Only the calling thread may report progress. It also
// does so while it waits for the other threads. Errors: those of WriteSession::commit(), Writer::write() and
// Writer::copy(); value_out_of_range.
[[nodiscard]] Status write_inputs(WriteSession& session, std::span<std::vector<Input>> inputs,
                                  const WriteOptions& options);

}  // namespace safetensors::write
