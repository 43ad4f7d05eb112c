// The C functions of read plans, and of their results, reports and streams.
#include <algorithm>
#include <chrono>

#include "base/exceptions.h"

#include "c/support.h"

namespace {
using safetensors::AddOptions;
using safetensors::Cache;
using safetensors::Destination;
using safetensors::DeviceMemory;
using safetensors::ReadOptions;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_CACHE_KEEP == static_cast<int>(Cache::keep));
static_assert(SAFETENSORS_CACHE_FILL == static_cast<int>(Cache::fill));
static_assert(SAFETENSORS_CACHE_DROP == static_cast<int>(Cache::drop));
static_assert(SAFETENSORS_CACHE_BYPASS == static_cast<int>(Cache::bypass));
static_assert(SAFETENSORS_CACHE_AUTOMATIC == static_cast<int>(Cache::automatic));

constexpr std::size_t kAddOptionsSize = offsetof(safetensors_add_options, reserved) + sizeof(uint32_t);
constexpr std::size_t kReadOptionsSize = offsetof(safetensors_read_options, device_stream) + sizeof(void*);
constexpr std::size_t kReportInfoSize = offsetof(safetensors_read_report_info, cache) + sizeof(int32_t);

struct Added {
  Destination destination;
  AddOptions options;
};

Result<DeviceMemory> device_of(const safetensors_add_options& given) {
  if (given.on_device == 0) return DeviceMemory{};
  if (given.device < 0) return invalid_argument("invalid device ordinal " + std::to_string(given.device));
  return DeviceMemory{.device = given.device, .address = given.device_address, .size = given.device_size};
}

Result<Added> added_of(const safetensors_add_options* given) {
  auto options = options_of(given, kAddOptionsSize);
  if (!options) return std::move(options).error();
  if (Status status = check_reserved(options->reserved); !status) return std::move(status).error();
  auto bytes = writable_bytes_of(options->destination, options->destination_size);
  if (!bytes) return std::move(bytes).error();
  auto strides = list_of(options->strides, options->stride_count, "strides");
  if (!strides) return std::move(strides).error();
  auto device = device_of(*options);
  if (!device) return std::move(device).error();
  Added added{{.bytes = *bytes, .strides = *strides, .device = *device}, {}};
  if (options->cast != 0) {
    auto dtype = dtype_of(options->cast);
    if (!dtype) return std::move(dtype).error();
    added.options.cast = *dtype;
  }
  return added;
}

Result<ReadOptions> read_options_of(const safetensors_read_options* given) {
  auto options = options_of(given, kReadOptionsSize);
  if (!options) return std::move(options).error();
  if (options->cache < SAFETENSORS_CACHE_KEEP || options->cache > SAFETENSORS_CACHE_AUTOMATIC)
    return invalid_argument("unknown cache mode " + std::to_string(options->cache));
  ReadOptions read{.threads = options->threads,
                   .memory_limit = options->memory_limit,
                   .cache = static_cast<Cache>(options->cache),
                   .device_stream = options->device_stream};
  if (options->progress)
    read.progress = [call = options->progress, user = options->user](std::uint64_t completed, std::uint64_t total) {
      return call(user, completed, total) != 0;
    };
  return read;
}

safetensors_read_report_info info_of(const safetensors::ReadReport& report) {
  safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  info.bytes = report.bytes;
  info.bytes_buffered = report.bytes_buffered;
  info.bytes_direct = report.bytes_direct;
  info.bytes_mapped = report.bytes_mapped;
  info.bytes_device = report.bytes_device;
  info.pinned_bytes = report.pinned_bytes;
  info.reads = report.reads;
  info.page_faults = report.page_faults;
  info.fallback_count = report.fallbacks.size();
  info.seconds = report.seconds;
  info.cpu_seconds = report.cpu_seconds;
  info.threads = report.threads;
  info.cache = static_cast<std::int32_t>(report.cache);
  return info;
}
}  // namespace

extern "C" {

safetensors_status safetensors_read_plan_create(safetensors_read_plan** plan, safetensors_error* error) {
  clear(plan);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}}); !status) return status;
    *plan = new safetensors_read_plan{};
    return {};
  });
}

void safetensors_read_plan_free(safetensors_read_plan* plan) {
  delete plan;
}

safetensors_status safetensors_read_plan_add(safetensors_read_plan* plan, const safetensors_tensor* tensor,
                                             const safetensors_slice* slice, const safetensors_add_options* options,
                                             safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}, {tensor, "tensor"}}); !status) return status;
    auto added = added_of(options);
    if (!added) return std::move(added).error();
    if (!slice) return plan->plan.add(tensor->tensor, added->destination, added->options);
    return plan->plan.add(tensor->tensor, slice->slice, added->destination, added->options);
  });
}

safetensors_status safetensors_read_plan_size(const safetensors_read_plan* plan, uint64_t* count, uint64_t* nbytes,
                                              safetensors_error* error) {
  clear(count, nbytes);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}}); !status) return status;
    if (count) *count = plan->plan.size();
    if (nbytes) *nbytes = plan->plan.nbytes();
    return {};
  });
}

