// The shape of a tensor: its dimensions, outermost first. [] is a scalar.
#pragma once

#include <safetensors/export.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

namespace safetensors {
inline namespace v0 {

// Dimensions that somebody else owns.
using ShapeView = std::span<const std::uint64_t>;

// Dimensions that outlive what they were taken from. Up to kInline dimensions need no allocation; more may throw
// std::bad_alloc, as any container does.
class Shape {
 public:
  static constexpr std::size_t kInline = 6;

  Shape() noexcept = default;
  Shape(std::initializer_list<std::uint64_t> dims) : Shape(ShapeView(dims.begin(), dims.size())) {}
  Shape(ShapeView dims) : rank_(dims.size()) {  // NOLINT(google-explicit-constructor)
    if (rank_ > kInline) heap_.reset(new std::uint64_t[rank_]);
    std::copy(dims.begin(), dims.end(), data());
  }
  Shape(const Shape& other) : Shape(ShapeView(other)) {}
  Shape(Shape&& other) noexcept : rank_(other.rank_), heap_(std::move(other.heap_)) {
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    other.rank_ = 0;
  }
  Shape& operator=(const Shape& other) { return *this = Shape(other); }
  Shape& operator=(Shape&& other) noexcept {
    heap_ = std::move(other.heap_);
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    rank_ = other.rank_;
    if (&other != this) other.rank_ = 0;
    return *this;
  }
  ~Shape() = default;

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return rank_; }
  [[nodiscard]] bool empty() const noexcept { return rank_ == 0; }
  [[nodiscard]] const std::uint64_t* data() const noexcept { return rank_ > kInline ? heap_.get() : inline_; }
  [[nodiscard]] std::uint64_t* data() noexcept { return rank_ > kInline ? heap_.get() : inline_; }
  [[nodiscard]] const std::uint64_t* begin() const noexcept { return data(); }
  [[nodiscard]] const std::uint64_t* end() const noexcept { return data() + rank_; }
  [[nodiscard]] std::uint64_t operator[](std::size_t dim) const noexcept { return data()[dim]; }
  operator ShapeView() const& noexcept { return {data(), rank_}; }  // NOLINT(google-explicit-constructor)

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::size_t rank_ = 0;
  std::uint64_t inline_[kInline] = {};
  std::unique_ptr<std::uint64_t[]> heap_;
};

// "[2, 3]"; "[]" for a scalar. Long shapes are cut: "[1, 1, 1, 1, 1, 1, 1, 1, ... 50000000 dimensions]".
[[nodiscard]] SAFETENSORS_API std::string to_string(ShapeView shape);

}  // namespace v0
}  // namespace safetensors
