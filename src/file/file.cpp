// Opens files: reads and checks the header, but reads no byte of a tensor. The first view maps the whole file, and all
// later views share this map.
#include "file/file.h"

#include <safetensors/file.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/exceptions.h"
#include "base/printable.h"
#include "file/did_you_mean.h"
#include "format/header/file_kind.h"
#include "format/header/header.h"
#include "format/header/header_writer.h"
#include "os/memory.h"
#include "os/parallel.h"
#include "os/path.h"

namespace safetensors {
namespace file {
namespace {

// A file in memory of the caller.
class MemorySource final : public Source {
 public:
  MemorySource(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) noexcept
      : bytes_(bytes), owner_(std::move(owner)) {}

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return std::uint64_t{bytes_.size()}; }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const auto rest = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(rest.size(), destination.size());
    if (count != 0) std::memcpy(destination.data(), rest.data(), count);
    return count;
  }

  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return {};
    return {bytes_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size)), owner_};
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

// Forwards to the Source of a caller. Every File over such a Source reads through an object of this class, so the rest
// of the library sees a Source that never throws, and the wishes of the caller are met in one place:
// - exceptions become errors, and an error without a code becomes read_failed;
// - a read that returns more bytes than were asked for is an error;
// - if the Source is not concurrent, one thread at a time calls it;
// - a request is at most request_bytes() long.
class CallerSource final : public Source {
 public:
  explicit CallerSource(std::shared_ptr<const Source> source) noexcept
      : source_(std::move(source)), concurrent_(source_->concurrent()), request_bytes_(source_->request_bytes()) {}

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override {
    return call([&] { return source_->size(); }, "size() of the source");
  }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    if (request_bytes_ != 0 && destination.size() > request_bytes_)
      destination = destination.first(static_cast<std::size_t>(request_bytes_));
    Result<std::size_t> count =
        call([&] { return source_->read_at(offset, destination); }, "read_at() of the source", offset);
    if (!count || *count <= destination.size()) return count;
    return base::guarded([&]() -> Result<std::size_t> {
      return base::make_error(Errc::read_failed,
                              {"source returned ", *count, " bytes, ", destination.size(), " were asked for"});
    });
  }

  // Without the memory, the library reads the bytes.
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept override {
    return base::caught_all(
        [&] {
          const std::unique_lock lock = locked();
          return source_->memory(offset, size);
        },
        [] { return Memory{}; });
  }

  [[nodiscard]] bool concurrent() const noexcept override { return concurrent_; }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept override { return request_bytes_; }

 private:
  // what: as for base::called(). An error of the caller may have no code.
  template <class Function>
  auto call(const Function& function, const char* what, std::uint64_t offset = Error::kNoOffset) const noexcept
      -> decltype(function()) {
    const auto locked_call = [&] {
      const std::unique_lock lock = locked();
      return function();
    };
    auto result = base::called(locked_call, Errc::read_failed, what, offset);
    if (result || result.error().code != Errc::ok) return result;
    Error error = std::move(result).error();
    error.code = Errc::read_failed;
    return error;
  }

  [[nodiscard]] std::unique_lock<std::mutex> locked() const {
    return concurrent_ ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
  }

  const std::shared_ptr<const Source> source_;
  const bool concurrent_;
  const std::uint64_t request_bytes_;
  mutable std::mutex mutex_;
};

// Reads the start of a file whose header was refused, so that the message can name the kind of the file. Keeps the
// error if nothing more can be read.
Error with_file_kind(const Source& source, std::uint64_t file_size, Error error) {
  const int rule = format_rule(error.code);
  if (rule < 1 || rule > 5) return error;
  std::array<char, format::kFileKindBytes> bytes{};
  const auto start = std::span(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(file_size, bytes.size())));
  if (!os::read_exactly(source, 0, std::as_writable_bytes(start))) return error;
  return format::with_file_kind(std::move(error), {start.data(), start.size()});
}

