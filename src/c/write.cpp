// Writing in C: files and models, whole or in pieces, bytes in memory, and edits of metadata.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/edit.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include "c/support.h"

// Exactly one of the two is there.
struct safetensors_writer {
  explicit safetensors_writer(safetensors::Writer created) : file(std::move(created)) {}
  explicit safetensors_writer(safetensors::CheckpointWriter created) : model(std::move(created)) {}
  std::optional<safetensors::Writer> file;
  std::optional<safetensors::CheckpointWriter> model;
};

namespace {
using safetensors::CheckpointLayoutOptions;
using safetensors::CheckpointTensor;
using safetensors::CheckpointWriter;
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

Result<TensorData> tensor_data_of(const safetensors_tensor_data& given, bool with_bytes) {
  auto name = text_of(given.name, given.name_length, "name");
  if (!name) return std::move(name).error();
  auto dtype = dtype_of(given.dtype);
  if (!dtype) return std::move(dtype).error();
  auto shape = list_of(given.shape, given.rank, "shape");
  if (!shape) return std::move(shape).error();
  auto bytes = with_bytes ? bytes_of(given.data, given.size, "data") : bytes_of(nullptr, 0, "data");
  if (!bytes) return std::move(bytes).error();
  if (Status status = check_reserved(given.reserved); !status) return std::move(status).error();
  TensorData data;
  data.name = *name;
  data.dtype = *dtype;
  data.shape = *shape;
  data.bytes = *bytes;
  return data;
}

Result<std::vector<TensorData>> tensors_of(const safetensors_tensor_data* tensors, std::size_t count, bool with_bytes) {
  auto given = list_of(tensors, count, "tensors");
  if (!given) return std::move(given).error();
  std::vector<TensorData> result;
  result.reserve(count);
  for (const safetensors_tensor_data& each : *given) {
    auto tensor = tensor_data_of(each, with_bytes);
    if (!tensor) {
      safetensors::Error error = std::move(tensor).error();
      error.message = "tensor " + std::to_string(result.size()) + ": " + error.message;
      return error;
    }
    result.push_back(*tensor);
  }
  return result;
}

// The options for a file and for a model. Its texts are those of the caller, but for the metadata.
struct Options {
  std::uint64_t max_shard_size = 0;  // 0: a file
  bool edit_in_place = false;
  LayoutOptions layout;
  safetensors::CheckpointLayoutOptions split;
  safetensors::CheckpointWriteOptions write;
};

Status take_metadata(CheckpointLayoutOptions& options, const safetensors_metadata* metadata, std::size_t count) {
  auto given = list_of(metadata, count, "metadata");
  if (!given) return std::move(given).error();
  options.metadata_present = metadata != nullptr;
  for (const safetensors_metadata& each : *given) {
    auto key = text_of(each.key, each.key_length, "key");
    if (!key) return std::move(key).error();
    auto value = text_of(each.value, each.value_length, "value");
    if (!value) return std::move(value).error();
    options.metadata.emplace_back(*key, *value);
  }
  return {};
}

// The metadata for functions that take nullopt for none.
std::optional<MetadataPairs> metadata_of(const CheckpointLayoutOptions& options) {
  if (!options.metadata_present) return std::nullopt;
  return options.metadata;
}

Result<Options> write_options_of(const safetensors_write_options* given) {
  auto options = options_of(given);
  if (!options) return std::move(options).error();
  if (Status status = check_enum("durability", options->durability, SAFETENSORS_DURABILITY_NONE); !status)
    return std::move(status).error();
  Options made;
  if (Status status = take_metadata(made.split, options->metadata, options->metadata_count); !status)
    return std::move(status).error();
  made.max_shard_size = options->max_shard_size;
  made.edit_in_place = options->edit_in_place != 0;
  made.layout.data_alignment = options->data_alignment;
  made.layout.metadata_slack = options->metadata_slack;
  WriteOptions& write = made.write.write;
  write.durability = static_cast<Durability>(options->durability);
  write.in_place_if_no_rename = options->in_place_if_no_rename != 0;
  write.progress = progress_of(options->progress, options->user);
  write.new_file = made.max_shard_size == 0 && options->new_only != 0;
  made.write.new_folder = options->new_only != 0;
  made.write.remove_old_files = options->keep_old_files == 0;
  made.split.max_shard_size = options->max_shard_size;
  if (options->stem) made.split.stem = options->stem;
  made.split.layout = made.layout;
  return made;
}

Result<Writer> create_file(const char* path, const std::vector<TensorData>& tensors, const Options& options) {
  safetensors::HeaderBuilder builder;
  for (const TensorData& each : tensors)
    if (Status status = builder.add(each.name, each.dtype, each.shape); !status) return std::move(status).error();
  if (options.split.metadata_present)
    if (Status status = builder.metadata_present(); !status) return std::move(status).error();
  for (const auto& [key, value] : options.split.metadata)
    if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
  auto header = builder.build(options.layout);
  if (!header) return std::move(header).error();
  return Writer::create(path, *header, options.write.write);
}

Result<CheckpointWriter> create_model(const char* path, const std::vector<TensorData>& tensors,
                                      const Options& options) {
  std::vector<CheckpointTensor> list(tensors.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].name = tensors[i].name;
    list[i].dtype = tensors[i].dtype;
    list[i].shape = tensors[i].shape;
  }
  auto layout = safetensors::CheckpointLayout::make(list, options.split);
  if (!layout) return std::move(layout).error();
  return CheckpointWriter::create(path, *layout, options.write);
}

