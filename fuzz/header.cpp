// A header of any bytes. An accepted header is consistent and survives being written. A refused header gives an error
// with an offset.
#include <safetensors/header.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "count_bytes.h"
#include "require.h"
#include "support/allocation_counter.h"

namespace {

using fuzz::require;
using safetensors::Errc;
using safetensors::Error;
using safetensors::Header;
using safetensors::ParseOptions;
using safetensors::Result;
using safetensors::TensorInfo;

Result<Header> parse_bounded(std::string_view text, std::uint64_t data_size, const ParseOptions& options) {
  const allocations::Peak peak;
  Result<Header> header = Header::parse(text, data_size, options);
  require(peak.bytes() <= 6 * text.size() + (1 << 20), "memory is at most 6 x header + 1 MiB");
  return header;
}

void check_error(const Error& error, std::string_view text) {
  const int rule = format_rule(error.code);
  require(rule >= 4 && rule <= 10, "an error of Header::parse is one of rules 4 to 10");
  require(error.offset >= 8, "the place is not in the length");
  if (rule != 10) require(error.offset <= 8 + text.size(), "the place is in the header");
  if (rule >= 6 && rule <= 9) require(text[error.offset - 8] == '"', "the place is the name of a tensor");
  require(!error.message.empty() && error.message.size() < 4000, "a message, and not an endless one");
  require(std::none_of(error.message.begin(), error.message.end(),
                       [](char c) { return static_cast<unsigned char>(c) < ' '; }),
          "names are printable in a message");
}

// Rule 4 is checked before rule 5, whichever is broken first in the text.
void check_utf8(const Result<Header>& header, std::string_view text) {
  const std::size_t at = safetensors::base::first_invalid_utf8(text);
  const bool refused = !header && header.error().code == Errc::invalid_utf8;
  require(refused == (at != std::string_view::npos), "UTF-8 is checked, all of it and first");
  if (refused) require(header.error().offset == 8 + at, "the first byte that is not UTF-8");
}

void check_tensor(const Header& header, const TensorInfo& tensor, std::uint64_t& end) {
  require(tensor.begin == end && tensor.end >= tensor.begin, "no hole and no overlap");
  end = tensor.end;
  require(fuzz::count_bytes(tensor.dtype, tensor.shape) == tensor.nbytes(), "data_offsets span the tensor");
  require(tensor.file_offset == header.data_start() + tensor.begin, "file_offset");
  require(header.find(tensor.name) == &tensor, "found by its name");
}

void check_consistent(const Header& header) {
  std::uint64_t end = 0;
  for (const TensorInfo& tensor : header.tensors()) check_tensor(header, tensor, end);
  require(end == header.data_bytes(), "the tensors cover the data");
  const auto metadata = header.metadata();
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    require(i == 0 || metadata[i - 1].first < metadata[i].first, "keys ascend");
    require(metadata.find(metadata[i].first) == metadata[i].second, "found by its key");
  }
}

void check_equal(const Header& a, const Header& b) {
  require(a.size() == b.size() && a.data_bytes() == b.data_bytes(), "as many tensors");
  for (std::size_t i = 0; i < a.size(); ++i) {
    const TensorInfo& x = a.tensors()[i];
    const TensorInfo& y = b.tensors()[i];
    require(x.name == y.name && x.dtype == y.dtype && x.begin == y.begin && x.end == y.end, "the same tensor");
    require(std::equal(x.shape.begin(), x.shape.end(), y.shape.begin(), y.shape.end()), "the same shape");
  }
  require(a.metadata().present() == b.metadata().present(), "__metadata__ is there, or is not");
  require(std::equal(a.metadata().begin(), a.metadata().end(), b.metadata().begin(), b.metadata().end()),
          "the same metadata");
}

