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
using namespace safetensors;
using namespace safetensors::c;

static_assert(SAFETENSORS_DIM_KIND_ELLIPSIS == static_cast<int>(DimSlice::Kind::ellipsis));

safetensors_dim dim_of(const DimSlice& dim) noexcept {
  const auto kind = static_cast<std::int32_t>(dim.kind);
  if (dim.kind == DimSlice::Kind::index) return {kind, 0, dim.index, 0, 0};
  if (dim.kind == DimSlice::Kind::range)
    return {kind, 0, dim.begin.value_or(SAFETENSORS_DIM_NONE), dim.end.value_or(SAFETENSORS_DIM_NONE), dim.step};
  return {kind, 0, 0, 0, 0};
}

// A request, checked. Its spans point to memory of the caller.
struct Wanted {
  Slice slice;
  Destination destination;
  std::optional<Dtype> cast;

  [[nodiscard]] bool has_destination() const { return destination.bytes.data() != nullptr; }
};

Wanted wanted_of(Call& call, const safetensors_request* given) {
  const safetensors_request request = call.options(given);
  call.reserved(request.reserved);
  Wanted wanted;
  if (request.slice_count != 0) wanted.slice = call.slice(request.slice, request.slice_count);
  wanted.destination.bytes =
      call.list(static_cast<std::byte*>(request.destination), request.destination_size, "destination");
  wanted.destination.strides = call.list(request.strides, request.stride_count, "strides");
  if (request.on_device != 0) {
    if (request.device < 0) call.invalid({"invalid device ordinal ", request.device});
    wanted.destination.device = request.device;
  }
  if (request.cast != 0) wanted.cast = call.dtype(request.cast);
  return wanted;
}

Result<Shape> shape_of(const Tensor& tensor, const Wanted& wanted) {
  if (tensor.dtype() == Dtype::UNKNOWN) return Shape{tensor.nbytes()};
  auto resolved = wanted.slice.resolve(tensor.dtype(), tensor.shape());
  if (!resolved) return std::move(resolved).error();
  return resolved->shape();
}

// Error buffer_size, if an array of the caller is too small.
void check_capacity(Call& call, std::size_t capacity, std::size_t needed) {
  if (capacity < needed)
    call.fail(Errc::buffer_size, {"destination too small: capacity ", capacity, ", expected at least ", needed});
}

ReadOptions read_options_of(Call& call, const safetensors_read_options* given) {
  const safetensors_read_options options = call.options(given);
  call.enumerator("cache mode", options.cache, SAFETENSORS_CACHE_FILL);
  ReadOptions read;
  read.threads = options.threads;
  read.memory_limit = options.memory_limit;
  if (call.ok()) read.cache = static_cast<Cache>(options.cache);
  read.progress = progress_of(options.progress, options.user);
  read.device_stream = options.device_stream;
  return read;
}

// Gives one array per item to the caller. The handles are allocated before anything is read.
void execute(Call& call, const safetensors_plan& plan, const ReadOptions& options, safetensors_array** arrays,
             std::size_t count) {
  const std::size_t items = plan.plan.size();
  if (arrays ? count != items : plan.needs_arrays)
    call.fail(Errc::buffer_size, {"the plan has ", items, " items, `arrays` has room for ", arrays ? count : 0});
  if (!call.ok()) return;
  std::vector<std::unique_ptr<safetensors_array>> handles(arrays ? count : 0);
  for (auto& handle : handles) handle = std::make_unique<safetensors_array>();
  auto result = plan.plan.execute(options);
  if (!result) return call.fail(std::move(result).error());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    handles[i]->array = std::move(result->arrays[i]);
    arrays[i] = handles[i].release();
  }
}

}  // namespace

namespace safetensors::c {

Slice Call::slice(const safetensors_dim* dims, std::size_t count) {
  std::vector<DimSlice> made;
  const auto all = list(dims, count, "slice");
  made.reserve(all.size());
  for (const safetensors_dim& given : all) {
    enumerator("kind of a dimension's slice", given.kind, SAFETENSORS_DIM_KIND_ELLIPSIS);
    reserved(given.reserved);
    if (!ok()) return {};
    DimSlice& dim = made.emplace_back();
    dim.kind = static_cast<DimSlice::Kind>(given.kind);
    dim.index = given.begin;
    if (given.begin != SAFETENSORS_DIM_NONE) dim.begin = given.begin;
    if (given.end != SAFETENSORS_DIM_NONE) dim.end = given.end;
    dim.step = given.step;
    dim.rank = static_cast<std::uint64_t>(given.begin);  // negative: not below the number of shards
    dim.world = given.end < 0 ? 0 : static_cast<std::uint64_t>(given.end);
  }
  return Slice(std::move(made));
}

}  // namespace safetensors::c

extern "C" {

safetensors_status safetensors_slice_parse(const char* text, size_t length, safetensors_dim* dims, size_t capacity,
                                           size_t* count, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(count, "count");
    const std::string_view given = call.text(text, length, "text");
    if (!dims && capacity != 0) call.invalid({"argument dims is NULL"});
    if (!call.ok()) return;
    const Slice slice = call.value(Slice::parse(given));
    *count = slice.dims().size();
    check_capacity(call, capacity, *count);
    if (call.ok()) std::transform(slice.dims().begin(), slice.dims().end(), dims, dim_of);
  });
}

