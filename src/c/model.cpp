// Models in C: opening them, and their files, metadata and tensors. A model of one path is a Checkpoint, every other
// one a File.
#include <algorithm>

#include "c/support.h"

namespace {
using namespace safetensors;
using namespace safetensors::c;

static_assert(SAFETENSORS_ACCESS_READ == static_cast<int>(Access::read));
static_assert(SAFETENSORS_MAP_COPY_ON_WRITE == static_cast<int>(Map::copy_on_write));

OpenOptions open_options_of(Call& call, const safetensors_open_options* given) {
  const safetensors_open_options options = call.options(given);
  call.reserved(options.reserved);
  call.enumerator("access mode", options.access, SAFETENSORS_ACCESS_READ);
  if (options.accept > 7) call.fail(Errc::unsupported, {"unknown flags in accept: ", options.accept});
  OpenOptions open;
  open.threads = options.threads;
  open.access = static_cast<Access>(options.access);
  ParseOptions& parse = open.parse;
  if (options.max_header_bytes != 0) parse.max_header_bytes = options.max_header_bytes;
  parse.accept.unknown_dtypes = (options.accept & SAFETENSORS_ACCEPT_UNKNOWN_DTYPES) != 0;
  parse.accept.unused_bytes = (options.accept & SAFETENSORS_ACCEPT_UNUSED_BYTES) != 0;
  parse.allow_leading_whitespace = (options.accept & SAFETENSORS_ACCEPT_WHITESPACE) != 0;
  if (options.cancelled)
    parse.cancelled = [cancelled = options.cancelled, user = options.user] { return cancelled(user) != 0; };
  return open;
}

// What a caller lent. The destructor calls `release` if it was set, which happens after the file is open.
struct Owner {
  void (*release)(void*) = nullptr;
  void* user = nullptr;
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (release) release(user);
  }
};

// Runs a callback of a source, and gives it an empty error to fill. Returns the count that the callback stored, at most
// `max`, or the error that it returned.
template <class Count, class Run>
Result<Count> said(const char* callback, Count max, Run&& run) {
  safetensors_error error;
  report({}, &error);
  Count count = 0;
  const safetensors_status status = run(&count, &error);
  if (status == SAFETENSORS_OK && count <= max) return count;
  if (status == SAFETENSORS_OK)
    return make_error(Errc::read_failed,
                      {"the source's ", callback, " gave ", count, " bytes, expected at most ", max});
  Error result = error_of(status, error);
  if (std::string_view(to_string(result.code)) == to_string(kUnknown)) result.code = Errc::read_failed;
  if (result.message.empty())
    result.message = std::string("the source's ") + callback + " returned status " + std::to_string(status);
  return result;
}

// A Source whose functions are C callbacks of the caller. They may throw: File::from_source() is the boundary.
class CallbackSource final : public Source, public std::enable_shared_from_this<CallbackSource> {
 public:
  explicit CallbackSource(const safetensors_source& callbacks) noexcept : callbacks_(callbacks) {}
  [[nodiscard]] Result<std::uint64_t> size() const override {
    return said<std::uint64_t>("size", UINT64_MAX, [&](std::uint64_t* size, safetensors_error* error) {
      return callbacks_.size(callbacks_.user, size, error);
    });
  }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> to) const override {
    return said<std::size_t>("read_at", to.size(), [&](std::size_t* count, safetensors_error* error) {
      return callbacks_.read_at(callbacks_.user, offset, to.data(), to.size(), count, error);
    });
  }
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const override {
    if (!callbacks_.memory || size > SIZE_MAX) return {};
    const void* memory = callbacks_.memory(callbacks_.user, offset, size);
    if (!memory) return {};
    return {{static_cast<const std::byte*>(memory), static_cast<std::size_t>(size)}, weak_from_this().lock()};
  }
  [[nodiscard]] bool concurrent() const noexcept override { return callbacks_.one_thread_at_a_time == 0; }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept override { return callbacks_.request_bytes; }

  Owner owner;

 private:
  safetensors_source callbacks_;
};