void check_accepted(const Header& header) {
  check_consistent(header);
  const auto text = header.text();
  require(text.ok(), "what was read can be written");
  const auto again = Header::parse(*text, header.data_bytes());
  require(again.ok(), "what we write we accept");
  check_equal(header, *again);
  require(again->text().value() == *text, "writing is stable");
}

// Strict mode and all flags of Accept agree about a header that has no faults.
void check_no_faults(const Header& strict, std::string_view text, std::uint64_t data_size, ParseOptions options) {
  options.accept = safetensors::Accept::all();
  const auto tolerant = parse_bounded(text, data_size, options);
  require(tolerant.ok() && !tolerant->tolerated().any(), "what strict mode accepts has no faults");
  check_equal(strict, *tolerant);
  require(tolerant->text().value() == strict.text().value(), "the same text");
}

// With all flags, ranges still cover the data, and the counts of faults are exact.
void check_tolerant(std::string_view text, std::uint64_t data_size) {
  ParseOptions options{.allow_leading_whitespace = true, .accept = safetensors::Accept::all()};
  const auto header = parse_bounded(text, data_size, options);
  if (!header) return check_error(header.error(), text);
  safetensors::Tolerated counted{.leading_whitespace = text.front() != '{'};
  std::uint64_t end = 0;
  for (const TensorInfo& tensor : header->tensors()) {
    require(tensor.begin == end && tensor.end >= tensor.begin && tensor.end <= data_size, "no hole and no overlap");
    end = tensor.end;
    require(header->find(tensor.name) == &tensor, "found by its name");
    const bool unknown = tensor.dtype == safetensors::Dtype::UNKNOWN;
    counted.unknown_dtypes += unknown ? 1 : 0;
    require(unknown != safetensors::parse_dtype(header->dtype_name(tensor)).has_value(), "unknown to the format");
    require(unknown || fuzz::count_bytes(tensor.dtype, tensor.shape) == tensor.nbytes(), "known dtypes fit");
  }
  counted.unused_bytes = data_size - end;
  require(counted == header->tolerated(), "every fault is counted");
  require(header->text().ok() != counted.any(), "faults are never written");
  const auto strict = Header::parse(text, data_size, {.allow_leading_whitespace = true});
  require(strict.ok() != counted.any(), "strict mode refuses exactly the faults");
}

void check_lengths(const unsigned char* data, std::size_t size) {
  const auto prefix = std::as_bytes(std::span(data, std::min<std::size_t>(size, 8)));
  const auto length = Header::length(prefix, size);
  if (length)
    require(size >= 8 && *length <= size - 8 && *length <= 100'000'000, "the header is in the file");
  else
    require(format_rule(length.error().code) <= 3 && length.error().offset == 0, "rules 1 to 3");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  check_lengths(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ParseOptions lax;
  lax.allow_leading_whitespace = true;
  // Takes the data size that the header requires from the error that reports it.
  std::uint64_t data_size = ~std::uint64_t{0} - 8 - size;
  auto header = parse_bounded(text, data_size, lax);
  check_utf8(header, text);
  for (const std::uint64_t bytes : {data_size, std::uint64_t{size}, std::uint64_t{0}}) check_tolerant(text, bytes);
  if (!header && header.error().code == Errc::incomplete_data) {
    check_error(header.error(), text);
    data_size = header.error().offset - 8 - size;
    header = parse_bounded(text, data_size, lax);
    require(header.ok() || header.error().code != Errc::incomplete_data, "rule 10 names the end");
  }
  if (!header) return check_error(header.error(), text), 0;
  check_accepted(*header);
  check_no_faults(*header, text, data_size, lax);
  const auto strict = Header::parse(text, data_size);
  require(strict.ok() != header->tolerated().leading_whitespace, "white space in front is all that the option allows");
  if (!strict) require(strict.error().code == Errc::json_leading_whitespace, "and is what is refused without it");
  if (data_size > 0) {
    require(Header::parse(text, data_size - 1, lax).error().offset == 8 + size + data_size - 1, "a byte is missing");
  }
  return 0;
}
