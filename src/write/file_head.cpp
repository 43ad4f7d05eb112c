// Makes the bytes that come before the data of a file: the length of the header, then the header.
#include "write/file_head.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/little_endian.h"
#include "format/checkpoint/shard_index.h"
#include "format/header/header_writer.h"

namespace safetensors::write {

namespace {

constexpr std::size_t kPrefix = 8;  // bytes of the length of the header

}  // namespace

std::string prefix_of(std::uint64_t length) {
  std::string prefix(kPrefix, '\0');
  base::store_u64(reinterpret_cast<std::byte*>(prefix.data()), length);
  return prefix;
}

Result<FileSize> size_of(const Header& header) {
  if (Status status = format::check_writable(header); !status) return std::move(status).error();
  const std::uint64_t length = format::text_length(header);
  if (length > format::kMaxHeaderBytes)
    return base::make_error(Errc::header_too_large, "header too large: " + std::to_string(length) +
                                                        " bytes, the format allows " +
                                                        std::to_string(format::kMaxHeaderBytes));
  FileSize size{kPrefix + length};
  if (!base::add(size.head, header.data_bytes(), size.file))
    return base::make_error(Errc::size_overflow,
                            "file would be larger than 2^64-1 bytes: " + std::to_string(size.head) + " of header and " +
                                std::to_string(header.data_bytes()) + " of data");
  return size;
}

Status write_head(const Header& header, std::uint64_t head_bytes,
                  const std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>& write) {
  std::string piece = prefix_of(head_bytes - kPrefix);
  std::uint64_t offset = 0;  // of the piece
  Status status;
  const auto put = [&] {
    if (status) status = write(offset, bytes_of(piece));
    offset += piece.size();
    piece.clear();
  };
  format::HeaderWriter writer([&](std::string_view text) {
    piece += text;
    if (piece.size() >= kHeadPiece) put();
  });
  format::write_text(header, writer);
  std::move(writer).finish();
  while (status && offset + piece.size() < head_bytes) {
    piece.append(static_cast<std::size_t>(std::min<std::uint64_t>(head_bytes - offset - piece.size(), kHeadPiece)),
                 ' ');
    if (piece.size() >= kHeadPiece) put();
  }
  if (!piece.empty()) put();
  return status;
}

Status check_index_size(std::uint64_t size, std::string_view path) {
  if (size <= format::kMaxIndexBytes) return {};
  return base::make_error(Errc::invalid_argument,
                          "the index would have " + std::to_string(size) + " bytes, readers accept " +
                              std::to_string(format::kMaxIndexBytes),
                          path);
}

io::AtomicFileOptions to_atomic_file_options(const WriteOptions& options) noexcept {
  return {.durability = options.durability,
          .in_place_if_no_rename = options.in_place_if_no_rename,
          .links = options.new_file           ? io::Links::refuse
                   : options.replace_symlinks ? io::Links::replace
                                              : io::Links::follow,
          .remove_orphans = true};
}

}  // namespace safetensors::write
