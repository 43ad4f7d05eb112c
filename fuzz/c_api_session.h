// Draws the arguments of the generated calls of the C interface: live handles, memory of exactly the size that the call
// is told, texts, numbers in and out of range, structs of every size, callbacks that fail or lie.
//
// Memory and callbacks live as long as the session, because handles may need them until they are freed.
#pragma once

#include <fcntl.h>
#include <safetensors/c.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "c_api_files.h"
#include "input.h"
#include "require.h"

namespace fuzz {

template <class T>
class Pointer {
 public:
  explicit Pointer(T* pointer, std::size_t count = 0) noexcept : pointer_(pointer), count_(count) {}
  [[nodiscard]] T* pointer() const noexcept { return pointer_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  T* pointer_;
  std::size_t count_;
};

// A function of the caller, and its user.
template <class... Arguments>
class Callback {
 public:
  using Function = void (*)(void*, Arguments...);
  Callback(Function call, void* user) noexcept : function_(call), user_(user) {}
  [[nodiscard]] Function function() const noexcept { return function_; }
  [[nodiscard]] void* user() const noexcept { return user_; }

 private:
  Function function_;
  void* user_;
};

using Release = Callback<>;
using VisitTensor = Callback<std::uint64_t, const safetensors_tensor_info*>;
using VisitName = Callback<const char*>;

inline void free_managed(safetensors_dl_managed_tensor* tensor) {
  tensor->deleter(tensor);
}

class Session {
 public:
  explicit Session(Input& in) : in_(in), files_(Files::get()) { files_.restore(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // --- Around a call ---

  void begin(const char* function) {
    function_ = function;
    missing_ = false;
    unknown_ = false;
    wrong_ = false;
    releases_ = false;
    error_ = nullptr;
    outs_.clear();
  }
  void end(safetensors_status status);
  void plain(const char* text) { require(text != nullptr && std::strlen(text) < 100, "a static text"); }
  void plain(std::uint32_t number) { check(number == SAFETENSORS_ABI_VERSION, "the ABI version"); }
  void plain(std::int32_t number) { check(number >= 0 && number <= 10, "a rule or a truth value"); }
  void plain(std::uint64_t number) { check(number < 1000, "a number of tensors"); }
  void plain(const void* data) { look_at(data, 0); }

  // --- Numbers ---

  std::uint8_t byte() { return in_.byte(); }
  std::uint64_t number() {
    const std::uint8_t kind = in_.byte();
    if (kind < 200) return kind % 20;
    if (kind < 210) return std::uint64_t{1} << (kind - 200);
    if (kind < 220) return 4096U * (kind - 209U);
    if (kind < 235) return ~std::uint64_t{0} - (kind - 220U);
    return in_.u64() >> in_.up_to(63);
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  std::int64_t signed_number() { return static_cast<std::int64_t>(number()) - (in_.up_to(2) == 0 ? 10 : 0); }
  std::size_t size() { return static_cast<std::size_t>(number()); }
  std::int32_t enumerator() {
    const std::uint8_t kind = in_.byte();
    return kind < 230 ? kind % 4 : static_cast<std::int32_t>(in_.u64());
  }
  safetensors_dtype dtype() {
    const std::uint8_t kind = in_.byte();
    return kind < 240 ? kind % 23 : static_cast<safetensors_dtype>(in_.u64());
  }
  int descriptor() { return files_.descriptor(in_.up_to(4)); }
  template <class T>
  void reserved(T& field) {
    if (in_.byte() >= 10) return;
    std::memset(&field, 1, sizeof field);
    unknown_ = true;
  }

  // --- Memory ---

  // Allocates exactly `count` elements, so that a sanitizer sees an access past the end.
  template <class T>
  T* memory(std::size_t count, unsigned char fill) {
    memory_.emplace_back(new (std::align_val_t{alignof(std::max_align_t)}) unsigned char[count * sizeof(T)]);
    std::memset(memory_.back().get(), fill, count * sizeof(T));
    return reinterpret_cast<T*>(memory_.back().get());
  }
  template <class T>
  Pointer<const T> input() {
    if constexpr (std::is_same_v<T, std::uint64_t>) return shape();
    if (null_pair()) return Pointer<const T>(nullptr, lost_count_);
    const std::string_view text = files_.bytes(in_.byte(), in_);
    T* const copy = memory<T>(text.size(), 0);
    std::memcpy(copy, text.data(), text.size());
    return Pointer<const T>(copy, text.size());
  }
  template <class T>
  Pointer<T> output() {
    if (null_pair()) return Pointer<T>(nullptr, lost_count_);
    constexpr std::array<std::size_t, 10> kSizes = {0, 1, 2, 3, 8, 12, 24, 32, 200, 4096};
    const std::size_t count = kSizes[in_.up_to(kSizes.size() - 1)];
    return Pointer<T>(memory<T>(count, 0x5a), count);
  }
  Pointer<const char> path(bool needed) {
    if (none(needed)) return Pointer<const char>(nullptr);
    return Pointer<const char>(keep(files_.path(in_.byte())));
  }
  template <std::size_t Rank>
  void dimensions(std::uint64_t (&dims)[Rank]) {
    const std::size_t count = in_.up_to(4);
    for (std::size_t i = 0; i < count; ++i) dims[i] = number();
  }
  // A text that ends with NUL: the name of a tensor, a metadata key, or any other.
  Pointer<const char> name(bool needed) {
    if (none(needed)) return Pointer<const char>(nullptr);
    return Pointer<const char>(keep(std::string(files_.bytes(in_.byte(), in_)).c_str()));
  }
  // Texts up to a NULL.
  Pointer<const char* const> terminated_list() {
    if (none(false)) return Pointer<const char* const>(nullptr);
    const std::size_t count = in_.up_to(5);
    const char** const list = memory<const char*>(count + 1, 0);
    for (std::size_t i = 0; i < count; ++i) list[i] = name(false).pointer();
    return Pointer<const char* const>(list);
  }
  Pointer<const char* const> paths() {
    if (null_pair()) return Pointer<const char* const>(nullptr, lost_count_);
    const std::size_t count = in_.up_to(3);
    const char** const list = memory<const char*>(count, 0);
    for (std::size_t i = 0; i < count; ++i) list[i] = path(true).pointer();
    return Pointer<const char* const>(list, count);
  }

  // --- Structs ---

  // A struct that grows, with the known size or any other size.
  template <class T, class Fill>
  Pointer<const T> options(Fill&& fill, bool optional) {
    if (none(!optional)) return Pointer<const T>(nullptr);
    T given{};
    fill(given);
    const std::uint64_t size = struct_size(sizeof(T));
    const auto bytes = static_cast<std::size_t>(std::clamp<std::uint64_t>(size, 8, 4096));
    auto* const made = memory<unsigned char>(bytes, in_.byte() < 30 ? 1 : 0);
    given.struct_size = size;
    std::memcpy(made, &given, std::min(bytes, sizeof given));
    return Pointer<const T>(reinterpret_cast<const T*>(made));
  }
  template <class T>
  Pointer<T> result() {
    if (none(true)) return Pointer<T>(nullptr);
    const std::uint64_t size = struct_size(sizeof(T));
    auto* const made = memory<unsigned char>(static_cast<std::size_t>(std::clamp<std::uint64_t>(size, 8, 4096)), 0x5a);
    std::memcpy(made, &size, sizeof size);
    return Pointer<T>(reinterpret_cast<T*>(made));
  }
  template <class T, class Fill>
  Pointer<const T> list(Fill&& fill) {
    if (null_pair()) return Pointer<const T>(nullptr, lost_count_);
    const std::size_t count = in_.up_to(3);
    T* const made = memory<T>(count, 0);
    for (std::size_t i = 0; i < count; ++i) fill(made[i]);
    return Pointer<const T>(made, count);
  }

  // --- Errors ---

  Pointer<safetensors_error> error() {
    error_ = in_.byte() < 40 ? nullptr : memory<safetensors_error>(1, 0x5a);
    return Pointer<safetensors_error>(error_);
  }
  Pointer<const safetensors_error> failure() {
    if (none(true)) return Pointer<const safetensors_error>(nullptr);
    auto* const made = memory<safetensors_error>(1, in_.byte() < 100 ? 'x' : 0);  // texts without a terminating NUL
    made->code = enumerator();
    return Pointer<const safetensors_error>(made);
  }

  // --- Handles and results ---

  // Returns a live handle of this type. Makes a new one if no handle of the type is live.
  template <class T>
  Pointer<T> handle(bool needed) {
    if (none(needed)) return Pointer<T>(nullptr);
    auto& alive = pool<T>();
    if (alive.empty()) make(static_cast<T*>(nullptr));
    return Pointer<T>(alive.empty() ? nullptr : alive[in_.byte() % alive.size()]);
  }
  // A list of handles and its length.
  template <class T>
  Pointer<const T* const> handles() {
    if (null_pair()) return Pointer<const T* const>(nullptr, lost_count_);
    const std::size_t count = in_.up_to(3);
    const T** const list = memory<const T*>(count, 0);
    for (std::size_t i = 0; i < count; ++i) list[i] = handle<T>(true).pointer();
    return Pointer<const T* const>(list, count);
  }
  template <class T>
  Pointer<T*> out_handle(bool needed) {
    if (none(needed)) return Pointer<T*>(nullptr);
    T** const out = memory<T*>(1, 0x5a);
    outs_.push_back({out, sizeof *out, false});
    taken_ = [this, out, before = std::move(taken_)] {  // a call may give several handles
      if (before) before();
      if (*out != nullptr) pool<T>().push_back(*out);
    };
    return Pointer<T*>(out);
  }
  // told: a call that fails sets it, too.
  template <class T>
  Pointer<T> out_value(bool needed, bool told) {
    if (none(needed)) return Pointer<T>(nullptr);
    T* const out = memory<T>(1, 0x5a);
    outs_.push_back({out, sizeof *out, told});
    return Pointer<T>(out);
  }
  template <class T>
  void forget(T* handle) {
    auto& alive = pool<T>();
    if (handle != nullptr) alive.erase(std::find(alive.begin(), alive.end(), handle));
  }
  template <class T>
  void adopt(T* handle) {
    if (handle != nullptr) pool<T>().push_back(handle);
  }

  // --- Callbacks ---

  void* user() { return this; }
  Release release() {
    if (in_.byte() < 60) return {nullptr, nullptr};
    releases_ = true;
    return {[](void* self) { ++static_cast<Session*>(self)->released_; }, this};
  }
  VisitTensor visit_tensor() {
    if (none(true)) return {nullptr, nullptr};
    return {[](void* self, std::uint64_t file, const safetensors_tensor_info* info) {
              require(file < 100, "the index of a file");
              static_cast<Session*>(self)->look_at(info->name, info->name_length);
            },
            this};
  }
  VisitName visit_name() {
    if (none(true)) return {nullptr, nullptr};
    return {[](void* self, const char* name) { static_cast<Session*>(self)->look_at(name, std::strlen(name)); }, this};
  }
  void callback_release(void (*&field)(void*)) { field = release().function(); }
  void callback_progress(std::int32_t (*&field)(void*, std::uint64_t, std::uint64_t)) {
    if (in_.byte() < 100) return;
    field = [](void* self, std::uint64_t done, std::uint64_t total) {
      require(done <= total, "no more is done than there is");
      return static_cast<Session*>(self)->whim() < 250 ? 1 : 0;
    };
  }
  void callback_cancelled(std::int32_t (*&field)(void*)) {
    if (in_.byte() < 100) return;
    field = [](void* self) { return static_cast<Session*>(self)->whim() < 250 ? 0 : 1; };
  }
  void callback_size(safetensors_status (*&field)(void*, std::uint64_t*, safetensors_error*));
  void callback_read_at(safetensors_status (*&field)(void*, std::uint64_t, void*, std::size_t, std::size_t*,
                                                     safetensors_error*));
  void callback_memory(const void* (*&field)(void*, std::uint64_t, std::uint64_t));
  // A driver that does not exist, so that no device address is ever used.
  void no_device(void*& stream) { stream = nullptr; }
  void no_device(const char*& driver) { driver = "/nonexistent/libcuda.so.1"; }

  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  struct Out {
    const void* value;
    std::size_t size;
    bool told;
  };
  struct Delete {
    void operator()(unsigned char* bytes) const noexcept {
      ::operator delete[](bytes, std::align_val_t{alignof(std::max_align_t)});
    }
  };
  template <class... T>
  using Pools = std::tuple<std::vector<T*>...>;

  // Returns true now and then: the caller then passes NULL. needed: the call must refuse NULL.
  bool none(bool needed) {
    if (in_.byte() >= 8) return false;
    missing_ = missing_ || needed;
    return true;
  }
  // Returns true now and then: the caller then passes NULL with a count. A call must refuse this unless the count is 0.
  bool null_pair() {
    const std::uint8_t kind = in_.byte();
    lost_count_ = kind < 4 ? kind : 0;
    wrong_ = wrong_ || lost_count_ != 0;
    return kind < 8;
  }
  std::uint64_t struct_size(std::size_t known) {
    const std::uint8_t kind = in_.byte();
    if (kind < 200) return known;
    wrong_ = wrong_ || kind < 215 || kind >= 240;
    unknown_ = unknown_ || (kind >= 215 && kind < 240);
    if (kind < 215) return kind % 8;                                // smaller than any struct
    if (kind < 240) return known + 8 * std::uint64_t{kind - 214U};  // the size in a later version
    return kind < 248 ? 4097 : ~std::uint64_t{0};
  }
  Pointer<const std::uint64_t> shape() {
    if (null_pair()) return Pointer<const std::uint64_t>(nullptr, lost_count_);
    const std::size_t rank = in_.up_to(4);
    auto* const dims = memory<std::uint64_t>(rank, 0);
    for (std::size_t i = 0; i < rank; ++i) dims[i] = number();
    return Pointer<const std::uint64_t>(dims, rank);
  }
  const char* keep(const std::string& text) {
    char* const copy = memory<char>(text.size() + 1, 0);
    std::memcpy(copy, text.c_str(), text.size());
    return copy;
  }
  void check(bool holds, const char* what) const {
    if (!holds) require(false, std::string(function_) + ": " + what);
  }
  // A pseudo-random number for callbacks. Any thread may call it.
  std::uint8_t whim() { return static_cast<std::uint8_t>((whim_.fetch_add(0x9E3779B9U) * 2654435761U) >> 24); }
  void look_at(const void* bytes, std::size_t size) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += static_cast<const unsigned char*>(bytes)[i];
    seen_ += sum;
  }
  template <class T>
  std::vector<T*>& pool() {
    return std::get<std::vector<T*>>(pools_);
  }
  template <class T>
  void free_all(std::vector<T*>& alive);

  // Makes the first handle of a type for a call that needs one.
  template <class T>
  void make(T*) {}
  void make(safetensors_file*);
  void make(safetensors_tensor*);
  void make(safetensors_array*);
  void make(safetensors_header*);
  void make(safetensors_header_builder*);
  void make(safetensors_slice*);
  void make(safetensors_resolved_slice*);
  void make(safetensors_checkpoint*);
  void make(safetensors_read_plan*);
  void make(safetensors_read_result*);
  void make(safetensors_read_report*);
  void make(safetensors_stream*);
  void make(safetensors_writer*);
  void make(safetensors_buffer*);
  void make(safetensors_checkpoint_layout*);
  void make(safetensors_checkpoint_writer*);

  Input& in_;
  Files& files_;
  const char* function_ = "";
  bool missing_ = false;    // a needed pointer is NULL
  bool unknown_ = false;    // a struct has members of a later version, or a reserved one: the call may refuse it first
  bool wrong_ = false;      // the call must fail
  bool releases_ = false;   // the call was given a function to release its memory
  std::uint64_t owed_ = 0;  // expected calls of such functions, one per call that succeeded
  std::size_t lost_count_ = 0;
  safetensors_error* error_ = nullptr;
  std::vector<Out> outs_;
  std::function<void()> taken_;
  std::vector<std::unique_ptr<unsigned char[], Delete>> memory_;
  std::atomic<std::uint32_t> whim_{1};
  std::atomic<unsigned> seen_{0};
  std::atomic<std::uint64_t> released_{0};
  std::uint64_t calls_ = 0;
  Pools<safetensors_file, safetensors_tensor, safetensors_array, safetensors_header, safetensors_header_builder,
        safetensors_slice, safetensors_resolved_slice, safetensors_checkpoint, safetensors_read_plan,
        safetensors_read_result, safetensors_read_report, safetensors_stream, safetensors_writer, safetensors_buffer,
        safetensors_checkpoint_layout, safetensors_checkpoint_writer, safetensors_dl_managed_tensor>
      pools_;
};

}  // namespace fuzz