// Checks the options, then opens the model with them: open(call, options) returns a Result.
template <class Open>
safetensors_status open_model(const safetensors_open_options* options, safetensors_model** model,
                              safetensors_error* error, Open&& open) {
  return guarded(error, [&](Call& call) {
    call.result(model, "model");
    const OpenOptions with = open_options_of(call, options);
    open(call, with);
  });
}

// A file of a model, or NULL.
const File* file_of(Call& call, const safetensors_model* model, std::uint64_t index) {
  call.require(model, "model");
  if (call.ok()) call.index("file", index, model->files().size());
  return call.ok() ? &model->files()[static_cast<std::size_t>(index)] : nullptr;
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
  const TensorInfo& info = tensor.info();
  const std::string_view dtype = file.header().dtype_name(info);
  return {.struct_size = 0,
          .name = text_or_empty(info.name),
          .name_length = info.name.size(),
          .shape = info.shape.data(),
          .rank = info.shape.size(),
          .nbytes = info.nbytes(),
          .file_offset = info.file_offset,
          .path = file.path().c_str(),
          .dtype_name = text_or_empty(dtype),
          .dtype_name_length = dtype.size(),
          .dtype = static_cast<safetensors_dtype>(info.dtype),
          .reserved = 0};
}

// Whether the elements lie at an address that C allows for their type. Those of C64 are two floats.
bool aligned(const Array& array) noexcept {
  const std::uintptr_t size = array.dtype() == Dtype::C64 ? 4 : std::max(bits(array.dtype()) / 8, 1U);
  return reinterpret_cast<std::uintptr_t>(array.bytes().data()) % size == 0;
}

}  // namespace

extern "C" {

safetensors_status safetensors_model_open(const char* path, const safetensors_open_options* options,
                                          safetensors_model** model, safetensors_error* error) {
  return open_model(options, model, error, [&](Call& call, const OpenOptions& with) {
    call.require(path, "path");
    if (call.ok()) call.give(Checkpoint::open(std::string_view(path), with), model);
  });
}

safetensors_status safetensors_model_open_paths(const char* const* paths, size_t count,
                                                const safetensors_open_options* options, safetensors_model** model,
                                                safetensors_error* error) {
  return open_model(options, model, error, [&](Call& call, const OpenOptions& with) {
    std::vector<std::string> list;
    const auto given = call.list(paths, count, "paths");
    list.reserve(given.size());
    for (const char* path : given) {
      if (!path) return call.invalid({"path ", list.size(), " is NULL"});
      list.emplace_back(path);
    }
    if (call.ok()) call.give(Checkpoint::open(list, with), model);
  });
}

safetensors_status safetensors_model_from_fd(int descriptor, const safetensors_open_options* options,
                                             safetensors_model** model, safetensors_error* error) {
  return open_model(options, model, error, [&](Call& call, const OpenOptions& with) {
    if (call.ok()) call.give(File::from_fd(descriptor, with), model);
  });
}

safetensors_status safetensors_model_from_memory(const void* data, size_t size, void (*release)(void* user), void* user,
                                                 const safetensors_open_options* options, safetensors_model** model,
                                                 safetensors_error* error) {
  return open_model(options, model, error, [&](Call& call, const OpenOptions& with) {
    const auto bytes = call.bytes(data, size, "data");
    if (!call.ok()) return;
    auto owner = std::make_shared<Owner>();
    call.give(File::from_memory(bytes, owner, with.parse), model);
    if (!call.ok()) return;
    owner->user = user;
    owner->release = release;
  });
}

safetensors_status safetensors_model_from_source(const safetensors_source* source,
                                                 const safetensors_open_options* options, safetensors_model** model,
                                                 safetensors_error* error) {
  return open_model(options, model, error, [&](Call& call, const OpenOptions& with) {
    call.require(source, "source");
    const safetensors_source callbacks = call.options(source);
    call.reserved(callbacks.reserved);
    if (!callbacks.size || !callbacks.read_at) call.invalid({"the source's size or read_at is NULL"});
    if (!call.ok()) return;
    auto owner = std::make_shared<CallbackSource>(callbacks);
    call.give(File::from_source(owner, with.parse), model);
    if (!call.ok()) return;
    owner->owner.user = callbacks.user;
    owner->owner.release = callbacks.release;
  });
}

void safetensors_model_free(safetensors_model* model) {
  delete model;
}

safetensors_status safetensors_model_get_info(const safetensors_model* model, safetensors_model_info* info,
                                              safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result_struct(info, "info");
    call.require(model, "model");
    if (!call.ok()) return;
    const Checkpoint* const several = model->checkpoint();
    const std::string_view name = several ? several->index_name() : std::string_view();
    const std::string_view metadata = several ? several->index_metadata() : std::string_view();
    give_struct({.struct_size = 0,
                 .tensor_count = model->tensors().size(),
                 .file_count = model->files().size(),
                 .index_name = text_or_empty(name),
                 .index_name_length = name.size(),
                 .index_metadata = text_or_empty(metadata),
                 .index_metadata_length = metadata.size()},
                info);
  });
}

