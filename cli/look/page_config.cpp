// Reads the start of config.json. A page is shown to others, and a folder may come from a stranger. So a symlink is
// followed only to an own_target(), and only a regular file with a size is read: no FIFO, and no file of /proc.
#include "page_config.h"

#include "link_target.h"

#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace safetensors::cli {

std::string config_path(const std::string& path) {
  return path.empty() ? path : path.substr(0, path.rfind('/') + 1) + "config.json";
}

ShownConfig read_shown_config(const std::string& path) {
  if (path.empty()) return {};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::string config = config_path(path);
  std::error_code unknown;
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(config, unknown))) {
    std::optional<std::string> target = own_target(config, folder);
    if (!target) return {};
    config = *std::move(target);
  }
  os::System& system = os::real_system();
  const os::Descriptor file(
      system.open_at(os::kWorkingDirectory, config.c_str(), os::OpenFlags::read | os::kDistrust, 0));
  os::FileStatus there;
  if (!file.valid() || os::status_of(file.get(), there) != 0 || !there.is_regular()) return {};
  ShownConfig shown;
  shown.bytes = there.identity.size;
  shown.text.resize(static_cast<std::size_t>(std::min(kMaxShownConfig, shown.bytes)));
  const std::ptrdiff_t got =
      system.read_at(file.get(), reinterpret_cast<std::byte*>(shown.text.data()), shown.text.size(), 0);
  if (got <= 0) return {};
  shown.text.resize(static_cast<std::size_t>(got));
  return shown;
}

}  // namespace safetensors::cli
