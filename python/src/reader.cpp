// Reads tensors and slices. With the backend mmap, bytes come from a private copy-on-write map of the file, or from a
// read where a map costs more than a copy. With the others, a read plan reads into new memory. torch takes slices
// itself: only the rows that its index touches are read first.
#include "reader.h"

#include "file/file.h"
#include "os/memory.h"
#include "requests.h"
#include "watch.h"

namespace safetensors::python {
namespace {

constexpr std::uint64_t kMinMapBytes = 1 << 20;  // for less, a copy costs less than a map and its page faults

template <class Function>
auto without_gil(Function&& function) {
  const WithoutGil released;
  return function();
}

Accept parse_accept(nb::handle given) {
  Accept accept;
  const auto add = [&](nb::handle item) {
    const std::string_view name = from_str(item, "accept");
    if (name == "unknown_dtypes")
      accept.unknown_dtypes = true;
    else if (name == "unused_bytes")
      accept.unused_bytes = true;
    else
      raise("accept has `" + printable(name) + "`, expected \"unknown_dtypes\" or \"unused_bytes\"");
  };
  if (PyUnicode_Check(given.ptr()))
    add(given);
  else if (!given.is_none())
    for (const nb::handle item : nb::iter(given)) add(item);
  return accept;
}

}  // namespace

Backend parse_backend(std::string_view name, const std::string& where) {
  constexpr std::pair<const char*, Backend> kWords[] = {
      {"mmap", Backend::mmap}, {"pread", Backend::pread}, {"auto", Backend::automatic}};
  return parse_word("backend", name, kWords, where);
}

const char* name_of(Backend backend) noexcept {
  return backend == Backend::mmap ? "mmap" : backend == Backend::pread ? "pread" : "auto";
}

ReaderOptions::ReaderOptions(nb::handle given_framework, nb::handle given_device, nb::handle given_backend,
                             nb::handle given_accept)
    : framework(parse_framework(from_str(given_framework, "framework"))),
      device(parse_device(given_device)),
      backend(parse_backend(from_str(given_backend, "backend"))),
      accept(parse_accept(given_accept)) {
  check_device(framework, device);
}

Tensors Reader::list() const noexcept {
  return std::visit([](const auto& files) { return files.tensors(); }, files_);
}

Span<const File> Reader::files() const noexcept {
  const File* const one = std::get_if<File>(&files_);
  return one != nullptr ? Span<const File>(one, 1) : checkpoint()->files();
}

bool Reader::contains(std::string_view name) const noexcept {
  return std::visit([&](const auto& files) { return files.contains(name); }, files_);
}

void Reader::fail(const Error& error) const {
  raise_read_error(error, "", path_);
}

Tensor Reader::find(nb::handle name) const {
  const bool single = checkpoint() == nullptr;
  const std::optional<std::string_view> text = single ? from_str(name, "name") : to_name(name, "name");
  if (!text) raise_missing("no header can hold the name " + nb::cast<std::string>(nb::repr(name)), name);
  Result<Tensor> tensor = std::visit([&](const auto& files) { return files.tensor(*text); }, files_);
  if (tensor) return *std::move(tensor);
  if (single) raise_missing("File does not contain tensor " + printable(*text), name);
  if (tensor.error().code != Errc::not_found) raise_read_error(tensor.error(), "", "");
  raise_missing(tensor.error().message, name, &tensor.error());
}

std::shared_ptr<Maker> Reader::maker() {
  {
    const std::lock_guard lock(mutex_);
    if (maker_) return maker_;
  }
  const std::string prefix = "device " + options_.device.given + " cannot be used: ";
  std::shared_ptr<Maker> made = make_probed_maker(options_.framework, options_.device, prefix);
  const std::lock_guard lock(mutex_);
  if (!maker_) maker_ = std::move(made);
  return maker_;
}

Reader::Part Reader::all_of(const Tensor& tensor) {
  if (tensor.dtype() == Dtype::UNKNOWN) return {Dtype::U8, Shape({tensor.nbytes()}), 0, tensor.nbytes()};
  return {tensor.dtype(), Shape(tensor.shape()), 0, tensor.nbytes()};
}

std::optional<Reader::Part> Reader::part_of(const Tensor& tensor, const ResolvedSlice& slice) {
  if (!slice.contiguous()) return std::nullopt;
  return Part{tensor.dtype(), slice.shape(), file::first_byte(slice), slice.nbytes()};
}

// The part's range of the data of its file.
Array Reader::inside(const Array& data, const Tensor& tensor, const Part& part) {
  auto* const start = const_cast<std::byte*>(data.bytes().data()) + tensor.info().begin + part.begin;
  return Array(part.dtype, part.shape, {start, static_cast<std::size_t>(part.size)}, data.owner(), data.memory());
}

std::optional<Array> Reader::data(const File& file) {
  const Header& header = file.header();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = data_.find(&header); found != data_.end()) return found->second;
  }
  const std::uint64_t size = header.data_bytes();
  const auto view = without_gil(
      [&] { return detail::Access<File>::state(file)->view(header.data_start(), size, Map::copy_on_write); });
  if (!view) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return data_.try_emplace(&header, Array(Dtype::U8, Shape({size}), view->bytes, view->owner, view->kind))
      .first->second;
}