Result<Header> read_header(const Source& source, std::uint64_t file_size, const ParseOptions& options, unsigned threads,
                           base::Cancellation& cancellation) {
  std::array<std::byte, 8> prefix{};
  const auto head = std::span(prefix).first(static_cast<std::size_t>(std::min<std::uint64_t>(file_size, 8)));
  if (Status status = os::read_exactly(source, 0, head, &cancellation); !status) return std::move(status).error();
  const Result<std::uint64_t> length = format::header_length(head, file_size, options);
  if (!length) return length.error();

  format::HeaderBuffer text(static_cast<std::size_t>(*length), &os::large_memory());
  const auto bytes = std::as_writable_bytes(std::span(text.data(), text.size()));
  if (Status status = os::read_parallel(source, 8, bytes, threads, &cancellation); !status)
    return std::move(status).error();
  return format::parse_header(std::move(text), file_size - 8 - *length, options, nullptr, &cancellation);
}

// Reads the header. The source and the path must be set, and for a file of the system also `posix` and the access.
Result<File> finish(std::shared_ptr<detail::FileState> state, const ParseOptions& options, unsigned threads,
                    base::Cancellation& cancellation) {
  const Source& source = *state->source;
  Result<std::uint64_t> size = source.size();
  if (!size) return base::with_path(std::move(size).error(), state->path);
  Result<Header> header = read_header(source, *size, options, threads, cancellation);
  if (!header) return base::with_path(with_file_kind(source, *size, std::move(header).error()), state->path);
  state->header = *std::move(header);
  if (!state->posix && source.memory(0, *size).bytes.size() == *size) state->requested_access = Access::map;
  return detail::Access<File>::make(std::move(state));
}

Array data_array(std::span<std::byte> bytes, std::shared_ptr<const void> owner, MemoryKind kind) {
  return Array(Dtype::U8, Shape({bytes.size()}), bytes, std::move(owner), kind);
}

Result<Array> read_data(const detail::FileState& state) {
  const std::uint64_t size = state.header.data_bytes();
  Result<std::shared_ptr<std::byte>> memory = os::allocate(size);
  if (!memory) return base::with_path(std::move(memory).error(), state.path);
  const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(size));
  if (Status status = os::read_parallel(*state.source, state.header.data_start(), bytes); !status)
    return base::with_path(std::move(status).error(), state.path);
  return data_array(bytes, *std::move(memory), MemoryKind::owned);
}

// Opens a file that is in a Source which does not throw.
Result<File> open_source(std::shared_ptr<const Source> source, const ParseOptions& options) {
  auto state = std::make_shared<detail::FileState>();
  state->source = std::move(source);
  base::Cancellation cancellation(options.cancelled);
  return finish(std::move(state), options, 0, cancellation);
}

Result<File> open_posix(std::string path, Result<std::shared_ptr<const os::RegularFile>> file,
                        const OpenOptions& options, base::Cancellation& cancellation) {
  if (!file) return std::move(file).error();
  auto state = std::make_shared<detail::FileState>();
  state->path = std::move(path);
  state->posix = *std::move(file);
  state->source = state->posix;
  state->requested_access = options.access;
  return finish(std::move(state), options.parse, options.threads, cancellation);
}

}  // namespace

Result<File> open_file(std::string_view path, const OpenOptions& options, os::Between between,
                       base::Cancellation& cancellation) noexcept {
  return base::guarded([&]() -> Result<File> {
    std::string generic = os::generic_path(path);
    auto file = os::RegularFile::open(generic, between);
    return open_posix(std::move(generic), std::move(file), options, cancellation);
  });
}

}  // namespace file

inline namespace v0 {

Source::~Source() = default;

Result<File> File::open(PathView path, const OpenOptions& options) noexcept {
  base::Cancellation cancellation(options.parse.cancelled);
  return file::open_file(path, options, {}, cancellation);
}

Result<File> File::from_fd(int descriptor, const OpenOptions& options) noexcept {
  return base::guarded([&]() -> Result<File> {
    base::Cancellation cancellation(options.parse.cancelled);
    return file::open_posix({}, os::RegularFile::from_fd(descriptor), options, cancellation);
  });
}

Result<File> File::from_memory(Span<const std::byte> bytes, std::shared_ptr<const void> owner,
                               const ParseOptions& options) noexcept {
  return base::guarded([&]() -> Result<File> {
    return file::open_source(std::make_shared<file::MemorySource>(bytes, std::move(owner)), options);
  });
}

Result<File> File::from_source(std::shared_ptr<const Source> source, const ParseOptions& options) noexcept {
  return base::guarded([&]() -> Result<File> {
    if (!source) return base::make_error(Errc::invalid_argument, "no source was given");
    const bool own = os::RegularFile::of(*source) != nullptr;  // File::source() of another file
    if (!own) source = std::make_shared<file::CallerSource>(std::move(source));
    return file::open_source(std::move(source), options);
  });
}

const Header& File::header() const& noexcept {
  return state_->header;
}

Result<Tensor> File::tensor(std::string_view name) const noexcept {
  if (const TensorInfo* info = state_->header.find(name)) return Tensor(state_, info);
  return base::guarded([&]() -> Result<Tensor> {
    file::DidYouMean similar(name);
    for (const TensorInfo& info : state_->header.tensors()) {
      if (!similar.offer(info.name)) break;
    }
    return file::no_tensor(similar, "a file", state_->header.size(), state_->path);
  });
}

Result<Array> File::view(Map map) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    std::optional<detail::FileState::View> view =
        state_->view(state_->header.data_start(), state_->header.data_bytes(), map);
    if (!view) return file::read_data(*state_);
    return file::data_array(view->bytes, std::move(view->owner), view->kind);
  });
}

