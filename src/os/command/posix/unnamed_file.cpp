// Makes a file without a name, or removes the name of a new file at once on a file system without O_TMPFILE.
#include "os/command/unnamed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "os/open.h"

namespace safetensors::os {

Descriptor make_unnamed_file(const std::string& folder) {
  constexpr OpenFlags kFlags = OpenFlags::read | OpenFlags::write | OpenFlags::unnamed;
  Descriptor made(open_at(kWorkingDirectory, folder.c_str(), kFlags, 0600));
  if (made.valid()) return made;
  std::string name = folder + "/safetensors-XXXXXX";
  made = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (made.valid()) ::unlink(name.c_str());
  return made;
}

}  // namespace safetensors::os
