// Headers and their builder in C.
#include "c/support.h"

namespace {
using safetensors::Errc;
using safetensors::Error;
using safetensors::Status;
using namespace safetensors::c;

constexpr std::size_t kHeaderInfoSize = offsetof(safetensors_header_info, leading_whitespace) + sizeof(uint32_t);

Error not_found(const char* what, std::string_view name) {
  return make_error(Errc::not_found, std::string("there is no ") + what + " `" + safetensors::printable(name) + "`");
}

safetensors::Result<const safetensors::TensorInfo*> find(const safetensors_header* header, const char* name,
                                                         std::size_t length) {
  auto text = text_of(name, length, "name");
  if (!text) return std::move(text).error();
  const safetensors::TensorInfo* tensor = header->header.find(*text);
  if (!tensor) return not_found("tensor", *text);
  return tensor;
}

safetensors::Result<safetensors::TensorList> in_order(const safetensors_header* header, std::int32_t order) {
  if (order == SAFETENSORS_ORDER_OFFSET) return header->header.tensors();
  if (order == SAFETENSORS_ORDER_NAME) return header->header.tensors_by_name();
  return invalid_argument("unknown order " + std::to_string(order));
}
}  // namespace

extern "C" {

safetensors_status safetensors_header_length(const void* prefix, size_t prefix_size, uint64_t file_size,
                                             const safetensors_parse_options* options, uint64_t* length,
                                             safetensors_error* error) {
  clear(length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{length, "length"}}); !status) return status;
    auto bytes = bytes_of(prefix, prefix_size, "prefix");
    if (!bytes) return std::move(bytes).error();
    auto parse = parse_options_of(options);
    if (!parse) return std::move(parse).error();
    auto result = safetensors::Header::length(*bytes, file_size, *parse);
    if (!result) return std::move(result).error();
    *length = *result;
    return {};
  });
}

safetensors_status safetensors_header_parse(const char* text, size_t length, uint64_t data_size,
                                            const safetensors_parse_options* options, safetensors_header** header,
                                            safetensors_error* error) {
  clear(header);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"}}); !status) return status;
    auto given = text_of(text, length, "text");
    if (!given) return std::move(given).error();
    auto parse = parse_options_of(options);
    if (!parse) return std::move(parse).error();
    return hand_out(safetensors::Header::parse(*given, data_size, *parse), header);
  });
}

void safetensors_header_free(safetensors_header* header) {
  delete header;
}

safetensors_status safetensors_header_get_info(const safetensors_header* header, safetensors_header_info* info,
                                               safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{info, "info"}}); !status) return status;
    if (Status status = check_result_struct(info, kHeaderInfoSize); !status) return status;
    safetensors_header_info filled = SAFETENSORS_HEADER_INFO_INIT;
    give_struct(filled, info);
    if (Status status = require({{header, "header"}}); !status) return status;
    const safetensors::Header& from = header->header;
    filled.tensor_count = from.size();
    filled.metadata_count = from.metadata().size();
    filled.header_bytes = from.header_bytes();
    filled.data_bytes = from.data_bytes();
    filled.data_start = from.data_start();
    filled.file_bytes = from.file_bytes();
    filled.metadata_present = from.metadata().present() ? 1 : 0;
    filled.leading_whitespace = from.leading_whitespace() ? 1 : 0;
    const safetensors::Tolerated tolerated = from.tolerated();
    filled.unknown_dtypes = tolerated.unknown_dtypes;
    filled.unused_bytes = tolerated.unused_bytes;
    give_struct(filled, info);
    return {};
  });
}

safetensors_status safetensors_header_tensor_at(const safetensors_header* header, int32_t order, uint64_t index,
                                                safetensors_tensor_info* info, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{header, "header"}}); !status) return status;
    auto list = in_order(header, order);
    if (!list) return std::move(list).error();
    if (index >= list->size()) return out_of_range("tensor", index, list->size());
    give_struct(info_of((*list)[static_cast<std::size_t>(index)]), info);
    return {};
  });
}

safetensors_status safetensors_header_find(const safetensors_header* header, const char* name, size_t name_length,
                                           safetensors_tensor_info* info, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{header, "header"}}); !status) return status;
    auto tensor = find(header, name, name_length);
    if (!tensor) return std::move(tensor).error();
    give_struct(info_of(**tensor), info);
    return {};
  });
}

safetensors_status safetensors_header_dtype_name(const safetensors_header* header, const char* name, size_t name_length,
                                                 const char** dtype, size_t* dtype_length, safetensors_error* error) {
  clear(dtype, dtype_length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"}, {dtype, "dtype"}, {dtype_length, "dtype_length"}}); !status)
      return status;
    auto tensor = find(header, name, name_length);
    if (!tensor) return std::move(tensor).error();
    const std::string_view text = header->header.dtype_name(**tensor);
    *dtype = text.data();
    *dtype_length = text.size();
    return {};
  });
}

