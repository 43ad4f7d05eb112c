// The sizes of public types, in the standard of the file that includes this one. A program in C++17 links a library in
// C++20.
#pragma once

#include <safetensors/safetensors.h>

#include <array>
#include <cstddef>

using namespace safetensors;  // NOLINT(google-build-using-namespace)

template <class... Types>
constexpr std::array<std::size_t, sizeof...(Types)> sizes_of() {
  return {sizeof(Types)...};
}

// Static, so that the linker does not take those of one file for all. An array of char stands for an offset.
static constexpr auto kSizes =
    sizes_of<Span<int>, Error, Status, Result<File>, Result<Array>, Shape, Array, TypedView<float>, DimSlice, Slice,
             ResolvedSlice, PathView, TensorInfo, Callback<bool()>, ParseOptions, OpenOptions, File, Tensor, Checkpoint,
             Destination, ReadOptions, char[offsetof(ReadOptions, device_stream)], ReadReport, ReadResult, StreamItem,
             TensorData, NamedTensor, WriteOptions, LayoutOptions, Writer, CheckpointTensor, CheckpointLayoutOptions,
             CheckpointWriteOptions, EditOptions>();

// Returns kSizes of layout.cpp.
Span<const std::size_t> sizes_in_cpp20();
