// A program in C++17 without exceptions and RTTI that climbs the ladders of safetensors.h: it writes files, opens them,
// views, reads, and reads again by a plan. It links the library, which is C++20.
//
// usage: ladder FOLDER
#include <safetensors/c.h>
#include <safetensors/safetensors.h>
#include <safetensors/to_dlpack.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "layout.h"

static_assert(__cplusplus == 201703L, "this file is compiled as C++17");
static_assert(std::is_convertible_v<std::vector<int>&, Span<int>> &&
              std::is_convertible_v<std::array<int, 3>&, Span<int>>);
static_assert(std::is_convertible_v<int (&)[3], Span<int>> && std::is_convertible_v<Span<int>, Span<const int>>);
static_assert(!std::is_convertible_v<std::vector<int>, Span<int>> &&
              !std::is_convertible_v<Span<const int>, Span<int>>);
static_assert(!std::is_convertible_v<std::vector<int>&, Span<const long>> &&
              !std::is_convertible_v<std::string&, Span<std::byte>> &&
              !std::is_convertible_v<std::vector<bool>&, Span<bool>>);
static_assert(!std::is_invocable_v<TypedView<float>, int>, "an element of a temporary view that can be written");

namespace {

Status failed(const char* what) {
  Error error;
  error.code = Errc::invalid_argument;
  error.message = what;
  return error;
}

Status write(const std::string& folder, Span<const float> weight) {
  if (Status s = save(folder + "/saved.safetensors",
                      {{"weight", {2, 3}, weight}, {"bias", {2}, std::vector<int>{7, 8}}}, {{"format", "pt"}});
      !s)
    return s;
  HeaderBuilder builder;
  if (Status s = builder.add("weight", Dtype::F32, {2, 3}); !s) return s;
  const Result<Header> header = builder.build();
  if (!header) return header.error();
  Result<Writer> writer = Writer::create(std::filesystem::path(folder) / "written.safetensors", *header);
  if (!writer) return writer.error();
  if (Status s = writer->write("weight", 12, as_bytes(weight.subspan(3))); !s) return s;
  if (Status s = writer->commit(); s || s.error().code != Errc::incomplete_write) return failed("an incomplete file");
  if (Status s = writer->write_slice("weight", "0", as_bytes(weight.first(3))); !s) return s;
  if (Status s = writer->commit(); !s) return s;
  return save_checkpoint(folder + "/model", {{"a", {6}, weight}, {"b", {6}, weight}}, [] {
    CheckpointLayoutOptions options;
    options.max_shard_size = 24;
    return options;
  }());
}

Status look(const std::string& folder) {
  const Result<File> file = File::open(folder + "/saved.safetensors");
  if (!file) return file.error();
  if (file->metadata().find("format") != "pt" || file->names().size() != 2) return failed("another file");
  const Result<TypedView<const float>> view = file->get<float>("weight", {2, 3});
  if (!view) return view.error();
  if ((*view)(1, 2) != 5 || view->row(1)[0] != 3) return failed("another element");
  const Result<Tensor> tensor = file->tensor("weight");
  if (!tensor) return tensor.error();
  const Result<std::vector<double>> column = tensor->read_as<double>({DimSlice::all(), DimSlice::at(1)});
  if (!column) return column.error();
  if (*column != std::vector<double>{1, 4}) return failed("another column");
  std::array<float, 3> row{};
  if (Status s = tensor->read_into(as_writable_bytes(Span(row)), "1"); !s) return s;
  if (row[2] != 5 || tensor->shape()[1] != 3 || Shape(tensor->shape()) != Shape{2, 3}) return failed("another row");
  const Result<Array> array = tensor->read(":, ::-1");
  if (!array) return array.error();
  const Result<Span<const float>> elements = array->as<float>();
  if (!elements) return elements.error();
  if (std::accumulate(elements->begin(), elements->end(), 0.0F) != 15) return failed("another sum");
  const Result<Array> all = file->view();
  if (!all) return all.error();
  const Result<Array> none = all->slice("7:8");
  return none && to_dlpack(*none).ok() ? Status() : failed("a slice of the bytes");
}

Status plan(const std::string& folder) {
  const Result<Checkpoint> model = Checkpoint::open(folder + "/model");
  if (!model) return model.error();
  if (model->files().size() != 2) return failed("another number of files");
  ReadPlan plan, whole;
  std::vector<double> memory(12);
  for (const Tensor& tensor : *model) {
    Destination destination;
    destination.bytes = as_writable_bytes(Span(memory).subspan(plan.size() * 6, 6));
    if (Status s = plan.add(tensor, {}, destination, Dtype::F64); !s) return s;
    if (Status s = whole.add(tensor); !s) return s;
  }
  std::uint64_t completed = 0;
  ReadOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t) { return completed = done, true; };
  options.on_reserved = [](Span<const Array> arrays) { return arrays.size() == 2; };
  const Result<ReadResult> read = plan.execute(options);
  if (!read) return read.error();
  if (memory[11] != 5 || completed != plan.nbytes() || read->find("b") == nullptr) return failed("another plan");
  const Result<ReadResult> packed = read_packed(whole);
  if (!packed) return packed.error();
  return packed->memory.nbytes() == 88 ? Status() : failed("another buffer");
}

Status errors(const std::string& folder) {
  const Result<File> none = File::open(folder + "/none");
  if (none || none.error().code != Errc::open_failed) return failed("a file that is not there");
  if (std::string(to_string(none.error().code)) != "open_failed") return failed("a code");
  const Result<Slice> slice = Slice::parse("1:2:x");
  return !slice && slice.error().code == Errc::slice_syntax ? Status() : failed("a slice that is none");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const Span<const std::size_t> sizes = sizes_in_cpp20();
  if (!std::equal(sizes.begin(), sizes.end(), std::begin(kSizes), std::end(kSizes)))
    return std::puts("the layout differs between C++17 and C++20"), 1;
  const std::string folder = arguments[1];
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const float weight[] = {0, 1, 2, 3, 4, 5};
  Status status = write(folder, weight);
  for (Status (*const step)(const std::string&) : {look, plan, errors})
    if (status) status = step(folder);
  if (!status) std::printf("%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
