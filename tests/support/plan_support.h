// Random files and plans, and their expected results, made by the simplest code.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "format/dtype/cast.h"
#include "os/file_status.h"
#include "support/emulation.h"
#include "support/file_support.h"
#include "support/naive_slice.h"

namespace safetensors::test {

class PlanRandom {
 public:
  explicit PlanRandom(std::uint64_t seed) : engine_(seed) {}
  // 0 to most.
  std::uint64_t up_to(std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(engine_); }
  bool one_in(std::uint64_t n) { return up_to(n - 1) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(up_to(list.size() - 1))];
  }
  std::string bytes(std::size_t size) { return noise(size, engine_()); }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

struct PlannedTensor {
  std::string name;
  Dtype dtype = Dtype::U8;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

struct PlannedFile {
  std::vector<PlannedTensor> tensors;
  std::string bytes;
};

inline std::uint64_t count_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape) count *= dim;
  return count;
}

// data_start: what the start of the data is modulo 4096, by white space behind the header.
inline std::string file_of(const std::vector<PlannedTensor>& tensors, std::size_t data_start) {
  std::string header = "{";
  std::string data;
  for (const PlannedTensor& tensor : tensors) {
    std::string shape;
    for (const std::uint64_t dim : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    header += (header.size() == 1 ? "\"" : ",\"") + tensor.name + R"(":{"dtype":")" +
              std::string(to_string(tensor.dtype)) + R"(","shape":[)" + shape + R"(],"data_offsets":[)" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  header += "}";
  while ((8 + header.size()) % 4096 != data_start % 4096) header += ' ';
  return file_bytes(header, data);
}

// Tensors t0, t1, ... of U8 and of these sizes, no two of which begin alike.
inline std::vector<PlannedTensor> tensors_of(const std::vector<std::size_t>& sizes) {
  std::vector<PlannedTensor> tensors;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::string bytes = pattern(sizes[i]);
    if (!bytes.empty()) bytes[0] = static_cast<char>(i);
    tensors.push_back({.name = "t" + std::to_string(i), .dtype = Dtype::U8, .shape = {sizes[i]}, .bytes = bytes});
  }
  return tensors;
}

inline std::vector<std::uint64_t> random_shape(PlanRandom& random, std::uint64_t elements) {
  static const std::vector<std::uint64_t> kDims = {1, 2, 3, 5, 8, 17, 64, 257};
  std::vector<std::uint64_t> shape;
  for (std::uint64_t n = random.up_to(3); n > 0 && elements > 1; --n) {
    const std::uint64_t dim = std::min(elements, random.of(kDims));
    shape.push_back(dim);
    elements /= dim;
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(random.up_to(shape.size())), elements);
  if (random.one_in(15)) shape.push_back(0);
  return shape;
}

inline PlannedFile random_file(PlanRandom& random, std::uint64_t chunk, std::uint64_t most_bytes) {
  const auto dtypes = all_dtypes();
  static const std::vector<Dtype> kFloats = {Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::F8_E4M3};
  PlannedFile file;
  std::uint64_t left = most_bytes;
  for (std::uint64_t n = 1 + random.up_to(random.one_in(5) ? 150 : 12); n > 0; --n) {
    PlannedTensor tensor;
    tensor.name = "t" + std::to_string(n);
    tensor.dtype =
        random.one_in(3) ? dtypes[static_cast<std::size_t>(random.up_to(dtypes.size() - 1))] : random.of(kFloats);
    std::uint64_t size = random.up_to(600);
    if (random.one_in(3))
      size = 4096 * random.up_to(40) + random.up_to(130) - std::min<std::uint64_t>(random.up_to(64), 4);
    if (random.one_in(6)) size = chunk * random.up_to(3) + random.up_to(16);
    size = std::min(size, left);
    tensor.shape = random_shape(random, size * 8 / bits(tensor.dtype) / 8 * 8);
    const std::uint64_t bytes = count_of(tensor.shape) * bits(tensor.dtype);
    if (bytes % 8 != 0) tensor.shape.push_back(4);
    tensor.bytes = random.bytes(static_cast<std::size_t>(count_of(tensor.shape) * bits(tensor.dtype) / 8));
    left -= std::min<std::uint64_t>(left, tensor.bytes.size());
    file.tensors.push_back(std::move(tensor));
  }
  // An alignment of its own for every file: even odd ones are valid.
  file.bytes =
      file_of(file.tensors, static_cast<std::size_t>(random.one_in(2) ? random.up_to(63) * 64 : random.up_to(4095)));
  return file;
}

inline DimSlice random_dim(PlanRandom& random, std::uint64_t size) {
  const auto signed_size = static_cast<std::int64_t>(size);
  const auto bound = [&]() -> std::optional<std::int64_t> {
    if (random.one_in(4)) return std::nullopt;
    return static_cast<std::int64_t>(random.up_to(2 * size + 2)) - signed_size - 1;
  };
  switch (random.up_to(5)) {
    case 0:
      if (size != 0) return DimSlice::at(static_cast<std::int64_t>(random.up_to(2 * size - 1)) - signed_size);
      return DimSlice::all();
    case 1:
      return DimSlice::range(bound(), bound());
    case 2:
      return DimSlice::range(bound(), bound(), static_cast<std::int64_t>(1 + random.up_to(3)));
    case 3:
      return DimSlice::range(bound(), bound(), -static_cast<std::int64_t>(1 + random.up_to(3)));
    case 4: {
      const std::uint64_t world = 1 + random.up_to(7);
      return DimSlice::shard(random.up_to(world - 1), world);
    }
    default:
      return DimSlice::all();
  }
}

// One request, and what must come of it.
struct PlannedItem {
  const PlannedTensor* tensor = nullptr;
  std::optional<std::vector<DimSlice>> slice;
  std::optional<Dtype> cast;
  std::vector<std::uint64_t> shape;
  std::string result;  // in C order

  std::string memory;    // where it goes; empty: owned
  std::string expected;  // what is there then
  std::vector<std::uint64_t> strides;
};

inline std::string cast_bytes(Dtype from, const std::string& bytes, Dtype to) {
  std::string out(bytes.size() * 8 / bits(from) * bits(to) / 8, '\0');
  if (from == to) return bytes;
  format::cast(from, reinterpret_cast<const std::byte*>(bytes.data()), to, reinterpret_cast<std::byte*>(out.data()),
               bytes.size() * 8 / bits(from));
  return out;
}

// Memory with strides around the item's result: dimensions in any order, with gaps.
inline void give_strides(PlanRandom& random, PlannedItem& item, std::size_t element) {
  std::vector<std::size_t> order(item.shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random.one_in(2)) std::shuffle(order.begin(), order.end(), random.engine());
  item.strides.assign(item.shape.size(), 0);
  std::uint64_t reach = element;
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    if (item.shape[*at] <= 1) {
      item.strides[*at] = random.one_in(2) ? ~std::uint64_t{0} - random.up_to(9) : random.up_to(9);
      continue;
    }
    item.strides[*at] = reach + (random.one_in(2) ? random.up_to(9) : 0);
    reach += item.strides[*at] * (item.shape[*at] - 1);
  }
  item.memory.assign(static_cast<std::size_t>(reach + random.up_to(5)), '\x5a');
  item.expected = item.memory;
  for (std::uint64_t n = 0; n < item.result.size() / element; ++n) {
    std::uint64_t rest = n;
    std::uint64_t to = 0;
    for (std::size_t i = item.shape.size(); i-- > 0; rest /= item.shape[i])
      if (item.shape[i] > 1) to += rest % item.shape[i] * item.strides[i];
    std::memcpy(item.expected.data() + to, item.result.data() + n * element, element);
  }
}

