// Writing in C: files whole or in pieces, serialized memory, and edits of metadata.
#include "c/write.h"

#include <optional>
#include <vector>

namespace {
using safetensors::Durability;
using safetensors::LayoutOptions;
using safetensors::MetadataPairs;
using safetensors::Result;
using safetensors::Status;
using safetensors::TensorData;
using safetensors::WriteOptions;
using safetensors::Writer;
using namespace safetensors::c;

static_assert(SAFETENSORS_DURABILITY_FULL == static_cast<int>(Durability::full));
static_assert(SAFETENSORS_DURABILITY_FILE == static_cast<int>(Durability::file));
static_assert(SAFETENSORS_DURABILITY_NONE == static_cast<int>(Durability::none));

constexpr std::size_t kWriteOptionsSize = offsetof(safetensors_write_options, in_place_if_no_rename) + sizeof(uint32_t);
constexpr std::size_t kEditOptionsSize = offsetof(safetensors_edit_options, in_place_if_no_rename) + sizeof(uint32_t);

Result<TensorData> tensor_of(const safetensors_tensor_data& given) {
  auto name = text_of(given.name, given.name_length, "name");
  if (!name) return std::move(name).error();
  auto dtype = dtype_of(given.dtype);
  if (!dtype) return std::move(dtype).error();
  auto shape = list_of(given.shape, given.rank, "shape");
  if (!shape) return std::move(shape).error();
  auto bytes = bytes_of(given.data, given.size, "data");
  if (!bytes) return std::move(bytes).error();
  if (Status status = check_reserved(given.reserved); !status) return std::move(status).error();
  return TensorData{.name = *name, .dtype = *dtype, .shape = *shape, .bytes = *bytes};
}

// The result is empty if the caller gave no function.
template <class Options>
safetensors::Callback<bool(std::uint64_t, std::uint64_t)> progress_of(const Options& options) {
  if (!options.progress) return nullptr;
  return [progress = options.progress, user = options.user](std::uint64_t completed, std::uint64_t total) {
    return progress(user, completed, total) != 0;
  };
}

}  // namespace

namespace safetensors::c {

Result<std::vector<TensorData>> tensors_of(const safetensors_tensor_data* tensors, std::size_t count) {
  auto given = list_of(tensors, count, "tensors");
  if (!given) return std::move(given).error();
  std::vector<TensorData> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto tensor = tensor_of((*given)[i]);
    if (!tensor) {
      safetensors::Error error = std::move(tensor).error();
      error.message = "tensor " + std::to_string(i) + ": " + error.message;
      return error;
    }
    result.push_back(*tensor);
  }
  return result;
}

Result<std::optional<MetadataPairs>> metadata_of(const safetensors_metadata* metadata, std::size_t count) {
  auto given = list_of(metadata, count, "metadata");
  if (!given) return std::move(given).error();
  if (!metadata) return std::optional<MetadataPairs>();
  MetadataPairs pairs;
  pairs.reserve(count);
  for (const safetensors_metadata& each : *given) {
    auto key = text_of(each.key, each.key_length, "key");
    if (!key) return std::move(key).error();
    auto value = text_of(each.value, each.value_length, "value");
    if (!value) return std::move(value).error();
    pairs.emplace_back(*key, *value);
  }
  return std::optional<MetadataPairs>(std::move(pairs));
}

Result<WriteOptions> write_options_of(const safetensors_write_options* given) {
  auto options = options_of(given, kWriteOptionsSize);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  auto write = write_options_of(options->durability, options->in_place_if_no_rename);
  if (!write) return write;
  write->replace_symlinks = options->replace_symlinks != 0;
  write->progress = progress_of(*options);
  return write;
}

}  // namespace safetensors::c

