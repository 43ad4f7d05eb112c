// Large hostile headers: memory, calls of the allocator and the cost of lookups stay in proportion to the text.
#include <safetensors/header.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/memory_resource.h"
#include "format/header/header.h"
#include "hostile_text.h"
#include "require.h"
#include "support/allocation_counter.h"

namespace {

using fuzz::require;
using safetensors::Header;
using safetensors::Result;
using safetensors::format::HeaderBuffer;
using safetensors::format::ParseWork;

// Limits of the slots that lookups read. A lookup reads about two slots. Chance never makes the average exceed these
// limits, which add some slots for headers with very few keys.
constexpr std::uint64_t kProbesPerEntry = 8;
constexpr std::uint64_t kMoreProbes = 256;
// Limits of the calls of the allocator: one per block of memory, per large shape, and per list that grows.
constexpr std::uint64_t kBytesPerCall = 1024;
constexpr std::uint64_t kMoreCalls = 128;

Result<Header> parse(const std::string& text, ParseWork& work) {
  HeaderBuffer copy(text.size(), safetensors::base::heap());
  std::memcpy(copy.data(), text.data(), text.size());
  safetensors::ParseOptions options;
  options.allow_leading_whitespace = true;
  return safetensors::format::parse_header(std::move(copy), 0, options, &work);
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  fuzz::Input input(data, size);
  const fuzz::HostileText hostile(input);
  const std::string& text = hostile.text();
  ParseWork work;
  const allocations::Peak peak;
  const auto header = parse(text, work);
  require(peak.bytes() <= 6 * text.size() + (1 << 20), "memory is at most 6 x header + 1 MiB");
  require(peak.calls() <= text.size() / kBytesPerCall + kMoreCalls, "few calls of the allocator");
  require(work.probes <= kProbesPerEntry * work.entries + kMoreProbes, "lookups take constant time each");
  require(work.entries <= text.size() / 4, "a key is looked up once");
  if (header) {
    for (const auto& tensor : header->tensors()) require(header->find(tensor.name) == &tensor, "found by its name");
  }
  return 0;
}
