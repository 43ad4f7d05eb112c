// Formats a slice as raw bytes, npy, text or JSON. It reads 768 KiB at a time, so memory stays bounded for any tensor.
// Nested brackets are written by counting indices, not by recursion, because the rank comes from the file.
#include "cat_output.h"

#include "input.h"
#include "text/text.h"

#include <safetensors/dtype.h>
#include <safetensors/element.h>
#include <safetensors/file.h>

#include "format/dtype/cast.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace safetensors::cli {
namespace {

// Formats elements as text. Floats become double, which holds all values of the smaller dtypes exactly, and then text
// by std::to_chars. Python, JavaScript and jq read JSON numbers as doubles, so they get exactly the value in the file.

// A float is the shortest decimal that reads back, as a double, to exactly the value in the file: 0.1 as F32 is
// 0.10000000149011612. Text mode: 1.0, nan, inf, -inf, true, false, 1.0+2.0j. A BOOL byte over 1 is a number. JSON mode
// is the same, except that a value that is not finite is a string ("nan"), C64 is [1.0, 2.0], and any BOOL byte except
// 0 is true.
class ElementText {
 public:
  ElementText(Dtype dtype, bool json);

  // Appends element `index` of packed elements. F4 and F6 are packed from the lowest bit of the first byte up.
  void append(std::string& out, std::span<const std::byte> packed, std::uint64_t index);

 private:
  void append_float(std::string& out, float value) const;
  const std::string& small_float(std::uint32_t code);

  Dtype dtype_;
  bool json_;
  std::vector<std::string> texts_;  // cached texts of small floats, indexed by their bits
};

bool is_small_float(Dtype dtype) {
  switch (dtype) {
    case Dtype::F16:
    case Dtype::BF16:
    case Dtype::F8_E5M2:
    case Dtype::F8_E4M3:
    case Dtype::F8_E8M0:
    case Dtype::F8_E4M3FNUZ:
    case Dtype::F8_E5M2FNUZ:
    case Dtype::F6_E2M3:
    case Dtype::F6_E3M2:
    case Dtype::F4:
      return true;
    default:
      return false;
  }
}

// Returns the shortest decimal that reads back as this double: "1.0", "1e-07". A finite value has a point or an
// exponent, so that no reader takes it for an integer.
std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  char text[64];
  const auto [end, code] = std::to_chars(text, text + sizeof text, value);
  std::string result(text, end);
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

template <class Integer>
Integer load(std::span<const std::byte> packed, std::uint64_t index) {
  const auto element = packed.subspan(static_cast<std::size_t>(index) * sizeof(Integer));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) value |= std::to_integer<std::uint64_t>(element[i]) << (8 * i);
  return static_cast<Integer>(value);
}

// Loads an element of 4, 6, 8 or 16 bits.
std::uint32_t load_bits(std::span<const std::byte> packed, std::uint64_t index, unsigned bits) {
  const std::uint64_t first = index * bits;
  const std::size_t byte = static_cast<std::size_t>(first / 8);
  std::uint32_t value = std::to_integer<std::uint32_t>(packed[byte]);
  if (first % 8 + bits > 8) value |= std::to_integer<std::uint32_t>(packed[byte + 1]) << 8;
  return value >> (first % 8) & ((1u << bits) - 1);
}

template <class Integer>
void append_integer(std::string& out, std::span<const std::byte> packed, std::uint64_t index) {
  char text[std::numeric_limits<Integer>::digits10 + 2];
  out.append(text, std::to_chars(text, std::end(text), load<Integer>(packed, index)).ptr);
}

void append_text(std::string& out, const std::string& text, bool json) {
  const bool quoted = json && text.find_first_of("ni") != std::string::npos;
  if (quoted) out += '"';
  out += text;
  if (quoted) out += '"';
}

ElementText::ElementText(Dtype dtype, bool json) : dtype_(dtype), json_(json) {
  if (is_small_float(dtype)) texts_.resize(std::size_t{1} << bits(dtype));
}

const std::string& ElementText::small_float(std::uint32_t code) {
  std::string& text = texts_[code];
  if (text.empty()) text = shortest(static_cast<double>(to_float(dtype_, static_cast<std::uint16_t>(code))));
  return text;
}

void ElementText::append_float(std::string& out, float value) const {
  append_text(out, shortest(static_cast<double>(value)), json_);
}

