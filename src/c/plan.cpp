// Slices, requests, plans and streams in C.
#include <algorithm>

#include "c/support.h"

struct safetensors_plan {
  safetensors::ReadPlan plan;
  bool needs_arrays = false;  // an item has no destination
};
struct safetensors_stream {
  safetensors::Stream stream;
  bool out_of_memory = false;  // a handle could not be allocated; every later call fails with this error
};

namespace {
using safetensors::Cache;
using safetensors::DimSlice;
using safetensors::Errc;
using safetensors::ReadOptions;
using safetensors::ReadPlan;
using safetensors::Result;
using safetensors::Slice;
using safetensors::Status;
using safetensors::Tensor;
using namespace safetensors::c;

static_assert(SAFETENSORS_DIM_KIND_ALL == static_cast<int>(DimSlice::Kind::all));
static_assert(SAFETENSORS_DIM_KIND_INDEX == static_cast<int>(DimSlice::Kind::index));
static_assert(SAFETENSORS_DIM_KIND_RANGE == static_cast<int>(DimSlice::Kind::range));
static_assert(SAFETENSORS_DIM_KIND_SHARD == static_cast<int>(DimSlice::Kind::shard));
static_assert(SAFETENSORS_DIM_KIND_ELLIPSIS == static_cast<int>(DimSlice::Kind::ellipsis));

// In C, 0 is the default.
constexpr int kCaches = 5;
static_assert((static_cast<int>(Cache::automatic) + 1) % kCaches == SAFETENSORS_CACHE_AUTOMATIC);
static_assert(static_cast<int>(Cache::keep) + 1 == SAFETENSORS_CACHE_KEEP);
static_assert(static_cast<int>(Cache::fill) + 1 == SAFETENSORS_CACHE_FILL);
static_assert(static_cast<int>(Cache::drop) + 1 == SAFETENSORS_CACHE_DROP);
static_assert(static_cast<int>(Cache::bypass) + 1 == SAFETENSORS_CACHE_BYPASS);

safetensors_dim dim_of(const DimSlice& dim) noexcept {
  const auto kind = static_cast<std::int32_t>(dim.kind);
  if (dim.kind == DimSlice::Kind::index) return {kind, 0, dim.index, 0, 0};
  if (dim.kind == DimSlice::Kind::range)
    return {kind, 0, dim.begin.value_or(SAFETENSORS_DIM_NONE), dim.end.value_or(SAFETENSORS_DIM_NONE), dim.step};
  return {kind, 0, 0, 0, 0};
}

Result<DimSlice> dim_slice_of(const safetensors_dim& given) {
  if (Status status = check_enum("kind of a dimension's slice", given.kind, SAFETENSORS_DIM_KIND_ELLIPSIS); !status)
    return std::move(status).error();
  if (Status status = check_reserved(given.reserved); !status) return std::move(status).error();
  DimSlice dim;
  dim.kind = static_cast<DimSlice::Kind>(given.kind);
  dim.index = given.begin;
  if (given.begin != SAFETENSORS_DIM_NONE) dim.begin = given.begin;
  if (given.end != SAFETENSORS_DIM_NONE) dim.end = given.end;
  dim.step = given.step;
  dim.rank = static_cast<std::uint64_t>(given.begin);  // negative: not below the number of shards
  dim.world = given.end < 0 ? 0 : static_cast<std::uint64_t>(given.end);
  return dim;
}

// A request, checked. Its spans point to memory of the caller.
struct Wanted {
  Slice slice;
  safetensors::Destination destination;
  std::optional<safetensors::Dtype> cast;
  bool elsewhere = false;  // has a destination
  std::size_t size = 0;    // of the destination

