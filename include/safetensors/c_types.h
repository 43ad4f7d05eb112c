/** @file
 * Status codes, the error, dtypes and options for reading of the C interface. Include c.h instead of this header. */
#ifndef SAFETENSORS_C_TYPES_H
#define SAFETENSORS_C_TYPES_H

#include <safetensors/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Status codes and errors --- */

/** A status code: SAFETENSORS_OK or one of the codes `SAFETENSORS_ERROR_...`. */
typedef int32_t safetensors_status;

/** Status codes. Codes 10 to 109 report the ten rules of the format. Each rule has ten numbers: rule = code / 10. The
 * numbers never change. New versions may add codes in the gaps. */
enum {
  SAFETENSORS_OK = 0,                             /**< success */
  SAFETENSORS_ERROR_HEADER_TOO_SMALL = 10,        /**< rule 1: the file has fewer than 8 bytes */
  SAFETENSORS_ERROR_HEADER_TOO_LARGE = 20,        /**< rule 2: the header is longer than `max_header_bytes` */
  SAFETENSORS_ERROR_INVALID_HEADER_LENGTH = 30,   /**< rule 3: the header ends after the end of the file */
  SAFETENSORS_ERROR_INVALID_UTF8 = 40,            /**< rule 4: the header is not valid UTF-8 */
  SAFETENSORS_ERROR_JSON_SYNTAX = 50,             /**< rule 5: the header is not JSON */
  SAFETENSORS_ERROR_JSON_LEADING_WHITESPACE = 51, /**< rule 5: the header does not begin with `{` */
  SAFETENSORS_ERROR_JSON_DEPTH = 52,              /**< rule 5: more than 127 open containers */
  SAFETENSORS_ERROR_JSON_NUMBER = 53,             /**< rule 5: a number in an ignored value rounds to infinity */
  SAFETENSORS_ERROR_JSON_TYPE = 54,      /**< rule 5: JSON, but not of the type that the format requires here */
  SAFETENSORS_ERROR_JSON_INTEGER = 55,   /**< rule 5: not an integer from 0 to 2^64-1 that is written in digits only */
  SAFETENSORS_ERROR_UNKNOWN_DTYPE = 56,  /**< rule 5: the dtype is not one of the 22 names */
  SAFETENSORS_ERROR_MISSING_FIELD = 57,  /**< rule 5: `dtype`, `shape` or `data_offsets` is missing */
  SAFETENSORS_ERROR_DUPLICATE_KEY = 58,  /**< rule 5: a key occurs twice; reported only if nothing else breaks rule 5 */
  SAFETENSORS_ERROR_INVALID_OFFSET = 60, /**< rule 6: a hole, an overlap, or an end before its begin */
  SAFETENSORS_ERROR_SIZE_OVERFLOW = 70,  /**< rule 7: the number of bits is larger than 2^64-1 */
  SAFETENSORS_ERROR_MISALIGNED_SIZE = 80, /**< rule 8: the elements of a sub-byte dtype do not fill whole bytes */
  SAFETENSORS_ERROR_SIZE_MISMATCH =
      90, /**< rule 9: the size of `data_offsets` differs from the size of dtype and shape */
  SAFETENSORS_ERROR_INCOMPLETE_DATA = 100, /**< rule 10: the file is shorter or longer than its tensors */
  SAFETENSORS_ERROR_INVALID_INDEX =
      110, /**< the index of a sharded checkpoint (which tensor is in which file) is invalid */
  SAFETENSORS_ERROR_AMBIGUOUS_CHECKPOINT =
      111,                                /**< a folder has several files or indexes, and none of them has precedence */
  SAFETENSORS_ERROR_RESERVED_NAME = 120,  /**< a tensor cannot be named `__metadata__` */
  SAFETENSORS_ERROR_DUPLICATE_NAME = 121, /**< a tensor or metadata key was added twice, or a tensor is in two files */
  SAFETENSORS_ERROR_DATA_LENGTH = 122,    /**< the number of bytes does not match dtype and shape */
  SAFETENSORS_ERROR_INVALID_ALIGNMENT = 123, /**< not a power of two from 1 to 65536 */
  SAFETENSORS_ERROR_OVERLAPPING_WRITE = 130, /**< a byte of a tensor was written twice */
  SAFETENSORS_ERROR_INCOMPLETE_WRITE = 131,  /**< safetensors_writer_commit() was called while bytes were missing */
  SAFETENSORS_ERROR_WRITER_CLOSED = 132,     /**< the writer was used after safetensors_writer_commit() */
  SAFETENSORS_ERROR_INVALID_ARGUMENT = 140,  /**< an argument is invalid; the message names it */
  SAFETENSORS_ERROR_NOT_FOUND = 141,         /**< there is no tensor, metadata key or file with this name */
  SAFETENSORS_ERROR_DTYPE_MISMATCH =
      142, /**< the tensor has another dtype than the call needs, as in safetensors_array_as() */
  SAFETENSORS_ERROR_MISALIGNED_MEMORY = 143, /**< safetensors_array_as(): the address is not aligned for the type */
  SAFETENSORS_ERROR_BUFFER_SIZE = 144,       /**< the destination does not have exactly the size of the result */
  SAFETENSORS_ERROR_NOT_WRITABLE = 145,      /**< the memory is read-only */
  SAFETENSORS_ERROR_SHAPE_MISMATCH = 146,    /**< the tensor has another shape than the call needs */
  SAFETENSORS_ERROR_SLICE_INDEX = 150,       /**< an index is out of range */
  SAFETENSORS_ERROR_SLICE_STEP = 151,        /**< a step is 0 */
  SAFETENSORS_ERROR_SLICE_RANK = 152,        /**< more indices than dimensions */
  SAFETENSORS_ERROR_SLICE_BITS = 153,   /**< a slice of a sub-byte dtype does not begin and end on byte boundaries */
  SAFETENSORS_ERROR_SLICE_SYNTAX = 154, /**< the text is not a slice */
  SAFETENSORS_ERROR_SLICE_NOT_CONTIGUOUS = 155,    /**< the slice has several runs and needs a copy */
  SAFETENSORS_ERROR_OUT_OF_MEMORY = 160,           /**< memory could not be allocated */
  SAFETENSORS_ERROR_OPEN_FAILED = 170,             /**< the file could not be opened; `os_error` has the reason */
  SAFETENSORS_ERROR_NOT_REGULAR_FILE = 171,        /**< the path leads to a directory, a device, a FIFO or a socket */
  SAFETENSORS_ERROR_READ_FAILED = 172,             /**< reading failed; `os_error` has the reason */
  SAFETENSORS_ERROR_WRITE_FAILED = 173,            /**< writing failed; `os_error` has the reason */
  SAFETENSORS_ERROR_SYNC_FAILED = 174,             /**< the data could not be made durable; `os_error` has the reason */
  SAFETENSORS_ERROR_OVERLAPPING_DESTINATION = 147, /**< two tensors of a plan would be read into the same memory */
  SAFETENSORS_ERROR_VALUE_OUT_OF_RANGE =
      148,                                /**< a cast of integers: an element is outside the range of the new dtype */
  SAFETENSORS_ERROR_REPLACE_FAILED = 175, /**< the new file could not replace the old file; the old file is unchanged */
  SAFETENSORS_ERROR_REPLACED_NOT_DURABLE = 176, /**< the new file is in place, but may be lost after a power cut */
  SAFETENSORS_ERROR_FILE_TRUNCATED = 177,       /**< the file became shorter after it was opened */
  SAFETENSORS_ERROR_FILE_CHANGED =
      178, /**< the path leads to another file than the one opened, or the file has changed since */
  SAFETENSORS_ERROR_MAP_FAILED = 179,  /**< the file could not be mapped into memory */
  SAFETENSORS_ERROR_UNSUPPORTED = 180, /**< the system, the file system or the memory does not support the operation */
  SAFETENSORS_ERROR_DEVICE_FAILED =
      181, /**< the driver of an accelerator reported an error; the message has its reason */
  SAFETENSORS_ERROR_HEADER_DOES_NOT_FIT = 182, /**< edit in place: the new header is longer than the old one */
  SAFETENSORS_ERROR_CANCELLED = 190            /**< a callback of the caller ended the operation */
};

