// Opens the temporary file of another process, to write ranges of it.
//
// The file is opened twice. The first descriptor only reads: it compares the head with that of the caller's layout, so
// that a process with another layout writes nothing. The second one only writes. One descriptor for both would let a
// network file system fill its cache with whole pages and write them back over bytes of another machine.
#include "io/joined_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kCompared = std::size_t{1} << 20;  // bytes compared at a time

Error cannot_open(int error_number, std::string_view path) {
  return os::system_error(Errc::open_failed, error_number,
                          error_number == ENOENT
                              ? "cannot join: the writer that gave the ticket has committed, failed or ended"
                              : "cannot join: cannot open the temporary file of the writer that gave the ticket",
                          path);
}

Status compare_head(int file, std::span<const std::byte> head, std::string_view path, os::System& system) {
  std::vector<std::byte> found(std::min(head.size(), kCompared));
  for (std::size_t done = 0; done < head.size();) {
    const std::size_t size = std::min(found.size(), head.size() - done);
    const std::ptrdiff_t count = os::retry([&] { return system.read_at(file, found.data(), size, done); });
    if (count < 0) return base::with_path(os::read_error(errno, size, done), path);
    if (count == 0 || std::memcmp(found.data(), head.data() + done, static_cast<std::size_t>(count)) != 0)
      return base::make_error(Errc::invalid_argument,
                              "cannot join: the header of this layout differs from that of the writer that gave the "
                              "ticket (make the layout from the same arguments in every process)",
                              path);
    done += static_cast<std::size_t>(count);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<FileWriter>> join_file(const JoinedFilePlace& place, std::span<const std::byte> head, Sync sync,
                                              os::System& system) {
  const auto open = [&](int directory, const std::string& name, os::OpenFlags flags) {
    return os::Descriptor(os::retry([&] { return system.open_at(directory, name.c_str(), flags, 0); }));
  };
  const os::Descriptor folder = open(os::kWorkingDirectory, place.folder, os::kOpenPathOfDirectory);
  if (!folder.valid()) return cannot_open(errno, place.shown);
  const os::Descriptor reading = open(folder.get(), place.name, os::OpenFlags::read | os::kDistrust);
  os::FileStatus expected, opened;
  if (!reading.valid() || os::status_of(reading.get(), expected) != 0) return cannot_open(errno, place.shown);
  if (!expected.is_regular())
    return base::make_error(Errc::not_regular_file,
                            std::string("cannot join: the temporary file is not a regular file but ") +
                                os::describe_irregular(expected.kind),
                            place.shown);
  if (Status same = compare_head(reading.get(), head, place.shown, system); !same) return std::move(same).error();

  os::Descriptor writing = open(folder.get(), place.name, os::OpenFlags::write | os::kDistrust);
  if (!writing.valid() || os::status_of(writing.get(), opened) != 0) return cannot_open(errno, place.shown);
  if (!opened.identity.same_file(expected.identity))
    return base::make_error(Errc::file_changed, "cannot join: the temporary file was replaced by another", place.shown);
  auto file = std::make_unique<FileWriter>(sync, place.shown, system);
  file->adopt(writing.release());
  if (place.size >= kMinDirectFile) file->open_direct(folder.get(), place.name.c_str());
  return file;
}

}  // namespace safetensors::io