safetensors_status safetensors_model_measure(const safetensors_model* model, const char* name, size_t name_length,
                                             const safetensors_request* request, uint64_t* shape, size_t capacity,
                                             size_t* rank, uint64_t* nbytes, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    Call::clear(rank);
    Call::clear(nbytes);
    const auto tensor = call.tensor(model, name, name_length);
    const Wanted wanted = wanted_of(call, request);
    if (!shape && capacity != 0) call.invalid({"argument shape is NULL"});
    if (!call.ok()) return;
    ReadPlan plan;
    call.check(plan.add(*tensor, wanted.slice, {}, wanted.cast));
    if (!call.ok()) return;
    const Shape dims = call.value(shape_of(*tensor, wanted));
    if (rank) *rank = dims.rank();
    if (capacity != 0) check_capacity(call, capacity, dims.rank());
    if (!call.ok()) return;
    if (capacity != 0) std::copy(dims.begin(), dims.end(), shape);
    if (nbytes) *nbytes = plan.nbytes();
  });
}

safetensors_status safetensors_model_read(const safetensors_model* model, const char* name, size_t name_length,
                                          const safetensors_request* request, safetensors_array** array,
                                          safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    Call::clear(array);
    const auto tensor = call.tensor(model, name, name_length);
    const Wanted wanted = wanted_of(call, request);
    if (!wanted.has_destination()) call.require(array, "array");
    if (!call.ok()) return;
    safetensors_plan plan;
    call.check(plan.plan.add(*tensor, wanted.slice, wanted.destination, wanted.cast));
    execute(call, plan, {}, array, array ? 1 : 0);
  });
}

safetensors_status safetensors_plan_create(safetensors_plan** plan, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(plan, "plan");
    if (call.ok()) *plan = new safetensors_plan{};
  });
}

void safetensors_plan_free(safetensors_plan* plan) {
  delete plan;
}

safetensors_status safetensors_plan_add(safetensors_plan* plan, const safetensors_model* model, const char* name,
                                        size_t name_length, const safetensors_request* request,
                                        safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.require(plan, "plan");
    const auto tensor = call.tensor(model, name, name_length);
    const Wanted wanted = wanted_of(call, request);
    if (!call.ok()) return;
    call.check(plan->plan.add(*tensor, wanted.slice, wanted.destination, wanted.cast));
    if (call.ok() && !wanted.has_destination()) plan->needs_arrays = true;
  });
}

safetensors_status safetensors_plan_get_size(const safetensors_plan* plan, uint64_t* count, uint64_t* nbytes,
                                             safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    Call::clear(count);
    Call::clear(nbytes);
    call.require(plan, "plan");
    if (!call.ok()) return;
    if (count) *count = plan->plan.size();
    if (nbytes) *nbytes = plan->plan.nbytes();
  });
}

safetensors_status safetensors_plan_execute(const safetensors_plan* plan, const safetensors_read_options* options,
                                            safetensors_array** arrays, size_t array_count, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    if (arrays) std::fill_n(arrays, array_count, nullptr);
    call.require(plan, "plan");
    const ReadOptions read = read_options_of(call, options);
    if (!arrays && array_count != 0) call.invalid({"argument arrays is NULL"});
    if (call.ok()) execute(call, *plan, read, arrays, array_count);
  });
}

safetensors_status safetensors_plan_stream(const safetensors_plan* plan, const safetensors_read_options* options,
                                           safetensors_stream** stream, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(stream, "stream");
    call.require(plan, "plan");
    const ReadOptions read = read_options_of(call, options);
    if (call.ok()) call.give(plan->plan.stream(read), stream);
  });
}

void safetensors_stream_free(safetensors_stream* stream) {
  delete stream;
}

safetensors_status safetensors_stream_next(safetensors_stream* stream, uint64_t* index, safetensors_array** array,
                                           safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    Call::clear(array);
    call.result(index, "index");
    call.require(array, "array");
    call.require(stream, "stream");
    if (!call.ok()) return;
    // Allocate the handle before next() takes an item, because an item without a handle would be lost. If the
    // allocation fails, the stream ends: this call and all later calls return out_of_memory.
    std::unique_ptr<safetensors_array> handle(stream->out_of_memory ? nullptr : new (std::nothrow) safetensors_array());
    if (!handle) {
      stream->out_of_memory = true;
      stream->stream.cancel();
      return call.fail(base::out_of_memory());
    }
    std::optional<StreamItem> next = call.value(stream->stream.next());
    if (!next) return;
    handle->array = std::move(next->array);
    *index = next->index;
    *array = handle.release();
  });
}

safetensors_status safetensors_stream_cancel(safetensors_stream* stream, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.require(stream, "stream");
    if (call.ok()) stream->stream.cancel();
  });
}

}  // extern "C"
