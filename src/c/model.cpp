// Models in C: opening them, and their files, metadata and tensors. A model of one path is a Checkpoint, every other
// one a File.
#include <algorithm>

#include "c/source.h"

namespace {
using safetensors::Access;
using safetensors::Array;
using safetensors::Checkpoint;
using safetensors::Dtype;
using safetensors::File;
using safetensors::Map;
using safetensors::Metadata;
using safetensors::OpenOptions;
using safetensors::Result;
using safetensors::Status;
using safetensors::Tensor;
using namespace safetensors::c;

static_assert(SAFETENSORS_ACCESS_AUTOMATIC == static_cast<int>(Access::automatic));
static_assert(SAFETENSORS_ACCESS_MAP == static_cast<int>(Access::map));
static_assert(SAFETENSORS_ACCESS_READ == static_cast<int>(Access::read));
static_assert(SAFETENSORS_MAP_SHARED == static_cast<int>(Map::shared));
static_assert(SAFETENSORS_MAP_COPY_ON_WRITE == static_cast<int>(Map::copy_on_write));

Result<safetensors::OpenOptions> open_options_of(const safetensors_open_options* given) {
  auto options = options_of(given);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  if (Status status = check_enum("access mode", options->access, SAFETENSORS_ACCESS_READ); !status)
    return std::move(status).error();
  if (options->accept > 7)
    return make_error(safetensors::Errc::unsupported, "unknown flags in accept: " + std::to_string(options->accept));
  safetensors::OpenOptions open;
  open.threads = options->threads;
  open.access = static_cast<Access>(options->access);
  safetensors::ParseOptions& parse = open.parse;
  if (options->max_header_bytes != 0) parse.max_header_bytes = options->max_header_bytes;
  parse.accept.unknown_dtypes = (options->accept & SAFETENSORS_ACCEPT_UNKNOWN_DTYPES) != 0;
  parse.accept.unused_bytes = (options->accept & SAFETENSORS_ACCEPT_UNUSED_BYTES) != 0;
  parse.allow_leading_whitespace = (options->accept & SAFETENSORS_ACCEPT_WHITESPACE) != 0;
  if (options->cancelled)
    parse.cancelled = [cancelled = options->cancelled, user = options->user] { return cancelled(user) != 0; };
  return open;
}

// Memory of the caller. The destructor calls `release` if it was set, which happens after the file is open.
struct Borrowed {
  void (*release)(void*) = nullptr;
  void* user = nullptr;
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (release) release(user);
  }
};

// The options are checked, then `open` opens the model with them.
template <class Open>
safetensors_status open_model(const safetensors_open_options* options, safetensors_model** model,
                              safetensors_error* error, std::initializer_list<Required> required, Open&& open) {
  clear(model);
  return guarded(error, [&]() -> Status {
    if (Status status = require(required); !status) return status;
    if (Status status = require({{model, "model"}}); !status) return status;
    auto with = open_options_of(options);
    if (!with) return std::move(with).error();
    return open(*with);
  });
}

Result<Metadata> metadata_of(const safetensors_model& model, std::uint64_t file) {
  if (Status status = check_index("file", file, model.files().size()); !status) return std::move(status).error();
  return model.files()[static_cast<std::size_t>(file)].metadata();
}

// An empty text of C++ may be null.
const char* text_or_empty(std::string_view text) noexcept {
  return text.data() ? text.data() : "";
}

safetensors_metadata pair_of(std::string_view key, std::string_view value) noexcept {
  return {text_or_empty(key), key.size(), text_or_empty(value), value.size()};
}

safetensors_tensor info_of(const Tensor& tensor) {
  const File file = tensor.file();
  const safetensors::TensorInfo& info = tensor.info();
  const std::string_view dtype = file.header().dtype_name(info);
  safetensors_tensor filled = SAFETENSORS_TENSOR_INIT;
  filled.name = text_or_empty(info.name);
  filled.name_length = info.name.size();
  filled.shape = info.shape.data();
  filled.rank = info.shape.size();
  filled.nbytes = info.nbytes();
  filled.file_offset = info.file_offset;
  filled.path = file.path().c_str();
  filled.dtype_name = text_or_empty(dtype);
  filled.dtype_name_length = dtype.size();
  filled.dtype = static_cast<safetensors_dtype>(info.dtype);
  return filled;
}

