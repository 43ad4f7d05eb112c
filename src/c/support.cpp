// Checks of arguments and of growing structs, for all functions of the C interface.
#include "c/support.h"

#include <algorithm>

namespace safetensors::c {
namespace {

constexpr std::string_view kCut = "...";

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::uint64_t size_of_struct(const void* data) noexcept {
  std::uint64_t size = 0;
  std::memcpy(&size, data, sizeof size);
  return size;
}

// If struct_size is larger, the caller never set it. Then the struct is neither read nor written.
constexpr std::uint64_t kMaxStructSize = 4096;

Error wrong_size(std::uint64_t size, std::size_t minimum) {
  return invalid_argument("struct_size is " + std::to_string(size) + ", not from " + std::to_string(minimum) + " to " +
                          std::to_string(kMaxStructSize) + " (initialize the struct with its INIT macro)");
}

}  // namespace

void copy_text(std::string_view text, char* destination, std::size_t capacity, std::string_view mark) noexcept {
  if (capacity == 0) return;
  if (capacity <= mark.size()) mark = {};
  const bool cut = text.size() >= capacity;
  std::size_t length = cut ? capacity - 1 - mark.size() : text.size();
  if (cut)
    while (length > 0 && is_continuation(text[length])) --length;
  std::copy_n(text.data(), length, destination);
  if (cut) std::copy_n(mark.data(), mark.size(), destination + length), length += mark.size();
  destination[length] = '\0';
}

safetensors_status report(const Error& error, safetensors_error* out) noexcept {
  const auto status = static_cast<safetensors_status>(error.code);
  if (!out) return status;
  out->code = status;
  out->os_error = error.os_error;
  out->offset = error.offset;
  copy_text(error.message, out->message, sizeof out->message, kCut);
  copy_text(error.path, out->path, sizeof out->path, kCut);
  return status;
}

safetensors_status report_success(safetensors_error* out) noexcept {
  if (out) {
    out->code = SAFETENSORS_OK;
    out->os_error = 0;
    out->offset = SAFETENSORS_NO_OFFSET;
    out->message[0] = out->path[0] = '\0';
  }
  return SAFETENSORS_OK;
}

safetensors_status report_out_of_memory(safetensors_error* out) noexcept {
  report_success(out);
  if (out) {
    out->code = SAFETENSORS_ERROR_OUT_OF_MEMORY;
    copy_text("out of memory", out->message, sizeof out->message, kCut);
  }
  return SAFETENSORS_ERROR_OUT_OF_MEMORY;
}

Error invalid_argument(std::string message) {
  return make_error(Errc::invalid_argument, std::move(message));
}

Error out_of_range(const char* what, std::uint64_t index, std::size_t count) {
  return make_error(Errc::not_found, std::string("there is no ") + what + " " + std::to_string(index) + ", there are " +
                                         std::to_string(count));
}

Status require(std::initializer_list<Required> arguments) {
  for (const Required& argument : arguments)
    if (!argument.given) return invalid_argument(std::string("argument ") + argument.name + " is NULL");
  return {};
}

Result<std::string_view> text_of(const char* pointer, std::size_t length, const char* name) {
  auto list = list_of(pointer, length, name);
  if (!list) return std::move(list).error();
  return std::string_view(list->data(), list->size());
}

Result<std::span<const std::byte>> bytes_of(const void* pointer, std::size_t size, const char* name) {
  return list_of(static_cast<const std::byte*>(pointer), size, name);
}

safetensors_buffer* new_buffer(std::string_view bytes) {
  Serialized copy{std::unique_ptr<std::byte[]>(new std::byte[bytes.size()]), bytes.size()};
  if (!bytes.empty()) std::memcpy(copy.data.get(), bytes.data(), bytes.size());
  return new safetensors_buffer{std::move(copy)};
}

Result<std::span<std::byte>> writable_bytes_of(void* destination, std::size_t size) {
  auto bytes = list_of(static_cast<const std::byte*>(destination), size, "destination");
  if (!bytes) return std::move(bytes).error();
  return std::span<std::byte>(static_cast<std::byte*>(destination), size);
}

Result<Dtype> dtype_of(safetensors_dtype number) {
  for (const Dtype dtype : all_dtypes())
    if (static_cast<safetensors_dtype>(dtype) == number) return dtype;
  return invalid_argument("unknown dtype " + std::to_string(number));
}

Status read_struct(const void* from, void* to, std::size_t size, std::size_t minimum) {
  const std::uint64_t given = size_of_struct(from);
  if (given < minimum || given > kMaxStructSize) return wrong_size(given, minimum);
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (std::uint64_t at = size; at < given; ++at)
    if (bytes[at] != 0)
      return make_error(Errc::unsupported, "an option at byte " + std::to_string(at) +
                                               " of its struct is not known here, where it has " +
                                               std::to_string(size) + " bytes");
  std::memcpy(to, from, static_cast<std::size_t>(std::min<std::uint64_t>(given, size)));
  return {};
}

Status check_result_struct(const void* to, std::size_t minimum) {
  const std::uint64_t given = size_of_struct(to);
  if (given < minimum || given > kMaxStructSize) return wrong_size(given, minimum);
  return {};
}

void write_struct(const void* from, void* to, std::size_t size) noexcept {
  const std::uint64_t given = size_of_struct(to);
  const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(given, size));
  std::memcpy(to, from, known);
  std::memset(static_cast<unsigned char*>(to) + known, 0, static_cast<std::size_t>(given - known));
}

