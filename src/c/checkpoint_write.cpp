// Models of several files in C: their layout, the writer, and what a checkpoint knows about its index.
#include <vector>

#include "c/write.h"

namespace {
using safetensors::CheckpointLayout;
using safetensors::CheckpointLayoutOptions;
using safetensors::CheckpointTensor;
using safetensors::CheckpointWriteOptions;
using safetensors::CheckpointWriter;
using safetensors::Errc;
using safetensors::NamedTensor;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

constexpr std::size_t kCheckpointLayoutOptionsSize =
    offsetof(safetensors_checkpoint_layout_options, reserved) + sizeof(uint32_t);
constexpr std::size_t kCheckpointWriteOptionsSize =
    offsetof(safetensors_checkpoint_write_options, keep_old_files) + sizeof(uint32_t);

Result<CheckpointTensor> planned_tensor_of(const safetensors_layout_tensor& given) {
  auto name = text_of(given.name, given.name_length, "name");
  if (!name) return std::move(name).error();
  auto dtype = dtype_of(given.dtype);
  if (!dtype) return std::move(dtype).error();
  auto shape = list_of(given.shape, given.rank, "shape");
  if (!shape) return std::move(shape).error();
  CheckpointTensor tensor{.name = *name, .dtype = *dtype, .shape = *shape, .storage = given.storage};
  if (given.has_storage_bytes != 0) tensor.storage_bytes = given.storage_bytes;
  return tensor;
}

Result<std::vector<CheckpointTensor>> planned_tensors_of(const safetensors_layout_tensor* tensors, std::size_t count) {
  auto given = list_of(tensors, count, "tensors");
  if (!given) return std::move(given).error();
  std::vector<CheckpointTensor> result;
  result.reserve(count);
  for (const safetensors_layout_tensor& each : *given) {
    auto tensor = planned_tensor_of(each);
    if (!tensor) {
      safetensors::Error error = std::move(tensor).error();
      error.message = "tensor " + std::to_string(result.size()) + ": " + error.message;
      return error;
    }
    result.push_back(*tensor);
  }
  return result;
}

// The texts of the result are those of the caller.
Result<CheckpointLayoutOptions> layout_of_files(const safetensors_checkpoint_layout_options* given) {
  auto options = options_of(given, kCheckpointLayoutOptionsSize);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  auto metadata = metadata_of(options->metadata, options->metadata_count);
  if (!metadata) return std::move(metadata).error();
  auto index_metadata = text_of(options->index_metadata, options->index_metadata_length, "index_metadata");
  if (!index_metadata) return std::move(index_metadata).error();
  CheckpointLayoutOptions layout;
  if (options->max_shard_size != 0) layout.max_shard_size = options->max_shard_size;
  if (options->stem) layout.stem = options->stem;
  if (*metadata) layout.metadata = **std::move(metadata);
  layout.index_metadata = *index_metadata;
  layout.layout = {.data_alignment = options->data_alignment, .metadata_slack = options->metadata_slack};
  return layout;
}

Result<CheckpointWriteOptions> checkpoint_write_options_of(const safetensors_checkpoint_write_options* given) {
  auto options = options_of(given, kCheckpointWriteOptionsSize);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  auto write = write_options_of(options->write);
  if (!write) return std::move(write).error();
  return CheckpointWriteOptions{.write = *std::move(write),
                                .new_folder = options->new_folder != 0,
                                .remove_old_files = options->keep_old_files == 0,
                                .shared = options->shared != 0};
}

Status hand_out_layout(const CheckpointLayout& layout, safetensors_checkpoint_layout** out) {
  *out = new safetensors_checkpoint_layout{layout, layout.index_name()};
  return {};
}

Status hand_out_text(const Result<std::string>& text, safetensors_buffer** out) {
  if (!text) return text.error();
  *out = new_buffer(*text);
  return {};
}

// layout: CheckpointLayoutOptions or CheckpointLayout.
template <class Layout>
Status save(const char* folder, const safetensors_tensor_data* tensors, std::size_t count, const Layout& layout,
            const safetensors_checkpoint_write_options* options) {
  auto given = tensors_of(tensors, count);
  if (!given) return std::move(given).error();
  auto write = checkpoint_write_options_of(options);
  if (!write) return std::move(write).error();
  const std::vector<NamedTensor> named(given->begin(), given->end());
  return safetensors::save_checkpoint(folder, named, layout, *write);
}

}  // namespace

