// Reads tensors and slices of one file. With the backend mmap, bytes come from a private copy-on-write map, or from a
// read where a map costs more than a copy. With the others, a read plan reads into new memory. torch takes slices
// itself: only the rows that its index touches are read first.
#include "opened.h"

#include "file/file.h"
#include "index.h"
#include "memory.h"
#include "os/memory.h"
#include "requests.h"
#include "results.h"

namespace safetensors::python {
namespace {

constexpr std::uint64_t kMinMapBytes = 1 << 20;  // for less, a copy costs less than a map and its page faults

// A range of the bytes of an array, with a dtype and a shape of its own.
Array range_of(const Array& data, Dtype dtype, const Shape& shape, const ByteRun& bytes) {
  auto* const start = const_cast<std::byte*>(data.bytes().data()) + bytes.offset;
  return Array(dtype, shape, {start, static_cast<std::size_t>(bytes.size)}, data.owner(), data.memory());
}

// The tensor's range of the data of its file.
Array inside(const Array& data, const TensorInfo& tensor) {
  const ByteRun bytes{tensor.begin, tensor.nbytes()};
  if (tensor.dtype == Dtype::UNKNOWN) return range_of(data, Dtype::U8, Shape({bytes.size}), bytes);
  return range_of(data, tensor.dtype, Shape(tensor.shape), bytes);
}

template <class Function>
auto without_gil(Function&& function) {
  const WithoutGil released;
  return function();
}

}  // namespace

Backend parse_backend(std::string_view name, const std::string& where) {
  if (name == "mmap") return Backend::mmap;
  if (name == "pread") return Backend::pread;
  if (name == "auto") return Backend::automatic;
  raise(where + "backend \"" + std::string(name) + R"(" is invalid (expected one of: "mmap", "pread", "auto"))");
}

Backend backend_for(const File& file) noexcept {
  return file.access() == Access::map ? Backend::mmap : Backend::pread;
}

const char* name_of(Backend backend) noexcept {
  return backend == Backend::mmap ? "mmap" : backend == Backend::pread ? "pread" : "auto";
}

std::optional<Part> contiguous_part(const Tensor& tensor, const ResolvedSlice& slice) {
  if (!slice.contiguous()) return std::nullopt;
  Part part{tensor, slice.shape(), {}};
  ResolvedSlice::Runs runs = slice.runs();
  if (!runs.next(part.bytes)) part.bytes = {};  // no elements
  return part;
}

Part all_bytes(const Tensor& tensor) {
  return {tensor, Shape({tensor.nbytes()}), {0, tensor.nbytes()}};
}

void Opened::fail(const Error& error) const {
  raise_read_error(error, "", path_);
}

Tensor Opened::find(std::string_view name) const {
  Result<Tensor> tensor = file_.tensor(name);
  if (!tensor) raise_missing("File does not contain tensor " + printable(name), to_str(name));
  return *std::move(tensor);
}

std::shared_ptr<Maker> Opened::maker() {
  {
    const std::lock_guard lock(mutex_);
    if (maker_) return maker_;
  }
  std::shared_ptr<Maker> made = make_probed_maker(framework_, device_);
  const std::lock_guard lock(mutex_);
  if (!maker_) maker_ = std::move(made);
  return maker_;
}

std::optional<Array> Opened::data() {
  {
    const std::lock_guard lock(mutex_);
    if (data_) return data_;
  }
  const std::uint64_t size = header().data_bytes();
  const auto view = without_gil(
      [&] { return detail::Access<File>::state(file_)->view(header().data_start(), size, Map::copy_on_write); });
  if (!view) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!data_) data_ = Array(Dtype::U8, Shape({size}), view->bytes, view->owner, view->kind);
  return data_;
}

Array Opened::map_for(const Maker& maker) {
  if (std::optional<Array> all = maker.shares() ? data() : std::nullopt) return *std::move(all);
  Result<Array> fresh = without_gil([&] { return file_.view(Map::copy_on_write); });
  if (!fresh) fail(fresh.error());
  return *std::move(fresh);
}

ReadOptions Opened::read_options() const noexcept {
  return {.cache = backend_ == Backend::automatic ? Cache::automatic : Cache::fill};
}

Result<ReadResult> Opened::execute(const ReadPlan& plan) const {
  return Watch().execute(plan, read_options());
}

// A map per call would soon be more maps than a process may have. So callers share one map, and each tensor goes to one
// caller. When this caller drops it, the pages that are its alone go back to the system with all changes.
std::optional<Array> Opened::claim(const Tensor& tensor) {
  if (!maps() || tensor.nbytes() < kMinMapBytes) return std::nullopt;
  const std::optional<Array> all = data();
  if (!all) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    if (!claimed_.insert(&tensor.info()).second) return std::nullopt;
  }
  const Array mine = inside(*all, tensor.info());
  const std::span<std::byte> bytes(const_cast<std::byte*>(mine.bytes().data()), mine.bytes().size());
  std::shared_ptr<const void> owner(bytes.data(), [mine, bytes](const void*) { os::give_up_pages(bytes); });
  return Array(mine.dtype(), mine.shape(), bytes, std::move(owner), mine.memory());
}

Array Opened::read(const Tensor& tensor) {
  if (std::optional<Array> mine = claim(tensor)) return *std::move(mine);
  return read_slice(tensor, Slice());
}