/** Value of `offset` in safetensors_error when the error has no position in a file. */
#define SAFETENSORS_NO_OFFSET UINT64_MAX

/** An error: the failure, the file and the byte. The memory belongs to the caller.
 *
 * The struct needs no initialization, and contains nothing to free. Every call that receives one writes it. After
 * success, `code` is 0 and the texts are empty. A text that is too long is cut and ends in "...". */
typedef struct safetensors_error {
  safetensors_status code; /**< the status code that the call returned */
  int32_t os_error;        /**< `errno`, or 0 */
  uint64_t offset;         /**< bytes from the start of the file, or SAFETENSORS_NO_OFFSET */
  char message[512];       /**< one sentence without the path; NUL-terminated, safe to show */
  /** Path of the file as the caller gave it, or empty. NUL-terminated, not escaped. safetensors_error_format() escapes
   * it. */
  char path[512];
} safetensors_error;

/* --- Dtypes --- */

/** A dtype: one of the numbers `SAFETENSORS_DTYPE_...`. */
typedef int32_t safetensors_dtype;

/** Dtypes. The numbers never change. They do not define an order: see safetensors_dtype_rank(). */
enum {
  SAFETENSORS_DTYPE_BOOL = 1,     /**< one byte per element: 0 or 1 */
  SAFETENSORS_DTYPE_U8 = 2,       /**< unsigned integer, 8 bits */
  SAFETENSORS_DTYPE_I8 = 3,       /**< signed integer, 8 bits */
  SAFETENSORS_DTYPE_I16 = 4,      /**< signed integer, 16 bits */
  SAFETENSORS_DTYPE_U16 = 5,      /**< unsigned integer, 16 bits */
  SAFETENSORS_DTYPE_F16 = 6,      /**< IEEE 754 half precision, 16 bits */
  SAFETENSORS_DTYPE_BF16 = 7,     /**< bfloat16: 8 bits of exponent, 7 of mantissa */
  SAFETENSORS_DTYPE_I32 = 8,      /**< signed integer, 32 bits */
  SAFETENSORS_DTYPE_U32 = 9,      /**< unsigned integer, 32 bits */
  SAFETENSORS_DTYPE_F32 = 10,     /**< IEEE 754 single precision, 32 bits */
  SAFETENSORS_DTYPE_F64 = 11,     /**< IEEE 754 double precision, 64 bits */
  SAFETENSORS_DTYPE_I64 = 12,     /**< signed integer, 64 bits */
  SAFETENSORS_DTYPE_U64 = 13,     /**< unsigned integer, 64 bits */
  SAFETENSORS_DTYPE_C64 = 14,     /**< complex, 64 bits: two F32, real and imaginary */
  SAFETENSORS_DTYPE_F8_E4M3 = 15, /**< 8 bits: 4 of exponent, 3 of mantissa; no infinity */
  SAFETENSORS_DTYPE_F8_E5M2 = 16, /**< 8 bits: 5 of exponent, 2 of mantissa */
  SAFETENSORS_DTYPE_F8_E8M0 = 17, /**< 8 bits of exponent: a power of two */
  SAFETENSORS_DTYPE_F8_E4M3FNUZ =
      18, /**< 8 bits: 4 of exponent (other bias), 3 of mantissa; no infinity, no negative zero */
  SAFETENSORS_DTYPE_F8_E5M2FNUZ =
      19, /**< 8 bits: 5 of exponent (other bias), 2 of mantissa; no infinity, no negative zero */
  SAFETENSORS_DTYPE_F6_E2M3 = 20, /**< 6 bits: 2 of exponent, 3 of mantissa; packed */
  SAFETENSORS_DTYPE_F6_E3M2 = 21, /**< 6 bits: 3 of exponent, 2 of mantissa; packed */
  SAFETENSORS_DTYPE_F4 = 22,      /**< 4 bits (E2M1): 2 of exponent, 1 of mantissa; packed */
  /** Not a dtype of the format: a tensor whose dtype the library does not know. It needs
   * SAFETENSORS_ACCEPT_UNKNOWN_DTYPES. safetensors_header_dtype_name() has the text of the file. The tensor is read as
   * an array of U8. No function takes this number. */
  SAFETENSORS_DTYPE_UNKNOWN = 255
};

