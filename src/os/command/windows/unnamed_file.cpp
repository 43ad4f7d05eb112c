// Makes a file with a random name that Windows removes when its last handle is closed.
#include "os/command/unnamed_file.h"

#include <fcntl.h>
#include <io.h>

#include <cstdint>

#include "os/open.h"
#include "os/process.h"
#include "os/windows/native.h"

namespace safetensors::os {

Descriptor make_unnamed_file(const std::string& folder) {
  const std::string name = folder + "/safetensors-" + std::to_string(random_bits());
  const auto path = windows::native_path(kWorkingDirectory, name);
  if (!path) return Descriptor(-1);
  windows::Handle file(::CreateFileW(path->c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, windows::kShareAll, nullptr,
                                     CREATE_NEW, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr));
  if (!file.valid()) return Descriptor(windows::fail());
  const int made = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(file.get()), _O_BINARY | _O_NOINHERIT);
  if (made >= 0) (void)file.release();
  return Descriptor(made);
}

}  // namespace safetensors::os
