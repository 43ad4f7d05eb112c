// Each line with an `expect:` is a misuse that must not compile, with this in the error (check.cmake). Without them
// this file compiles: the line beside a misuse does it right.
#include <safetensors/safetensors.h>

#include <vector>

using namespace safetensors;

// What an object gives points into it, so an object that nobody keeps gives nothing.
namespace temporary {
void array(const Tensor& tensor) {
  Array array = tensor.read().value();
  (void)array.bytes()[0];
  (void)tensor.view().value().bytes()[0];  // expect: deleted
  (void)array.mutable_bytes().ok();
  (void)tensor.read().value().mutable_bytes().ok();  // expect: deleted
  (void)array.shape()[0];
  (void)tensor.read().value().shape()[0];  // expect: deleted
  (void)array.as<float>().value()[0];
  (void)tensor.view().value().as<float>().value()[0];  // expect: deleted
  array.as_mutable<float>().value()[0] = 0;
  tensor.read().value().as_mutable<float>().value()[0] = 0;  // expect: deleted
}

void typed_view(const File& file) {
  const auto view = file.get<float>("w").value();
  (void)view.row(0);
  (void)file.get<float>("w").value().row(0);  // expect: deleted
  (void)view.span();
  (void)file.get<float>("w").value().span();  // expect: deleted
}

void checkpoint() {
  const Checkpoint model = Checkpoint::open("model").value();
  (void)model.files().size();
  (void)Checkpoint::open("model").value().files().size();  // expect: deleted
  (void)model.index_metadata().size();
  (void)Checkpoint::open("model").value().index_metadata().size();  // expect: deleted
  (void)model.tensors()[0].nbytes();
  (void)Checkpoint::open("model").value().tensors()[0].nbytes();  // expect: deleted
}

void checkpoint_layout() {
  const CheckpointLayout layout = CheckpointLayout::make({}).value();
  (void)layout.files().size();
  (void)CheckpointLayout::make({}).value().files().size();  // expect: deleted
}

void file(const Tensor& tensor) {
  const File file = tensor.file();
  (void)file.header();
  (void)File::open("f").value().header();  // expect: deleted
  (void)file.names().size();
  (void)File::open("f").value().names().size();  // expect: deleted
  (void)file.path().size();
  (void)tensor.file().path().size();  // expect: deleted
  (void)file.source().size().ok();
  (void)tensor.file().source().size().ok();  // expect: deleted
}

// The loop that everybody writes first.
void loop(std::uint64_t& bytes) {
  const File file = File::open("f").value();
  for (const auto& info : file.header().tensors()) bytes += info.nbytes();
  for (const auto& info : File::open("f").value().header().tensors()) bytes += info.nbytes();  // expect: deleted
}

void header(std::string_view text, const TensorInfo& info) {
  const Header header = Header::parse(text, 0).value();
  (void)header.dtype_name(info).size();
  (void)Header::parse(text, 0).value().dtype_name(info).size();  // expect: deleted
  (void)header.find("a");
  (void)Header::parse(text, 0).value().find("a");  // expect: deleted
  (void)header.metadata().size();
  (void)Header::parse(text, 0).value().metadata().size();  // expect: deleted
  (void)header.tensors().size();
  (void)Header::parse(text, 0).value().tensors().size();  // expect: deleted
}

void resolved_slice(const Slice& slice, ShapeView shape) {
  const ResolvedSlice resolved = slice.resolve(Dtype::F32, shape).value();
  (void)resolved.shape().rank();
  (void)slice.resolve(Dtype::F32, shape).value().shape().rank();  // expect: deleted
}

void tensor(const File& file) {
  const Tensor tensor = file.tensor("a").value();
  (void)tensor.info().file_offset;
  (void)file.tensor("a").value().info().file_offset;  // expect: deleted
  (void)tensor.name().size();
  (void)file.tensor("a").value().name().size();  // expect: deleted
  (void)tensor.shape().size();
  (void)file.tensor("a").value().shape().size();  // expect: deleted
}

void result(const File& file) {
  const auto tensor = file.tensor("a");
  (void)tensor->shape().size();
  (void)file.tensor("a")->shape().size();  // expect: deleted
}

void writer(const Header& header) {
  const Writer writer = Writer::create("a", header).value();
  (void)writer.header().size();
  (void)Writer::create("a", header).value().header().size();  // expect: deleted
}
}  // namespace temporary

