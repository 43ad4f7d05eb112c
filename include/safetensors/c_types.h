/* The status codes, the error, the dtypes, the options of parsing and the DLPack structs of the C interface: include
 * c.h. */
#ifndef SAFETENSORS_C_TYPES_H
#define SAFETENSORS_C_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t safetensors_status;

/* Codes 10 to 109 are the rules of the format, ten numbers to a rule. New codes may appear in the gaps. */
enum {
  SAFETENSORS_OK = 0,
  SAFETENSORS_ERROR_HEADER_TOO_SMALL = 10,
  SAFETENSORS_ERROR_HEADER_TOO_LARGE = 20,
  SAFETENSORS_ERROR_INVALID_HEADER_LENGTH = 30,
  SAFETENSORS_ERROR_INVALID_UTF8 = 40,
  SAFETENSORS_ERROR_JSON_SYNTAX = 50,
  SAFETENSORS_ERROR_JSON_LEADING_WHITESPACE = 51,
  SAFETENSORS_ERROR_JSON_DEPTH = 52,
  SAFETENSORS_ERROR_JSON_NUMBER = 53,
  SAFETENSORS_ERROR_JSON_TYPE = 54,
  SAFETENSORS_ERROR_JSON_INTEGER = 55,
  SAFETENSORS_ERROR_UNKNOWN_DTYPE = 56,
  SAFETENSORS_ERROR_MISSING_FIELD = 57,
  SAFETENSORS_ERROR_DUPLICATE_KEY = 58,
  SAFETENSORS_ERROR_INVALID_OFFSET = 60,
  SAFETENSORS_ERROR_SIZE_OVERFLOW = 70,
  SAFETENSORS_ERROR_MISALIGNED_SIZE = 80,
  SAFETENSORS_ERROR_SIZE_MISMATCH = 90,
  SAFETENSORS_ERROR_INCOMPLETE_DATA = 100,
  SAFETENSORS_ERROR_INVALID_INDEX = 110,
  SAFETENSORS_ERROR_AMBIGUOUS_CHECKPOINT = 111,
  SAFETENSORS_ERROR_RESERVED_NAME = 120,
  SAFETENSORS_ERROR_DUPLICATE_NAME = 121,
  SAFETENSORS_ERROR_DATA_LENGTH = 122,
  SAFETENSORS_ERROR_INVALID_ALIGNMENT = 123,
  SAFETENSORS_ERROR_OVERLAPPING_WRITE = 130,
  SAFETENSORS_ERROR_INCOMPLETE_WRITE = 131,
  SAFETENSORS_ERROR_WRITER_CLOSED = 132,
  SAFETENSORS_ERROR_INVALID_ARGUMENT = 140,
  SAFETENSORS_ERROR_NOT_FOUND = 141,
  SAFETENSORS_ERROR_DTYPE_MISMATCH = 142,
  SAFETENSORS_ERROR_MISALIGNED_MEMORY = 143,
  SAFETENSORS_ERROR_BUFFER_SIZE = 144,
  SAFETENSORS_ERROR_NOT_WRITABLE = 145,
  SAFETENSORS_ERROR_SLICE_INDEX = 150,
  SAFETENSORS_ERROR_SLICE_STEP = 151,
  SAFETENSORS_ERROR_SLICE_RANK = 152,
  SAFETENSORS_ERROR_SLICE_BITS = 153,
  SAFETENSORS_ERROR_SLICE_SYNTAX = 154,
  SAFETENSORS_ERROR_OUT_OF_MEMORY = 160,
  SAFETENSORS_ERROR_OPEN_FAILED = 170,
  SAFETENSORS_ERROR_NOT_REGULAR_FILE = 171,
  SAFETENSORS_ERROR_READ_FAILED = 172,
  SAFETENSORS_ERROR_WRITE_FAILED = 173,
  SAFETENSORS_ERROR_SYNC_FAILED = 174,
  SAFETENSORS_ERROR_REPLACE_FAILED = 175,
  SAFETENSORS_ERROR_REPLACED_NOT_DURABLE = 176,
  SAFETENSORS_ERROR_FILE_TRUNCATED = 177,
  SAFETENSORS_ERROR_FILE_CHANGED = 178,
  SAFETENSORS_ERROR_MAP_FAILED = 179,
  SAFETENSORS_ERROR_UNSUPPORTED = 180,
  SAFETENSORS_ERROR_DEVICE_FAILED = 181,
  SAFETENSORS_ERROR_HEADER_DOES_NOT_FIT = 182,
  SAFETENSORS_ERROR_CANCELLED = 190
};

#define SAFETENSORS_NO_OFFSET UINT64_MAX

/* What went wrong, in memory of the caller; needs no initialization and holds nothing to free. Every call that is given
 * one writes it: after success code is 0 and the texts are empty. Text that is too long is cut and ends in "...". */