void ElementText::append(std::string& out, std::span<const std::byte> packed, std::uint64_t index) {
  switch (dtype_) {
    case Dtype::BOOL: {
      const auto value = load<std::uint8_t>(packed, index);
      out += value == 0 ? "false" : value == 1 || json_ ? "true" : std::to_string(value);
      return;
    }
    case Dtype::U8:
      return append_integer<std::uint8_t>(out, packed, index);
    case Dtype::I8:
      return append_integer<std::int8_t>(out, packed, index);
    case Dtype::U16:
      return append_integer<std::uint16_t>(out, packed, index);
    case Dtype::I16:
      return append_integer<std::int16_t>(out, packed, index);
    case Dtype::U32:
      return append_integer<std::uint32_t>(out, packed, index);
    case Dtype::I32:
      return append_integer<std::int32_t>(out, packed, index);
    case Dtype::U64:
      return append_integer<std::uint64_t>(out, packed, index);
    case Dtype::I64:
      return append_integer<std::int64_t>(out, packed, index);
    case Dtype::F32:
      return append_float(out, std::bit_cast<float>(load<std::uint32_t>(packed, index)));
    case Dtype::F64:
      return append_text(out, shortest(std::bit_cast<double>(load<std::uint64_t>(packed, index))), json_);
    case Dtype::C64: {
      const float real = std::bit_cast<float>(load<std::uint32_t>(packed, 2 * index));
      const float imaginary = std::bit_cast<float>(load<std::uint32_t>(packed, 2 * index + 1));
      if (json_) out += '[';
      append_float(out, real);
      out += json_ ? ", " : std::signbit(imaginary) && !std::isnan(imaginary) ? "" : "+";
      append_float(out, imaginary);
      out += json_ ? ']' : 'j';
      return;
    }
    default:
      return append_text(out, small_float(load_bits(packed, index, bits(dtype_))), json_);
  }
}

// A slice with short pieces would need a system call per piece. So a piece that starts near the last one fills a window
// of 1 MiB, from which the next pieces are copied. The window lies before the piece if the slice runs backwards.

// Long pieces are read straight into the destination. Short pieces that are close together go through a window of 1
// MiB. file and slice must outlive this object.
class SliceStream {
 public:
  SliceStream(const File& file, const TensorInfo& tensor, const ResolvedSlice& slice);

  // The number of bytes that are not read yet.
  [[nodiscard]] std::uint64_t remaining() const { return remaining_; }
  // Fills destination, which must not be longer than remaining(). Errors: read_failed, file_truncated.
  [[nodiscard]] Status read(std::span<std::byte> destination);
  void skip(std::uint64_t bytes);  // at most remaining()

 private:
  // Returns the next part of a piece, at most `max` bytes.
  ByteRun take(std::uint64_t max);
  // Reads bytes at an offset in the tensor.
  Status fetch(std::uint64_t offset, std::span<std::byte> destination);
  Status read_exactly(std::uint64_t offset, std::span<std::byte> destination) const;

  const Source& source_;
  std::uint64_t tensor_offset_;
  std::uint64_t tensor_size_;
  ResolvedSlice::Runs runs_;
  ByteRun run_;  // the rest of the current piece
  std::uint64_t remaining_;
  std::uint64_t last_offset_ = 0;
  std::uint64_t window_offset_ = 0;
  std::vector<std::byte> window_;
};

constexpr std::uint64_t kWindow = 1 << 20;
constexpr std::uint64_t kLongRun = 64 << 10;
// Pieces with a larger distance are read one by one: reading the bytes between them would cost more.
constexpr std::uint64_t kNear = 16 << 10;

SliceStream::SliceStream(const File& file, const TensorInfo& tensor, const ResolvedSlice& slice)
    : source_(file.source()),
      tensor_offset_(tensor.file_offset),
      tensor_size_(tensor.nbytes()),
      runs_(slice.runs()),
      remaining_(slice.nbytes()) {}

ByteRun SliceStream::take(std::uint64_t max) {
  if (run_.size == 0 && !runs_.next(run_)) return {};
  const ByteRun part{run_.offset, std::min(run_.size, max)};
  run_.offset += part.size;
  run_.size -= part.size;
  remaining_ -= part.size;
  return part;
}