// maps: those that this call has made for a Maker whose arrays do not share memory with other calls.
nb::object Reader::view_in(Maps& maps, Maker& maker, const Tensor& tensor, const Part& part) {
  const File file = tensor.file();
  const auto [found, added] = maps.try_emplace(&file.header());
  auto& [data, memory] = found->second;
  if (added) {
    maker.check();
    std::optional<Array> shared = maker.shares() ? this->data(file) : std::nullopt;
    if (!shared) {
      Result<Array> fresh = without_gil([&] { return file.view(Map::copy_on_write); });
      if (!fresh) fail(fresh.error());
      shared = *std::move(fresh);
    }
    data = *std::move(shared);
    if (!maker.shares()) memory = make_memory(data);
  }
  return maker.make_inside(inside(data, tensor, part), data, memory);
}

ReadOptions Reader::read_options() const noexcept {
  return {.cache = options_.backend == Backend::automatic ? Cache::automatic : Cache::fill};
}

// A map per call would soon be more maps than a process may have. So callers share one map, and each tensor goes to one
// caller. When this caller drops it, the pages that are its alone go back to the system with all changes.
std::optional<Array> Reader::claim(const Tensor& tensor) {
  if (!maps() || tensor.nbytes() < kMinMapBytes) return std::nullopt;
  const std::optional<Array> all = data(tensor.file());
  if (!all) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    if (!claimed_.insert(&tensor.info()).second) return std::nullopt;
  }
  const Array mine = inside(*all, tensor, all_of(tensor));
  const std::span<std::byte> bytes(const_cast<std::byte*>(mine.bytes().data()), mine.bytes().size());
  std::shared_ptr<const void> owner(bytes.data(), [mine, bytes](const void*) { os::give_up_pages(bytes); });
  return Array(mine.dtype(), mine.shape(), bytes, std::move(owner), mine.memory());
}

Array Reader::read(const Tensor& tensor, const Slice& slice) const {
  ReadPlan plan;
  if (const Status status = plan.add(tensor, slice); !status) fail(status.error());
  Result<ReadResult> result = Watch().execute(plan, read_options());
  if (!result) fail(result.error());
  return std::move(result->arrays.front());
}

// Reads the slice, or maps it if that costs less.
Array Reader::read_or_map(const Tensor& tensor, const Slice& slice) {
  if (!maps() || tensor.dtype() == Dtype::UNKNOWN) return read(tensor, slice);
  const Result<ResolvedSlice> resolved = slice.resolve(tensor.dtype(), tensor.shape());
  if (!resolved) fail(resolved.error());
  const std::optional<Part> part = part_of(tensor, *resolved);
  if (!part || part->size < kMinMapBytes) return read(tensor, slice);
  const std::optional<Array> mine = claim(tensor);
  if (!mine) return read(tensor, slice);
  auto* const start = const_cast<std::byte*>(mine->bytes().data()) + part->begin;
  return Array(part->dtype, part->shape, {start, static_cast<std::size_t>(part->size)}, mine->owner(), mine->memory());
}

