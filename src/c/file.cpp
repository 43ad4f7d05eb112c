// Files and their tensors in C.
#include "c/source.h"

namespace {
using safetensors::Access;
using safetensors::File;
using safetensors::Map;
using safetensors::OpenOptions;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_ACCESS_AUTOMATIC == static_cast<int>(Access::automatic));
static_assert(SAFETENSORS_ACCESS_MAP == static_cast<int>(Access::map));
static_assert(SAFETENSORS_ACCESS_READ == static_cast<int>(Access::read));
static_assert(SAFETENSORS_MAP_SHARED == static_cast<int>(Map::shared));
static_assert(SAFETENSORS_MAP_COPY_ON_WRITE == static_cast<int>(Map::copy_on_write));

constexpr std::size_t kOpenOptionsSize = offsetof(safetensors_open_options, access) + sizeof(int32_t);
constexpr std::size_t kSourceSize = offsetof(safetensors_source, release) + sizeof(void (*)(void*));

Result<OpenOptions> open_options(const safetensors_open_options* given) {
  auto options = options_of(given, kOpenOptionsSize);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  return open_options_of(*options);
}

Result<Map> map_of(int32_t map) {
  if (map != SAFETENSORS_MAP_SHARED && map != SAFETENSORS_MAP_COPY_ON_WRITE)
    return invalid_argument("unknown map mode " + std::to_string(map));
  return static_cast<Map>(map);
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
}  // namespace

extern "C" {

safetensors_status safetensors_file_open(const char* path, const safetensors_open_options* options,
                                         safetensors_file** file, safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{path, "path"}, {file, "file"}}); !status) return status;
    auto open = open_options(options);
    if (!open) return std::move(open).error();
    return hand_out(File::open(path, *open), file);
  });
}

safetensors_status safetensors_file_from_fd(int descriptor, const safetensors_open_options* options,
                                            safetensors_file** file, safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}}); !status) return status;
    auto open = open_options(options);
    if (!open) return std::move(open).error();
    return hand_out(File::from_fd(descriptor, *open), file);
  });
}

safetensors_status safetensors_file_from_memory(const void* data, size_t size, void (*release)(void* user), void* user,
                                                const safetensors_parse_options* options, safetensors_file** file,
                                                safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}}); !status) return status;
    auto bytes = bytes_of(data, size, "data");
    if (!bytes) return std::move(bytes).error();
    auto parse = parse_options_of(options);
    if (!parse) return std::move(parse).error();
    auto owner = std::make_shared<Borrowed>();
    if (Status status = hand_out(File::from_memory(*bytes, owner, *parse), file); !status) return status;
    owner->user = user;
    owner->release = release;
    return {};
  });
}

safetensors_status safetensors_file_from_source(const safetensors_source* source,
                                                const safetensors_parse_options* options, safetensors_file** file,
                                                safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{source, "source"}, {file, "file"}}); !status) return status;
    auto callbacks = options_of(source, kSourceSize);
    if (!callbacks) return std::move(callbacks).error();
    if (Status status = check_reserved(callbacks->reserved); !status) return status;
    if (!callbacks->size || !callbacks->read_at) return invalid_argument("the source's size or read_at is NULL");
    auto parse = parse_options_of(options);
    if (!parse) return std::move(parse).error();
    auto owner = std::make_shared<CallbackSource>(*callbacks);
    if (Status status = hand_out(File::from_source(owner, *parse), file); !status) return status;
    owner->own();
    return {};
  });
}

void safetensors_file_free(safetensors_file* file) {
  delete file;
}

safetensors_status safetensors_file_header(const safetensors_file* file, safetensors_header** header,
                                           safetensors_error* error) {
  clear(header);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {header, "header"}}); !status) return status;
    *header = new safetensors_header{file->file.header()};
    return {};
  });
}

safetensors_status safetensors_file_tensor(const safetensors_file* file, const char* name, size_t name_length,
                                           safetensors_tensor** tensor, safetensors_error* error) {
  clear(tensor);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {tensor, "tensor"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    return hand_out(file->file.tensor(*text), tensor);
  });
}

safetensors_status safetensors_file_access(const safetensors_file* file, int32_t* access, safetensors_error* error) {
  clear(access);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {access, "access"}}); !status) return status;
    *access = static_cast<int32_t>(file->file.access());
    return {};
  });
}

safetensors_status safetensors_file_path(const safetensors_file* file, const char** path, safetensors_error* error) {
  clear(path);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {path, "path"}}); !status) return status;
    *path = file->file.path().c_str();
    return {};
  });
}

safetensors_status safetensors_file_read_at(const safetensors_file* file, uint64_t offset, void* destination,
                                            size_t size, size_t* count, safetensors_error* error) {
  clear(count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {count, "count"}}); !status) return status;
    auto bytes = writable_bytes_of(destination, size);
    if (!bytes) return std::move(bytes).error();
    auto read = file->file.source().read_at(offset, *bytes);
    if (!read) return std::move(read).error();
    *count = *read;
    return {};
  });
}

safetensors_status safetensors_file_view(const safetensors_file* file, int32_t map, safetensors_array** array,
                                         safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{file, "file"}, {array, "array"}}); !status) return status;
    auto kind = map_of(map);
    if (!kind) return std::move(kind).error();
    return hand_out(file->file.view(*kind), array);
  });
}

void safetensors_tensor_free(safetensors_tensor* tensor) {
  delete tensor;
}

safetensors_status safetensors_tensor_get_info(const safetensors_tensor* tensor, safetensors_tensor_info* info,
                                               safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{tensor, "tensor"}}); !status) return status;
    give_struct(info_of(tensor->tensor.info()), info);
    return {};
  });
}

safetensors_status safetensors_tensor_shape(const safetensors_tensor* tensor, uint64_t* shape, size_t capacity,
                                            size_t* rank, safetensors_error* error) {
  clear(rank);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{tensor, "tensor"}, {rank, "rank"}}); !status) return status;
    return copy_out(std::span(tensor->tensor.shape()), shape, capacity, rank);
  });
}

safetensors_status safetensors_tensor_file(const safetensors_tensor* tensor, safetensors_file** file,
                                           safetensors_error* error) {
  clear(file);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{tensor, "tensor"}, {file, "file"}}); !status) return status;
    *file = new safetensors_file{tensor->tensor.file()};
    return {};
  });
}

safetensors_status safetensors_tensor_view(const safetensors_tensor* tensor, int32_t map, safetensors_array** array,
                                           safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{tensor, "tensor"}, {array, "array"}}); !status) return status;
    auto kind = map_of(map);
    if (!kind) return std::move(kind).error();
    return hand_out(tensor->tensor.view(*kind), array);
  });
}

safetensors_status safetensors_tensor_read(const safetensors_tensor* tensor, const safetensors_slice* slice,
                                           safetensors_array** array, safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{tensor, "tensor"}, {array, "array"}}); !status) return status;
    return hand_out(slice ? tensor->tensor.read(slice->slice) : tensor->tensor.read(), array);
  });
}

safetensors_status safetensors_tensor_read_into(const safetensors_tensor* tensor, const safetensors_slice* slice,
                                                void* destination, size_t size, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{tensor, "tensor"}}); !status) return status;
    auto bytes = writable_bytes_of(destination, size);
    if (!bytes) return std::move(bytes).error();
    return slice ? tensor->tensor.read_into(slice->slice, *bytes) : tensor->tensor.read_into(*bytes);
  });
}

}  // extern "C"
