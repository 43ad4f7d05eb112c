// Memory in huge pages for many results at once. It returns to the system page by page.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "os/memory.h"

namespace safetensors::os {

// A request for memory, and its result.
struct MemoryRequest {
  static constexpr std::size_t kAlignment = 64;  // bytes
  static constexpr std::size_t kPhase = 4096;    // bytes
  static constexpr std::uint32_t kAnyPhase = ~std::uint32_t{0};

  std::uint64_t size = 0;  // bytes
  // The required value of address % kPhase. It must be a multiple of kAlignment. kAnyPhase: the address may be any
  // multiple of kAlignment.
  std::uint32_t phase = kAnyPhase;
  std::shared_ptr<std::byte> memory = nullptr;  // the result; null if size is 0
};

// Places the requests one behind the other in new memory. Places all requests or none. A page of kHugePage bytes
// returns to the system as soon as no request lives on it. If the requests have less than kHugePage bytes in all, their
// memory returns when all of them are released. A release takes no lock, so any thread and the child of a fork may do
// it. Error: out_of_memory.
[[nodiscard]] Status place(std::span<MemoryRequest> requests) noexcept;

}  // namespace safetensors::os
