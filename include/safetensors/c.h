/** @file
 * The C interface, for C99 and later. Only this interface has a stable binary form. docs/c.md has a complete example.
 *
 * **Errors.** Every call that can fail returns a safetensors_status (0 is success). Its last parameter is a
 * safetensors_error of the caller, which may be NULL. After a failure, every out-parameter is NULL or 0, except where a
 * call returns the needed size. The error is SAFETENSORS_ERROR_INVALID_ARGUMENT if a required pointer is NULL, or if a
 * number is not a member of its enum. Any call that allocates memory may return SAFETENSORS_ERROR_OUT_OF_MEMORY. The
 * descriptions of the functions do not repeat these two errors, and they leave out the prefix `SAFETENSORS_ERROR_`.
 *
 * **Ownership.** A handle that a call returns belongs to the caller. Free it with its function `..._free`, on any
 * thread and in any order. NULL is allowed. A handle keeps alive the objects that it uses, such as the file of a
 * tensor. A pointer that a call returns points into the handle of that call. It is valid until that handle is freed,
 * unless the description says otherwise.
 *
 * **Threads.** Any number of threads may make calls with the same const handle at the same time. Only one thread at a
 * time may make calls with a handle that is not const. c_write.h, c_plan.h and c_checkpoint.h name the exceptions. Do
 * not free a handle while a call uses it.
 *
 * **Strings.** Names, keys and values are UTF-8. They are passed as a pointer and a length in bytes. They are not
 * NUL-terminated and may contain NUL bytes. c_simple.h has functions for NUL-terminated names. Paths are
 * NUL-terminated. A pointer may be NULL if its length or count is 0.
 *
 * **Growing structs.** Some structs may get more members in later versions. They begin with `struct_size`. Initialize
 * them with their macro `..._INIT`. For all other members, 0 selects the default. A `struct_size` below that of ABI
 * version 1, or above 4096, is SAFETENSORS_ERROR_INVALID_ARGUMENT. If `struct_size` is larger than the struct that the
 * library knows, the unknown part must be 0. Otherwise the error is SAFETENSORS_ERROR_UNSUPPORTED. In a result, the
 * library fills the unknown part with 0. All other structs never change. A pointer to options may be NULL. It selects
 * all defaults. */
#ifndef SAFETENSORS_C_H
#define SAFETENSORS_C_H

#include <safetensors/c_types.h>
#include <safetensors/export.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Versions --- */

/** Version of the binary interface that this header describes. */
#define SAFETENSORS_ABI_VERSION 1

/** Returns the ABI version of the linked library. A program that was compiled with the same SAFETENSORS_ABI_VERSION
 * works with it. New releases of the same ABI version only add functions and status codes. */
SAFETENSORS_API uint32_t safetensors_abi_version(void);
/** Returns the version of the linked library, such as "0.8.0+cpp.1". The memory is static. */
SAFETENSORS_API const char* safetensors_version_string(void);

/* --- Status and errors --- */

/** Returns the name of a status code, such as "invalid_offset". Returns "ok" for 0, and "unknown" for a number that is
 * not a code. The memory is static. */
SAFETENSORS_API const char* safetensors_status_name(safetensors_status status);
/** Returns the rule of the format (1 to 10) that a code reports. Returns 0 when the file is not the cause. */
SAFETENSORS_API int32_t safetensors_status_rule(safetensors_status status);
/** Returns 1 when the system is the cause (memory, open, read, write, device). Otherwise returns 0. */
SAFETENSORS_API int32_t safetensors_status_is_system_error(safetensors_status status);

/** Writes "path: message (byte 17)" to `text`, escaped so that it is safe to show. Leaves out the parts that are not
 * set.
 *
 * The text is NUL-terminated and cut to `capacity` bytes. With a capacity of 0, nothing is written. `*length` is the
 * length of the whole text in bytes, without the NUL. `length` may be NULL. `failure` and `error` may be the same
 * struct. It does not change on success. */
SAFETENSORS_API safetensors_status safetensors_error_format(const safetensors_error* failure, char* text,
                                                            size_t capacity, size_t* length, safetensors_error* error);
/** Writes text to `shown`, escaped so that it is safe to show.
 *
 * Names and metadata come from files that you may not trust. Control characters, invisible characters and bytes that
 * are not UTF-8 are escaped. `capacity` and `*length` work as in safetensors_error_format(). */
SAFETENSORS_API safetensors_status safetensors_printable(const char* text, size_t text_length, char* shown,
                                                         size_t capacity, size_t* length, safetensors_error* error);

/* --- Dtypes --- */

