// Exports the headers of a checkpoint as bytes, and opens a checkpoint from such bytes.
//
// The bytes hold the text of each header as this library writes it, padded to its length in the file. So the offsets
// are those of the file, and the reader of the bytes uses the parser of files: it checks every rule again. File names
// are relative to one folder, because processes may have mounted the file system at different paths.
#include <safetensors/checkpoint.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/glob.h"
#include "base/little_endian.h"
#include "base/printable.h"
#include "file/checkpoint.h"
#include "file/file.h"
#include "format/checkpoint/shard_index.h"
#include "format/header/header.h"
#include "format/header/header_writer.h"
#include "format/header/packed_headers.h"
#include "json/reader.h"
#include "os/descriptor_pool.h"
#include "os/directory.h"
#include "os/memory.h"
#include "os/parallel.h"
#include "os/path.h"
#include "os/system_error.h"

namespace safetensors::file {
namespace {

using detail::CheckpointState;

constexpr std::size_t kMinParallelBytes = std::size_t{1} << 20;  // for less, threads cost more than they save

std::string_view folder_of(std::string_view path) noexcept {
  return path.substr(0, path.rfind('/') + 1);
}

// Returns nullptr if the bytes may have this name, else a static text with the reason.
const char* check_name(std::string_view name, bool has_index) noexcept {
  return has_index ? format::check_shard_name(name) : format::check_relative_name(name);
}

// The folder of the index, or else the longest folder that begins the paths of all files.
std::string_view common_folder(const CheckpointState& state) noexcept {
  if (state.index) return state.index->folder;
  std::string_view folder = state.files.empty() ? std::string_view() : folder_of(state.files[0].path());
  for (const File& file : state.files) {
    const std::string& path = file.path();
    const auto [end, _] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
    folder = folder_of(folder.substr(0, static_cast<std::size_t>(end - folder.begin())));
  }
  return folder;
}

// The name of a file in the bytes. A file alone may have any name, because its reader may give the path of the file.
Result<std::string_view> exported_name(const CheckpointState& state, const File& file, std::string_view folder) {
  const std::string_view path = file.path();
  const std::string_view name = path.starts_with(folder) ? path.substr(folder.size()) : std::string_view();
  const char* const why =
      path.starts_with(folder) ? check_name(name, state.index.has_value()) : "it is not in the folder of the index";
  if (why == nullptr) return name;
  if (!state.index && state.files.size() == 1) return std::string_view();
  return base::make_error(
      Errc::unsupported,
      std::string("cannot export headers: this file has no name below the folder of all files: ") + why, path);
}

// The text of a header, exactly as long as in the file. The canonical text is never longer than the text that was read:
// it has every entry in its shortest form.
std::string exported_text(const Header& header) {
  std::string text = format::header_text(header);
  if (!header.leading_whitespace()) return text;
  // The text that was read had at least this one byte more, so the last byte is padding.
  text.insert(0, 1, ' ');
  text.pop_back();
  return text;
}

// Bits as in PackedFile::visible.
std::string exported_visible(const CheckpointState& state, std::uint32_t file) {
  const TensorList tensors = state.files[file].header().tensors();
  std::string bits(format::visible_bytes(tensors.size()), '\0');
  std::size_t count = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint32_t entry = state.find(tensors[i].name);
    if (entry == format::NameIndex::kNone || state.entries[entry].file != file) continue;
    bits[i / 8] = static_cast<char>(static_cast<unsigned char>(bits[i / 8]) | 1U << i % 8);
    ++count;
  }
  return count == tensors.size() ? std::string() : bits;
}

Error invalid(const std::string& detail) {
  return base::make_error(Errc::invalid_argument, "invalid headers of a checkpoint: " + detail);
}

// The paths of the files in the importing process.
struct Place {
  std::string folder;  // empty, or ends with a separator
  std::string file;    // the path of the only file; empty if the names in the bytes give the paths
};

Result<Place> find_place(const std::string& path, const format::PackedHeaders& headers) {
  if (path.find('\0') != std::string::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
  const os::PathKind kind = os::kind_of(path);
  if (kind == os::PathKind::directory) return Place{path.ends_with('/') ? path : path + "/", {}};
  const std::string folder(folder_of(path));
  if (!headers.has_index && headers.files.size() == 1) return Place{folder, path};
  // The path of an index or a pattern stands for its folder, even if the index is not there.
  if (!path.ends_with(".json") && !base::is_glob(path)) {
    const int error_number = kind == os::PathKind::nothing ? ENOENT : ENOTDIR;
    return os::system_error(Errc::open_failed, error_number, "cannot open", path);
  }
  return Place{folder, {}};
}

// Checks the metadata by the parser of an index. The parser returns the text unchanged only if the text is one object
// in the form that it writes.
Status read_index_metadata(std::string_view metadata, base::Cancellation& cancellation, CheckpointState::Index& index) {
  if (metadata.empty()) return {};
  const std::string text = "{\"metadata\":" + std::string(metadata) + ",\"weight_map\":{}}";
  if (text.size() > format::kMaxIndexBytes) return invalid("the metadata of the index are too long");
  auto padded = std::make_unique<char[]>(text.size() + json::Reader::kPadding);
  std::memcpy(padded.get(), text.data(), text.size());
  const auto parsed = format::ShardIndex::parse(std::move(padded), text.size(), &cancellation);
  if (!parsed && parsed.error().code == Errc::cancelled) return parsed.error();
  if (!parsed || (*parsed)->metadata() != metadata) return invalid("the metadata of the index are not an object");
  index.metadata = metadata;
  index.total_size = (*parsed)->total_size();
  return {};
}

class ImportFiles final : public os::Tasks {
 public:
  ImportFiles(const format::PackedHeaders& headers, const Place& place, const CheckpointOptions& options,
              std::size_t descriptors, base::Cancellation& cancellation)
      : headers_(headers),
        place_(place),
        options_(options),
        cancellation_(cancellation),
        pool_(std::make_shared<os::DescriptorPool>(headers.files.size(), descriptors)),
        opened_(headers.files.size()) {}

  [[nodiscard]] Status run(std::size_t index) noexcept override {
    return base::guarded([&]() -> Status {
      const format::PackedFile& packed = headers_.files[index];
      Result<std::string> path = path_of(packed);
      if (!path) return std::move(path).error();
      Result<Header> header = read_header(packed);
      if (!header) return base::with_path(std::move(header).error(), *path);
      Result<File> file = open_file_later(*path, *std::move(header), options_.open.access, {pool_, index});
      if (!file) return std::move(file).error();
      opened_[index] = std::make_unique<OpenedFile>(OpenedFile{*std::move(file), {}});
      return select(packed, *opened_[index]);
    });
  }

  // Call this after all tasks have run. Errors: those of join_files(). Throws std::bad_alloc.
  Status join(CheckpointState& state) { return join_files(opened_, state, cancellation_); }

 private:
  Result<std::string> path_of(const format::PackedFile& packed) const {
    if (!place_.file.empty()) return place_.file;
    if (headers_.files.size() == 1 && !headers_.has_index && packed.name.empty())
      return invalid("they have no name of the file (give the path of the file, not of its folder)");
    if (const char* const why = check_name(packed.name, headers_.has_index))
      return invalid("no file may be called `" + printable(packed.name) + "`: " + why);
    return place_.folder + std::string(packed.name);
  }

  Result<Header> read_header(const format::PackedFile& packed) const {
    std::array<std::byte, 8> prefix{};
    base::store_u64(prefix.data(), packed.text.size());
    const auto head = std::span(prefix).first(static_cast<std::size_t>(std::min<std::uint64_t>(packed.file_size, 8)));
    const Result<std::uint64_t> length = format::header_length(head, packed.file_size, options_.open.parse);
    if (!length) return length.error();
    format::HeaderBuffer text(packed.text.size(), &os::large_memory());
    std::memcpy(text.data(), packed.text.data(), packed.text.size());
    return format::parse_header(std::move(text), packed.file_size - 8 - *length, options_.open.parse, nullptr,
                                &cancellation_);
  }

  static Status select(const format::PackedFile& packed, OpenedFile& opened) {
    if (packed.visible.empty()) return select_all(opened), Status();
    const TensorList tensors = opened.file.header().tensors();
    const auto bit = [&](std::size_t i) {
      return (static_cast<unsigned char>(packed.visible[i / 8]) >> i % 8 & 1) != 0;
    };
    bool fits = packed.visible.size() == format::visible_bytes(tensors.size());
    for (std::size_t i = tensors.size(); fits && i < 8 * packed.visible.size(); ++i) fits = !bit(i);
    if (!fits) return invalid("the flags of visible tensors do not fit the number of tensors");
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (bit(i)) opened.tensors.push_back(&tensors[i]);
    }
    return {};
  }

  const format::PackedHeaders& headers_;
  const Place& place_;
  const CheckpointOptions& options_;
  base::Cancellation& cancellation_;
  std::shared_ptr<os::DescriptorPool> pool_;
  std::vector<std::unique_ptr<OpenedFile>> opened_;
};

}  // namespace

