// Files that are open for reading, with a framework, a device and a backend. safe_open and its slices are readers of
// one file, _Checkpoint is a reader of the files of a model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "framework.h"
#include "support.h"

namespace safetensors::python {

enum class Backend : std::uint8_t {
  mmap,       // views of the file
  pread,      // own memory, read through the page cache
  automatic,  // own memory; cached bytes are read from the page cache, others past it
};
[[nodiscard]] const char* name_of(Backend backend) noexcept;
// where: begins the text of the error.
[[nodiscard]] Backend parse_backend(std::string_view name, const std::string& where = {});

// The errors that torch's slices raise for an index out of range, if the file is read. Slices of a map raise torch's.
enum class IndexErrors : std::uint8_t {
  reference,  // those of the reference's backend pread: for a caller that chose to read
  torch,      // the IndexError of torch: for a caller that did not choose and cannot know whether the file is mapped
};

// The arguments of the classes that open files. framework, device, backend: as in safe_open. accept: None, one name of
// a fault ("unknown_dtypes" or "unused_bytes"), or an iterable of names. The constructor raises SafetensorError,
// TypeError.
struct ReaderOptions {
  Framework framework = Framework::numpy;
  Device device = {};
  Backend backend = Backend::pread;
  Accept accept = {};
  IndexErrors index_errors = IndexErrors::reference;

  ReaderOptions() = default;
  ReaderOptions(nb::handle framework, nb::handle device, nb::handle backend, nb::handle accept);
};

// Any number of threads that hold the GIL may call it at once. It releases the GIL while bytes move.
class Reader {
 public:
  using Files = std::variant<File, Checkpoint>;
  // path: that of a single file, as the caller gave it.
  Reader(Files files, ReaderOptions options, std::string path = {})
      : files_(std::move(files)), options_(std::move(options)), path_(std::move(path)) {}

  // All tensors, in the order of the files and of their bytes.
  [[nodiscard]] Tensors list() const noexcept;
  [[nodiscard]] Span<const File> files() const noexcept;
  [[nodiscard]] const Header& header() const noexcept { return files()[0].header(); }  // of a single file
  [[nodiscard]] const Checkpoint* checkpoint() const noexcept { return std::get_if<Checkpoint>(&files_); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const ReaderOptions& options() const noexcept { return options_; }
  // The Maker for the framework and device, made on first use.
  [[nodiscard]] std::shared_ptr<Maker> maker();
  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  // Raises MissingTensorError, and TypeError for an object that is not a str.
  [[nodiscard]] Tensor find(nb::handle name) const;

  [[nodiscard]] nb::object tensor(const Tensor& tensor);
  // All tensors, in a dict in the order of list().
  [[nodiscard]] nb::dict tensors();
  // The same, read by one plan into new memory.
  [[nodiscard]] nb::dict read_all(const ReadOptions& options, nb::handle progress);
  // Whole tensors and contiguous slices, in a dict, as views of private maps of their files. requests: an iterable of
  // (name, index). Slices that are not contiguous are left out.
  [[nodiscard]] nb::dict views(nb::handle requests);
  // A slice of a tensor, indexed as in the framework.
  [[nodiscard]] nb::object slice(const Tensor& tensor, nb::handle index);

 private:
  // A range of the bytes of a tensor: the whole tensor, or a contiguous slice. begin: within the tensor.
  struct Part {
    Dtype dtype;
    Shape shape;
    std::uint64_t begin, size;
  };
  // A map of a file, and the Python object that arrays over it share.
  struct WholeFile {
    Array data;
    nb::object memory;
  };
  using Maps = std::map<const Header*, WholeFile>;

  [[nodiscard]] static Part all_of(const Tensor& tensor);
  [[nodiscard]] static std::optional<Part> part_of(const Tensor& tensor, const ResolvedSlice& slice);
  [[nodiscard]] static Array inside(const Array& data, const Tensor& tensor, const Part& part);
  std::optional<Array> data(const File& file);  // one writable private map of a file, unless the system refuses it
  nb::object view_in(Maps& maps, Maker& maker, const Tensor& tensor, const Part& part);
  std::optional<Array> claim(const Tensor& tensor);  // its range of that map, for the first caller only
  [[nodiscard]] Array read(const Tensor& tensor, const Slice& slice) const;  // memory that no other caller has
  Array read_or_map(const Tensor& tensor, const Slice& slice);
  [[nodiscard]] bool maps() const noexcept { return options_.backend == Backend::mmap; }
  [[nodiscard]] ReadOptions read_options() const noexcept;
  nb::object torch_slice(const Tensor& tensor, nb::handle index);
  [[noreturn]] void fail(const Error& error) const;

  const Files files_;
  const ReaderOptions options_;
  const std::string path_;
  std::mutex mutex_;  // guards the members below; never held while waiting for the GIL
  std::shared_ptr<Maker> maker_;
  std::map<const Header*, Array> data_;
  std::set<const TensorInfo*> claimed_;
};

// index: None for the whole tensor.
[[nodiscard]] ResolvedSlice resolve(const Tensor& tensor, nb::handle index);

// The reader of a _Checkpoint.
[[nodiscard]] std::shared_ptr<Reader> to_reader(nb::handle checkpoint);

// As from_str, with the error text of the reference's releases from 0.9 on.
[[nodiscard]] std::string_view from_name(nb::handle name);

// Returns a PrefetchLoader that has begun to read. `open` returns the file or raises. It is called after the arguments
// were checked, as in the reference.
[[nodiscard]] nb::object start_prefetch(nb::handle plan, nb::handle device, nb::handle threads,
                                        const std::function<std::shared_ptr<Reader>()>& open);

// Parses an index as NumPy does, but a bound past the end is an error. A start equal to the dimension gives an empty
// slice. shape: the tensor's. Raises SafetensorError, and TypeError for bounds that are not integers.
[[nodiscard]] Slice parse_index(nb::handle index, ShapeView shape);

// The parts of an index that has only integers, slices, None and one Ellipsis.
struct TorchIndex {
  Slice slice;
  bool new_axes = false;  // whether the index has None. Then result[axes] adds these axes to the sliced tensor.
  nb::object axes;
};
// nullopt for any other index, and for one that torch refuses: the caller leaves it to torch. reference: raises the
// error of the reference's pread backend for an index of integers, slices and an Ellipsis that torch refuses, too,
// unless a step is below 1. Nothing has been read by then.
[[nodiscard]] std::optional<TorchIndex> parse_torch_index(nb::handle index, ShapeView shape, bool reference);
// Raises SafetensorError if a tensor on the meta device is part of the index: torch would read arbitrary memory.
void refuse_meta_index(nb::handle index);

}  // namespace safetensors::python
