// Checkpoints in C: many files opened as one set of tensors.
#include <string>
#include <vector>

#include "c/support.h"

namespace {
using safetensors::Checkpoint;
using safetensors::CheckpointOptions;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

constexpr std::size_t kCheckpointOptionsSize = offsetof(safetensors_checkpoint_options, accept) + sizeof(uint32_t);

Result<CheckpointOptions> checkpoint_options_of(const safetensors_checkpoint_options* given) {
  auto options = options_of(given, kCheckpointOptionsSize);
  if (!options) return std::move(options).error();
  auto open = open_options_of(*options);
  if (!open) return std::move(open).error();
  return CheckpointOptions{.open = *open, .threads = options->threads};
}

Result<std::vector<std::string>> paths_of(const char* const* paths, std::size_t count) {
  auto given = list_of(paths, count, "paths");
  if (!given) return std::move(given).error();
  std::vector<std::string> result;
  result.reserve(count);
  for (const char* path : *given) {
    if (!path) return invalid_argument("path " + std::to_string(result.size()) + " is NULL");
    result.emplace_back(path);
  }
  return result;
}
}  // namespace

extern "C" {

safetensors_status safetensors_checkpoint_open(const char* path, const safetensors_checkpoint_options* options,
                                               safetensors_checkpoint** checkpoint, safetensors_error* error) {
  clear(checkpoint);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}, {checkpoint, "checkpoint"}}); !status) return status;
    auto open = checkpoint_options_of(options);
    if (!open) return std::move(open).error();
    return hand_out(Checkpoint::open(std::string_view(path), *open), checkpoint);
  });
}

safetensors_status safetensors_checkpoint_open_paths(const char* const* paths, size_t count,
                                                     const safetensors_checkpoint_options* options,
                                                     safetensors_checkpoint** checkpoint, safetensors_error* error) {
  clear(checkpoint);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}}); !status) return status;
    auto given = paths_of(paths, count);
    if (!given) return std::move(given).error();
    auto open = checkpoint_options_of(options);
    if (!open) return std::move(open).error();
    return hand_out(Checkpoint::open(std::span<const std::string>(*given), *open), checkpoint);
  });
}

void safetensors_checkpoint_free(safetensors_checkpoint* checkpoint) {
  delete checkpoint;
}

safetensors_status safetensors_checkpoint_size(const safetensors_checkpoint* checkpoint, uint64_t* tensor_count,
                                               uint64_t* file_count, safetensors_error* error) {
  clear(tensor_count, file_count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}}); !status) return status;
    if (tensor_count) *tensor_count = checkpoint->checkpoint.size();
    if (file_count) *file_count = checkpoint->checkpoint.files().size();
    return {};
  });
}

safetensors_status safetensors_checkpoint_tensor_at(const safetensors_checkpoint* checkpoint, uint64_t index,
                                                    safetensors_tensor** tensor, safetensors_error* error) {
  clear(tensor);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {tensor, "tensor"}}); !status) return status;
    const safetensors::Tensors tensors = checkpoint->checkpoint.tensors();
    if (index >= tensors.size()) return out_of_range("tensor", index, tensors.size());
    *tensor = new safetensors_tensor{tensors[static_cast<std::size_t>(index)]};
    return {};
  });
}

safetensors_status safetensors_checkpoint_tensor(const safetensors_checkpoint* checkpoint, const char* name,
                                                 size_t name_length, safetensors_tensor** tensor,
                                                 safetensors_error* error) {
  clear(tensor);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {tensor, "tensor"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    return hand_out(checkpoint->checkpoint.tensor(*text), tensor);
  });
}

safetensors_status safetensors_checkpoint_contains(const safetensors_checkpoint* checkpoint, const char* name,
                                                   size_t name_length, int32_t* contained, safetensors_error* error) {
  clear(contained);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {contained, "contained"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    *contained = checkpoint->checkpoint.contains(*text) ? 1 : 0;
    return {};
  });
}

safetensors_status safetensors_checkpoint_file_at(const safetensors_checkpoint* checkpoint, uint64_t index,
                                                  safetensors_file** file, safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {file, "file"}}); !status) return status;
    const std::span<const safetensors::File> files = checkpoint->checkpoint.files();
    if (index >= files.size()) return out_of_range("file", index, files.size());
    *file = new safetensors_file{files[static_cast<std::size_t>(index)]};
    return {};
  });
}

}  // extern "C"
