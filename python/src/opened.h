// An open file with its framework, device and backend. safe_open and its slices share it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

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
// The backend of a file for which the file system decides, as for Access::automatic.
[[nodiscard]] Backend backend_for(const File& file) noexcept;

// The errors that torch's slices raise for an index out of range, if the file is read. Slices of a map raise torch's.
enum class IndexErrors : std::uint8_t {
  reference,  // those of the reference's backend pread: for a caller that chose to read
  torch,      // the IndexError of torch: for a caller that did not choose and cannot know whether the file is mapped
};

// A range of the bytes of a tensor: the whole tensor, or a contiguous slice.
struct Part {
  Tensor tensor;
  Shape shape;
  ByteRun bytes;  // within the tensor
};
// Returns the part that a slice takes, or nullopt if its bytes are not one range.
[[nodiscard]] std::optional<Part> contiguous_part(const Tensor& tensor, const ResolvedSlice& slice);
// Returns a tensor of unknown dtype as a part with one dimension: its bytes.
[[nodiscard]] Part all_bytes(const Tensor& tensor);

// Any number of threads that hold the GIL may call it at once. It releases the GIL while bytes move.
class Opened {
 public:
  Opened(File file, std::string path, Framework framework, Device device, Backend backend,
         IndexErrors index_errors = IndexErrors::reference)
      : file_(std::move(file)),
        path_(std::move(path)),
        framework_(framework),
        device_(std::move(device)),
        backend_(backend),
        index_errors_(index_errors) {}

  [[nodiscard]] const Header& header() const noexcept { return file_.header(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Tensors list() const noexcept { return file_.tensors(); }
  [[nodiscard]] Backend backend() const noexcept { return backend_; }
  [[nodiscard]] Framework framework() const noexcept { return framework_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  // The Maker for the framework and device, made on first use.
  [[nodiscard]] std::shared_ptr<Maker> maker();
  // Raises SafetensorError for an unknown name.
  [[nodiscard]] Tensor find(std::string_view name) const;

  [[nodiscard]] nb::object tensor(const Tensor& tensor);
  // All tensors, in a dict in the order of their bytes.
  [[nodiscard]] nb::object tensors();
  // Adds parts of tensors of this file to a dict, as views of one private map of the file.
  void add_views(std::span<const Part> parts, nb::handle dict);
  // A slice of a tensor, indexed as in the framework.
  [[nodiscard]] nb::object slice(const Tensor& tensor, nb::handle index);

 private:
  std::optional<Array> data();        // one writable private map of the whole file, unless the system refuses it
  Array map_for(const Maker& maker);  // that map, or a new one for Makers whose arrays do not share memory
  std::optional<Array> claim(const Tensor& tensor);  // its range of that map, for the first caller only
  Array read(const Tensor& tensor);                  // memory that no other caller has
  Array read_slice(const Tensor& tensor, const Slice& slice) const;
  Array part(const Tensor& tensor, const Slice& slice);
  [[nodiscard]] bool maps() const noexcept { return backend_ == Backend::mmap; }
  [[nodiscard]] ReadOptions read_options() const noexcept;
  // Executes the plan. A signal handler may end it by raising an exception, which is raised again here.
  Result<ReadResult> execute(const ReadPlan& plan) const;
  nb::object torch_slice(const Tensor& tensor, nb::handle index);
  nb::object each_tensor(Maker& maker);
  [[noreturn]] void fail(const Error& error) const;

  const File file_;
  const std::string path_;
  const Framework framework_;
  const Device device_;
  const Backend backend_;
  const IndexErrors index_errors_;
  std::mutex mutex_;  // guards the members below; never held while waiting for the GIL
  std::shared_ptr<Maker> maker_;
  std::optional<Array> data_;
  std::set<const TensorInfo*> claimed_;
};

// The object that get_slice returns.
[[nodiscard]] nb::object make_slice(std::shared_ptr<Opened> opened, Tensor tensor);

}  // namespace safetensors::python