// Calls a function of the writer in the handle.
template <class Call>
Status with(safetensors_writer* writer, Call&& call) {
  if (Status status = require({{writer, "writer"}}); !status) return status;
  return writer->file ? call(*writer->file) : call(*writer->model);
}

}  // namespace

extern "C" {

safetensors_status safetensors_save(const char* path, const safetensors_tensor_data* tensors, size_t tensor_count,
                                    const safetensors_write_options* options, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}}); !status) return status;
    auto given = tensors_of(tensors, tensor_count, true);
    if (!given) return std::move(given).error();
    auto how = write_options_of(options);
    if (!how) return std::move(how).error();
    if (how->max_shard_size == 0)
      return safetensors::save(path, *given, metadata_of(how->split), how->write.write, how->layout);
    const std::vector<safetensors::NamedTensor> named(given->begin(), given->end());
    return safetensors::save_checkpoint(path, named, how->split, how->write);
  });
}

safetensors_status safetensors_serialize(const safetensors_tensor_data* tensors, size_t tensor_count,
                                         const safetensors_write_options* options, safetensors_array** file,
                                         safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}}); !status) return status;
    auto given = tensors_of(tensors, tensor_count, true);
    if (!given) return std::move(given).error();
    auto how = write_options_of(options);
    if (!how) return std::move(how).error();
    if (how->max_shard_size != 0) return invalid_argument("max_shard_size is not 0, but there is one file");
    auto bytes = safetensors::serialize(*given, metadata_of(how->split), how->layout);
    if (!bytes) return std::move(bytes).error();
    const auto owner = std::make_shared<safetensors::Serialized>(*std::move(bytes));
    *file = new safetensors_array{safetensors::Array(safetensors::Dtype::U8, safetensors::Shape{owner->size},
                                                     {owner->data.get(), owner->size}, owner,
                                                     safetensors::MemoryKind::owned)};
    return {};
  });
}

safetensors_status safetensors_edit_metadata(const char* path, const safetensors_metadata* edits, size_t edit_count,
                                             const safetensors_write_options* options, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}}); !status) return status;
    auto given = list_of(edits, edit_count, "edits");
    if (!given) return std::move(given).error();
    auto how = write_options_of(options);
    if (!how) return std::move(how).error();
    std::vector<safetensors::MetadataEdit> list;
    list.reserve(edit_count);
    for (const safetensors_metadata& each : *given) {
      auto key = text_of(each.key, each.key_length, "key");
      if (!key) return std::move(key).error();
      auto value = text_of(each.value, each.value ? each.value_length : 0, "value");
      if (!value) return std::move(value).error();
      list.push_back({std::string(*key), each.value ? std::optional<std::string>(*value) : std::nullopt});
    }
    safetensors::EditOptions edit;
    edit.in_place = how->edit_in_place;
    edit.metadata_slack = how->layout.metadata_slack;
    edit.write = how->write.write;
    edit.write.new_file = false;
    return safetensors::edit_metadata(path, list, edit);
  });
}

safetensors_status safetensors_writer_create(const char* path, const safetensors_tensor_data* tensors,
                                             size_t tensor_count, const safetensors_write_options* options,
                                             safetensors_writer** writer, safetensors_error* error) {
  clear(writer);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}, {writer, "writer"}}); !status) return status;
    auto given = tensors_of(tensors, tensor_count, false);
    if (!given) return std::move(given).error();
    auto how = write_options_of(options);
    if (!how) return std::move(how).error();
    if (how->max_shard_size == 0) return hand_out(create_file(path, *given, *how), writer);
    return hand_out(create_model(path, *given, *how), writer);
  });
}

void safetensors_writer_free(safetensors_writer* writer) {
  delete writer;
}

safetensors_status safetensors_writer_write(safetensors_writer* writer, const char* name, size_t name_length,
                                            uint64_t offset, const void* data, size_t size, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    auto bytes = bytes_of(data, size, "data");
    if (!bytes) return std::move(bytes).error();
    return with(writer, [&](auto& to) { return to.write(*text, offset, *bytes); });
  });
}

safetensors_status safetensors_writer_write_slice(safetensors_writer* writer, const char* name, size_t name_length,
                                                  const safetensors_dim* slice, size_t slice_count, const void* data,
                                                  size_t size, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    auto bytes = bytes_of(data, size, "data");
    if (!bytes) return std::move(bytes).error();
    auto part = slice_of(slice, slice_count);
    if (!part) return std::move(part).error();
    return with(writer, [&](auto& to) { return to.write_slice(*text, *part, *bytes); });
  });
}

safetensors_status safetensors_writer_copy(safetensors_writer* writer, const char* name, size_t name_length,
                                           const safetensors_model* model, const char* from, size_t from_length,
                                           safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{writer, "writer"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    auto tensor = tensor_of(model, from, from_length, "from");
    if (!tensor) return std::move(tensor).error();
    return with(writer, [&](auto& to) { return to.copy(*text, *tensor); });
  });
}

safetensors_status safetensors_writer_commit(safetensors_writer* writer, safetensors_error* error) {
  return guarded(error, [&]() -> Status { return with(writer, [](auto& to) { return to.commit(); }); });
}

}  // extern "C"