Access File::access() const noexcept {
  return state_->access();
}
const std::string& File::path() const& noexcept {
  return state_->path;
}
const Source& File::source() const& noexcept {
  return *state_->source;
}

namespace detail {

v0::Access FileState::access() const noexcept {
  if (requested_access != v0::Access::automatic) return requested_access;
  const bool map = !os::maps_disturb_writers() && posix->file_system() == os::FileSystem::local;
  return map ? v0::Access::map : v0::Access::read;
}

os::Mapping FileState::shared_map() const noexcept {
  if (const os::Mapping* made = shared_map_.load(std::memory_order_acquire)) return *made;
  Result<os::Mapping> map = posix->map(0, header.file_bytes(), os::MapMode::shared);
  if (!map) return {};
  const auto* mine = new (std::nothrow) os::Mapping(*std::move(map));
  if (mine == nullptr) return {};
  const os::Mapping* other = nullptr;
  if (shared_map_.compare_exchange_strong(other, mine, std::memory_order_acq_rel)) return *mine;
  delete mine;
  return *other;
}

std::optional<FileState::View> FileState::view(std::uint64_t offset, std::uint64_t size, Map map) const noexcept {
  if (access() != v0::Access::map) return std::nullopt;
  if (posix && map == Map::copy_on_write) {
    Result<os::Mapping> pages = posix->map(offset, size, os::MapMode::copy_on_write);
    if (!pages) return std::nullopt;
    return View{pages->bytes, std::move(pages->owner), MemoryKind::copy_on_write_map};
  }
  if (posix) {
    os::Mapping pages = shared_map();
    if (pages.bytes.empty()) return std::nullopt;
    return View{pages.bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size)),
                std::move(pages.owner), MemoryKind::shared_map};
  }
  if (map == Map::copy_on_write) return std::nullopt;
  Source::Memory memory = source->memory(offset, size);
  if (memory.bytes.size() != size) return std::nullopt;
  // The Array is read-only, because its kind is `borrowed`.
  auto* const bytes = const_cast<std::byte*>(memory.bytes.data());
  return View{{bytes, memory.bytes.size()}, std::move(memory.owner), MemoryKind::borrowed};
}

Error FileState::describe(const TensorInfo& tensor, Error error) const noexcept {
  return base::guarded([&] {
    error.message = base::concat({base::tensor_named(tensor.name), ": ", error.message});
    return base::with_path(std::move(error), path);
  });
}

Status FileState::read(const TensorInfo& tensor, std::uint64_t offset,
                       std::span<std::byte> destination) const noexcept {
  Status status = os::read_exactly(*source, offset, destination);
  if (status) return {};
  return failed(tensor, offset, std::move(status).error());
}

Error FileState::failed(const TensorInfo& tensor, std::uint64_t offset, Error error) const noexcept {
  if (error.offset == Error::kNoOffset) error.offset = offset;
  return describe(tensor, std::move(error));
}

Source::Memory FileState::memory(const TensorInfo& tensor) const noexcept {
  if (posix || access() != v0::Access::map) return {};
  Source::Memory memory = source->memory(tensor.file_offset, tensor.nbytes());
  if (memory.bytes.size() != tensor.nbytes()) return {};
  return memory;
}

}  // namespace detail
}  // namespace v0
}  // namespace safetensors