/** Writes all dtypes to `dtypes`, lowest rank first.
 *
 * `*count` becomes the number of dtypes, also on failure. With a capacity of 0, the call only sets `*count`.
 * Error: BUFFER_SIZE if `capacity`, in elements, is above 0 but too small. */
SAFETENSORS_API safetensors_status safetensors_dtype_list(safetensors_dtype* dtypes, size_t capacity, size_t* count,
                                                          safetensors_error* error);
/** Writes the bits of one element to `*bits`: 4, 6, 8, 16, 32 or 64. */
SAFETENSORS_API safetensors_status safetensors_dtype_bits(safetensors_dtype dtype, uint32_t* bits,
                                                          safetensors_error* error);
/** Writes the rank of a dtype to `*rank`, from 0 (BOOL) to 21 (U64). In a file that this library writes, tensors of a
 * higher rank come first. */
SAFETENSORS_API safetensors_status safetensors_dtype_rank(safetensors_dtype dtype, uint32_t* rank,
                                                          safetensors_error* error);
/** Writes the name of a dtype in the file, such as "F32", and its length in bytes. The memory is static. */
SAFETENSORS_API safetensors_status safetensors_dtype_name(safetensors_dtype dtype, const char** name, size_t* length,
                                                          safetensors_error* error);
/** Finds the dtype with this name. Upper and lower case differ. Error: UNKNOWN_DTYPE. */
SAFETENSORS_API safetensors_status safetensors_dtype_parse(const char* name, size_t length, safetensors_dtype* dtype,
                                                           safetensors_error* error);
/** Writes the DLPack data type of a dtype to `*type`. */
SAFETENSORS_API safetensors_status safetensors_dtype_dlpack(safetensors_dtype dtype, safetensors_dl_data_type* type,
                                                            safetensors_error* error);

/* --- Buffers --- */

/** Memory that the library allocated. */
typedef struct safetensors_buffer safetensors_buffer;

/** Writes the address and the size, in bytes, of a buffer. The memory is valid until the buffer is freed. It is aligned
 * for every type. */
SAFETENSORS_API safetensors_status safetensors_buffer_bytes(const safetensors_buffer* buffer, const void** data,
                                                            size_t* size, safetensors_error* error);
/** Frees a buffer. */
SAFETENSORS_API void safetensors_buffer_free(safetensors_buffer* buffer);

/* --- Headers --- */

/** A checked header. Its contents are consistent with each other and with the size of the file. */
typedef struct safetensors_header safetensors_header;

/** Number of dimensions that an info struct copies. If a tensor has more, its `dims` has all of them. */
#define SAFETENSORS_INFO_DIMS 8

