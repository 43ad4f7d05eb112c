// The library writes the file. The command asks for no more than one write at a time, so that a signal stops it soon.
#include "new_file.h"

#include "console.h"
#include "interrupt.h"

#include "os/file_status.h"
#include "os/system_error.h"

#include <cerrno>
#include <cstdlib>
#include <span>

namespace safetensors::cli {
namespace {

// If the folder of the file does not exist, returns the error that the creation of the file would give.
Status check_parent(const std::string& path) {
  if (path.ends_with('/')) return os::system_error(Errc::open_failed, EISDIR, "cannot create");
  const std::size_t name = path.rfind('/') + 1;
  os::FileStatus there;
  const std::string folder = name == 0 ? "." : path.substr(0, name);
  if (os::status_of_path(folder.c_str(), os::Symlinks::follow, there) == 0) return {};
  return os::system_error(Errc::open_failed, errno, "cannot open its directory");
}

bool in_place_if_no_rename() noexcept {
  const char* const value = std::getenv("SAFETENSORS_IN_PLACE_IF_NO_RENAME");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

WriteOptions write_options(const Arguments& given, Console& console) {
  const std::string wanted = given.value("durability").value_or("full");
  WriteOptions options;
  options.durability = wanted == "full" ? Durability::full : wanted == "file" ? Durability::file : Durability::none;
  options.in_place_if_no_rename = in_place_if_no_rename();
  options.progress = shown_progress(console);
  return options;
}

Status NewFile::check(const std::string& path, bool replace) {
  os::FileStatus there;
  if (os::status_of_path(path.c_str(), os::Symlinks::keep, there) != 0) {
    return errno == ENOENT ? check_parent(path) : Status(os::system_error(Errc::open_failed, errno, "cannot write"));
  }
  if (!replace) return fault(Errc::invalid_argument, "exists; --force replaces it");
  if (os::status_of_path(path.c_str(), os::Symlinks::follow, there) == 0 && !there.is_regular()) {
    return fault(Errc::not_regular_file, "not a regular file: cannot be replaced");
  }
  return {};
}

Result<NewFile> NewFile::create(const std::string& path, bool replace) {
  if (Status status = check(path, replace); !status) return status.error();
  os::FileStatus old;
  io::Links links = io::Links::refuse;
  // A dangling link leads to no file, so the link itself is replaced.
  if (replace) {
    const bool leads_to_file = os::status_of_path(path.c_str(), os::Symlinks::follow, old) == 0;
    links = leads_to_file ? io::Links::follow : io::Links::replace;
  }
  Result<std::unique_ptr<io::AtomicFile>> file =
      io::AtomicFile::create(path, 0,
                             {.durability = Durability::file,
                              .in_place_if_no_rename = in_place_if_no_rename(),
                              .links = links,
                              .remove_orphans = true});
  if (!file) return file.error();
  return NewFile(std::move(*file));
}

Status NewFile::write(std::string_view bytes) {
  if (Interrupt::caught()) return Interrupt::error();
  Status status = file_->file().write_at(size_, std::as_bytes(std::span(bytes)));
  size_ += bytes.size();
  return status;
}

Status NewFile::commit() {
  if (Status status = file_->file().finish(); !status) return status;
  if (Interrupt::caught()) return Interrupt::error();
  return file_->commit();
}

}  // namespace safetensors::cli
