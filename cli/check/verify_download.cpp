// Finds the missing parts of a download. The header of a file that is too short gives the length of the complete file:
// the header is parsed again as if the file were very large, and the file ends where its tensors end. A header that is
// itself incomplete gives only a lower bound.
#include "verify_download.h"

#include "text/formatted.h"
#include "text/size.h"

#include "base/checked.h"
#include "file/checkpoint_paths.h"
#include "os/regular_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

namespace safetensors::cli {
namespace {

constexpr std::uint64_t kLargeFile = std::uint64_t{1} << 62;  // bytes

// The size of the complete file.
struct WholeSize {
  std::uint64_t bytes;
  bool exact;              // false: the header is not complete, so `bytes` is a lower bound
  std::uint64_t data = 0;  // bytes of its tensors
};

std::optional<WholeSize> whole_size(const Source& source, std::uint64_t size, ParseOptions parse) {
  std::array<std::byte, 9> start{};
  if (size < start.size() || !os::read_exactly(source, 0, start)) return std::nullopt;
  const Result<std::uint64_t> length = Header::length(std::span(start).first(8), kLargeFile, parse);
  const bool is_header = start[8] == std::byte{'{'} || parse.allow_leading_whitespace;
  if (!length || !is_header) return std::nullopt;
  if (*length > size - 8) return WholeSize{8 + *length, false};
  std::string text(static_cast<std::size_t>(*length), '\0');
  if (!os::read_exactly(source, 8, std::as_writable_bytes(std::span(text)))) return std::nullopt;
  parse.accept.unused_bytes = true;
  const Result<Header> header = Header::parse(text, kLargeFile, parse);
  if (!header) return std::nullopt;
  const std::uint64_t data = kLargeFile - header->tolerated().unused_bytes;
  return WholeSize{8 + *length + data, true, data};
}

// "a.safetensors, b.safetensors, ...": the names without their folders.
std::string names_of(const std::vector<FileLack>& files) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < files.size() && i < kNamed; ++i) {
    const std::string& path = files[i].path;
    text += (i == 0 ? "" : ", ") + printable(path.substr(path.rfind('/') + 1));
  }
  return files.size() > kNamed ? text + ", ..." : text;
}

}  // namespace

std::optional<FileLack> lack_of(const std::string& path, const Error& error, const ParseOptions& parse) {
  if (error.os_error == ENOENT) return FileLack{.path = path, .lost = true};
  if (error.code != Errc::incomplete_data && error.code != Errc::invalid_header_length) return std::nullopt;
  const auto file = os::RegularFile::open(path);
  if (!file) return std::nullopt;
  const std::uint64_t size = (*file)->identity().size;
  const std::optional<WholeSize> whole = whole_size(**file, size, parse);
  if (!whole || whole->bytes <= size) return std::nullopt;
  return FileLack{
      .path = path, .bytes = size, .missing = whole->bytes - size, .data = whole->data, .exact = whole->exact};
}

std::string lack_text(const FileLack& lack) {
  if (lack.exact) return formatted("lacks {} of {}", counted(lack.missing, "byte"), grouped(lack.bytes + lack.missing));
  return formatted("lacks at least {}: it ends in its header", counted(lack.missing, "byte"));
}

void json_lack(Json& json, const FileLack& lack) {
  json.field("missing_bytes", lack.missing).field("missing_bytes_exact", lack.exact);
}

void Download::add(const std::string& path, const Result<File>& file) {
  paths_.push_back(path);
  if (file) {
    known_ = base::add(data_bytes_, file->header().data_bytes(), data_bytes_) && known_;
    return;
  }
  std::optional<FileLack> lack = lack_of(path, file.error(), parse_);
  if (!lack || (!lack->lost && !lack->exact)) known_ = false;
  if (!lack) return;
  known_ = base::add(data_bytes_, lack->data, data_bytes_) && known_;
  lacks_.push_back(*std::move(lack));
}

void Download::add_lost(const std::vector<IndexProblem>& problems) {
  for (const IndexProblem& problem : problems) {
    // A file that was opened in vain is there already.
    if (problem.kind != IndexProblemKind::missing_file || std::ranges::find(paths_, problem.file) != paths_.end())
      continue;
    paths_.push_back(problem.file);
    lacks_.push_back({.path = problem.file, .lost = true});
  }
}

std::optional<std::uint64_t> Download::missing_bytes() const {
  std::uint64_t sum = 0;
  bool lost = false;
  for (const FileLack& lack : lacks_) {
    if (!base::add(sum, lack.missing, sum)) return std::nullopt;
    lost = lost || lack.lost;
  }
  if (!known_) return std::nullopt;
  if (!lost) return sum;
  base::Cancellation cancellation;
  file::CheckpointPaths paths(cancellation);
  if (!paths.add(model_) || paths.index() == nullptr) return std::nullopt;
  const std::optional<std::uint64_t> total = paths.index()->shards->total_size();
  if (!total || *total < data_bytes_) return std::nullopt;
  return base::add(sum, *total - data_bytes_, sum) ? std::optional(sum) : std::nullopt;
}

void Download::print(Console& console, Json* json) const {
  if (lacks_.empty()) return;
  std::vector<FileLack> lost;
  for (const FileLack& lack : lacks_)
    if (lack.lost) lost.push_back(lack);
  const std::optional<std::uint64_t> missing = missing_bytes();
  if (json != nullptr) {
    json->line().key("download").open('{').field("file_count", std::uint64_t{paths_.size()});
    json->key("missing_files").open('[');
    for (const FileLack& lack : lost) json->string(lack.path);
    json->close(']').key("short_files").open('[');
    for (const FileLack& lack : lacks_) {
      if (lack.lost) continue;
      json->line().open('{').field("path", lack.path).field("file_bytes", lack.bytes);
      json_lack(*json, lack);
      json->close('}');
    }
    json->close(']').key("missing_bytes");
    if (missing) {
      json->number(*missing);
    } else {
      json->null();
    }
    json->close('}').line();
    return;
  }
  const std::string head = formatted("{}: {}: ", printable(model_), console.red("incomplete"));
  if (!lost.empty())
    console.out(formatted("{}{} of {} missing: {}\n", head, grouped(lost.size()), counted(paths_.size(), "file"),
                          names_of(lost)));
  for (const FileLack& lack : lacks_)
    if (!lack.lost) console.out(formatted("{}{} {}\n", head, names_of({lack}), lack_text(lack)));
  if (missing && (lacks_.size() > 1 || !lost.empty()))
    console.out(formatted("{}{} in all\n", head, counted(*missing, "missing byte")));
}

}  // namespace safetensors::cli