typedef struct safetensors_error {
  safetensors_status code;
  int32_t os_error;  /* errno, or 0 */
  uint64_t offset;   /* byte in the file, counted from its start, or SAFETENSORS_NO_OFFSET */
  char message[512]; /* one sentence without the path; NUL-terminated, safe to show */
  char path[512];    /* of the file, or empty; NUL-terminated, as it was given: safetensors_error_format escapes it */
} safetensors_error;

typedef int32_t safetensors_dtype;

/* The numbers are pinned and say nothing about order. */
enum {
  SAFETENSORS_DTYPE_BOOL = 1,
  SAFETENSORS_DTYPE_U8 = 2,
  SAFETENSORS_DTYPE_I8 = 3,
  SAFETENSORS_DTYPE_I16 = 4,
  SAFETENSORS_DTYPE_U16 = 5,
  SAFETENSORS_DTYPE_F16 = 6,
  SAFETENSORS_DTYPE_BF16 = 7,
  SAFETENSORS_DTYPE_I32 = 8,
  SAFETENSORS_DTYPE_U32 = 9,
  SAFETENSORS_DTYPE_F32 = 10,
  SAFETENSORS_DTYPE_F64 = 11,
  SAFETENSORS_DTYPE_I64 = 12,
  SAFETENSORS_DTYPE_U64 = 13,
  SAFETENSORS_DTYPE_C64 = 14,
  SAFETENSORS_DTYPE_F8_E4M3 = 15,
  SAFETENSORS_DTYPE_F8_E5M2 = 16,
  SAFETENSORS_DTYPE_F8_E8M0 = 17,
  SAFETENSORS_DTYPE_F8_E4M3FNUZ = 18,
  SAFETENSORS_DTYPE_F8_E5M2FNUZ = 19,
  SAFETENSORS_DTYPE_F6_E2M3 = 20,
  SAFETENSORS_DTYPE_F6_E3M2 = 21,
  SAFETENSORS_DTYPE_F4 = 22
};

/* --- How headers are read --- */

typedef struct safetensors_parse_options {
  uint64_t struct_size;
  uint64_t max_header_bytes;         /* 0: 100,000,000, the format's limit */
  uint32_t allow_leading_whitespace; /* not 0: accept white space before the { */
  uint32_t reserved;                 /* 0 */
  /* May be NULL. Called now and then with user by the thread that made the call, and by no other; not 0 ends the call
   * with CANCELLED. It must return normally. It may return a volatile sig_atomic_t that a signal handler sets, or look
   * at what another thread sets. A read that is under way is waited for. */
  int32_t (*cancelled)(void* user);
  void* user;
} safetensors_parse_options;
#define SAFETENSORS_PARSE_OPTIONS_INIT \
  { sizeof(safetensors_parse_options), 0, 0, 0, NULL, NULL }

/* --- DLPack (https://dmlc.github.io/dlpack), version 1.1 --- */

#define SAFETENSORS_DLPACK_MAJOR_VERSION 1
#define SAFETENSORS_DLPACK_MINOR_VERSION 1
#define SAFETENSORS_DLPACK_CPU 1
#define SAFETENSORS_DLPACK_READ_ONLY UINT64_C(1) /* a bit of flags */

#if defined(DLPACK_DLPACK_H_) && defined(DLPACK_MAJOR_VERSION)
/* dlpack.h was included before: its types. Included after, the types below have the same layout under other names. */
typedef DLDataType safetensors_dl_data_type;
typedef DLTensor safetensors_dl_tensor;
typedef struct DLManagedTensorVersioned safetensors_dl_managed_tensor;
#else
typedef struct safetensors_dl_version {
  uint32_t major;
  uint32_t minor;
} safetensors_dl_version;

typedef struct safetensors_dl_device {
  int32_t device_type;
  int32_t device_id;
} safetensors_dl_device;

typedef struct safetensors_dl_data_type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} safetensors_dl_data_type;

typedef struct safetensors_dl_tensor {
  void* data; /* NULL when there are no elements */
  safetensors_dl_device device;
  int32_t ndim;
  safetensors_dl_data_type dtype;
  int64_t* shape;   /* never NULL, in the managed tensor's own allocation */
  int64_t* strides; /* in elements; likewise */
  uint64_t byte_offset;
} safetensors_dl_tensor;

/* DLManagedTensorVersioned. Whoever holds it calls deleter(self) once, on any thread. */
typedef struct safetensors_dl_managed_tensor {
  safetensors_dl_version version;
  void* manager_ctx;
  void (*deleter)(struct safetensors_dl_managed_tensor* self);
  uint64_t flags;
  safetensors_dl_tensor dl_tensor;
} safetensors_dl_managed_tensor;
#endif

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_TYPES_H */