Status SliceStream::read(std::span<std::byte> destination) {
  while (!destination.empty()) {
    const ByteRun part = take(destination.size());
    const auto size = static_cast<std::size_t>(part.size);
    if (size == 0) return fault(Errc::invalid_argument, "read past the slice's end");
    if (Status status = fetch(part.offset, destination.first(size)); !status) return status;
    destination = destination.subspan(size);
  }
  return {};
}

void SliceStream::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t taken = take(bytes).size;
    if (taken == 0) return;
    bytes -= taken;
  }
}

Status SliceStream::fetch(std::uint64_t offset, std::span<std::byte> destination) {
  if (destination.size() >= kLongRun) return read_exactly(offset, destination);
  const auto inside = [&] {
    return offset >= window_offset_ && offset - window_offset_ < window_.size() &&
           destination.size() <= window_.size() - (offset - window_offset_);
  };
  if (!inside()) {
    const bool forward = offset >= last_offset_;
    const std::uint64_t distance = forward ? offset - last_offset_ : last_offset_ - offset;
    const std::uint64_t end = offset + destination.size();
    std::uint64_t first = offset;
    std::uint64_t last = end;
    if (distance <= kNear && forward) last = offset + std::min(kWindow, tensor_size_ - offset);
    if (distance <= kNear && !forward) first = end - std::min(kWindow, end);
    window_.resize(static_cast<std::size_t>(last - first));
    window_offset_ = first;
    if (Status status = read_exactly(first, window_); !status) return status;
  }
  last_offset_ = offset;
  std::memcpy(destination.data(), window_.data() + (offset - window_offset_), destination.size());
  return {};
}

Status SliceStream::read_exactly(std::uint64_t offset, std::span<std::byte> destination) const {
  while (!destination.empty()) {
    const Result<std::size_t> got = source_.read_at(tensor_offset_ + offset, destination);
    if (!got) return got.error();
    if (*got == 0) {
      return Error{.code = Errc::file_truncated,
                   .offset = tensor_offset_ + offset,
                   .path = {},
                   .message = "the file became shorter while it was read"};
    }
    offset += *got;
    destination = destination.subspan(*got);
  }
  return {};
}

// In bytes. A multiple of 3, so that no F6 element crosses from one chunk into the next.
constexpr std::uint64_t kChunk = 768 << 10;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bytes of a slice in the dtype of the output. A cast converts each chunk as it is read.
class ValueStream {
 public:
  explicit ValueStream(const CatRequest& request)
      : request_(request),
        stream_(request.file, request.tensor, request.slice),
        from_(request.tensor.dtype),
        to_(request.dtype),
        from_bytes_(bits(from_) / 8),
        to_bytes_(bits(to_) / 8) {}

  // In bytes of the output. Without a cast, elements may have fewer than 8 bits.
  [[nodiscard]] std::uint64_t remaining() const {
    return from_ == to_ ? stream_.remaining() : stream_.remaining() / from_bytes_ * to_bytes_;
  }
  // With a cast, destination holds whole elements.
  [[nodiscard]] Status read(std::span<std::byte> destination) {
    if (from_ == to_) return stream_.read(destination);
    const std::size_t count = destination.size() / to_bytes_;
    source_.resize(count * from_bytes_);
    const std::uint64_t offset = request_.slice.nbytes() - stream_.remaining();
    if (Status status = stream_.read(source_); !status) return status;
    const std::size_t done = format::try_cast(from_, source_.data(), to_, destination.data(), count);
    return done == count ? Status() : out_of_range(offset + done * from_bytes_, source_.data() + done * from_bytes_);
  }
  void skip(std::uint64_t bytes) { stream_.skip(from_ == to_ ? bytes : bytes / to_bytes_ * from_bytes_); }

 private:
  // The error for an element that does not fit. offset: of the element, in the bytes of the slice.
  [[nodiscard]] Error out_of_range(std::uint64_t offset, const std::byte* element) const {
    ResolvedSlice::Runs runs = request_.slice.runs();
    ByteRun run;
    while (runs.next(run) && offset >= run.size) offset -= run.size;
    const std::uint64_t in_tensor = run.offset + offset;
    const TensorInfo& tensor = request_.tensor;
    Error error = format::out_of_range(from_, element, to_, in_tensor / from_bytes_, tensor.shape);
    error.message = "tensor `" + printable(tensor.name) + "`: " + error.message;
    error.offset = tensor.file_offset + in_tensor;
    error.path = request_.file.path();
    return error;
  }