/* --- Options for reading headers --- */

/** Bits of `accept`: faults that the reader tolerates. A fault whose bit is not set is an error. All other faults are
 * always errors. */
enum {
  /** Tensors whose dtype is not one of the format's. Their size is that of `data_offsets`. */
  SAFETENSORS_ACCEPT_UNKNOWN_DTYPES = 1,
  SAFETENSORS_ACCEPT_UNUSED_BYTES = 2 /**< bytes after the last tensor */
};

/** Options of the functions that read a header. Initialize them with SAFETENSORS_PARSE_OPTIONS_INIT. */
typedef struct safetensors_parse_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** Maximum length of the header in bytes. 0: 100,000,000, the limit of the format. */
  uint64_t max_header_bytes;
  uint32_t allow_leading_whitespace; /**< not 0: accept white space before the `{` */
  uint32_t accept;                   /**< faults to accept: bits SAFETENSORS_ACCEPT_...; 0: none */
  /** Return a value other than 0 to end the call with SAFETENSORS_ERROR_CANCELLED. May be NULL.
   *
   * Only the thread that made the call runs it, from time to time, with `user`. It must return normally. It may return
   * a `volatile sig_atomic_t` that a signal handler sets, or read a value that another thread sets. The call waits for
   * a read that has already started. */
  int32_t (*cancelled)(void* user);
  void* user; /**< passed to `cancelled` */
} safetensors_parse_options;
/** Initializer of safetensors_parse_options. */
#define SAFETENSORS_PARSE_OPTIONS_INIT \
  { sizeof(safetensors_parse_options), 0, 0, 0, NULL, NULL }