  Status add_to(ReadPlan& plan, const Tensor& tensor, bool with_destination) const {
    return plan.add(tensor, slice, with_destination ? destination : safetensors::Destination(), cast);
  }
};

Result<Wanted> wanted_of(const safetensors_request* given) {
  auto request = options_of(given);
  if (!request) return std::move(request).error();
  if (Status status = check_reserved(request->reserved); !status) return std::move(status).error();
  Wanted wanted;
  auto slice = slice_of(request->slice, request->slice_count);
  if (!slice) return std::move(slice).error();
  if (request->slice_count != 0) wanted.slice = *std::move(slice);
  auto* const destination = static_cast<std::byte*>(request->destination);
  if (auto bytes = list_of(destination, request->destination_size, "destination"); !bytes)
    return std::move(bytes).error();
  auto strides = list_of(request->strides, request->stride_count, "strides");
  if (!strides) return std::move(strides).error();
  wanted.elsewhere = destination != nullptr;
  wanted.size = request->destination_size;
  wanted.destination.strides = *strides;
  if (request->on_device == 0) {
    wanted.destination.bytes = {destination, request->destination_size};
  } else {
    if (request->device < 0) return invalid_argument("invalid device ordinal " + std::to_string(request->device));
    wanted.destination.device.device = request->device;
    wanted.destination.device.address = reinterpret_cast<std::uintptr_t>(destination);
    wanted.destination.device.size = request->destination_size;
  }
  if (request->cast != 0) {
    auto dtype = dtype_of(request->cast);
    if (!dtype) return std::move(dtype).error();
    wanted.cast = *dtype;
  }
  return wanted;
}

// Adds a tensor to a plan. C++ would give new memory to a result whose destination has no bytes.
Status add(ReadPlan& plan, const Tensor& tensor, const Wanted& wanted) {
  if (wanted.elsewhere && wanted.size == 0) {
    ReadPlan measured;
    if (Status status = wanted.add_to(measured, tensor, false); !status) return status;
    if (measured.nbytes() != 0)
      return make_error(Errc::buffer_size, "tensor `" + safetensors::printable(tensor.name()) + "`: the result has " +
                                               std::to_string(measured.nbytes()) + " bytes, the destination 0");
  }
  return wanted.add_to(plan, tensor, true);
}

Result<safetensors::Shape> shape_of(const Tensor& tensor, const Wanted& wanted) {
  if (tensor.dtype() == safetensors::Dtype::UNKNOWN) return safetensors::Shape{tensor.nbytes()};
  auto resolved = wanted.slice.resolve(tensor.dtype(), tensor.shape());
  if (!resolved) return std::move(resolved).error();
  return resolved->shape();
}

Result<ReadOptions> read_options_of(const safetensors_read_options* given) {
  auto options = options_of(given);
  if (!options) return std::move(options).error();
  if (Status status = check_enum("cache mode", options->cache, kCaches - 1); !status) return std::move(status).error();
  ReadOptions read;
  read.threads = options->threads;
  read.memory_limit = options->memory_limit;
  read.cache = static_cast<Cache>((options->cache + kCaches - 1) % kCaches);
  read.progress = progress_of(options->progress, options->user);
  read.device_stream = options->device_stream;
  return read;
}

void give_report(const safetensors::ReadReport& report, safetensors_read_report* to) noexcept {
  safetensors_read_report filled = SAFETENSORS_READ_REPORT_INIT;
  filled.bytes = report.bytes;
  filled.bytes_buffered = report.bytes_buffered;
  filled.bytes_direct = report.bytes_direct;
  filled.bytes_mapped = report.bytes_mapped;
  filled.bytes_device = report.bytes_device;
  filled.pinned_bytes = report.pinned_bytes;
  filled.reads = report.reads;
  filled.page_faults = report.page_faults;
  filled.seconds = report.seconds;
  filled.cpu_seconds = report.cpu_seconds;
  filled.threads = report.threads;
  filled.cache = (static_cast<std::int32_t>(report.cache) + 1) % kCaches;
  filled.fallback_count = report.fallbacks.size();
  if (!report.fallbacks.empty()) copy_text(report.fallbacks.front(), filled.fallback, sizeof filled.fallback, "...");
  give_struct(filled, to);
}

// Gives one array per item to the caller. The handles are allocated before anything is read.
Status execute(const safetensors_plan& plan, const ReadOptions& options, safetensors_array** arrays, std::size_t count,
               safetensors_read_report* report) {
  const std::size_t items = plan.plan.size();
  if (!arrays && count != 0) return invalid_argument("argument arrays is NULL");
  if (arrays ? count != items : plan.needs_arrays)
    return make_error(Errc::buffer_size, "the plan has " + std::to_string(items) + " items, `arrays` has room for " +
                                             std::to_string(arrays ? count : 0));
  std::vector<std::unique_ptr<safetensors_array>> handles(arrays ? count : 0);
  for (auto& handle : handles) handle = std::make_unique<safetensors_array>();
  auto result = plan.plan.execute(options);
  if (!result) return std::move(result).error();
  for (std::size_t i = 0; i < handles.size(); ++i) {
    handles[i]->array = std::move(result->arrays[i]);
    arrays[i] = handles[i].release();
  }
  if (report) give_report(result->report, report);
  return {};
}

}  // namespace

namespace safetensors::c {

Result<Slice> slice_of(const safetensors_dim* dims, std::size_t count) {
  auto given = list_of(dims, count, "slice");
  if (!given) return std::move(given).error();
  std::vector<DimSlice> made;
  made.reserve(count);
  for (const safetensors_dim& each : *given) {
    auto dim = dim_slice_of(each);
    if (!dim) return std::move(dim).error();
    made.push_back(*dim);
  }
  return Slice(std::move(made));
}

}  // namespace safetensors::c

extern "C" {

safetensors_status safetensors_slice_parse(const char* text, size_t length, safetensors_dim* dims, size_t capacity,
                                           size_t* count, safetensors_error* error) {
  clear(count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{count, "count"}}); !status) return status;
    auto given = text_of(text, length, "text");
    if (!given) return std::move(given).error();
    if (!dims && capacity != 0) return invalid_argument("argument dims is NULL");
    auto slice = Slice::parse(*given);
    if (!slice) return std::move(slice).error();
    *count = slice->dims().size();
    if (capacity < *count)
      return make_error(Errc::buffer_size, "destination too small: capacity " + std::to_string(capacity) +
                                               ", expected at least " + std::to_string(*count));
    std::transform(slice->dims().begin(), slice->dims().end(), dims, dim_of);
    return {};
  });
}