// Whether the elements lie at an address that C allows for their type. Those of C64 are two floats.
bool aligned(const Array& array) noexcept {
  const std::uintptr_t size = array.dtype() == Dtype::C64 ? 4 : std::max(safetensors::bits(array.dtype()) / 8, 1U);
  return reinterpret_cast<std::uintptr_t>(array.bytes().data()) % size == 0;
}

}  // namespace

extern "C" {

safetensors_status safetensors_model_open(const char* path, const safetensors_open_options* options,
                                          safetensors_model** model, safetensors_error* error) {
  return open_model(options, model, error, {{path, "path"}}, [&](const safetensors::OpenOptions& with) {
    return hand_out(Checkpoint::open(std::string_view(path), with), model);
  });
}

safetensors_status safetensors_model_open_paths(const char* const* paths, size_t count,
                                                const safetensors_open_options* options, safetensors_model** model,
                                                safetensors_error* error) {
  return open_model(options, model, error, {}, [&](const safetensors::OpenOptions& with) -> Status {
    auto given = list_of(paths, count, "paths");
    if (!given) return std::move(given).error();
    std::vector<std::string> list;
    list.reserve(count);
    for (const char* path : *given) {
      if (!path) return invalid_argument("path " + std::to_string(list.size()) + " is NULL");
      list.emplace_back(path);
    }
    return hand_out(Checkpoint::open(list, with), model);
  });
}

safetensors_status safetensors_model_from_fd(int descriptor, const safetensors_open_options* options,
                                             safetensors_model** model, safetensors_error* error) {
  return open_model(options, model, error, {}, [&](const safetensors::OpenOptions& with) {
    return hand_out(File::from_fd(descriptor, with), model);
  });
}

safetensors_status safetensors_model_from_memory(const void* data, size_t size, void (*release)(void* user), void* user,
                                                 const safetensors_open_options* options, safetensors_model** model,
                                                 safetensors_error* error) {
  return open_model(options, model, error, {}, [&](const safetensors::OpenOptions& with) -> Status {
    auto bytes = bytes_of(data, size, "data");
    if (!bytes) return std::move(bytes).error();
    auto owner = std::make_shared<Borrowed>();
    if (Status status = hand_out(File::from_memory(*bytes, owner, with.parse), model); !status) return status;
    owner->user = user;
    owner->release = release;
    return {};
  });
}

safetensors_status safetensors_model_from_source(const safetensors_source* source,
                                                 const safetensors_open_options* options, safetensors_model** model,
                                                 safetensors_error* error) {
  const auto open = [&](const safetensors::OpenOptions& with) -> Status {
    auto callbacks = options_of(source);
    if (!callbacks) return std::move(callbacks).error();
    if (Status status = check_reserved(callbacks->reserved); !status) return status;
    if (!callbacks->size || !callbacks->read_at) return invalid_argument("the source's size or read_at is NULL");
    auto owner = std::make_shared<CallbackSource>(*callbacks);
    if (Status status = hand_out(File::from_source(owner, with.parse), model); !status) return status;
    owner->own();
    return {};
  };
  return open_model(options, model, error, {{source, "source"}}, open);
}

void safetensors_model_free(safetensors_model* model) {
  delete model;
}

safetensors_status safetensors_model_get_info(const safetensors_model* model, safetensors_model_info* info,
                                              safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = begin_struct(info, "info"); !status) return status;
    if (Status status = require({{model, "model"}}); !status) return status;
    safetensors_model_info filled = SAFETENSORS_MODEL_INFO_INIT;
    filled.tensor_count = model->tensors().size();
    filled.file_count = model->files().size();
    const bool several = model->checkpoint.has_value();
    const std::string_view name = several ? model->checkpoint->index_name() : std::string_view();
    const std::string_view metadata = several ? model->checkpoint->index_metadata() : std::string_view();
    filled.index_name = text_or_empty(name);
    filled.index_name_length = name.size();
    filled.index_metadata = text_or_empty(metadata);
    filled.index_metadata_length = metadata.size();
    give_struct(filled, info);
    return {};
  });
}

