/** @file
 * The structs of DLPack, the format in which frameworks exchange tensors. c.h includes this header. */
#ifndef SAFETENSORS_DLPACK_H
#define SAFETENSORS_DLPACK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Major version of DLPack (https://dmlc.github.io/dlpack). The structs below are those of version 1.1. */
#define SAFETENSORS_DLPACK_MAJOR_VERSION 1
/** Minor version of DLPack. */
#define SAFETENSORS_DLPACK_MINOR_VERSION 1
/** `device_type` of memory of the CPU. */
#define SAFETENSORS_DLPACK_CPU 1
/** Bit of `flags`: the memory is read-only. */
#define SAFETENSORS_DLPACK_READ_ONLY UINT64_C(1)

#if defined(DLPACK_DLPACK_H_) && defined(DLPACK_MAJOR_VERSION)
/* If dlpack.h was included before, its types are used. If it is included later, the types below have the same layout
 * under other names. */
typedef DLDataType safetensors_dl_data_type;
typedef DLTensor safetensors_dl_tensor;
typedef struct DLManagedTensorVersioned safetensors_dl_managed_tensor;
typedef struct DLManagedTensor safetensors_dl_unversioned_tensor;
#else
/** A version of DLPack: DLPackVersion. */
typedef struct safetensors_dl_version {
  uint32_t major; /**< changes when the layout of the structs changes */
  uint32_t minor; /**< changes when values are added */
} safetensors_dl_version;

/** A device: DLDevice. */
typedef struct safetensors_dl_device {
  int32_t device_type; /**< kind of device, such as SAFETENSORS_DLPACK_CPU */
  int32_t device_id;   /**< ordinal of the device */
} safetensors_dl_device;

/** A data type: DLDataType. */
typedef struct safetensors_dl_data_type {
  uint8_t code;   /**< a DLDataTypeCode */
  uint8_t bits;   /**< bits of one element */
  uint16_t lanes; /**< elements per vector */
} safetensors_dl_data_type;

/** A tensor in memory: DLTensor. */
typedef struct safetensors_dl_tensor {
  void* data;                     /**< NULL when there are no elements */
  safetensors_dl_device device;   /**< where `data` is */
  int32_t ndim;                   /**< number of dimensions */
  safetensors_dl_data_type dtype; /**< type of the elements */
  int64_t* shape;                 /**< dimensions; never NULL, valid until the deleter runs */
  int64_t* strides;               /**< in elements; never NULL, valid until the deleter runs */
  uint64_t byte_offset;           /**< bytes from `data` to the first element */
} safetensors_dl_tensor;

/** A tensor with its owner: DLManagedTensorVersioned. The holder calls `deleter(self)` exactly once, on any thread. */
typedef struct safetensors_dl_managed_tensor {
  safetensors_dl_version version; /**< version of DLPack */
  void* manager_ctx;              /**< belongs to the producer */
  /** Frees the tensor and releases its memory. */
  void (*deleter)(struct safetensors_dl_managed_tensor* self);
  uint64_t flags;                  /**< bits, such as SAFETENSORS_DLPACK_READ_ONLY */
  safetensors_dl_tensor dl_tensor; /**< the tensor */
} safetensors_dl_managed_tensor;

/** A tensor with its owner in DLPack before 1.0: DLManagedTensor. It has no version and no flags. The holder calls
 * `deleter(self)` exactly once, on any thread. */
typedef struct safetensors_dl_unversioned_tensor {
  safetensors_dl_tensor dl_tensor; /**< the tensor */
  void* manager_ctx;               /**< belongs to the producer */
  /** Frees the tensor and releases its memory. */
  void (*deleter)(struct safetensors_dl_unversioned_tensor* self);
} safetensors_dl_unversioned_tensor;
#endif

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_DLPACK_H */