safetensors_status safetensors_read_plan_execute(const safetensors_read_plan* plan,
                                                 const safetensors_read_options* options,
                                                 safetensors_read_result** result, safetensors_error* error) {
  clear(result);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}, {result, "result"}}); !status) return status;
    auto read = read_options_of(options);
    if (!read) return std::move(read).error();
    return hand_out(plan->plan.execute(*read), result);
  });
}

void safetensors_read_result_free(safetensors_read_result* result) {
  delete result;
}

safetensors_status safetensors_read_result_count(const safetensors_read_result* result, uint64_t* count,
                                                 safetensors_error* error) {
  clear(count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{result, "result"}, {count, "count"}}); !status) return status;
    *count = result->result.arrays.size();
    return {};
  });
}

safetensors_status safetensors_read_result_array(const safetensors_read_result* result, uint64_t index,
                                                 safetensors_array** array, safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{result, "result"}, {array, "array"}}); !status) return status;
    const auto& arrays = result->result.arrays;
    if (index >= arrays.size()) return out_of_range("array", index, arrays.size());
    *array = new safetensors_array{arrays[static_cast<std::size_t>(index)]};
    return {};
  });
}

safetensors_status safetensors_read_result_report(const safetensors_read_result* result,
                                                  safetensors_read_report** report, safetensors_error* error) {
  clear(report);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{result, "result"}, {report, "report"}}); !status) return status;
    *report = new safetensors_read_report{result->result.report};
    return {};
  });
}

safetensors_status safetensors_read_plan_stream(const safetensors_read_plan* plan,
                                                const safetensors_read_options* options, safetensors_stream** stream,
                                                safetensors_error* error) {
  clear(stream);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}, {stream, "stream"}}); !status) return status;
    auto read = read_options_of(options);
    if (!read) return std::move(read).error();
    auto begun = plan->plan.stream(*read);
    if (!begun) return std::move(begun).error();
    *stream = new safetensors_stream{.stream = *std::move(begun)};
    return {};
  });
}

void safetensors_stream_free(safetensors_stream* stream) {
  delete stream;
}

safetensors_status safetensors_stream_next(safetensors_stream* stream, uint64_t* index, safetensors_array** array,
                                           safetensors_error* error) {
  clear(index, array);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{stream, "stream"}, {index, "index"}, {array, "array"}}); !status) return status;
    // Allocate the handle before next() takes an item, because an item without a handle would be lost. If the
    // allocation fails, the stream ends: this call and all later calls return out_of_memory.
    std::unique_ptr<safetensors_array> handle(stream->out_of_memory ? nullptr : new (std::nothrow) safetensors_array());
    if (!handle) {
      stream->out_of_memory = true;
      stream->stream.cancel();
      safetensors::base::raise(std::bad_alloc());
    }
    auto next = stream->stream.next();
    if (!next) return std::move(next).error();
    std::optional<safetensors::StreamItem> taken = *std::move(next);
    if (!taken) return {};
    handle->array = std::move(taken->array);
    *index = taken->index;
    *array = handle.release();
    return {};
  });
}

safetensors_status safetensors_stream_wait(const safetensors_stream* stream, uint64_t milliseconds, int32_t* ready,
                                           safetensors_error* error) {
  clear(ready);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{stream, "stream"}, {ready, "ready"}}); !status) return status;
    using Milliseconds = std::chrono::milliseconds;
    const std::uint64_t limit = std::min(milliseconds, static_cast<std::uint64_t>(Milliseconds::max().count()));
    *ready = stream->stream.wait_for(Milliseconds(limit)) ? 1 : 0;
    return {};
  });
}

safetensors_status safetensors_stream_cancel(safetensors_stream* stream, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{stream, "stream"}}); !status) return status;
    stream->stream.cancel();
    return {};
  });
}

safetensors_status safetensors_stream_report(const safetensors_stream* stream, safetensors_read_report** report,
                                             safetensors_error* error) {
  clear(report);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{stream, "stream"}, {report, "report"}}); !status) return status;
    return hand_out(stream->stream.report(), report);
  });
}

void safetensors_read_report_free(safetensors_read_report* report) {
  delete report;
}

safetensors_status safetensors_read_report_get_info(const safetensors_read_report* report,
                                                    safetensors_read_report_info* info, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{info, "info"}}); !status) return status;
    if (Status status = check_result_struct(info, kReportInfoSize); !status) return status;
    give_struct(safetensors_read_report_info SAFETENSORS_READ_REPORT_INFO_INIT, info);
    if (Status status = require({{report, "report"}}); !status) return status;
    give_struct(info_of(report->report), info);
    return {};
  });
}

safetensors_status safetensors_read_report_fallback(const safetensors_read_report* report, uint64_t index,
                                                    const char** text, size_t* length, safetensors_error* error) {
  clear(text, length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{report, "report"}, {text, "text"}, {length, "length"}}); !status) return status;
    const auto& fallbacks = report->report.fallbacks;
    if (index >= fallbacks.size()) return out_of_range("fallback", index, fallbacks.size());
    const std::string& found = fallbacks[static_cast<std::size_t>(index)];
    *text = found.data();
    *length = found.size();
    return {};
  });
}

}  // extern "C"