Result<std::string> export_headers(const CheckpointState& state) noexcept {
  return base::guarded([&]() -> Result<std::string> {
    format::PackedHeaders headers;
    if (state.index) {
      headers.has_index = true;
      headers.index_metadata = state.index->metadata;
    }
    const std::string_view folder = common_folder(state);
    std::vector<std::string> texts;  // reserved, so that views of short texts stay valid
    texts.reserve(2 * state.files.size());
    for (std::uint32_t i = 0; i < state.files.size(); ++i) {
      const File& file = state.files[i];
      const Result<std::string_view> name = exported_name(state, file, folder);
      if (!name) return name.error();
      const std::string& kept = texts.emplace_back(exported_text(file.header()));
      const std::string& visible = texts.emplace_back(exported_visible(state, i));
      headers.files.push_back({*name, kept, file.header().file_bytes(), visible});
    }
    return format::pack_headers(headers);
  });
}

Result<std::shared_ptr<const CheckpointState>> open_checkpoint_with_headers(const std::string& path,
                                                                            std::string_view headers,
                                                                            const CheckpointOptions& options,
                                                                            std::size_t descriptors) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const CheckpointState>> {
    const Result<format::PackedHeaders> packed = format::unpack_headers(headers);
    if (!packed) return packed.error();
    const Result<Place> place = find_place(os::generic_path(path), *packed);
    if (!place) return place.error();
    base::Cancellation cancellation(options.open.parse.cancelled);
    const auto state = std::make_shared<CheckpointState>();
    state->path = path;
    if (packed->has_index) {
      state->index = {place->folder, absolute_folder(place->folder), {}, {}};
      Status status = read_index_metadata(packed->index_metadata, cancellation, *state->index);
      if (!status) return std::move(status).error();
    }
    unsigned threads = options.threads;
    if (threads == 0) threads = headers.size() < kMinParallelBytes ? 1 : os::usable_processors();
    ImportFiles files(*packed, *place, options, descriptors, cancellation);
    if (Status status = os::run_parallel(files, packed->files.size(), threads, &cancellation); !status)
      return std::move(status).error();
    if (Status status = files.join(*state); !status) return std::move(status).error();
    return std::shared_ptr<const CheckpointState>(state);
  });
}

}  // namespace safetensors::file
