// Writing in C: files and models, whole or in pieces, bytes in memory, and edits of metadata.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <variant>

#include "c/support.h"

struct safetensors_writer {
  std::variant<safetensors::Writer, safetensors::CheckpointWriter> writer;
};

namespace {
using namespace safetensors;
using namespace safetensors::c;

static_assert(SAFETENSORS_DURABILITY_NONE == static_cast<int>(Durability::none));

TensorData tensor_data_of(Call& call, const safetensors_tensor_data& given, bool with_bytes) {
  TensorData data;
  data.name = call.text(given.name, given.name_length, "name");
  data.dtype = call.dtype(given.dtype);
  data.shape = call.list(given.shape, given.rank, "shape");
  if (with_bytes) data.bytes = call.bytes(given.data, given.size, "data");
  call.reserved(given.reserved);
  return data;
}

std::vector<TensorData> tensors_of(Call& call, const safetensors_tensor_data* tensors, std::size_t count,
                                   bool with_bytes) {
  std::vector<TensorData> result;
  const auto given = call.list(tensors, count, "tensors");
  result.reserve(given.size());
  for (const safetensors_tensor_data& each : given) {
    Call one;
    result.push_back(tensor_data_of(one, each, with_bytes));
    if (one.ok()) continue;
    Error error = one.status().error();
    error.message = "tensor " + std::to_string(result.size() - 1) + ": " + error.message;
    call.fail(std::move(error));
    break;
  }
  return result;
}

// The options for a file and for a model. Its texts are those of the caller, but for the metadata.
struct Options {
  bool one_file = false;
  bool edit_in_place = false;
  CheckpointLayoutOptions split;
  CheckpointWriteOptions write;
};

// The metadata for functions that take nullopt for none.
std::optional<MetadataPairs> metadata_of(const CheckpointLayoutOptions& options) {
  if (!options.metadata_present) return std::nullopt;
  return options.metadata;
}

Options write_options_of(Call& call, const safetensors_write_options* given) {
  const safetensors_write_options options = call.options(given);
  call.enumerator("durability", options.durability, SAFETENSORS_DURABILITY_NONE);
  Options made;
  made.split.metadata_present = options.metadata != nullptr;
  for (const safetensors_metadata& each : call.list(options.metadata, options.metadata_count, "metadata")) {
    made.split.metadata.emplace_back(call.text(each.key, each.key_length, "key"),
                                     call.text(each.value, each.value_length, "value"));
    if (!call.ok()) break;
  }
  made.one_file = options.max_shard_size == 0;
  made.edit_in_place = options.edit_in_place != 0;
  made.split.layout.data_alignment = options.data_alignment;
  made.split.layout.metadata_slack = options.metadata_slack;
  WriteOptions& write = made.write.write;
  write.durability = static_cast<Durability>(options.durability);
  write.in_place_if_no_rename = options.in_place_if_no_rename != 0;
  write.progress = progress_of(options.progress, options.user);
  write.new_file = made.one_file && options.new_only != 0;
  made.write.new_folder = options.new_only != 0;
  made.write.remove_old_files = options.keep_old_files == 0;
  made.split.max_shard_size = made.one_file ? UINT64_MAX : options.max_shard_size;
  if (options.stem && !made.one_file) made.split.stem = options.stem;
  return made;
}

// Calls a function of the writer in the handle, if all arguments are right.
template <class Function>
void use(Call& call, safetensors_writer* writer, Function&& function) {
  call.require(writer, "writer");
  if (call.ok()) call.check(std::visit(function, writer->writer));
}

}  // namespace

extern "C" {

safetensors_status safetensors_save(const char* path, const safetensors_tensor_data* tensors, size_t tensor_count,
                                    const safetensors_write_options* options, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.require(path, "path");
    const auto given = tensors_of(call, tensors, tensor_count, true);
    const Options how = write_options_of(call, options);
    if (!call.ok()) return;
    if (how.one_file) return call.check(save(path, given, metadata_of(how.split), how.write.write, how.split.layout));
    const std::vector<NamedTensor> named(given.begin(), given.end());
    call.check(save_checkpoint(path, named, how.split, how.write));
  });
}