safetensors_status safetensors_model_get_file(const safetensors_model* model, uint64_t index, safetensors_file* file,
                                              safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = begin_struct(file, "file"); !status) return status;
    if (Status status = require({{model, "model"}}); !status) return status;
    if (Status status = check_index("file", index, model->files().size()); !status) return status;
    const File& from = model->files()[static_cast<std::size_t>(index)];
    const safetensors::Header& header = from.header();
    safetensors_file filled = SAFETENSORS_FILE_INIT;
    filled.path = from.path().c_str();
    filled.tensor_count = header.size();
    filled.metadata_count = header.metadata().size();
    filled.header_bytes = header.header_bytes();
    filled.data_bytes = header.data_bytes();
    filled.unknown_dtypes = header.tolerated().unknown_dtypes;
    filled.unused_bytes = header.tolerated().unused_bytes;
    filled.whitespace = header.leading_whitespace() ? 1 : 0;
    filled.metadata_present = header.metadata().present() ? 1 : 0;
    filled.access = static_cast<std::int32_t>(from.access());
    give_struct(filled, file);
    return {};
  });
}

safetensors_status safetensors_model_get_metadata(const safetensors_model* model, uint64_t file, uint64_t index,
                                                  safetensors_metadata* pair, safetensors_error* error) {
  clear(pair);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{model, "model"}, {pair, "pair"}}); !status) return status;
    auto metadata = metadata_of(*model, file);
    if (!metadata) return std::move(metadata).error();
    if (Status status = check_index("metadata pair", index, metadata->size()); !status) return status;
    const auto [key, value] = (*metadata)[static_cast<std::size_t>(index)];
    *pair = pair_of(key, value);
    return {};
  });
}

safetensors_status safetensors_model_find_metadata(const safetensors_model* model, uint64_t file, const char* key,
                                                   size_t key_length, safetensors_metadata* pair,
                                                   safetensors_error* error) {
  clear(pair);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{model, "model"}, {pair, "pair"}}); !status) return status;
    auto text = text_of(key, key_length, "key");
    if (!text) return std::move(text).error();
    auto metadata = metadata_of(*model, file);
    if (!metadata) return std::move(metadata).error();
    for (const auto& [name, value] : *metadata)
      if (name == *text) return *pair = pair_of(name, value), Status();
    safetensors::Error missing =
        make_error(safetensors::Errc::not_found, "there is no metadata key `" + safetensors::printable(*text) + "`");
    missing.path = model->files()[static_cast<std::size_t>(file)].path();
    return missing;
  });
}

safetensors_status safetensors_model_get_tensor(const safetensors_model* model, uint64_t index,
                                                safetensors_tensor* tensor, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = begin_struct(tensor, "tensor"); !status) return status;
    if (Status status = require({{model, "model"}}); !status) return status;
    const safetensors::Tensors tensors = model->tensors();
    if (Status status = check_index("tensor", index, tensors.size()); !status) return status;
    give_struct(info_of(tensors[static_cast<std::size_t>(index)]), tensor);
    return {};
  });
}

safetensors_status safetensors_model_find_tensor(const safetensors_model* model, const char* name, size_t name_length,
                                                 safetensors_tensor* tensor, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = begin_struct(tensor, "tensor"); !status) return status;
    auto found = tensor_of(model, name, name_length);
    if (!found) return std::move(found).error();
    give_struct(info_of(*found), tensor);
    return {};
  });
}

safetensors_status safetensors_model_view(const safetensors_model* model, const char* name, size_t name_length,
                                          int32_t map, safetensors_array** array, safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}}); !status) return status;
    if (Status status = check_enum("map mode", map, SAFETENSORS_MAP_COPY_ON_WRITE); !status) return status;
    auto tensor = tensor_of(model, name, name_length);
    if (!tensor) return std::move(tensor).error();
    Result<Array> view = tensor->view({}, static_cast<Map>(map));
    if (view && !aligned(*view)) view = tensor->read();
    return hand_out(std::move(view), array);
  });
}

}  // extern "C"