nb::object Reader::tensor(const Tensor& tensor) {
  const std::shared_ptr<Maker> made = maker();
  const std::optional<Array> all = maps() && made->shares() ? data(tensor.file()) : std::nullopt;
  if (all) return made->make(inside(*all, tensor, all_of(tensor)));
  if (const std::optional<Array> mine = claim(tensor)) return made->make(*mine);
  return made->make(read(tensor, Slice()));
}

// For a device other than the CPU, tensors are read and copied one by one, to bound the host memory.
nb::dict Reader::tensors() {
  const std::shared_ptr<Maker> made = maker();
  if (!maps() && options_.device.cpu()) return read_all(read_options(), nb::none());
  nb::dict result;
  Maps maps;
  for (const Tensor& tensor : list()) {
    check_signals(result.size());
    result[to_str(tensor.name())] = this->maps() ? view_in(maps, *made, tensor, all_of(tensor)) : this->tensor(tensor);
  }
  return result;
}

nb::dict Reader::read_all(const ReadOptions& options, nb::handle progress) {
  ReadPlan plan;
  std::vector<const TensorInfo*> infos;
  for (const Tensor& tensor : list()) {
    check_signals(plan.size());
    infos.push_back(&tensor.info());
    if (const Status status = plan.add(tensor); !status) fail(status.error());
  }
  nb::dict result;
  const auto add = [&](std::size_t i, nb::handle object) { result[to_str(infos[i]->name)] = object; };
  if (const Status status = make_results(plan, options, progress, *maker(), {}, add); !status) fail(status.error());
  return result;
}

nb::dict Reader::views(nb::handle requests) {
  const std::shared_ptr<Maker> made = maker();
  nb::dict result;
  Maps maps;
  std::size_t round = 0;
  for (const nb::handle request : nb::iter(requests)) {
    check_signals(round++);
    const Tensor tensor = find(request[0]);
    const nb::object index = request[1];
    const bool whole = tensor.dtype() == Dtype::UNKNOWN && index.is_none();
    const std::optional<Part> part = whole ? all_of(tensor) : part_of(tensor, resolve(tensor, index));
    if (part) result[to_str(tensor.name())] = view_in(maps, *made, tensor, *part);
  }
  return result;
}

ResolvedSlice resolve(const Tensor& tensor, nb::handle index) {
  const Slice slice = index.is_none() ? Slice() : parse_index(index, tensor.shape());
  Result<ResolvedSlice> part = slice.resolve(tensor.dtype(), tensor.shape());
  if (!part) raise_read_error(part.error(), "", "");
  return *std::move(part);
}

nb::object Reader::slice(const Tensor& tensor, nb::handle index) {
  const std::shared_ptr<Maker> made = maker();
  if (made->indexes()) return torch_slice(tensor, index);
  return made->make(read_or_map(tensor, parse_index(index, tensor.shape())));
}

nb::object Reader::torch_slice(const Tensor& tensor, nb::handle index) {
  refuse_meta_index(index);
  if (tensor.dtype() == Dtype::UNKNOWN) fail(Slice().resolve(tensor.dtype(), tensor.shape()).error());
  const bool reference = options_.index_errors == IndexErrors::reference;
  const std::optional<TorchIndex> parsed = maps() ? std::nullopt : parse_torch_index(index, tensor.shape(), reference);
  if (!maps() && bits(tensor.dtype()) >= 8 && !tensor.shape().empty()) {
    if (parsed) {
      nb::object result = maker()->make(read(tensor, parsed->slice));
      return parsed->new_axes ? result[parsed->axes] : result;
    }
    const nb::module_ torch_index = import_own("_arrays.torch_index");
    const nb::object rows = torch_index.attr("bounding_rows")(index, tensor.shape()[0]);
    if (!rows.is_none()) {
      const Slice slice{DimSlice::range(nb::cast<std::int64_t>(rows[0]), nb::cast<std::int64_t>(rows[1]))};
      const nb::object some = maker()->make(read(tensor, slice));
      return own(PyObject_GetItem(some.ptr(), nb::object(rows[2]).ptr()));
    }
    // Before the whole tensor is read: an iteration over a slice ends with this error.
    if (!reference) torch_index.attr("check")(index, to_tuple(tensor.shape()));
  }
  const nb::object whole = this->tensor(tensor);
  return own(PyObject_GetItem(whole.ptr(), index.ptr()));
}

}  // namespace safetensors::python
