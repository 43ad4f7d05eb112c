/// @file
/// Computes which process reads which part of a tensor, when a tensor is cut in one way and needed in another. No
/// function of this header opens a file.
#pragma once

#include <safetensors/error.h>
#include <safetensors/shape.h>
#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// A box of a tensor: a range of indices per dimension.
struct Box {
  Shape begin = {};  ///< the first index per dimension
  Shape shape = {};  ///< the number of indices per dimension; a box with a 0 is empty
  /// Returns the number of elements.
  [[nodiscard]] std::uint64_t numel() const noexcept { return shape.numel(); }
  /// Returns true when both have the same indices.
  friend bool operator==(const Box&, const Box&) = default;
};

/// Returns the box as text, like a slice of Python: "[0:2, 3:5]", or "[]" for a scalar. May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API std::string to_string(const Box& box);

/// Returns the Slice that takes the elements of a box, for ReadPlan and Tensor::read(). The box must be inside of a
/// tensor, so that all indices are below 2^63. May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API Slice to_slice(const Box& box);

/// The way in which one dimension of a mesh of processes holds a tensor. A mesh is an array of processes: a mesh of
/// shape [2, 4] has 8 processes, each with a coordinate of two numbers.
struct Placement {
  /// Kinds of placements.
  enum class Kind : std::uint8_t {
    replicate,  ///< every process of this mesh dimension has the whole tensor
    shard,      ///< the processes of this mesh dimension have one part each
  };
  Kind kind = Kind::replicate;  ///< decides whether `dim` has a meaning
  std::size_t dim = 0;          ///< for `shard`: the dimension of the tensor that is cut

  /// Every process of the mesh dimension has the whole tensor.
  static Placement replicate() noexcept { return {}; }
  /// Cuts dimension `dim` of the tensor into one part per process of the mesh dimension.
  static Placement shard(std::size_t dim) noexcept { return {.kind = Kind::shard, .dim = dim}; }
};

/// Returns the box of a tensor that one process of a mesh has.
///
/// `mesh` is the shape of the mesh, `coordinate` is the process, and `placements` has one Placement per dimension of
/// the mesh. The rule is that of torch's DTensor. A dimension of n indices is cut into chunks of ceil(n / parts)
/// indices. So the last part may be smaller, and parts after the last index are empty: they begin at n. This differs
/// from Slice::shard(). If several mesh dimensions shard one dimension of the tensor, they cut it in the order of the
/// mesh dimensions: the second one cuts the part that the first one left.
///
/// Thread-safe. Errors: invalid_argument, with the position of the argument, if the lengths of `mesh`, `coordinate` and
/// `placements` differ, a dimension of the mesh is 0, a coordinate is outside of the mesh, or a placement names a
/// dimension that the tensor does not have; out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<Box> shard_box(ShapeView shape, ShapeView mesh, ShapeView coordinate,
                                                    std::span<const Placement> placements) noexcept;

/// A box that one wanted part takes from one saved part. Both boxes have the same shape and hold the same elements.
struct Transfer {
  std::size_t source = 0;  ///< index of the saved part
  std::size_t target = 0;  ///< index of the wanted part
  Box in_source = {};      ///< the elements, as a box of the saved part: index 0 is the first index of the part
  Box in_target = {};      ///< the elements, as a box of the wanted part
  /// Returns true when both move the same elements.
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Returns the transfers from the saved parts of a tensor to the wanted parts.
///
/// `shape` is the shape of the whole tensor. `saved` and `wanted` are boxes of it, such as shard_box() returns. Each
/// element of a wanted box is in exactly one Transfer. If several saved boxes have an element, the one with the lowest
/// index gives it: so a replica is never read twice. If saved boxes do not overlap, or are equal, there is at most one
/// Transfer per pair of a saved and a wanted box. Otherwise a pair may have several, because a box that lacks a piece
/// is cut into boxes. Empty boxes need no Transfer.
///
/// The transfers are sorted by target, then by source.
///
/// Saved boxes that differ in only one dimension may overlap without limit. Overlaps of other boxes have limits,
/// because their number can grow with S x S, with S saved boxes: at most 2^18 + 16 x S pairs may overlap without being
/// equal, and the boxes may be cut into as many pieces, in 64 times as many steps.
///
/// Time, with N pieces and wanted boxes (a saved box that is not cut is one piece), and T transfers: at most in
/// proportion to N x log2(N)^D + T x log2(T), and to N x N. D is the number of dimensions in which boxes lie apart. The
/// memory is in proportion to N + T. Thread-safe.
///
/// Errors: invalid_argument, with the index of the box, if a box has another number of dimensions than the tensor, ends
/// outside of it, or if elements of a wanted box are in no saved box; invalid_argument, if more saved boxes overlap
/// than these limits allow; size_overflow, if the tensor has more than 2^64-1 elements; out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<std::vector<Transfer>> reshard(ShapeView shape, std::span<const Box> saved,
                                                                    std::span<const Box> wanted) noexcept;

}  // namespace v0
}  // namespace safetensors