safetensors_status safetensors_model_get_file(const safetensors_model* model, uint64_t index, safetensors_file* file,
                                              safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result_struct(file, "file");
    const File* const from = file_of(call, model, index);
    if (!from) return;
    const Header& header = from->header();
    give_struct({.struct_size = 0,
                 .path = from->path().c_str(),
                 .tensor_count = header.size(),
                 .metadata_count = header.metadata().size(),
                 .header_bytes = header.header_bytes(),
                 .data_bytes = header.data_bytes(),
                 .unknown_dtypes = header.tolerated().unknown_dtypes,
                 .unused_bytes = header.tolerated().unused_bytes,
                 .whitespace = header.tolerated().leading_whitespace ? 1U : 0U,
                 .metadata_present = header.metadata().present() ? 1U : 0U,
                 .access = static_cast<std::int32_t>(from->access()),
                 .reserved = 0},
                file);
  });
}

safetensors_status safetensors_model_get_metadata(const safetensors_model* model, uint64_t file, uint64_t index,
                                                  safetensors_metadata* pair, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(pair, "pair");
    const File* const from = file_of(call, model, file);
    if (from) call.index("metadata pair", index, from->metadata().size());
    if (!call.ok()) return;
    const auto [key, value] = from->metadata()[static_cast<std::size_t>(index)];
    *pair = pair_of(key, value);
  });
}

safetensors_status safetensors_model_find_metadata(const safetensors_model* model, uint64_t file, const char* key,
                                                   size_t key_length, safetensors_metadata* pair,
                                                   safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(pair, "pair");
    const std::string_view wanted = call.text(key, key_length, "key");
    const File* const from = file_of(call, model, file);
    if (!from) return;
    for (const auto& [name, value] : from->metadata())
      if (name == wanted) return static_cast<void>(*pair = pair_of(name, value));
    call.fail(make_error(Errc::not_found, {"there is no metadata key `", printable(wanted), "`"}, from->path()));
  });
}

safetensors_status safetensors_model_get_tensor(const safetensors_model* model, uint64_t index,
                                                safetensors_tensor* tensor, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result_struct(tensor, "tensor");
    call.require(model, "model");
    if (call.ok()) call.index("tensor", index, model->tensors().size());
    if (call.ok()) give_struct(info_of(model->tensors()[static_cast<std::size_t>(index)]), tensor);
  });
}

safetensors_status safetensors_model_find_tensor(const safetensors_model* model, const char* name, size_t name_length,
                                                 safetensors_tensor* tensor, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result_struct(tensor, "tensor");
    const auto found = call.tensor(model, name, name_length);
    if (call.ok()) give_struct(info_of(*found), tensor);
  });
}

safetensors_status safetensors_model_view(const safetensors_model* model, const char* name, size_t name_length,
                                          int32_t map, safetensors_array** array, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(array, "array");
    call.enumerator("map mode", map, SAFETENSORS_MAP_COPY_ON_WRITE);
    const auto tensor = call.tensor(model, name, name_length);
    if (!call.ok()) return;
    Result<Array> view = tensor->view({}, static_cast<Map>(map));
    if (view && !aligned(*view)) view = tensor->read();
    call.give(std::move(view), array);
  });
}

}  // extern "C"