/** The entry of one tensor in a header. Initialize it with SAFETENSORS_TENSOR_INFO_INIT. */
typedef struct safetensors_tensor_info {
  uint64_t struct_size;                  /**< size of this struct in bytes */
  const char* name;                      /**< any valid UTF-8; show it with safetensors_printable() */
  size_t name_length;                    /**< length of `name` in bytes */
  uint64_t begin;                        /**< first of `data_offsets`: bytes from the start of the data */
  uint64_t end;                          /**< second of `data_offsets`: end of the range [begin, end) */
  uint64_t nbytes;                       /**< size in bytes */
  uint64_t file_offset;                  /**< bytes from the start of the file to the first byte */
  safetensors_dtype dtype;               /**< type of the elements */
  uint32_t reserved;                     /**< 0 */
  size_t rank;                           /**< number of dimensions */
  uint64_t shape[SAFETENSORS_INFO_DIMS]; /**< the first 8 dimensions, then 0 */
  const uint64_t* dims;                  /**< all dimensions, outermost first; valid as long as `name` */
} safetensors_tensor_info;
/** Initializer of safetensors_tensor_info. */
#define SAFETENSORS_TENSOR_INFO_INIT \
  { sizeof(safetensors_tensor_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, {0}, NULL }

/** Orders of the tensors in a header. */
enum {
  SAFETENSORS_ORDER_OFFSET = 0, /**< by offset in the file; empty tensors at the same offset by name */
  SAFETENSORS_ORDER_NAME = 1    /**< by the bytes of their names */
};

/** Checks rules 1 to 3 of the format and writes N, the length of the header in bytes, to `*length`. The header is the N
 * bytes from byte 8 on.
 *
 * `prefix` holds at least the first 8 bytes of the file, or the whole file if it is shorter. `prefix_size` and
 * `file_size` are in bytes. If the file has another common format, such as a zip archive, the message of the error
 * names that format. A prefix of 512 bytes suffices to recognise all of them.
 * Errors: HEADER_TOO_SMALL, HEADER_TOO_LARGE, INVALID_HEADER_LENGTH. */
SAFETENSORS_API safetensors_status safetensors_header_length(const void* prefix, size_t prefix_size, uint64_t file_size,
                                                             const safetensors_parse_options* options, uint64_t* length,
                                                             safetensors_error* error);
/** Checks rules 4 to 10 of the format and returns the header.
 *
 * `text` is the `length` = N bytes of the header, which this function copies. `data_size` is the number of bytes that
 * follow the header in the file.
 * Errors: HEADER_TOO_LARGE, those of rules 4 to 10, CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_header_parse(const char* text, size_t length, uint64_t data_size,
                                                            const safetensors_parse_options* options,
                                                            safetensors_header** header, safetensors_error* error);
/** Frees a header. */
SAFETENSORS_API void safetensors_header_free(safetensors_header* header);

/** Writes the sizes of a header to `*info`. */
SAFETENSORS_API safetensors_status safetensors_header_get_info(const safetensors_header* header,
                                                               safetensors_header_info* info, safetensors_error* error);
/** Writes the tensor at an index to `*info`. `order` is SAFETENSORS_ORDER_OFFSET or SAFETENSORS_ORDER_NAME.
 * Error: NOT_FOUND when `index` is not below the number of tensors. */
SAFETENSORS_API safetensors_status safetensors_header_tensor_at(const safetensors_header* header, int32_t order,
                                                                uint64_t index, safetensors_tensor_info* info,
                                                                safetensors_error* error);
/** Writes the tensor with this name to `*info`. Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_find(const safetensors_header* header, const char* name,
                                                           size_t name_length, safetensors_tensor_info* info,
                                                           safetensors_error* error);
/** Writes the dtype of the tensor with this name as a text, such as "F32", and its length in bytes. If the dtype is
 * SAFETENSORS_DTYPE_UNKNOWN, this is the text in the file, which may be any valid UTF-8 and does not
 * end with a NUL. The text is valid until the header is freed. Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_dtype_name(const safetensors_header* header, const char* name,
                                                                 size_t name_length, const char** dtype,
                                                                 size_t* dtype_length, safetensors_error* error);
/** Copies the shape of the tensor with this name to `shape`, outermost dimension first.
 *
 * `*rank` becomes the number of dimensions, also if the error is BUFFER_SIZE. With a capacity of 0, the call only sets
 * `*rank`.
 * Errors: NOT_FOUND, BUFFER_SIZE if `capacity`, in dimensions, is above 0 but too small. */
SAFETENSORS_API safetensors_status safetensors_header_shape(const safetensors_header* header, const char* name,
                                                            size_t name_length, uint64_t* shape, size_t capacity,
                                                            size_t* rank, safetensors_error* error);
/** Writes the metadata pair at an index. The pairs are sorted by the bytes of their keys. Error: NOT_FOUND when `index`
 * is not below the number of pairs. */
SAFETENSORS_API safetensors_status safetensors_header_metadata_at(const safetensors_header* header, uint64_t index,
                                                                  const char** key, size_t* key_length,
                                                                  const char** value, size_t* value_length,
                                                                  safetensors_error* error);
/** Writes the metadata pair at an index to `*pair`, as safetensors_header_metadata_at() does. The texts are valid as
 * long as the header. They do not end with a NUL. Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_metadata_pair(const safetensors_header* header, uint64_t index,
                                                                    safetensors_metadata* pair,
                                                                    safetensors_error* error);
/** Writes the value of a metadata key. Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_metadata_find(const safetensors_header* header, const char* key,
                                                                    size_t key_length, const char** value,
                                                                    size_t* value_length, safetensors_error* error);
/** Returns the text of the header as this library writes it, padded with spaces. Error: UNSUPPORTED (the header has
 * accepted faults). */
SAFETENSORS_API safetensors_status safetensors_header_text(const safetensors_header* header, safetensors_buffer** text,
                                                           safetensors_error* error);

/* --- Header builders --- */

/** Collects tensors and metadata, and builds the header of a new file. */
typedef struct safetensors_header_builder safetensors_header_builder;

/** Options for the layout of a new file. Initialize them with SAFETENSORS_LAYOUT_OPTIONS_INIT. */
typedef struct safetensors_layout_options {
  uint64_t struct_size;    /**< size of this struct in bytes */
  uint64_t metadata_slack; /**< minimum number of spaces at the end of the header, for later edits in place */
  uint32_t data_alignment; /**< alignment of the data in the file: a power of two from 1 to 65536 bytes; 0: 8 */
  uint32_t reserved;       /**< 0 */
} safetensors_layout_options;
/** Initializer of safetensors_layout_options. */
#define SAFETENSORS_LAYOUT_OPTIONS_INIT \
  { sizeof(safetensors_layout_options), 0, 0, 0 }

/** Makes an empty builder. */
SAFETENSORS_API safetensors_status safetensors_header_builder_create(safetensors_header_builder** builder,
                                                                     safetensors_error* error);
/** Frees a builder. */
SAFETENSORS_API void safetensors_header_builder_free(safetensors_header_builder* builder);
/** Adds a tensor. Copies the name and the shape (outermost dimension first).
 * Errors: DUPLICATE_NAME, RESERVED_NAME, INVALID_UTF8, SIZE_OVERFLOW, MISALIGNED_SIZE. */
SAFETENSORS_API safetensors_status safetensors_header_builder_add(safetensors_header_builder* builder, const char* name,
                                                                  size_t name_length, safetensors_dtype dtype,
                                                                  const uint64_t* shape, size_t rank,
                                                                  safetensors_error* error);
/** Adds a metadata pair. Copies both texts. Errors: DUPLICATE_NAME, INVALID_UTF8. */
SAFETENSORS_API safetensors_status safetensors_header_builder_metadata(safetensors_header_builder* builder,
                                                                       const char* key, size_t key_length,
                                                                       const char* value, size_t value_length,
                                                                       safetensors_error* error);
/** Makes the header contain a `__metadata__` object even if you add no pair. */
SAFETENSORS_API safetensors_status safetensors_header_builder_metadata_present(safetensors_header_builder* builder,
                                                                               safetensors_error* error);
/** Builds the header. You may call it several times. Errors: INVALID_ALIGNMENT, HEADER_TOO_LARGE, SIZE_OVERFLOW. */
SAFETENSORS_API safetensors_status safetensors_header_builder_build(const safetensors_header_builder* builder,
                                                                    const safetensors_layout_options* options,
                                                                    safetensors_header** header,
                                                                    safetensors_error* error);

/* --- Slices --- */

/** A request for a part of any tensor. */
typedef struct safetensors_slice safetensors_slice;
/** A slice for one dtype and shape. */
typedef struct safetensors_resolved_slice safetensors_resolved_slice;

/** Kinds of slices of one dimension. */
enum {
  SAFETENSORS_DIM_KIND_ALL = 0,     /**< the whole dimension */
  SAFETENSORS_DIM_KIND_INDEX = 1,   /**< one element; the result does not have this dimension */
  SAFETENSORS_DIM_KIND_RANGE = 2,   /**< elements from `begin` to `end`, every `step` */
  SAFETENSORS_DIM_KIND_SHARD = 3,   /**< shard `shard_rank` of `shard_world` */
  SAFETENSORS_DIM_KIND_ELLIPSIS = 4 /**< all dimensions that no other entry takes; at most one in a slice */
};

/** The slice of one dimension, with the meaning that NumPy gives it. Make it with the macros `SAFETENSORS_DIM_...`. */
typedef struct safetensors_dim_slice {
  int32_t kind;         /**< one of SAFETENSORS_DIM_KIND_... */
  uint8_t has_begin;    /**< 0: begin with the first element in the direction of `step` */
  uint8_t has_end;      /**< 0: go through the last element in the direction of `step` */
  uint8_t reserved[2];  /**< 0 */
  int64_t index;        /**< the element; negative counts from the end */
  int64_t begin;        /**< the first element; negative counts from the end; clamped to the dimension */
  int64_t end;          /**< the first element outside; negative counts from the end; clamped to the dimension */
  int64_t step;         /**< distance of elements; negative goes backwards; 0 is an error */
  uint64_t shard_rank;  /**< index of the shard */
  uint64_t shard_world; /**< number of shards */
} safetensors_dim_slice;

/** Takes the whole dimension. */
#define SAFETENSORS_DIM_ALL \
  { SAFETENSORS_DIM_KIND_ALL, 0, 0, {0, 0}, 0, 0, 0, 1, 0, 1 }
/** Takes one element. The result does not have this dimension. */
#define SAFETENSORS_DIM_AT(index) \
  { SAFETENSORS_DIM_KIND_INDEX, 0, 0, {0, 0}, (index), 0, 0, 1, 0, 1 }
/** Takes the elements [begin, end) in steps of `step`. */
#define SAFETENSORS_DIM_RANGE(begin, end, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 1, 1, {0, 0}, 0, (begin), (end), (step), 0, 1 }
/** Takes the elements from `begin` on, in steps of `step`. */
#define SAFETENSORS_DIM_FROM(begin, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 1, 0, {0, 0}, 0, (begin), 0, (step), 0, 1 }
/** Takes the elements before `end`, in steps of `step`. */
#define SAFETENSORS_DIM_UNTIL(end, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 0, 1, {0, 0}, 0, 0, (end), (step), 0, 1 }
/** Takes all elements in steps of `step`. */
#define SAFETENSORS_DIM_STEP(step) \
  { SAFETENSORS_DIM_KIND_RANGE, 0, 0, {0, 0}, 0, 0, 0, (step), 0, 1 }
/** Takes shard `rank` of `world`. See safetensors_slice_shard(). */
#define SAFETENSORS_DIM_SHARD(rank, world) \
  { SAFETENSORS_DIM_KIND_SHARD, 0, 0, {0, 0}, 0, 0, 0, 1, (rank), (world) }
/** Takes all dimensions that no other entry takes. */
#define SAFETENSORS_DIM_ELLIPSIS \
  { SAFETENSORS_DIM_KIND_ELLIPSIS, 0, 0, {0, 0}, 0, 0, 0, 1, 0, 1 }

/** Makes a slice from one entry per dimension, outermost first. It takes dimensions without an entry completely. Copies
 * `dims`. */
SAFETENSORS_API safetensors_status safetensors_slice_create(const safetensors_dim_slice* dims, size_t count,
                                                            safetensors_slice** slice, safetensors_error* error);
/** Makes a slice that takes shard `rank` of `world` of the dimension `dim`, and the other dimensions completely. A
 * negative `dim` counts from the end. The shards are those of `numpy.array_split`. */
SAFETENSORS_API safetensors_status safetensors_slice_shard(int64_t dim, uint64_t rank, uint64_t world,
                                                           safetensors_slice** slice, safetensors_error* error);
/** Parses the text of a NumPy index, such as `1:3,:,-1,::2,...`. Error: SLICE_SYNTAX. */
SAFETENSORS_API safetensors_status safetensors_slice_parse(const char* text, size_t length, safetensors_slice** slice,
                                                           safetensors_error* error);
/** Frees a slice. */
SAFETENSORS_API void safetensors_slice_free(safetensors_slice* slice);

/** Applies a slice to a dtype and a shape. Copies the shape. If `slice` is NULL, it takes the whole tensor.
 * Errors: SLICE_INDEX, SLICE_STEP, SLICE_RANK, SLICE_BITS, SIZE_OVERFLOW, DTYPE_MISMATCH (a slice of an unknown
 * dtype). */
SAFETENSORS_API safetensors_status safetensors_slice_resolve(const safetensors_slice* slice, safetensors_dtype dtype,
                                                             const uint64_t* shape, size_t rank,
                                                             safetensors_resolved_slice** resolved,
                                                             safetensors_error* error);
/** Frees a resolved slice. */
SAFETENSORS_API void safetensors_resolved_slice_free(safetensors_resolved_slice* resolved);
/** Copies the shape of the result. `capacity` and `*rank` work as in safetensors_header_shape(). Error: BUFFER_SIZE. */
SAFETENSORS_API safetensors_status safetensors_resolved_slice_shape(const safetensors_resolved_slice* resolved,
                                                                    uint64_t* shape, size_t capacity, size_t* rank,
                                                                    safetensors_error* error);
/** Writes the size of the result, in bytes, and the number of its runs. Both pointers may be NULL. */
SAFETENSORS_API safetensors_status safetensors_resolved_slice_size(const safetensors_resolved_slice* resolved,
                                                                   uint64_t* nbytes, uint64_t* run_count,
                                                                   safetensors_error* error);

/* --- Files --- */

/** A safetensors file with a checked header. */
typedef struct safetensors_file safetensors_file;
/** One tensor of a file, without its bytes. It keeps the open file alive. */
typedef struct safetensors_tensor safetensors_tensor;
/** A tensor in memory. It may outlive its file. */
typedef struct safetensors_array safetensors_array;

/** A sequence of bytes that a file reads: your own storage. Initialize it with SAFETENSORS_SOURCE_INIT.
 *
 * Any number of threads may call the functions of one source at the same time, unless `one_thread_at_a_time` is set. A
 * function that fails returns a code other than SAFETENSORS_OK, preferably READ_FAILED. It may fill `*error`, which is
 * never NULL. Functions written in C++ may throw: `size` and `read_at` then fail with READ_FAILED and the text of the
 * exception, or with OUT_OF_MEMORY. */
typedef struct safetensors_source {
  uint64_t struct_size; /**< size of this struct in bytes */
  void* user;           /**< passed to the functions */
  /** Writes the size in bytes to `*size`. The library calls it once for each file, when it opens the file. */
  safetensors_status (*size)(void* user, uint64_t* size, safetensors_error* error);
  /** Reads up to `capacity` bytes at `offset`. Writes the number of bytes read to `*count`. It may be below `capacity`;
   * 0 means the end. `*count` is 0 on entry. If `capacity` is 0, `destination` may be NULL and `*count` must stay 0. */
  safetensors_status (*read_at)(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                safetensors_error* error);
  /** Returns memory that holds `size` bytes at `offset`, or NULL if the source has no such memory. The memory is valid
   * until `release`. May be NULL. */
  const void* (*memory)(void* user, uint64_t offset, uint64_t size);
  /** Called once, on any thread, when no file, tensor, array or DLPack tensor needs the source. May be NULL. */
  void (*release)(void* user);
  /** Number of bytes per call of `read_at` that suits the source, such as 32 MiB for storage that reads a long range
   * with threads of its own. No call asks for more. Calls ask for less at the end of a tensor, for smaller tensors and
   * pieces of slices, and if the read options ask for less. A read plan takes the next lower multiple of 64, at least
   * 4096 and at most 2^30. 0: the library chooses, 2 MiB for read plans. */
  uint64_t request_bytes;
  /** 1: only one thread at a time may call `size`, `read_at` and `memory`. The file then calls them under a lock, and
   * read plans use one thread, unless their options ask for more. If several files share `user`, each has a lock of its
   * own. 0: any number of threads. */
  uint32_t one_thread_at_a_time;
  uint32_t reserved; /**< 0 */
} safetensors_source;
/** Initializer of safetensors_source. */
#define SAFETENSORS_SOURCE_INIT \
  { sizeof(safetensors_source), NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }

/** Opens a file, and reads and checks its header. It reads nothing else. It never waits for a FIFO or a device.
 * Errors: OPEN_FAILED (with `os_error`), NOT_REGULAR_FILE, READ_FAILED, FILE_TRUNCATED, CANCELLED, and those of rules 1
 * to 10. */
SAFETENSORS_API safetensors_status safetensors_file_open(const char* path, const safetensors_open_options* options,
                                                         safetensors_file** file, safetensors_error* error);
/** Opens a file through a descriptor. Duplicates the descriptor: the caller keeps and closes their own.
 * Errors: those of safetensors_file_open(). */
SAFETENSORS_API safetensors_status safetensors_file_from_fd(int descriptor, const safetensors_open_options* options,
                                                            safetensors_file** file, safetensors_error* error);
/** Opens a file that is in memory. The memory must not change until the library calls `release(user)`.
 *
 * `size` is in bytes. `release` is called as in safetensors_source. If it is NULL, the memory must outlive everything
 * that is made from it. On failure, `release` is not called.
 * Errors: CANCELLED, and those of rules 1 to 10. */
SAFETENSORS_API safetensors_status safetensors_file_from_memory(const void* data, size_t size,
                                                                void (*release)(void* user), void* user,
                                                                const safetensors_parse_options* options,
                                                                safetensors_file** file, safetensors_error* error);
/** Opens a file that is in a source of the caller. Copies the struct. On failure, `release` is not called.
 * Errors: those of the source, CANCELLED, and those of rules 1 to 10. */
SAFETENSORS_API safetensors_status safetensors_file_from_source(const safetensors_source* source,
                                                                const safetensors_parse_options* options,
                                                                safetensors_file** file, safetensors_error* error);
/** Frees a file. Tensors and arrays of it stay valid. */
SAFETENSORS_API void safetensors_file_free(safetensors_file* file);

/** Returns the header of a file. */
SAFETENSORS_API safetensors_status safetensors_file_header(const safetensors_file* file, safetensors_header** header,
                                                           safetensors_error* error);
/** Returns the tensor with this name. Error: NOT_FOUND; the message has the most similar name, if there is one. */
SAFETENSORS_API safetensors_status safetensors_file_tensor(const safetensors_file* file, const char* name,
                                                           size_t name_length, safetensors_tensor** tensor,
                                                           safetensors_error* error);
/** Writes SAFETENSORS_ACCESS_MAP or SAFETENSORS_ACCESS_READ to `*access`, as decided when the file was opened. */
SAFETENSORS_API safetensors_status safetensors_file_access(const safetensors_file* file, int32_t* access,
                                                           safetensors_error* error);
/** Writes the path given to safetensors_file_open(), NUL-terminated. For files opened in another way, it is empty. */
SAFETENSORS_API safetensors_status safetensors_file_path(const safetensors_file* file, const char** path,
                                                         safetensors_error* error);
/** Returns the bytes of all tensors as one array of dtype U8. In this array, the bytes of a tensor are the range
 * [begin, end) of its safetensors_tensor_info.
 *
 * `map` is SAFETENSORS_MAP_SHARED or SAFETENSORS_MAP_COPY_ON_WRITE. A map of all tensors costs as much as a map of one.
 * If safetensors_tensor_view() reads into new memory, then this function reads all tensors into new memory.
 * Errors: those of safetensors_tensor_view(). */
SAFETENSORS_API safetensors_status safetensors_file_view(const safetensors_file* file, int32_t map,
                                                         safetensors_array** array, safetensors_error* error);
/** Reads up to `size` bytes of the file at `offset`, in bytes from the start of the file. Writes the number of bytes
 * read to `*count`; it is 0 at the end of the file.
 * Errors: READ_FAILED, and those of a source of the caller. */
SAFETENSORS_API safetensors_status safetensors_file_read_at(const safetensors_file* file, uint64_t offset,
                                                            void* destination, size_t size, size_t* count,
                                                            safetensors_error* error);

/* --- Tensors --- */

/** The memory that you request from a view. `memory` in safetensors_array_info says which memory you got. */
enum {
  /** Read-only memory, which is shared with all readers of the file: a map of the file, or the memory of a source.
   * Owned memory with SAFETENSORS_ACCESS_READ, if the system refuses the map, or if the source has no such memory. */
  SAFETENSORS_MAP_SHARED = 0,
  /** Writable memory of your own: a map that the system copies on write, so the file never changes. Owned memory with
   * SAFETENSORS_ACCESS_READ, if the system refuses the map, or if the file is from memory or from a source. */
  SAFETENSORS_MAP_COPY_ON_WRITE = 1
};

/** Frees a tensor. Arrays of it stay valid. */
SAFETENSORS_API void safetensors_tensor_free(safetensors_tensor* tensor);
/** Writes the entry of the tensor in the header to `*info`. */
SAFETENSORS_API safetensors_status safetensors_tensor_get_info(const safetensors_tensor* tensor,
                                                               safetensors_tensor_info* info, safetensors_error* error);
/** Copies the shape of a tensor. `capacity` and `*rank` work as in safetensors_header_shape(). Error: BUFFER_SIZE. */
SAFETENSORS_API safetensors_status safetensors_tensor_shape(const safetensors_tensor* tensor, uint64_t* shape,
                                                            size_t capacity, size_t* rank, safetensors_error* error);
/** Returns the file of a tensor. */
SAFETENSORS_API safetensors_status safetensors_tensor_file(const safetensors_tensor* tensor, safetensors_file** file,
                                                           safetensors_error* error);
/** Returns the tensor without a copy, if possible.
 *
 * `map` is SAFETENSORS_MAP_SHARED or SAFETENSORS_MAP_COPY_ON_WRITE. See there when the array has owned memory.
 * Errors: those of safetensors_tensor_read(). */
SAFETENSORS_API safetensors_status safetensors_tensor_view(const safetensors_tensor* tensor, int32_t map,
                                                           safetensors_array** array, safetensors_error* error);
/** Reads a slice of a tensor into new memory that is aligned to 64 bytes. If `slice` is NULL, it reads the whole
 * tensor.
 * Errors: READ_FAILED, FILE_TRUNCATED, and those of safetensors_slice_resolve(). */
SAFETENSORS_API safetensors_status safetensors_tensor_read(const safetensors_tensor* tensor,
                                                           const safetensors_slice* slice, safetensors_array** array,
                                                           safetensors_error* error);
/** Reads a slice of a tensor into memory of the caller. If `slice` is NULL, it reads the whole tensor. `size`, in
 * bytes, must be exactly the size of the result.
 * Errors: BUFFER_SIZE, and those of safetensors_tensor_read(). */
SAFETENSORS_API safetensors_status safetensors_tensor_read_into(const safetensors_tensor* tensor,
                                                                const safetensors_slice* slice, void* destination,
                                                                size_t size, safetensors_error* error);

/* --- Arrays --- */

/** Kinds of memory that an array can use. */
enum {
  /** Memory of the array itself, writable. */
  SAFETENSORS_MEMORY_OWNED = 0,
  /** Pages of the file, read-only. Access raises SIGBUS if the file becomes shorter. */
  SAFETENSORS_MEMORY_SHARED_MAP = 1,
  /** Pages of the file, copied on write. The file never changes. Access raises SIGBUS if the file becomes shorter. */
  SAFETENSORS_MEMORY_COPY_ON_WRITE_MAP = 2,
  /** Memory of the caller, read-only for the array: the memory that a file was opened over, or a destination of a
   * plan. */
  SAFETENSORS_MEMORY_BORROWED = 3
};

/** The memory of an array: elements in C (row-major) order, little-endian, without gaps. F4 and F6 are packed.
 * Initialize it with SAFETENSORS_ARRAY_INFO_INIT. */
typedef struct safetensors_array_info {
  uint64_t struct_size;                  /**< size of this struct in bytes */
  const void* data;                      /**< the elements; may be misaligned: see safetensors_array_as() */
  size_t nbytes;                         /**< size in bytes */
  safetensors_dtype dtype;               /**< type of the elements */
  int32_t memory;                        /**< one of SAFETENSORS_MEMORY_... */
  uint32_t writable;                     /**< 1: safetensors_array_mutable_data() returns the memory */
  uint32_t reserved;                     /**< 0 */
  size_t rank;                           /**< number of dimensions */
  uint64_t shape[SAFETENSORS_INFO_DIMS]; /**< the first 8 dimensions, then 0 */
  const uint64_t* dims;                  /**< all dimensions, outermost first; valid until the array is freed */
} safetensors_array_info;
/** Initializer of safetensors_array_info. */
#define SAFETENSORS_ARRAY_INFO_INIT \
  { sizeof(safetensors_array_info), NULL, 0, 0, 0, 0, 0, 0, {0}, NULL }

/** Frees an array. Its memory is released when nothing else uses it. */
SAFETENSORS_API void safetensors_array_free(safetensors_array* array);
/** Writes the memory, dtype and shape of an array to `*info`. */
SAFETENSORS_API safetensors_status safetensors_array_get_info(const safetensors_array* array,
                                                              safetensors_array_info* info, safetensors_error* error);
/** Copies the shape of an array. `capacity` and `*rank` work as in safetensors_header_shape(). Error: BUFFER_SIZE. */
SAFETENSORS_API safetensors_status safetensors_array_shape(const safetensors_array* array, uint64_t* shape,
                                                           size_t capacity, size_t* rank, safetensors_error* error);
/** Returns the elements, after a check that they have this dtype and are aligned for it. `*count` becomes the number of
 * elements, or the number of bytes for F4 and F6.
 * Errors: DTYPE_MISMATCH, MISALIGNED_MEMORY. */
SAFETENSORS_API safetensors_status safetensors_array_as(const safetensors_array* array, safetensors_dtype dtype,
                                                        const void** elements, size_t* count, safetensors_error* error);
/** Returns the memory for writing. `*nbytes` becomes its size in bytes. If several threads access the memory, do your
 * own locking.
 * Error: NOT_WRITABLE. */
SAFETENSORS_API safetensors_status safetensors_array_mutable_data(safetensors_array* array, void** data, size_t* nbytes,
                                                                  safetensors_error* error);
/** Loads the pages of `size` bytes at `offset` of a map into memory, so that later access does not wait.
 *
 * Ignores bytes after the end of the array. It is enough to prefault the next few MiB before you use them. Does nothing
 * if the array is not a map. Before Linux 5.14, only requests a read-ahead, so later access may still wait.
 * Errors: OUT_OF_MEMORY, and READ_FAILED (the file became shorter, or its device failed). */
SAFETENSORS_API safetensors_status safetensors_array_prefault(const safetensors_array* array, uint64_t offset,
                                                              uint64_t size, safetensors_error* error);
/** Releases the pages of a shared map that are entirely inside the array. The next access reads them again. The array
 * stays valid.
 * Error: UNSUPPORTED for other kinds of memory. In a private map, the changes would be lost. */
SAFETENSORS_API safetensors_status safetensors_array_release_pages(const safetensors_array* array,
                                                                   safetensors_error* error);
/** Returns a DLPack tensor on the CPU device that shares the memory of an array. It may outlive the array and the file.
 *
 * SAFETENSORS_DLPACK_READ_ONLY is set unless the array is writable.
 * Error: UNSUPPORTED if a dimension is larger than INT64_MAX, or if there are more than INT32_MAX dimensions. */
SAFETENSORS_API safetensors_status safetensors_array_to_dlpack(const safetensors_array* array,
                                                               safetensors_dl_managed_tensor** tensor,
                                                               safetensors_error* error);

#ifdef __cplusplus
}
#endif

#include <safetensors/c_checkpoint.h>
#include <safetensors/c_plan.h>
#include <safetensors/c_simple.h>
#include <safetensors/c_write.h>

#endif /* SAFETENSORS_C_H */