  const CatRequest& request_;
  SliceStream stream_;
  Dtype from_;
  Dtype to_;
  std::size_t from_bytes_;
  std::size_t to_bytes_;
  std::vector<std::byte> source_;
};

Status write_bytes(const CatRequest& request, const Sink& sink, Console& console) {
  ValueStream stream(request);
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, stream.remaining())));
  const std::uint64_t total = stream.remaining();
  while (stream.remaining() > 0 && console.writable()) {
    const std::span<std::byte> part(chunk.data(), static_cast<std::size_t>(std::min(kChunk, stream.remaining())));
    if (Status status = stream.read(part); !status) return status;
    if (Status status = sink(as_text(part)); !status) return status;
    if (request.progress) console.progress(total - stream.remaining(), total);
  }
  return {};
}

// The elements of a slice in order, as text.
class Elements {
 public:
  Elements(const CatRequest& request, bool json)
      : stream_(request), bits_(bits(request.dtype)), text_(request.dtype, json) {}

  void skip(std::uint64_t count) { next_ += count; }

  Status append(std::string& out) {
    const std::uint64_t in_chunk = kChunk * 8 / bits_;
    if (next_ >= loaded_ + in_chunk || chunk_.empty()) {
      const std::uint64_t wanted = next_ / in_chunk * in_chunk;
      if (!chunk_.empty()) loaded_ += in_chunk;
      stream_.skip((wanted - loaded_) / in_chunk * kChunk);
      loaded_ = wanted;
      chunk_.resize(static_cast<std::size_t>(std::min(kChunk, stream_.remaining())));
      if (Status status = stream_.read(chunk_); !status) return status;
    }
    text_.append(out, chunk_, next_ - loaded_);
    ++next_;
    return {};
  }

 private:
  ValueStream stream_;
  unsigned bits_;
  ElementText text_;
  std::uint64_t next_ = 0;    // index of the next element
  std::uint64_t loaded_ = 0;  // index of the first element in chunk_
  std::vector<std::byte> chunk_;
};

// Writes nested brackets around the elements: [[1, 2],\n [3, 4]].
class Brackets {
 public:
  Brackets(const CatRequest& request, bool json, const Sink& sink, Console& console)
      : shape_(request.slice.shape()),
        limit_(request.limit),
        json_(json),
        elements_(request, json),
        sink_(sink),
        console_(console),
        index_(shape_.rank(), 0),
        inside_(shape_.rank(), 1) {
    for (std::size_t dim = shape_.rank(); dim-- > 1;) inside_[dim - 1] = inside_[dim] * shape_[dim];
  }

  Status run() {
    out_.append(shape_.rank(), '[');
    bool more = true;
    while (more && console_.writable()) {
      if (Status status = elements_.append(out_); !status) return status;
      more = advance();
      if (out_.size() >= kFull) {
        if (Status status = sink_(out_); !status) return status;
        out_.clear();
      }
    }
    return sink_(out_);
  }

 private:
  static constexpr std::size_t kFull = 64 << 10;

  // Moves to the next element and writes the separators and brackets before it. Returns false at the end.
  bool advance() {
    std::size_t dim = shape_.rank();
    while (dim > 0 && ++index_[dim - 1] == shape_[dim - 1]) {
      index_[--dim] = 0;
      out_ += ']';
    }
    if (dim == 0) return false;
    const std::size_t closed = shape_.rank() - dim;
    separate(dim, closed);
    elide(dim - 1, closed);
    out_.append(closed, '[');
    return true;
  }

  void separate(std::size_t dim, std::size_t closed) {
    // As NumPy does: one empty line between matrices, two between stacks of matrices, never more.
    const std::size_t lines = json_ ? std::min<std::size_t>(closed, 1) : std::min<std::size_t>(closed, 3);
    out_ += closed == 0 ? ", " : ",";
    out_.append(lines, '\n');
    if (closed > 0 && !json_) out_.append(std::min(dim, kMaxIndent), ' ');
  }

  // Skips the middle of a dimension that is longer than the limit.
  void elide(std::size_t dim, std::size_t closed) {
    if (limit_ == 0 || shape_[dim] <= limit_ || index_[dim] != (limit_ + 1) / 2) return;
    const std::uint64_t skipped = shape_[dim] - limit_;
    elements_.skip(skipped * inside_[dim]);
    index_[dim] += skipped;
    out_ += "...";
    if (index_[dim] < shape_[dim]) separate(dim + 1, closed);
  }