inline std::optional<PlannedItem> random_item(PlanRandom& random, const PlannedTensor& tensor) {
  PlannedItem item{.tensor = &tensor,
                   .slice = {},
                   .cast = {},
                   .shape = tensor.shape,
                   .result = tensor.bytes,
                   .memory = {},
                   .expected = {},
                   .strides = {}};
  if (!random.one_in(3) && tensor.bytes.size() < (1 << 20)) {
    item.slice.emplace();
    for (const std::uint64_t dim : tensor.shape) {
      if (random.one_in(5)) break;
      item.slice->push_back(random.one_in(2) ? DimSlice::all() : random_dim(random, dim));
    }
    const NaiveSlice naive = naive_slice(*item.slice, tensor.dtype, tensor.shape);
    if (naive.error != Errc::ok) return std::nullopt;
    item.shape = naive.shape;
    item.result.clear();
    for (const format::ByteRun& run : naive.runs) item.result += tensor.bytes.substr(run.offset, run.size);
  }
  static const std::vector<Dtype> kTo = {Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::F8_E5M2};
  Dtype dtype = tensor.dtype;
  if (random.one_in(3)) {
    const Dtype to = random.of(kTo);
    if (format::castable(dtype, to)) {
      item.cast = to;
      item.result = cast_bytes(dtype, item.result, to);
      dtype = to;
    }
  }
  if (random.one_in(4)) {
    item.memory.assign(item.result.size(), '\x5a');
    item.expected = item.result;
  } else if (random.one_in(4) && bits(dtype) % 8 == 0 && !item.shape.empty() && !item.result.empty()) {
    give_strides(random, item, bits(dtype) / 8);
  }
  return item;
}

// Writes the bytes to a disk so that they are in no cache; false where the system keeps them.
inline bool make_cold(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  bool cold = ::fdatasync(descriptor) == 0 && ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0;
  const auto size = static_cast<std::size_t>(::lseek(descriptor, 0, SEEK_END));
  void* const map = size == 0 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (map == MAP_FAILED) return false;
  std::vector<unsigned char> pages(size / 4096 + 1);
  cold = cold && ::mincore(map, size, pages.data()) == 0 &&
         std::ranges::none_of(pages, [](unsigned char page) { return (page & 1) != 0; });
  ::munmap(map, size);
  return cold;
}

// Returns whether one of 20 calls of `holds` within about a second returns true. Use it for the page cache, which
// changes at any time: a busy system drops a page that was just read, or reads ahead before a probe of one byte
// returns.
template <class F>
bool holds_once(const F& holds) {
  for (int i = 0; i < 20; ++i) {
    if (holds()) return true;
    ::usleep(50'000);
  }
  return false;
}

// Returns whether the file can be read without the page cache here.
inline bool reads_directly(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (descriptor < 0) return false;
  if (denies_direct_io(descriptor) || os::file_system_of(descriptor) == os::FileSystem::remote)
    return ::close(descriptor), false;
  alignas(4096) static char block[4096];
  const bool works = ::pread(descriptor, block, sizeof block, 0) > 0;
  ::close(descriptor);
  return works;
}

}  // namespace safetensors::test
