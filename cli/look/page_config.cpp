// Reads the start of config.json with stdio. Asks before it opens whether the path is a file, because a FIFO without a
// writer never opens.
#include "page_config.h"

#include "os/file_status.h"

#include <cstdio>
#include <memory>
#include <string>

namespace safetensors::cli {

ShownConfig read_shown_config(const std::string& path) {
  if (path.empty()) return {};
  const std::size_t slash = path.rfind('/');
  const std::string config = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + "config.json";
  os::FileStatus there;
  if (os::status_of_path(config.c_str(), os::Symlinks::follow, there) != 0 || !there.is_regular()) return {};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(config.c_str(), "re"), &std::fclose);
  if (!file) return {};
  ShownConfig shown;
  shown.text.resize(kMaxShownConfig);
  shown.text.resize(std::fread(shown.text.data(), 1, shown.text.size(), file.get()));
  if (std::ferror(file.get()) != 0 || shown.text.empty()) return {};
  shown.bytes = there.identity.size;
  return shown;
}

}  // namespace safetensors::cli