safetensors_status safetensors_header_shape(const safetensors_header* header, const char* name, size_t name_length,
                                            uint64_t* shape, size_t capacity, size_t* rank, safetensors_error* error) {
  clear(rank);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"}, {rank, "rank"}}); !status) return status;
    auto tensor = find(header, name, name_length);
    if (!tensor) return std::move(tensor).error();
    return copy_out(std::span((*tensor)->shape), shape, capacity, rank);
  });
}

safetensors_status safetensors_header_metadata_at(const safetensors_header* header, uint64_t index, const char** key,
                                                  size_t* key_length, const char** value, size_t* value_length,
                                                  safetensors_error* error) {
  clear(key, key_length, value, value_length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"},
                                 {key, "key"},
                                 {key_length, "key_length"},
                                 {value, "value"},
                                 {value_length, "value_length"}});
        !status)
      return status;
    const safetensors::Metadata metadata = header->header.metadata();
    if (index >= metadata.size()) return out_of_range("metadata pair", index, metadata.size());
    const auto pair = metadata[static_cast<std::size_t>(index)];
    *key = pair.first.data();
    *key_length = pair.first.size();
    *value = pair.second.data();
    *value_length = pair.second.size();
    return {};
  });
}

safetensors_status safetensors_header_metadata_pair(const safetensors_header* header, uint64_t index,
                                                    safetensors_metadata* pair, safetensors_error* error) {
  if (pair == nullptr) return guarded(error, [&]() -> Status { return require({{pair, "pair"}}); });
  return safetensors_header_metadata_at(header, index, &pair->key, &pair->key_length, &pair->value, &pair->value_length,
                                        error);
}

safetensors_status safetensors_header_metadata_find(const safetensors_header* header, const char* key,
                                                    size_t key_length, const char** value, size_t* value_length,
                                                    safetensors_error* error) {
  clear(value, value_length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"}, {value, "value"}, {value_length, "value_length"}}); !status)
      return status;
    auto text = text_of(key, key_length, "key");
    if (!text) return std::move(text).error();
    const auto found = header->header.metadata().find(*text);
    if (!found) return not_found("metadata key", *text);
    *value = found->data();
    *value_length = found->size();
    return {};
  });
}

safetensors_status safetensors_header_text(const safetensors_header* header, safetensors_buffer** text,
                                           safetensors_error* error) {
  clear(text);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{header, "header"}, {text, "text"}}); !status) return status;
    auto result = header->header.text();
    if (!result) return std::move(result).error();
    *text = new_buffer(*result);
    return {};
  });
}

safetensors_status safetensors_header_builder_create(safetensors_header_builder** builder, safetensors_error* error) {
  clear(builder);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{builder, "builder"}}); !status) return status;
    *builder = new safetensors_header_builder;
    return {};
  });
}

void safetensors_header_builder_free(safetensors_header_builder* builder) {
  delete builder;
}

safetensors_status safetensors_header_builder_add(safetensors_header_builder* builder, const char* name,
                                                  size_t name_length, safetensors_dtype dtype, const uint64_t* shape,
                                                  size_t rank, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{builder, "builder"}}); !status) return status;
    auto text = text_of(name, name_length, "name");
    if (!text) return std::move(text).error();
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    auto dims = list_of(shape, rank, "shape");
    if (!dims) return std::move(dims).error();
    return builder->builder.add(*text, *known, *dims);
  });
}

safetensors_status safetensors_header_builder_metadata(safetensors_header_builder* builder, const char* key,
                                                       size_t key_length, const char* value, size_t value_length,
                                                       safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{builder, "builder"}}); !status) return status;
    auto key_text = text_of(key, key_length, "key");
    if (!key_text) return std::move(key_text).error();
    auto value_text = text_of(value, value_length, "value");
    if (!value_text) return std::move(value_text).error();
    return builder->builder.metadata(*key_text, *value_text);
  });
}

safetensors_status safetensors_header_builder_metadata_present(safetensors_header_builder* builder,
                                                               safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{builder, "builder"}}); !status) return status;
    return builder->builder.metadata_present();
  });
}

safetensors_status safetensors_header_builder_build(const safetensors_header_builder* builder,
                                                    const safetensors_layout_options* options,
                                                    safetensors_header** header, safetensors_error* error) {
  clear(header);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{builder, "builder"}, {header, "header"}}); !status) return status;
    auto layout = layout_options_of(options);
    if (!layout) return std::move(layout).error();
    return hand_out(builder->builder.build(*layout), header);
  });
}

}  // extern "C"