  static constexpr std::size_t kMaxIndent = 64;

  const Shape& shape_;
  std::uint64_t limit_;
  bool json_;
  Elements elements_;
  const Sink& sink_;
  Console& console_;
  std::vector<std::uint64_t> index_;
  std::vector<std::uint64_t> inside_;  // elements per index of each dimension
  std::string out_;
};

Status write_values(const CatRequest& request, bool json, const Sink& sink, Console& console) {
  if (request.slice.nbytes() == 0) return sink("[]");
  return Brackets(request, json, sink, console).run();
}

Status write_json(const CatRequest& request, const Sink& sink, Console& console) {
  const TensorInfo& tensor = request.tensor;
  std::string head = formatted("{{\"schema\": \"safetensors.cat/1\", \"path\": \"{}\",\n \"name\": \"{}\", ",
                               json_escaped(request.file.path()), json_escaped(tensor.name));
  std::string shape;
  for (const std::uint64_t dim : request.slice.shape()) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
  head += formatted("\"dtype\": \"{}\", ", to_string(request.dtype));
  if (request.dtype != tensor.dtype) head += formatted("\"cast_from\": \"{}\", ", to_string(tensor.dtype));
  head += formatted("\"shape\": [{}],\n \"values\":\n", shape);
  if (Status status = sink(head); !status) return status;
  if (Status status = write_values(request, true, sink, console); !status) return status;
  return sink("}\n");
}

}  // namespace

std::string_view to_string(CatFormat format) {
  static constexpr std::string_view kNames[] = {"raw", "npy", "text", "json"};
  return kNames[static_cast<std::size_t>(format)];
}

std::optional<std::uint64_t> output_bytes(const CatRequest& request) {
  if (request.format != CatFormat::raw && request.format != CatFormat::npy) return std::nullopt;
  const std::uint64_t bytes = ValueStream(request).remaining();
  if (request.format == CatFormat::raw) return bytes;
  return npy_header(*npy_type(request.dtype), request.slice.shape()).size() + bytes;
}

Status write_tensor(const CatRequest& request, const Sink& sink, Console& console) {
  if (request.format == CatFormat::json) return write_json(request, sink, console);
  if (request.format == CatFormat::text) {
    if (Status status = write_values(request, false, sink, console); !status) return status;
    return sink("\n");
  }
  if (request.format == CatFormat::npy) {
    if (Status status = sink(npy_header(*npy_type(request.dtype), request.slice.shape())); !status) {
      return status;
    }
  }
  return write_bytes(request, sink, console);
}

// Writes the header of the NPY format: magic, version, length, and a Python dict as text.

std::optional<std::string_view> npy_type(Dtype dtype) noexcept {
  static constexpr std::pair<Dtype, std::string_view> kTypes[] = {
      {Dtype::BOOL, "|b1"}, {Dtype::U8, "|u1"},  {Dtype::I8, "|i1"},  {Dtype::U16, "<u2"}, {Dtype::I16, "<i2"},
      {Dtype::F16, "<f2"},  {Dtype::U32, "<u4"}, {Dtype::I32, "<i4"}, {Dtype::F32, "<f4"}, {Dtype::U64, "<u8"},
      {Dtype::I64, "<i8"},  {Dtype::F64, "<f8"}, {Dtype::C64, "<c8"}};
  for (const auto& [known, type] : kTypes) {
    if (known == dtype) return type;
  }
  return std::nullopt;
}

std::string npy_header(std::string_view type, ShapeView shape) {
  std::string text = formatted("{{'descr': '{}', 'fortran_order': False, 'shape': (", type);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += formatted("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  text += shape.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kMaxShortHeader = 65535;  // bytes; the limit of a length in 2 bytes
  // Magic, version and the length in 2 or 4 bytes; the text ends with a line feed.
  const std::size_t length_bytes = text.size() + kAlignment > kMaxShortHeader ? 4 : 2;
  const std::size_t before = 8 + length_bytes;
  text.append((kAlignment - (before + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += length_bytes == 2 ? '\x01' : '\x02';
  header += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) header += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return header + text;
}

}  // namespace safetensors::cli