extern "C" {

safetensors_status safetensors_checkpoint_layout_create(const safetensors_layout_tensor* tensors, size_t tensor_count,
                                                        const safetensors_checkpoint_layout_options* options,
                                                        safetensors_checkpoint_layout** layout,
                                                        safetensors_error* error) {
  clear(layout);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}}); !status) return status;
    auto planned = planned_tensors_of(tensors, tensor_count);
    if (!planned) return std::move(planned).error();
    auto given = layout_of_files(options);
    if (!given) return std::move(given).error();
    const Result<CheckpointLayout> made = CheckpointLayout::make(*planned, *given);
    return made ? hand_out_layout(*made, layout) : Status(made.error());
  });
}

void safetensors_checkpoint_layout_free(safetensors_checkpoint_layout* layout) {
  delete layout;
}

safetensors_status safetensors_checkpoint_layout_size(const safetensors_checkpoint_layout* layout, uint64_t* file_count,
                                                      uint64_t* total_size, safetensors_error* error) {
  clear(file_count, total_size);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}}); !status) return status;
    if (file_count) *file_count = layout->layout.files().size();
    if (total_size) *total_size = layout->layout.total_size();
    return {};
  });
}

safetensors_status safetensors_checkpoint_layout_file_at(const safetensors_checkpoint_layout* layout, uint64_t index,
                                                         const char** name, safetensors_header** header,
                                                         safetensors_error* error) {
  clear(name, header);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}, {name, "name"}}); !status) return status;
    const auto files = layout->layout.files();
    if (index >= files.size()) return out_of_range("file", index, files.size());
    const safetensors::CheckpointFile& file = files[static_cast<std::size_t>(index)];
    if (header) *header = new safetensors_header{file.header};
    *name = file.name.c_str();
    return {};
  });
}

safetensors_status safetensors_checkpoint_layout_find(const safetensors_checkpoint_layout* layout, const char* name,
                                                      size_t name_length, uint64_t* file, safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}, {file, "file"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    const std::optional<std::size_t> found = layout->layout.file_of(*text);
    if (!found) return make_error(Errc::not_found, "no tensor `" + safetensors::printable(*text) + "` in the layout");
    *file = *found;
    return {};
  });
}

safetensors_status safetensors_checkpoint_layout_index(const safetensors_checkpoint_layout* layout, const char** name,
                                                       const char** text, size_t* length, safetensors_error* error) {
  clear(name, text, length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}, {text, "text"}, {length, "length"}}); !status) return status;
    if (name) *name = layout->index_name.c_str();
    *text = layout->layout.index_text().data();
    *length = layout->layout.index_text().size();
    return {};
  });
}

safetensors_status safetensors_save_checkpoint(const char* folder, const safetensors_tensor_data* tensors,
                                               size_t tensor_count,
                                               const safetensors_checkpoint_layout_options* layout_options,
                                               const safetensors_checkpoint_write_options* options,
                                               safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{folder, "folder"}}); !status) return status;
    auto layout = layout_of_files(layout_options);
    if (!layout) return std::move(layout).error();
    return save(folder, tensors, tensor_count, *layout, options);
  });
}

safetensors_status safetensors_save_checkpoint_with_layout(const char* folder, const safetensors_tensor_data* tensors,
                                                           size_t tensor_count,
                                                           const safetensors_checkpoint_layout* layout,
                                                           const safetensors_checkpoint_write_options* options,
                                                           safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{folder, "folder"}, {layout, "layout"}}); !status) return status;
    return save(folder, tensors, tensor_count, layout->layout, options);
  });
}

safetensors_status safetensors_checkpoint_writer_create(const char* folder, const safetensors_checkpoint_layout* layout,
                                                        const safetensors_checkpoint_write_options* options,
                                                        safetensors_checkpoint_writer** writer,
                                                        safetensors_error* error) {
  clear(writer);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{folder, "folder"}, {layout, "layout"}, {writer, "writer"}}); !status) return status;
    auto write = checkpoint_write_options_of(options);
    if (!write) return std::move(write).error();
    auto result = CheckpointWriter::create(folder, layout->layout, *write);
    if (!result) return std::move(result).error();
    *writer = new safetensors_checkpoint_writer{layout->layout, *std::move(result)};
    return {};
  });
}

