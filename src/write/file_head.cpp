// Makes the bytes that come before the data of a file: the length of the header, then the header.
#include "write/file_head.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/little_endian.h"
#include "format/header_writer.h"
#include "format/printable.h"

namespace safetensors::write {

Result<std::string> file_head(std::string_view header_text) {
  if (header_text.size() > format::kMaxHeaderBytes)
    return base::make_error(Errc::header_too_large, "header too large: " + std::to_string(header_text.size()) +
                                                        " bytes, the format allows " +
                                                        std::to_string(format::kMaxHeaderBytes));
  std::byte length[8];
  base::store_u64(length, header_text.size());
  std::string head;
  head.reserve(sizeof length + header_text.size());
  head.append(reinterpret_cast<const char*>(length), sizeof length);
  head.append(header_text);
  return head;
}

Result<std::uint64_t> file_size(std::string_view head, std::uint64_t data_bytes) {
  std::uint64_t size = 0;
  if (!base::add(head.size(), data_bytes, size))
    return base::make_error(Errc::size_overflow,
                            "file would be larger than 2^64-1 bytes: " + std::to_string(head.size()) +
                                " of header and " + std::to_string(data_bytes) + " of data");
  return size;
}

Status check_length(const TensorInfo& tensor, std::uint64_t given) {
  if (given == tensor.nbytes()) return {};
  return base::make_error(Errc::data_length, format::tensor_named(tensor.name) + ": " + std::to_string(given) +
                                                 " bytes given, " + std::string(to_string(tensor.dtype)) + " " +
                                                 to_string(tensor.shape) + " needs " + std::to_string(tensor.nbytes()));
}

io::Sync to_sync(Durability durability) noexcept {
  switch (durability) {
    case Durability::none:
      return io::Sync::none;
    case Durability::file:
      return io::Sync::file;
    case Durability::full:
      break;
  }
  return io::Sync::full;
}

io::AtomicFileOptions to_atomic_file_options(const WriteOptions& options) noexcept {
  return {.sync = to_sync(options.durability),
          .in_place_if_no_rename = options.in_place_if_no_rename,
          .links = options.new_file           ? io::Links::refuse
                   : options.replace_symlinks ? io::Links::replace
                                              : io::Links::follow};
}

}  // namespace safetensors::write
