// The sizes of public types, in the standard of the file that includes this one. A program in C++17 links a library in
// C++20.
#pragma once

#include <safetensors/safetensors.h>

#include <cstddef>

using namespace safetensors;  // NOLINT(google-build-using-namespace)

// Static, so that the linker does not take those of one file for all.
static constexpr std::size_t kSizes[] = {sizeof(Span<int>),
                                         sizeof(Error),
                                         sizeof(Status),
                                         sizeof(Result<File>),
                                         sizeof(Result<Array>),
                                         sizeof(Shape),
                                         sizeof(Array),
                                         sizeof(TypedView<float>),
                                         sizeof(DimSlice),
                                         sizeof(Slice),
                                         sizeof(ResolvedSlice),
                                         sizeof(PathView),
                                         sizeof(TensorInfo),
                                         sizeof(Callback<bool()>),
                                         sizeof(ParseOptions),
                                         sizeof(OpenOptions),
                                         sizeof(File),
                                         sizeof(Tensor),
                                         sizeof(TensorReadOptions),
                                         sizeof(Checkpoint),
                                         sizeof(Destination),
                                         sizeof(AddOptions),
                                         sizeof(ReadOptions),
                                         offsetof(ReadOptions, device_stream),
                                         sizeof(ReadReport),
                                         sizeof(ReadResult),
                                         sizeof(StreamItem),
                                         sizeof(PackedTensor),
                                         sizeof(Packed),
                                         sizeof(TensorData),
                                         sizeof(NamedTensor),
                                         sizeof(WriteOptions),
                                         sizeof(LayoutOptions),
                                         sizeof(FileContents),
                                         sizeof(Writer),
                                         sizeof(CheckpointTensor),
                                         sizeof(CheckpointLayoutOptions),
                                         sizeof(CheckpointWriteOptions),
                                         sizeof(CheckpointIndex),
                                         sizeof(IndexCheck),
                                         sizeof(DiffOptions),
                                         sizeof(TensorDiff),
                                         sizeof(StatsOptions),
                                         sizeof(TensorStats),
                                         sizeof(RewriteTensor),
                                         sizeof(RewriteOptions),
                                         sizeof(CleanOptions),
                                         sizeof(Temporary),
                                         sizeof(EditOptions),
                                         sizeof(MetadataEdit)};

// Returns kSizes of layout.cpp.
Span<const std::size_t> sizes_in_cpp20();