safetensors_status safetensors_checkpoint_writer_join(const char* ticket, size_t ticket_length,
                                                      const safetensors_checkpoint_layout* layout,
                                                      const safetensors_checkpoint_write_options* options,
                                                      safetensors_checkpoint_writer** writer,
                                                      safetensors_error* error) {
  clear(writer);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}, {writer, "writer"}}); !status) return status;
    auto text = text_of(ticket, ticket_length, "ticket");
    if (!text) return std::move(text).error();
    auto write = checkpoint_write_options_of(options);
    if (!write) return std::move(write).error();
    auto result = CheckpointWriter::join(*text, layout->layout, *write);
    if (!result) return std::move(result).error();
    *writer = new safetensors_checkpoint_writer{layout->layout, *std::move(result)};
    return {};
  });
}

safetensors_status safetensors_checkpoint_writer_ticket(const safetensors_checkpoint_writer* writer,
                                                        safetensors_buffer** ticket, safetensors_error* error) {
  clear(ticket);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}, {ticket, "ticket"}}); !status) return status;
    return hand_out_text(writer->writer.ticket(), ticket);
  });
}

safetensors_status safetensors_checkpoint_writer_receipt(safetensors_checkpoint_writer* writer,
                                                         safetensors_buffer** receipt, safetensors_error* error) {
  clear(receipt);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}, {receipt, "receipt"}}); !status) return status;
    return hand_out_text(writer->writer.receipt(), receipt);
  });
}

safetensors_status safetensors_checkpoint_writer_accept(safetensors_checkpoint_writer* writer, const char* receipt,
                                                        size_t receipt_length, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}}); !status) return status;
    auto text = text_of(receipt, receipt_length, "receipt");
    if (!text) return std::move(text).error();
    return writer->writer.accept(*text);
  });
}

safetensors_status safetensors_checkpoint_writer_write(safetensors_checkpoint_writer* writer, const char* name,
                                                       size_t name_length, uint64_t offset, const void* data,
                                                       size_t size, safetensors_error* error) {
  return write_bytes(&CheckpointWriter::write, writer, name, name_length, offset, data, size, error);
}

safetensors_status safetensors_checkpoint_writer_write_rows(safetensors_checkpoint_writer* writer, const char* name,
                                                            size_t name_length, uint64_t first_row, const void* data,
                                                            size_t size, safetensors_error* error) {
  return write_bytes(&CheckpointWriter::write_rows, writer, name, name_length, first_row, data, size, error);
}

safetensors_status safetensors_checkpoint_writer_write_slice(safetensors_checkpoint_writer* writer, const char* name,
                                                             size_t name_length, const safetensors_slice* slice,
                                                             const void* data, size_t size, safetensors_error* error) {
  return write_slice_bytes(writer, name, name_length, slice, data, size, error);
}

safetensors_status safetensors_checkpoint_writer_copy(safetensors_checkpoint_writer* writer, const char* name,
                                                      size_t name_length, const safetensors_tensor* tensor,
                                                      safetensors_error* error) {
  return copy_tensor(writer, name, name_length, tensor, error);
}

safetensors_status safetensors_checkpoint_writer_commit(safetensors_checkpoint_writer* writer,
                                                        safetensors_error* error) {
  return commit_writer(writer, error);
}

safetensors_status safetensors_checkpoint_writer_abort(safetensors_checkpoint_writer* writer,
                                                       safetensors_error* error) {
  return abort_writer(writer, error);
}

safetensors_status safetensors_checkpoint_writer_layout(const safetensors_checkpoint_writer* writer,
                                                        safetensors_checkpoint_layout** layout,
                                                        safetensors_error* error) {
  clear(layout);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}, {layout, "layout"}}); !status) return status;
    return hand_out_layout(writer->layout, layout);
  });
}

void safetensors_checkpoint_writer_free(safetensors_checkpoint_writer* writer) {
  delete writer;
}

safetensors_status safetensors_checkpoint_index_metadata(const safetensors_checkpoint* checkpoint, const char** text,
                                                         size_t* length, safetensors_error* error) {
  clear(text, length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {text, "text"}, {length, "length"}}); !status)
      return status;
    const std::string_view found = checkpoint->checkpoint.index_metadata();
    *text = found.empty() ? "" : found.data();
    *length = found.size();
    return {};
  });
}

safetensors_status safetensors_checkpoint_index_total_size(const safetensors_checkpoint* checkpoint,
                                                           uint64_t* total_size, safetensors_error* error) {
  clear(total_size);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {total_size, "total_size"}}); !status) return status;
    const std::optional<std::uint64_t> found = checkpoint->checkpoint.index_total_size();
    if (!found) return make_error(Errc::not_found, "the checkpoint has no index with a valid `total_size`");
    *total_size = *found;
    return {};
  });
}

}  // extern "C"