Status check_reserved(std::uint32_t reserved) {
  if (reserved == 0) return {};
  return make_error(Errc::unsupported, "a reserved field is " + std::to_string(reserved) + ", not 0");
}

Result<Accept> accept_of(std::uint32_t flags) {
  constexpr std::uint32_t kAll = SAFETENSORS_ACCEPT_UNKNOWN_DTYPES | SAFETENSORS_ACCEPT_UNUSED_BYTES;
  if ((flags & ~kAll) != 0)
    return make_error(Errc::unsupported, "unknown flags in accept: " + std::to_string(flags & ~kAll));
  return Accept{.unknown_dtypes = (flags & SAFETENSORS_ACCEPT_UNKNOWN_DTYPES) != 0,
                .unused_bytes = (flags & SAFETENSORS_ACCEPT_UNUSED_BYTES) != 0};
}

ParseOptions parse_options_of(std::uint64_t max_header_bytes, std::uint32_t allow_leading_whitespace) {
  ParseOptions options;
  if (max_header_bytes != 0) options.max_header_bytes = max_header_bytes;
  options.allow_leading_whitespace = allow_leading_whitespace != 0;
  return options;
}

Result<ParseOptions> parse_options_of(const safetensors_parse_options* given) {
  auto options = options_of(given, 24);
  if (!options) return std::move(options).error();
  auto accept = accept_of(options->accept);
  if (!accept) return std::move(accept).error();
  ParseOptions parse = parse_options_of(options->max_header_bytes, options->allow_leading_whitespace);
  parse.accept = *accept;
  parse.cancelled = cancelled_of(*options);
  return parse;
}

Result<LayoutOptions> layout_options_of(const safetensors_layout_options* given) {
  auto options = options_of(given, 24);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  return LayoutOptions{.data_alignment = options->data_alignment, .metadata_slack = options->metadata_slack};
}

Result<WriteOptions> write_options_of(std::int32_t durability, std::uint32_t in_place_if_no_rename) {
  if (durability < SAFETENSORS_DURABILITY_FULL || durability > SAFETENSORS_DURABILITY_NONE)
    return invalid_argument("unknown durability " + std::to_string(durability));
  return WriteOptions{.durability = static_cast<Durability>(durability),
                      .in_place_if_no_rename = in_place_if_no_rename != 0};
}

Status clear_info(safetensors_tensor_info* info) {
  constexpr std::size_t kSize = offsetof(safetensors_tensor_info, shape) + SAFETENSORS_INFO_DIMS * sizeof(uint64_t);
  if (Status status = require({{info, "info"}}); !status) return status;
  if (Status status = check_result_struct(info, kSize); !status) return status;
  give_struct(safetensors_tensor_info SAFETENSORS_TENSOR_INFO_INIT, info);
  return {};
}

safetensors_tensor_info info_of(const TensorInfo& tensor) noexcept {
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  info.name = tensor.name.data();
  info.name_length = tensor.name.size();
  info.begin = tensor.begin;
  info.end = tensor.end;
  info.nbytes = tensor.nbytes();
  info.file_offset = tensor.file_offset;
  info.dtype = static_cast<safetensors_dtype>(tensor.dtype);
  info.rank = tensor.shape.size();
  std::copy_n(tensor.shape.begin(), std::min<std::size_t>(info.rank, SAFETENSORS_INFO_DIMS), info.shape);
  info.dims = tensor.shape.data();
  return info;
}

}  // namespace safetensors::c