namespace {

Result<safetensors::EditOptions> edit_options(const safetensors_edit_options* given) {
  auto options = options_of(given, kEditOptionsSize);
  if (!options) return std::move(options).error();
  auto write = write_options_of(options->durability, options->in_place_if_no_rename);
  if (!write) return std::move(write).error();
  write->progress = progress_of(*options);
  return safetensors::EditOptions{
      .in_place = options->in_place != 0,
      .metadata_slack = options->metadata_slack,
      .write = *write,
      .parse = parse_options_of(options->max_header_bytes, options->allow_leading_whitespace)};
}

Result<std::vector<safetensors::MetadataEdit>> edits_of(const safetensors_metadata* edits, std::size_t count) {
  auto given = list_of(edits, count, "edits");
  if (!given) return std::move(given).error();
  std::vector<safetensors::MetadataEdit> result;
  result.reserve(count);
  for (const safetensors_metadata& each : *given) {
    auto key = text_of(each.key, each.key_length, "key");
    if (!key) return std::move(key).error();
    auto value = text_of(each.value, each.value_length, "value");
    if (!value) return std::move(value).error();
    safetensors::MetadataEdit edit{std::string(*key), std::nullopt};
    if (each.value) edit.value = std::string(*value);
    result.push_back(std::move(edit));
  }
  return result;
}

// The arguments that layout, serialize and write_file share. For write_files, the arguments of one file.
struct Content {
  std::vector<TensorData> tensors;
  std::optional<MetadataPairs> metadata;
  LayoutOptions layout;
};

Result<Content> content_of(const safetensors_tensor_data* tensors, std::size_t tensor_count,
                           const safetensors_metadata* metadata, std::size_t metadata_count,
                           const safetensors_layout_options* options) {
  auto given = tensors_of(tensors, tensor_count);
  if (!given) return std::move(given).error();
  auto pairs = metadata_of(metadata, metadata_count);
  if (!pairs) return std::move(pairs).error();
  auto layout = layout_options_of(options);
  if (!layout) return std::move(layout).error();
  return Content{*std::move(given), *std::move(pairs), *layout};
}

Result<std::vector<Content>> contents_of(const safetensors_file_contents* files, std::size_t count,
                                         const safetensors_layout_options* options) {
  auto given = list_of(files, count, "files");
  if (!given) return std::move(given).error();
  std::vector<Content> result;
  result.reserve(count);
  for (const safetensors_file_contents& file : *given) {
    const std::string number = "file " + std::to_string(result.size());
    if (!file.path) return invalid_argument(number + ": argument path is NULL");
    auto content = content_of(file.tensors, file.tensor_count, file.metadata, file.metadata_count, options);
    if (!content) {
      safetensors::Error error = std::move(content).error();
      error.message = number + ": " + error.message;
      return error;
    }
    result.push_back(*std::move(content));
  }
  return result;
}

}  // namespace

extern "C" {

safetensors_status safetensors_layout(const safetensors_tensor_data* tensors, size_t tensor_count,
                                      const safetensors_metadata* metadata, size_t metadata_count,
                                      const safetensors_layout_options* options, safetensors_header** header,
                                      safetensors_error* error) {
  clear(header);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"}}); !status) return status;
    auto content = content_of(tensors, tensor_count, metadata, metadata_count, options);
    if (!content) return std::move(content).error();
    return hand_out(safetensors::layout(content->tensors, content->metadata, content->layout), header);
  });
}

safetensors_status safetensors_serialize(const safetensors_tensor_data* tensors, size_t tensor_count,
                                         const safetensors_metadata* metadata, size_t metadata_count,
                                         const safetensors_layout_options* options, safetensors_buffer** file,
                                         safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}}); !status) return status;
    auto content = content_of(tensors, tensor_count, metadata, metadata_count, options);
    if (!content) return std::move(content).error();
    return hand_out(safetensors::serialize(content->tensors, content->metadata, content->layout), file);
  });
}

