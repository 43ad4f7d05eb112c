// A program that uses the C++ interface as it was when the stable headers were named (docs/cpp.md). It must compile
// with every version that has the same first number. Do not change it: it stands for programs of users.
//
// use: source_1 FILE, which it writes and removes
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <safetensors/save.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace st = safetensors;

namespace {

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

class Bytes final : public st::Source {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  st::Result<std::uint64_t> size() const noexcept override { return bytes_.size(); }
  st::Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> destination) const noexcept override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count =
        std::min<std::size_t>(destination.size(), bytes_.size() - static_cast<std::size_t>(offset));
    std::memcpy(destination.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::string bytes_;
};

void write(const std::string& path) {
  const std::vector<float> w{0, 1, 2, 3, 4, 5};
  st::Status status =
      st::save(path, {{"w", {2, 3}, w}, {"step", {}, std::vector<std::int64_t>{7}}}, {{"format", "pt"}});
  expect(status.ok(), "save");
  st::WriteOptions options;
  options.durability = st::Durability::none;
  const st::File file = st::File::open(path).value();
  status = st::save(path + ".copy", {file["w"], st::NamedTensor("again", file["step"].read().value())}, {}, options);
  expect(bool(status) && std::remove((path + ".copy").c_str()) == 0, "save of tensors and arrays");
}

void look(const st::File& file) {
  expect(file.size() == 2 && !file.empty() && file.contains("w") && file.names().size() == 2, "names");
  for (const st::Tensor& tensor : file) expect(tensor.nbytes() == tensor.info().end - tensor.info().begin, "sizes");
  for (const auto& [key, value] : file.metadata()) expect(key == "format" && value == "pt", "metadata");
  const st::Result<st::Tensor> missing = file.tensor("v");
  expect(!missing && missing.error().code == st::Errc::not_found, "an unknown name");
  expect(!missing.error().to_string().empty() && missing.error().offset == st::Error::kNoOffset, "its error");
  const st::TensorInfo info = file.info("w").value();
  expect(info.dtype == st::Dtype::F32 && st::to_string(info.shape) == "[2, 3]" && info.numel() == 6, "info");
  expect(st::bits(info.dtype) == 32 && st::parse_dtype("F32") == st::Dtype::F32, "dtypes");
}

void read(const st::File& file) {
  const st::TypedView<const float> view = file.get<float>("w", {2, 3}).value();
  expect(view(1, 2) == 5 && view.row(1)[0] == 3 && view.span().size() == 6, "a typed view");
  const st::Tensor w = file["w"];
  st::Array array = w.view().value();
  expect(array.as<float>().value()[1] == 1 && array.shape() == st::Shape{2, 3}, "a view");
  array = w.read().value();
  array.as_mutable<float>().value()[0] = 9;
  expect(array.get<float>().value()(0, 0) == 9 && array.memory() == st::MemoryKind::owned, "own memory");
  expect(w.read_as<double>(":,1").value()[1] == 4, "a slice with a cast");
  expect(w.view(st::Slice::shard(0, 1, 2)).value().nbytes() == 12, "a shard");
  float column[2];
  const st::Slice slice{st::DimSlice::all(), st::DimSlice::at(-1)};
  expect(w.read_into(slice, std::as_writable_bytes(std::span(column))).ok() && column[1] == 5, "read_into");
  expect(st::dims_as<std::size_t>(w.shape()).value()[1] == 3, "dimensions");
}

void plan(const st::File& file) {
  st::ReadPlan plan;
  double values[6];
  plan.add(file["w"], {.bytes = std::as_writable_bytes(std::span(values))}, {.cast = st::Dtype::F64}).value();
  plan.add(file["w"], st::Slice("1"), {}, {}).value();
  expect(plan.size() == 2 && plan.nbytes() == 48 + 12, "the size of a plan");
  st::Arena arena;
  st::ReadOptions options{.threads = 2, .memory_limit = 1 << 20, .cache = st::Cache::fill, .arena = &arena};
  options.progress = [](std::uint64_t done, std::uint64_t total) { return done <= total; };
  const st::ReadResult result = plan.execute(options).value();
  expect(values[5] == 5 && result.arrays[1].as<float>().value()[0] == 3 && result["w"].nbytes() == 48, "its results");
  expect(result.report.bytes == 60 && result.report.threads >= 1, "its report");
  st::Stream stream = plan.stream().value();
  std::size_t items = 0;
  while (std::optional<st::StreamItem> item = stream.next().value()) items += item->array.nbytes() > 0 ? 1 : 0;
  expect(items == 2, "a stream");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string path = argv[1];
  write(path);
  const st::OpenOptions options{.access = st::Access::read, .parse = {.max_header_bytes = 1 << 20}};
  const st::File file = st::File::open(path, options).value();
  look(file);
  read(file);
  plan(file);
  expect(st::File::from_source(std::make_shared<Bytes>(std::string("\x02\0\0\0\0\0\0\0{}", 10))).ok(), "a Source");
  try {
    (void)st::File::open("no such file").value();
    return 1;
  } catch (const st::Exception& exception) {
    expect(exception.error().code == st::Errc::open_failed && std::string_view(exception.what()).size() > 10, "throws");
  }
  return std::remove(argv[1]) == 0 ? 0 : 1;
}