safetensors_status safetensors_model_measure(const safetensors_model* model, const char* name, size_t name_length,
                                             const safetensors_request* request, uint64_t* shape, size_t capacity,
                                             size_t* rank, uint64_t* nbytes, safetensors_error* error) {
  clear(rank, nbytes);
  return guarded(error, [&]() -> Status {
    auto tensor = tensor_of(model, name, name_length);
    if (!tensor) return std::move(tensor).error();
    auto wanted = wanted_of(request);
    if (!wanted) return std::move(wanted).error();
    if (!shape && capacity != 0) return invalid_argument("argument shape is NULL");
    ReadPlan plan;
    if (Status status = wanted->add_to(plan, *tensor, false); !status) return status;
    auto dims = shape_of(*tensor, *wanted);
    if (!dims) return std::move(dims).error();
    if (rank) *rank = dims->rank();
    if (capacity != 0 && capacity < dims->rank())
      return make_error(Errc::buffer_size, "destination too small: capacity " + std::to_string(capacity) +
                                               ", expected at least " + std::to_string(dims->rank()));
    if (capacity != 0) std::copy(dims->begin(), dims->end(), shape);
    if (nbytes) *nbytes = plan.nbytes();
    return {};
  });
}

safetensors_status safetensors_model_read(const safetensors_model* model, const char* name, size_t name_length,
                                          const safetensors_request* request, safetensors_array** array,
                                          safetensors_error* error) {
  clear(array);
  return guarded(error, [&]() -> Status {
    auto tensor = tensor_of(model, name, name_length);
    if (!tensor) return std::move(tensor).error();
    auto wanted = wanted_of(request);
    if (!wanted) return std::move(wanted).error();
    if (!array && !wanted->elsewhere) return invalid_argument("argument array is NULL");
    safetensors_plan plan;
    if (Status status = add(plan.plan, *tensor, *wanted); !status) return status;
    return execute(plan, {}, array, array ? 1 : 0, nullptr);
  });
}

safetensors_status safetensors_plan_create(safetensors_plan** plan, safetensors_error* error) {
  clear(plan);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}}); !status) return status;
    *plan = new safetensors_plan{};
    return {};
  });
}

void safetensors_plan_free(safetensors_plan* plan) {
  delete plan;
}

safetensors_status safetensors_plan_add(safetensors_plan* plan, const safetensors_model* model, const char* name,
                                        size_t name_length, const safetensors_request* request,
                                        safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}}); !status) return status;
    auto tensor = tensor_of(model, name, name_length);
    if (!tensor) return std::move(tensor).error();
    auto wanted = wanted_of(request);
    if (!wanted) return std::move(wanted).error();
    if (Status status = add(plan->plan, *tensor, *wanted); !status) return status;
    if (!wanted->elsewhere) plan->needs_arrays = true;
    return {};
  });
}

safetensors_status safetensors_plan_get_size(const safetensors_plan* plan, uint64_t* count, uint64_t* nbytes,
                                             safetensors_error* error) {
  clear(count, nbytes);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}}); !status) return status;
    if (count) *count = plan->plan.size();
    if (nbytes) *nbytes = plan->plan.nbytes();
    return {};
  });
}

safetensors_status safetensors_plan_execute(const safetensors_plan* plan, const safetensors_read_options* options,
                                            safetensors_array** arrays, size_t array_count,
                                            safetensors_read_report* report, safetensors_error* error) {
  if (arrays) std::fill_n(arrays, array_count, nullptr);
  return guarded(error, [&]() -> Status {
    if (report)
      if (Status status = begin_struct(report, "report"); !status) return status;
    if (Status status = require({{plan, "plan"}}); !status) return status;
    auto read = read_options_of(options);
    if (!read) return std::move(read).error();
    return execute(*plan, *read, arrays, array_count, report);
  });
}

safetensors_status safetensors_plan_stream(const safetensors_plan* plan, const safetensors_read_options* options,
                                           safetensors_stream** stream, safetensors_error* error) {
  clear(stream);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{plan, "plan"}, {stream, "stream"}}); !status) return status;
    auto read = read_options_of(options);
    if (!read) return std::move(read).error();
    auto begun = plan->plan.stream(*read);
    if (!begun) return std::move(begun).error();
    *stream = new safetensors_stream{*std::move(begun)};
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

safetensors_status safetensors_stream_get_report(const safetensors_stream* stream, safetensors_read_report* report,
                                                 safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = begin_struct(report, "report"); !status) return status;
    if (Status status = require({{stream, "stream"}}); !status) return status;
    auto made = stream->stream.report();
    if (!made) return std::move(made).error();
    give_report(*made, report);
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

}  // extern "C"
