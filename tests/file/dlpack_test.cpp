// Arrays as DLPack tensors: every field, the lifetime of the memory, and the shapes that DLPack cannot hold.
#include <gtest/gtest.h>
#include <safetensors/to_dlpack.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

using Dims = std::vector<std::int64_t>;

// Consumers read these structures by the layout of version 1.1 and of the form without a version.
using Versioned = safetensors_dl_managed_tensor;
using Unversioned = safetensors_dl_unversioned_tensor;
using DlTensor = safetensors_dl_tensor;
static_assert(sizeof(void*) != 8 ||
              (sizeof(Versioned) == 80 && offsetof(Versioned, manager_ctx) == 8 && offsetof(Versioned, deleter) == 16 &&
               offsetof(Versioned, flags) == 24 && offsetof(Versioned, dl_tensor) == 32));
static_assert(sizeof(void*) != 8 || (sizeof(Unversioned) == 64 && offsetof(Unversioned, dl_tensor) == 0 &&
                                     offsetof(Unversioned, manager_ctx) == 48 && offsetof(Unversioned, deleter) == 56));
static_assert(sizeof(void*) != 8 ||
              (sizeof(DlTensor) == 48 && offsetof(DlTensor, device) == 8 && offsetof(DlTensor, ndim) == 16 &&
               offsetof(DlTensor, dtype) == 20 && offsetof(DlTensor, shape) == 24 &&
               offsetof(DlTensor, strides) == 32 && offsetof(DlTensor, byte_offset) == 40));

// An array of 2 x 3 elements of U16, whose memory is released together with `owner`.
Array sample_array(std::shared_ptr<std::vector<std::byte>> owner, MemoryKind kind) {
  const std::span<std::byte> bytes(*owner);
  return Array(Dtype::U16, Shape({2, 3}), bytes, std::move(owner), kind);
}

void expect_sample(const safetensors_dl_tensor& tensor, const void* data) {
  EXPECT_EQ(tensor.data, data);
  EXPECT_EQ(tensor.device.device_type, SAFETENSORS_DLPACK_CPU);
  EXPECT_EQ(tensor.device.device_id, 0);
  EXPECT_EQ(tensor.dtype.code, 1);
  EXPECT_EQ(tensor.dtype.bits, 16);
  EXPECT_EQ(tensor.dtype.lanes, 1);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_EQ(Dims(tensor.shape, tensor.shape + 2), (Dims{2, 3}));
  EXPECT_EQ(Dims(tensor.strides, tensor.strides + 2), (Dims{3, 1}));
  EXPECT_EQ(tensor.byte_offset, 0u);
}

TEST(ToDLPack, TensorSharesMemoryAndKeepsItAlive) {
  auto owner = std::make_shared<std::vector<std::byte>>(12);
  const void* const data = owner->data();
  const std::weak_ptr<void> alive = owner;
  DLPackTensor versioned = to_dlpack(sample_array(owner, MemoryKind::owned)).value();
  UnversionedDLPackTensor unversioned =
      to_unversioned_dlpack(sample_array(std::move(owner), MemoryKind::owned)).value();
  EXPECT_EQ(versioned->version.major, 1u);
  EXPECT_EQ(versioned->version.minor, 1u);
  expect_sample(versioned->dl_tensor, data);
  expect_sample(unversioned->dl_tensor, data);
  safetensors_dl_managed_tensor* const consumed = versioned.release();
  consumed->deleter(consumed);
  EXPECT_FALSE(alive.expired());
  unversioned.reset();
  EXPECT_TRUE(alive.expired());
}

TEST(ToDLPack, FlagTellsReadOnlyMemory) {
  const auto owner = std::make_shared<std::vector<std::byte>>(12);
  EXPECT_EQ(to_dlpack(sample_array(owner, MemoryKind::owned)).value()->flags, 0u);
  EXPECT_EQ(to_dlpack(sample_array(owner, MemoryKind::copy_on_write_map)).value()->flags, 0u);
  EXPECT_EQ(to_dlpack(sample_array(owner, MemoryKind::shared_map)).value()->flags, SAFETENSORS_DLPACK_READ_ONLY);
}

TEST(ToDLPack, ArrayWithoutBytesHasNoData) {
  const std::uint64_t large = std::uint64_t{1} << 62;
  const Array array(Dtype::F32, Shape({0, large, large}), {}, nullptr, MemoryKind::owned);
  const DLPackTensor tensor = to_dlpack(array).value();
  EXPECT_EQ(tensor->dl_tensor.data, nullptr);
  EXPECT_EQ(tensor->dl_tensor.shape[2], std::int64_t{1} << 62);
  EXPECT_EQ(to_dlpack(Array()).value()->dl_tensor.ndim, 1);
}

TEST(ToDLPack, RefusesDimensionsBeyondInt64) {
  const Array array(Dtype::F32, Shape({0, std::uint64_t{1} << 63}), {}, nullptr, MemoryKind::owned);
  for (const Error& error : {error_of(to_dlpack(array)), error_of(to_unversioned_dlpack(array))}) {
    EXPECT_EQ(error.code, Errc::unsupported);
    EXPECT_EQ(error.message, "dimension 1 is 9223372036854775808, DLPack allows 9223372036854775807");
  }
}

}  // namespace
}  // namespace safetensors::test
