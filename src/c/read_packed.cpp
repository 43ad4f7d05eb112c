// The C functions that read many tensors into one buffer.
#include <safetensors/read_packed.h>

#include <vector>

#include "c/reading.h"
#include "c/support.h"

struct safetensors_packed_layout {
  safetensors::PackedLayout layout;
};

namespace {
using safetensors::PackedLayout;
using safetensors::PackedOptions;
using safetensors::PackedOrder;
using safetensors::PackedTensor;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_PACKED_ORDER_FILE == static_cast<int>(PackedOrder::file));
static_assert(SAFETENSORS_PACKED_ORDER_GIVEN == static_cast<int>(PackedOrder::given));
static_assert(SAFETENSORS_PACKED_ORDER_NAME == static_cast<int>(PackedOrder::name));

constexpr std::size_t kPackedOptionsSize = offsetof(safetensors_packed_options, cast) + sizeof(safetensors_dtype);

Result<PackedOptions> packed_options_of(const safetensors_packed_options* given) {
  auto options = options_of(given, kPackedOptionsSize);
  if (!options) return std::move(options).error();
  if (options->order < SAFETENSORS_PACKED_ORDER_FILE || options->order > SAFETENSORS_PACKED_ORDER_NAME)
    return invalid_argument("unknown order " + std::to_string(options->order));
  PackedOptions packed{.order = static_cast<PackedOrder>(options->order)};
  if (options->alignment != 0) packed.alignment = options->alignment;
  if (options->cast != 0) {
    auto dtype = dtype_of(options->cast);
    if (!dtype) return std::move(dtype).error();
    packed.cast = *dtype;
  }
  return packed;
}

safetensors_tensor_info info_of(const PackedTensor& row) noexcept {
  return safetensors::c::info_of(
      {.name = row.name, .shape = row.shape, .begin = row.offset, .end = row.offset + row.nbytes, .dtype = row.dtype});
}
}  // namespace

extern "C" {

safetensors_status safetensors_packed_layout_create(const safetensors_tensor* const* tensors, size_t count,
                                                    const safetensors_packed_options* options,
                                                    safetensors_packed_layout** layout, safetensors_error* error) {
  clear(layout);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}}); !status) return status;
    auto packed = packed_options_of(options);
    if (!packed) return std::move(packed).error();
    auto given = list_of(tensors, count, "tensors");
    if (!given) return std::move(given).error();
    std::vector<safetensors::Tensor> list;
    list.reserve(given->size());
    for (const safetensors_tensor* const tensor : *given) {
      if (Status status = require({{tensor, "tensors"}}); !status) return status;
      list.push_back(tensor->tensor);
    }
    return hand_out(PackedLayout::make(std::span<const safetensors::Tensor>(list), *packed), layout);
  });
}

safetensors_status safetensors_packed_layout_of_checkpoint(const safetensors_checkpoint* checkpoint,
                                                           const safetensors_packed_options* options,
                                                           safetensors_packed_layout** layout,
                                                           safetensors_error* error) {
  clear(layout);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{checkpoint, "checkpoint"}, {layout, "layout"}}); !status) return status;
    auto packed = packed_options_of(options);
    if (!packed) return std::move(packed).error();
    return hand_out(PackedLayout::make(checkpoint->checkpoint.tensors(), *packed), layout);
  });
}

void safetensors_packed_layout_free(safetensors_packed_layout* layout) {
  delete layout;
}

safetensors_status safetensors_packed_layout_size(const safetensors_packed_layout* layout, uint64_t* count,
                                                  uint64_t* nbytes, safetensors_error* error) {
  clear(count, nbytes);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}}); !status) return status;
    if (count) *count = layout->layout.table().tensors().size();
    if (nbytes) *nbytes = layout->layout.nbytes();
    return {};
  });
}

safetensors_status safetensors_packed_layout_tensor_at(const safetensors_packed_layout* layout, uint64_t index,
                                                       safetensors_tensor_info* info, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{layout, "layout"}}); !status) return status;
    const auto rows = layout->layout.table().tensors();
    if (index >= rows.size()) return out_of_range("tensor", index, rows.size());
    give_struct(info_of(rows[static_cast<std::size_t>(index)]), info);
    return {};
  });
}

safetensors_status safetensors_packed_layout_tensor(const safetensors_packed_layout* layout, const char* name,
                                                    size_t name_length, safetensors_tensor_info* info,
                                                    safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = clear_info(info); !status) return status;
    if (Status status = require({{layout, "layout"}}); !status) return status;
    auto wanted = text_of(name, name_length, "name");
    if (!wanted) return std::move(wanted).error();
    const PackedTensor* const row = layout->layout.table().find(*wanted);
    if (!row)
      return make_error(safetensors::Errc::not_found,
                        "the buffer has no tensor `" + safetensors::printable(*wanted) + "`");
    give_struct(info_of(*row), info);
    return {};
  });
}

safetensors_status safetensors_read_packed(const safetensors_packed_layout* layout, void* destination, size_t size,
                                           const safetensors_read_options* options, safetensors_array** memory,
                                           safetensors_read_report** report, safetensors_error* error) {
  clear(memory, report);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{layout, "layout"}, {memory, "memory"}}); !status) return status;
    auto bytes = writable_bytes_of(destination, size);
    if (!bytes) return std::move(bytes).error();
    auto read = read_options_of(options);
    if (!read) return std::move(read).error();
    auto packed = safetensors::read_packed(layout->layout, *bytes, *read);
    if (!packed) return std::move(packed).error();
    auto array = std::make_unique<safetensors_array>(safetensors_array{std::move(packed->memory)});
    if (report) *report = new safetensors_read_report{std::move(packed->report)};
    *memory = array.release();
    return {};
  });
}

}  // extern "C"