/* --- Options for opening files --- */

/** Decides whether safetensors_tensor_view() maps a file or reads it. */
enum {
  /** The library decides at open: read on Windows and on network and user-space file systems, otherwise map. */
  SAFETENSORS_ACCESS_AUTOMATIC = 0,
  /** Map the file. If the file becomes shorter, access to the missing bytes of a map raises SIGBUS. For a file from
   * memory or from a source, a view is the memory of the caller instead of a map. */
  SAFETENSORS_ACCESS_MAP = 1,
  /** Never map. If the file becomes shorter, reading returns FILE_TRUNCATED. */
  SAFETENSORS_ACCESS_READ = 2
};

/** Options of the functions that open a file. Initialize them with SAFETENSORS_OPEN_OPTIONS_INIT. */
typedef struct safetensors_open_options {
  uint64_t struct_size;              /**< size of this struct in bytes */
  uint64_t max_header_bytes;         /**< as in safetensors_parse_options */
  uint32_t allow_leading_whitespace; /**< as in safetensors_parse_options */
  int32_t access;                    /**< one of SAFETENSORS_ACCESS_... */
  int32_t (*cancelled)(void* user);  /**< as in safetensors_parse_options */
  void* user;                        /**< passed to `cancelled` */
  uint32_t accept;                   /**< as in safetensors_parse_options */
  uint32_t reserved;                 /**< 0 */
} safetensors_open_options;
/** Initializer of safetensors_open_options. */
#define SAFETENSORS_OPEN_OPTIONS_INIT \
  { sizeof(safetensors_open_options), 0, 0, SAFETENSORS_ACCESS_AUTOMATIC, NULL, NULL, 0, 0 }

/* --- Contents of headers --- */

/** Sizes of a header. Initialize it with SAFETENSORS_HEADER_INFO_INIT. */
typedef struct safetensors_header_info {
  uint64_t struct_size;        /**< size of this struct in bytes */
  uint64_t tensor_count;       /**< number of tensors */
  uint64_t metadata_count;     /**< number of metadata pairs */
  uint64_t header_bytes;       /**< N, the length of the header in bytes, including padding */
  uint64_t data_bytes;         /**< size of the data in bytes */
  uint64_t data_start;         /**< offset of the data in the file: 8 + N bytes */
  uint64_t file_bytes;         /**< size of the file in bytes */
  uint32_t metadata_present;   /**< 1 when there is a `__metadata__` object, also an empty one */
  uint32_t leading_whitespace; /**< 1 when white space preceded the `{` */
  uint64_t unknown_dtypes;     /**< accepted faults: number of tensors of SAFETENSORS_DTYPE_UNKNOWN */
  uint64_t unused_bytes;       /**< accepted faults: number of bytes after the last tensor */
} safetensors_header_info;
/** Initializer of safetensors_header_info. */
#define SAFETENSORS_HEADER_INFO_INIT \
  { sizeof(safetensors_header_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** A metadata pair. */
typedef struct safetensors_metadata {
  const char* key;     /**< valid UTF-8 */
  size_t key_length;   /**< length of `key` in bytes */
  const char* value;   /**< valid UTF-8; in safetensors_edit_metadata(), NULL removes the key */
  size_t value_length; /**< length of `value` in bytes */
} safetensors_metadata;

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_TYPES_H */
