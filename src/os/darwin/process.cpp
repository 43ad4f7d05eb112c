// Asks macOS about the process, its threads, its open files, and the memory of the machine.
#include "os/process.h"

#include <mach/mach.h>
#include <sys/random.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <limits>

#include "os/available_memory.h"
#include "os/directory.h"
#include "os/memory.h"
#include "os/system.h"

namespace safetensors::os {

unsigned allowed_processors() noexcept {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<unsigned>(count) : std::numeric_limits<unsigned>::max();
}

std::uint64_t random_bits() noexcept {
  std::uint64_t random = 0;
  if (::getentropy(&random, sizeof random) != 0)
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
             process_id() << 40 ^ reinterpret_cast<std::uintptr_t>(&random);
  return random;
}

// macOS drops inactive, speculative and purgeable pages when a program needs memory.
std::optional<std::uint64_t> available_memory() {
  vm_statistics64_data_t found{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const mach_port_t host = ::mach_host_self();
  const kern_return_t result =
      ::host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&found), &count);
  (void)::mach_port_deallocate(::mach_task_self(), host);
  if (result != KERN_SUCCESS) return std::nullopt;
  // free_count includes the speculative pages.
  const std::uint64_t pages = std::uint64_t{found.free_count} + found.inactive_count + found.purgeable_count;
  return pages * page_size();
}

Result<std::vector<std::string>> paths_of_open_files() {
  Result<std::vector<std::string>> names = list_directory("/dev/fd");
  if (!names) return names;
  std::vector<std::string> paths;
  for (const std::string& name : *names) {
    int descriptor = -1;
    (void)std::from_chars(name.data(), name.data() + name.size(), descriptor);
    const DescriptorPath path(descriptor);
    if (path.text[0] != '\0') paths.emplace_back(path.text);
  }
  return paths;
}

}  // namespace safetensors::os