Array Opened::read_slice(const Tensor& tensor, const Slice& slice) const {
  ReadPlan plan;
  if (const Status status = plan.add(tensor, slice); !status) fail(status.error());
  Result<ReadResult> result = execute(plan);
  if (!result) fail(result.error());
  return std::move(result->arrays.front());
}

// Reads the slice, or maps it if that costs less.
Array Opened::part(const Tensor& tensor, const Slice& slice) {
  if (!maps()) return read_slice(tensor, slice);
  if (tensor.dtype() == Dtype::UNKNOWN) return read_slice(tensor, slice);  // an error, or all of its bytes
  const Result<ResolvedSlice> resolved = slice.resolve(tensor.dtype(), tensor.shape());
  if (!resolved) fail(resolved.error());
  const std::optional<Part> found = contiguous_part(tensor, *resolved);
  if (!found || found->bytes.size < kMinMapBytes) return read_slice(tensor, slice);
  const std::optional<Array> mine = claim(tensor);
  return mine ? range_of(*mine, tensor.dtype(), found->shape, found->bytes) : read_slice(tensor, slice);
}

nb::object Opened::tensor(const Tensor& tensor) {
  const std::shared_ptr<Maker> made = maker();
  const std::optional<Array> all = maps() && made->shares() ? data() : std::nullopt;
  if (all) return made->make(inside(*all, tensor.info()));
  return made->make(read(tensor));
}

nb::object Opened::tensors() {
  const std::shared_ptr<Maker> made = maker();
  if (!maps()) return each_tensor(*made);
  const Array all = map_for(*made);
  const nb::object memory = made->shares() ? nb::none() : make_memory(all);
  nb::dict result;
  for (const TensorInfo& tensor : header().tensors()) {
    check_signals(result.size());
    result[to_str(tensor.name)] = made->make_inside(inside(all, tensor), all, memory);
  }
  return result;
}

void Opened::add_views(std::span<const Part> parts, nb::handle dict) {
  const std::shared_ptr<Maker> made = maker();
  const Array all = map_for(*made);
  const nb::object memory = made->shares() ? nb::none() : make_memory(all);
  std::size_t round = 0;
  for (const auto& [tensor, shape, bytes] : parts) {
    check_signals(round++);
    const ByteRun in_file{tensor.info().begin + bytes.offset, bytes.size};
    const Dtype dtype = tensor.dtype() == Dtype::UNKNOWN ? Dtype::U8 : tensor.dtype();
    const nb::object view = made->make_inside(range_of(all, dtype, shape, in_file), all, memory);
    if (PyDict_SetItem(dict.ptr(), to_str(tensor.name()).ptr(), view.ptr()) != 0) throw nb::python_error();
  }
}

// Reads all tensors at once. For another device they are read and copied one by one, to bound the host memory.
nb::object Opened::each_tensor(Maker& maker) {
  nb::dict result;
  if (!device_.cpu()) {
    for (const TensorInfo& tensor : header().tensors()) {
      check_signals(result.size());
      result[to_str(tensor.name)] = maker.make(read(find(tensor.name)));
    }
    return result;
  }
  ReadPlan plan;
  for (const Tensor& tensor : list()) {
    check_signals(plan.size());
    if (const Status status = plan.add(tensor); !status) fail(status.error());
  }
  const TensorList infos = header().tensors();
  const auto add = [&](std::size_t i, nb::handle object) { result[to_str(infos[i].name)] = object; };
  const Result<ReadReport> report = make_results(plan, read_options(), nb::none(), maker, {}, add);
  if (!report) fail(report.error());
  return result;
}

nb::object Opened::slice(const Tensor& tensor, nb::handle index) {
  const std::shared_ptr<Maker> made = maker();
  if (made->indexes()) return torch_slice(tensor, index);
  return made->make(part(tensor, parse_index(index, tensor.shape())));
}

nb::object Opened::torch_slice(const Tensor& tensor, nb::handle index) {
  refuse_meta_index(index);
  if (tensor.dtype() == Dtype::UNKNOWN) fail(Slice().resolve(tensor.dtype(), tensor.shape()).error());
  if (!maps() && index_errors_ == IndexErrors::reference) refuse_torch_index(index, tensor.shape());
  if (!maps() && bits(tensor.dtype()) >= 8 && !tensor.shape().empty()) {
    if (const std::optional<TorchIndex> parsed = parse_torch_index(index, tensor.shape())) {
      nb::object result = maker()->make(part(tensor, parsed->slice));
      return parsed->new_axes ? result[parsed->axes] : result;
    }
    const nb::module_ torch_index = import_own("_arrays.torch_index");
    const nb::object rows = torch_index.attr("bounding_rows")(index, tensor.shape()[0]);
    if (!rows.is_none()) {
      const Slice slice{DimSlice::range(nb::cast<std::int64_t>(rows[0]), nb::cast<std::int64_t>(rows[1]))};
      const nb::object read = maker()->make(part(tensor, slice));
      return own(PyObject_GetItem(read.ptr(), nb::object(rows[2]).ptr()));
    }
    // Before the whole tensor is read: an iteration over a slice ends with this error.
    if (index_errors_ == IndexErrors::torch) torch_index.attr("check")(index, to_tuple(tensor.shape()));
  }
  const nb::object whole = this->tensor(tensor);
  return own(PyObject_GetItem(whole.ptr(), index.ptr()));
}

}  // namespace safetensors::python