safetensors_status safetensors_write_file(const char* path, const safetensors_tensor_data* tensors, size_t tensor_count,
                                          const safetensors_metadata* metadata, size_t metadata_count,
                                          const safetensors_write_options* options,
                                          const safetensors_layout_options* layout_options, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}}); !status) return status;
    auto content = content_of(tensors, tensor_count, metadata, metadata_count, layout_options);
    if (!content) return std::move(content).error();
    auto write = write_options_of(options);
    if (!write) return std::move(write).error();
    return safetensors::save(path, content->tensors, content->metadata, *write, content->layout);
  });
}

safetensors_status safetensors_write_files(const safetensors_file_contents* files, size_t file_count,
                                           const safetensors_write_options* options,
                                           const safetensors_layout_options* layout_options, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    auto contents = contents_of(files, file_count, layout_options);
    if (!contents) return std::move(contents).error();
    auto layout = layout_options_of(layout_options);
    if (!layout) return std::move(layout).error();
    auto write = write_options_of(options);
    if (!write) return std::move(write).error();
    std::vector<safetensors::FileContents> given;
    given.reserve(file_count);
    for (std::size_t i = 0; i < file_count; ++i)
      given.push_back({files[i].path, (*contents)[i].tensors, std::move((*contents)[i].metadata)});
    return safetensors::write_files(given, *write, *layout);
  });
}

safetensors_status safetensors_writer_create(const char* path, const safetensors_header* header,
                                             const safetensors_write_options* options, safetensors_writer** writer,
                                             safetensors_error* error) {
  clear(writer);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}, {header, "header"}, {writer, "writer"}}); !status) return status;
    auto write = write_options_of(options);
    if (!write) return std::move(write).error();
    auto result = safetensors::Writer::create(path, header->header, *write);
    if (!result) return std::move(result).error();
    *writer = new safetensors_writer{header->header, *std::move(result)};
    return {};
  });
}

safetensors_status safetensors_writer_write(safetensors_writer* writer, const char* name, size_t name_length,
                                            uint64_t offset, const void* data, size_t size, safetensors_error* error) {
  return write_bytes(&Writer::write, writer, name, name_length, offset, data, size, error);
}

safetensors_status safetensors_writer_write_rows(safetensors_writer* writer, const char* name, size_t name_length,
                                                 uint64_t first_row, const void* data, size_t size,
                                                 safetensors_error* error) {
  return write_bytes(&Writer::write_rows, writer, name, name_length, first_row, data, size, error);
}

safetensors_status safetensors_writer_write_slice(safetensors_writer* writer, const char* name, size_t name_length,
                                                  const safetensors_slice* slice, const void* data, size_t size,
                                                  safetensors_error* error) {
  return write_slice_bytes(writer, name, name_length, slice, data, size, error);
}

safetensors_status safetensors_writer_copy(safetensors_writer* writer, const char* name, size_t name_length,
                                           const safetensors_tensor* tensor, safetensors_error* error) {
  return copy_tensor(writer, name, name_length, tensor, error);
}

safetensors_status safetensors_writer_commit(safetensors_writer* writer, safetensors_error* error) {
  return commit_writer(writer, error);
}

safetensors_status safetensors_writer_abort(safetensors_writer* writer, safetensors_error* error) {
  return abort_writer(writer, error);
}

safetensors_status safetensors_writer_header(const safetensors_writer* writer, safetensors_header** header,
                                             safetensors_error* error) {
  clear(header);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}, {header, "header"}}); !status) return status;
    *header = new safetensors_header{writer->header};
    return {};
  });
}

void safetensors_writer_free(safetensors_writer* writer) {
  delete writer;
}

safetensors_status safetensors_edit_metadata(const char* path, const safetensors_metadata* edits, size_t edit_count,
                                             const safetensors_edit_options* options, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}}); !status) return status;
    auto changes = edits_of(edits, edit_count);
    if (!changes) return std::move(changes).error();
    auto edit = edit_options(options);
    if (!edit) return std::move(edit).error();
    return safetensors::edit_metadata(path, *changes, *edit);
  });
}

}  // extern "C"