safetensors_status safetensors_serialize(const safetensors_tensor_data* tensors, size_t tensor_count,
                                         const safetensors_write_options* options, safetensors_array** file,
                                         safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(file, "file");
    const auto given = tensors_of(call, tensors, tensor_count, true);
    const Options how = write_options_of(call, options);
    if (!how.one_file) call.invalid({"max_shard_size is not 0, but there is one file"});
    if (!call.ok()) return;
    call.give(serialize(given, metadata_of(how.split), how.split.layout), file);
  });
}

safetensors_status safetensors_edit_metadata(const char* path, const safetensors_metadata* edits, size_t edit_count,
                                             const safetensors_write_options* options, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.require(path, "path");
    const Options how = write_options_of(call, options);
    std::vector<std::pair<std::string, std::optional<std::string>>> list;
    for (const safetensors_metadata& each : call.list(edits, edit_count, "edits")) {
      auto& [key, value] = list.emplace_back();
      key = call.text(each.key, each.key_length, "key");
      if (each.value) value = call.text(each.value, each.value_length, "value");
      if (!call.ok()) break;
    }
    if (!call.ok()) return;
    EditOptions edit;
    edit.in_place = how.edit_in_place;
    edit.metadata_slack = how.split.layout.metadata_slack;
    edit.write = how.write.write;
    edit.write.new_file = false;
    call.check(edit_metadata(path, list, edit));
  });
}

safetensors_status safetensors_writer_create(const char* path, const safetensors_tensor_data* tensors,
                                             size_t tensor_count, const safetensors_write_options* options,
                                             safetensors_writer** writer, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(writer, "writer");
    call.require(path, "path");
    const auto given = tensors_of(call, tensors, tensor_count, false);
    const Options how = write_options_of(call, options);
    if (!call.ok()) return;
    std::vector<CheckpointTensor> list;
    list.reserve(given.size());
    for (const TensorData& each : given) list.push_back({each.name, each.dtype, each.shape});
    const auto layout = CheckpointLayout::make(list, how.split);
    if (!layout) return call.fail(layout.error());
    if (how.one_file) return call.give(Writer::create(path, layout->files()[0].header, how.write.write), writer);
    call.give(CheckpointWriter::create(path, *layout, how.write), writer);
  });
}

void safetensors_writer_free(safetensors_writer* writer) {
  delete writer;
}

safetensors_status safetensors_writer_write(safetensors_writer* writer, const char* name, size_t name_length,
                                            uint64_t offset, const void* data, size_t size, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    const std::string_view text = call.text(name, name_length, "name");
    const auto bytes = call.bytes(data, size, "data");
    use(call, writer, [&](auto& to) { return to.write(text, offset, bytes); });
  });
}

safetensors_status safetensors_writer_write_slice(safetensors_writer* writer, const char* name, size_t name_length,
                                                  const safetensors_dim* slice, size_t slice_count, const void* data,
                                                  size_t size, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    const std::string_view text = call.text(name, name_length, "name");
    const auto bytes = call.bytes(data, size, "data");
    const Slice part = call.slice(slice, slice_count);
    use(call, writer, [&](auto& to) { return to.write_slice(text, part, bytes); });
  });
}

safetensors_status safetensors_writer_copy(safetensors_writer* writer, const char* name, size_t name_length,
                                           const safetensors_model* model, const char* from, size_t from_length,
                                           safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    const std::string_view text = call.text(name, name_length, "name");
    const auto tensor = call.tensor(model, from, from_length, "from");
    use(call, writer, [&](auto& to) { return to.copy(text, *tensor); });
  });
}

safetensors_status safetensors_writer_commit(safetensors_writer* writer, safetensors_error* error) {
  return guarded(error, [&](Call& call) { use(call, writer, [](auto& to) { return to.commit(); }); });
}

}  // extern "C"