// Bytes that a call takes without a copy must outlive it.
namespace taken {
std::vector<std::byte> download();

// The File reads the bytes again and again.
void from_memory() {
  const auto bytes = std::make_shared<const std::vector<std::byte> >(download());
  (void)File::from_memory(*bytes, bytes).ok();
  (void)File::from_memory(download(), nullptr).ok();  // expect: deleted
}

// A temporary std::vector is moved into a NamedTensor. A const one cannot be moved, and an array is not copied.
using Elements = const std::vector<float>;
void named_tensor(Elements& elements) {
  using Two = float[2];
  const Two two = {1, 2};
  (void)NamedTensor{"w", {2}, elements};
  (void)NamedTensor{"w", {2}, static_cast<Elements&&>(elements)};  // expect: deleted
  (void)save("a", {{"w", {2}, two}, {"v", {2}, std::vector<float>{1, 2}}}).ok();
  (void)save("a", {{"w", {2}, Two{two[0], 2}}}).ok();  // expect: deleted
}

// Nobody would see the elements, and a plan would read into memory that is gone.
void destinations(ReadPlan& plan, const Tensor& tensor) {
  std::vector<std::byte> bytes(8);
  (void)tensor.read_into(bytes).ok();
  (void)tensor.read_into(std::vector<std::byte>(8)).ok();  // expect: convert|viable conversion|no matching|could not
  (void)plan.add(tensor, {}, {.bytes = bytes}).ok();
  (void)plan.add(tensor, {}, {.bytes = download()}).ok();  // expect: convert|viable conversion|no matching|could not
}
}  // namespace taken

// The Result or Status of a call is ignored.
namespace ignored {
void builder(HeaderBuilder& builder) {
  if (!builder.add("a", Dtype::F32, {2, 3})) return;
  builder.add("a", Dtype::F32, {2, 3});  // expect: nodiscard
}

void writer(const Header& header, Writer& writer, Span<const std::byte> bytes) {
  if (!Writer::create("a", header)) return;
  Writer::create("a", header);  // expect: nodiscard
  if (!writer.write("a", 0, bytes)) return;
  writer.write("a", 0, bytes);  // expect: nodiscard
  if (!writer.commit()) return;
  writer.commit();  // expect: nodiscard
}
}  // namespace ignored

// What is read-only gives no way to write.
namespace read_only {
void array([[maybe_unused]] const Array& shared, Array& own) {
  (void)own.as_mutable<float>().ok();
  (void)shared.as_mutable<float>().ok();  // expect: no matching
  own.mutable_bytes().value()[0] = std::byte{0};
  own.bytes()[0] = std::byte{0};  // expect: read-only|const
}

void typed_view(const File& file) {
  const auto view = file.get<float>("w").value();
  (void)view(0, 0);
  view(0, 0) = 1;  // expect: lvalue|assignable
}
}  // namespace read_only

// An object with one owner is moved, and a Source is shared by pointer.
namespace copied {
HeaderBuilder take(HeaderBuilder& builder) {
  return builder;  // expect: deleted function|deleted copy
  return std::move(builder);
}

Writer take(Writer& writer) {
  return writer;  // expect: deleted function|deleted copy
  return std::move(writer);
}

struct Empty : Source {
  Result<std::uint64_t> size() const noexcept override { return std::uint64_t{0}; }
  Result<std::size_t> read_at(std::uint64_t, Span<std::byte>) const noexcept override { return std::size_t{0}; }
};

std::uint64_t size(const Empty& source) {
  const Empty copy = source;  // expect: deleted function|deleted copy
  const Empty& same = source;
  return same.size().value();
}
}  // namespace copied

namespace types {
struct Pixel {
  float red, green, blue;
};

// The message lists the types that exist, or names ElementOf, which lists the types of each dtype.
void without_elements(const File& file, const Array& array) {
  (void)file.get<float>("w").ok();
  (void)file.get<Pixel>("w").ok();  // expect: use float, double, bool, char
  (void)array.as<float>().ok();
  (void)array.as<std::string>().ok();  // expect: ElementOf
}

// Its elements have no place in memory that a read could fill.
void vector_of_bool(const Tensor& tensor) {
  (void)tensor.read_as<std::uint8_t>().ok();
  (void)tensor.read_as<bool>().ok();  // expect: std::vector<bool>
}

// Elements of type char have no dtype of their own.
void text(const std::vector<std::int8_t>& numbers, const std::vector<char>& text) {
  (void)save("f", {{"t", {3}, numbers}}).ok();
  (void)save("f", {{"t", {3}, text}}).ok();  // expect: no dtype of their own
  (void)text.empty();
}

// The function has the name that it has for every other enum.
std::string_view dtype_name(Dtype dtype) {
  return safetensors::name(dtype);  // expect: not a member|no member
  return to_string(dtype);
}

// A Result is not its value: you must check for an error first.
Header result_as_value(std::string_view text) {
  const Header refused = Header::parse(text, 0);  // expect: conversion
  return Header::parse(text, 0).value();
}

// A Status converts to bool in conditions only.
int status_as_integer(Writer& writer) {
  return writer.commit();  // expect: convert|viable conversion
  return writer.commit() ? 0 : 1;
}

// Nobody could distinguish a value that is an Error from a failure.
bool result_of_error() {
  return Result<Error>(Error{}).ok();  // expect: static assertion|static_assert
  return Result<int>(1).ok();
}
}  // namespace types
