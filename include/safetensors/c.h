/** @file
 * The C interface, for C99 and later. Only this interface has a stable binary form. docs/c.md has complete programs.
 *
 * All functions. A name that begins with `_` has the noun of the first name in its line:
 * - open a file or a model of several files: safetensors_model_open(), _open_paths(), _from_fd(), _from_memory(),
 * _from_source(); _free()
 * - see its files and metadata: safetensors_model_get_info(), _get_file(), _get_metadata(), _find_metadata()
 * - see its tensors: safetensors_model_get_tensor(), _find_tensor(), _measure()
 * - read one tensor: safetensors_model_view(), safetensors_model_read()
 * - use what was read: safetensors_array_get_info(), _to_dlpack(), _to_unversioned_dlpack(); _free()
 * - read many tensors at once: safetensors_plan_create(), _add(), _get_size(), _execute(), _stream(); _free()
 * - take them one by one: safetensors_stream_next(), _cancel(); _free()
 * - write tensors in memory: safetensors_save(), safetensors_serialize()
 * - write in pieces: safetensors_writer_create(), _write(), _write_slice(), _copy(), _commit(); _free()
 * - change metadata: safetensors_edit_metadata()
 * - make a slice from a text: safetensors_slice_parse()
 * - name dtypes: safetensors_dtype_name(), _bits(), _parse()
 * - show errors and names: safetensors_error_text(), safetensors_status_name(), safetensors_printable()
 * - compare versions: safetensors_abi_version(), safetensors_version_string()
 *
 * **Names.** A function is called `safetensors_NOUN_VERB`. Its first parameter is the noun. `create`, `open` and `from`
 * make a handle, `get` takes an index, `find` takes a name. Constants of a group begin with the name of the group.
 *
 * **Errors.** A call that can fail returns a safetensors_status (0 is success). Its last parameter is a
 * safetensors_error of the caller, or NULL. After a failure, every result is NULL or 0. A required pointer that is NULL
 * and a number outside of its enum are INVALID_ARGUMENT. A call that allocates memory may return OUT_OF_MEMORY. The
 * descriptions do not repeat these two, and leave out the prefix `SAFETENSORS_ERROR_`.
 *
 * **Lifetimes.** A handle that a call returns belongs to the caller. Free it with its function `_free`, on any thread
 * and in any order; NULL is allowed. A handle keeps alive what it needs, such as the files of a plan. A pointer in a
 * result points into the handle that was the first argument, and is valid until that handle is freed. Arguments need
 * not outlive the call, except where a description says so.
 *
 * **Threads.** Any number of threads may use one const handle at the same time. A handle that is not const is for one
 * thread at a time. The descriptions of safetensors_stream and safetensors_writer name the exceptions. Do not free a
 * handle while a call uses it.
 *
 * **Texts.** Names, keys and values are UTF-8 of any length. They are passed as a pointer and a length in bytes, and
 * may contain NUL bytes. SAFETENSORS_NUL_TERMINATED as a length means: up to the first NUL. The texts of a result are
 * not NUL-terminated. Paths are NUL-terminated. A pointer may be NULL if its length or count is 0.
 *
 * **Structs.** A struct that begins with `struct_size` may grow in later versions. Initialize it with its macro
 * `..._INIT`. In all other members, 0 selects the default, and a pointer to options may be NULL: all defaults. If
 * `struct_size` is larger than the struct that the library knows, the unknown part of options must be 0, or the error
 * is UNSUPPORTED. The unknown part of a result becomes 0. Other structs never change.
 *
 * **Callbacks.** A function of the caller that returns int32_t returns 0 to go on. Another value ends the call with
 * CANCELLED. It runs in the thread that made the call, gets `user`, may be NULL and must return normally. */
#ifndef SAFETENSORS_C_H
#define SAFETENSORS_C_H

#include <safetensors/dlpack.h>
#include <safetensors/export.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Length of a text that ends with NUL. */
#define SAFETENSORS_NUL_TERMINATED SIZE_MAX

/* --- Versions --- */

/** Version of the binary interface that this header describes. */
#define SAFETENSORS_ABI_VERSION 1

/** Returns the ABI version of the linked library. A program that was compiled with the same SAFETENSORS_ABI_VERSION
 * works with it. New releases of the same ABI version only add functions, members of growing structs and codes. */
SAFETENSORS_API uint32_t safetensors_abi_version(void);
/** Returns the version of the linked library, such as "0.8.0+cpp.1". The memory is static. */
SAFETENSORS_API const char* safetensors_version_string(void);

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
  SAFETENSORS_ERROR_UNKNOWN_DTYPE = 56,  /**< rule 5: the dtype is not a name of the format */
  SAFETENSORS_ERROR_MISSING_FIELD = 57,  /**< rule 5: `dtype`, `shape` or `data_offsets` is missing */
  SAFETENSORS_ERROR_DUPLICATE_KEY = 58,  /**< rule 5: a key occurs twice; reported only if nothing else breaks rule 5 */
  SAFETENSORS_ERROR_INVALID_OFFSET = 60, /**< rule 6: a hole, an overlap, or an end before its begin */
  SAFETENSORS_ERROR_SIZE_OVERFLOW = 70,  /**< rule 7: the number of bits is larger than 2^64-1 */
  SAFETENSORS_ERROR_MISALIGNED_SIZE = 80, /**< rule 8: the elements of a sub-byte dtype do not fill whole bytes */
  /** rule 9: the size of `data_offsets` differs from the size of dtype and shape */
  SAFETENSORS_ERROR_SIZE_MISMATCH = 90,
  SAFETENSORS_ERROR_INCOMPLETE_DATA = 100, /**< rule 10: the file is shorter or longer than its tensors */
  /** the index of a sharded checkpoint (which tensor is in which file) is invalid */
  SAFETENSORS_ERROR_INVALID_INDEX = 110,
  /** a folder has several files or indexes, and none of them has precedence */
  SAFETENSORS_ERROR_AMBIGUOUS_CHECKPOINT = 111,
  SAFETENSORS_ERROR_RESERVED_NAME = 120,  /**< a tensor cannot be named `__metadata__` */
  SAFETENSORS_ERROR_DUPLICATE_NAME = 121, /**< a tensor or metadata key was added twice, or a tensor is in two files */
  SAFETENSORS_ERROR_DATA_LENGTH = 122,    /**< the number of bytes does not match dtype and shape */
  SAFETENSORS_ERROR_INVALID_ALIGNMENT = 123, /**< not a power of two from 1 to 65536 */
  SAFETENSORS_ERROR_OVERLAPPING_WRITE = 130, /**< a byte of a tensor was written twice */
  SAFETENSORS_ERROR_INCOMPLETE_WRITE = 131,  /**< safetensors_writer_commit() was called while bytes were missing */
  SAFETENSORS_ERROR_WRITER_CLOSED = 132,     /**< the writer was used after safetensors_writer_commit() */
  SAFETENSORS_ERROR_INVALID_ARGUMENT = 140,  /**< an argument is invalid; the message names it */
  SAFETENSORS_ERROR_NOT_FOUND = 141,         /**< there is no tensor, metadata key or file with this name */
  /** the tensor has another dtype than the call needs, or the cast is not possible */
  SAFETENSORS_ERROR_DTYPE_MISMATCH = 142,
  SAFETENSORS_ERROR_MISALIGNED_MEMORY = 143, /**< the address is not aligned for the type */
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
  /** a cast of integers: an element is outside the range of the new dtype */
  SAFETENSORS_ERROR_VALUE_OUT_OF_RANGE = 148,
  SAFETENSORS_ERROR_REPLACE_FAILED = 175, /**< the new file could not replace the old file; the old file is unchanged */
  SAFETENSORS_ERROR_REPLACED_NOT_DURABLE = 176, /**< the new file is in place, but may be lost after a power cut */
  SAFETENSORS_ERROR_FILE_TRUNCATED = 177,       /**< the file became shorter after it was opened */
  /** the path leads to another file than the one opened, or the file has changed since */
  SAFETENSORS_ERROR_FILE_CHANGED = 178,
  SAFETENSORS_ERROR_MAP_FAILED = 179,  /**< the file could not be mapped into memory */
  SAFETENSORS_ERROR_UNSUPPORTED = 180, /**< the system, the file system or the memory does not support the operation */
  /** the driver of an accelerator reported an error; the message has its reason */
  SAFETENSORS_ERROR_DEVICE_FAILED = 181,
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
  char message[512];       /**< one sentence without the path; NUL-terminated, safe to show; it names the tensor */
  char path[512];          /**< path of the file as the caller gave it, or empty; NUL-terminated, not escaped */
} safetensors_error;

/** Returns the name of a status code, such as "invalid_offset". Returns "ok" for 0, and "unknown" for a number that is
 * not a code. The memory is static. */
SAFETENSORS_API const char* safetensors_status_name(safetensors_status status);

/** Writes "path: message (byte 17)" to `text`, escaped so that it is safe to show. Leaves out the parts that are not
 * set.
 *
 * The text is NUL-terminated and cut to `capacity` bytes. With a capacity of 0, nothing is written. Returns the length
 * of the whole text in bytes, without the NUL, as snprintf() does. If memory is short, the text is the message. */
SAFETENSORS_API size_t safetensors_error_text(const safetensors_error* error, char* text, size_t capacity);

/** Writes a text from a file to `shown`, escaped so that it is safe to show.
 *
 * Names and metadata come from files that you may not trust. Control characters, invisible characters and bytes that
 * are not UTF-8 are escaped. `capacity` and the result are those of safetensors_error_text(). If memory is short, every
 * byte that is not printable ASCII becomes `?`. */
SAFETENSORS_API size_t safetensors_printable(const char* text, size_t length, char* shown, size_t capacity);

/* --- Dtypes --- */

/** A dtype: one of the numbers `SAFETENSORS_DTYPE_...`. */
typedef int32_t safetensors_dtype;

/** Dtypes. The numbers never change. */
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
  /** 8 bits: 4 of exponent (other bias), 3 of mantissa; no infinity, no negative zero */
  SAFETENSORS_DTYPE_F8_E4M3FNUZ = 18,
  /** 8 bits: 5 of exponent (other bias), 2 of mantissa; no infinity, no negative zero */
  SAFETENSORS_DTYPE_F8_E5M2FNUZ = 19,
  SAFETENSORS_DTYPE_F6_E2M3 = 20, /**< 6 bits: 2 of exponent, 3 of mantissa; packed */
  SAFETENSORS_DTYPE_F6_E3M2 = 21, /**< 6 bits: 3 of exponent, 2 of mantissa; packed */
  SAFETENSORS_DTYPE_F4 = 22,      /**< 4 bits (E2M1): 2 of exponent, 1 of mantissa; packed */
  /** Not a dtype of the format: a tensor whose dtype the library does not know. It needs
   * SAFETENSORS_ACCEPT_UNKNOWN_DTYPES. `dtype_name` of safetensors_tensor has the text of the file. The tensor is read
   * as an array of U8. No function takes this number. */
  SAFETENSORS_DTYPE_UNKNOWN = 255
};

/** Returns the name of a dtype in the file, such as "F32", NUL-terminated. Returns NULL for a number that is not a
 * dtype of the format. The memory is static. */
SAFETENSORS_API const char* safetensors_dtype_name(safetensors_dtype dtype);
/** Returns the bits of one element: 4, 6, 8, 16, 32 or 64. Returns 0 for a number that is not a dtype of the format. */
SAFETENSORS_API uint32_t safetensors_dtype_bits(safetensors_dtype dtype);
/** Returns the dtype with this name, or 0 if there is none. Upper and lower case differ. */
SAFETENSORS_API safetensors_dtype safetensors_dtype_parse(const char* name, size_t length);

/* --- Opening models --- */

/** The tensors of a file, or of several files as one set, such as the shards of a model. The headers are checked; the
 * bytes of tensors are not read before you ask for them. */
typedef struct safetensors_model safetensors_model;

/** Memory with the elements of a tensor. */
typedef struct safetensors_array safetensors_array;

/** Decides whether safetensors_model_view() maps a file or reads it. */
enum {
  /** The library decides at open: read on Windows and on network and user-space file systems, otherwise map. */
  SAFETENSORS_ACCESS_AUTOMATIC = 0,
  /** Map the file. If the file becomes shorter, access to the missing bytes of a map raises SIGBUS. */
  SAFETENSORS_ACCESS_MAP = 1,
  /** Never map. If the file becomes shorter, reading returns FILE_TRUNCATED. */
  SAFETENSORS_ACCESS_READ = 2
};

/** Bits of `accept`: faults that the reader tolerates. A fault whose bit is not set is an error. All other faults are
 * always errors. */
enum {
  SAFETENSORS_ACCEPT_UNKNOWN_DTYPES = 1, /**< dtypes that the format does not have; `data_offsets` has the size */
  SAFETENSORS_ACCEPT_UNUSED_BYTES = 2,   /**< bytes after the last tensor */
  SAFETENSORS_ACCEPT_WHITESPACE = 4      /**< white space before the `{` of the header */
};

/** Options of the functions that open a model. Initialize them with SAFETENSORS_OPEN_OPTIONS_INIT. */
typedef struct safetensors_open_options {
  uint64_t struct_size;             /**< size of this struct in bytes */
  uint64_t max_header_bytes;        /**< maximum length of a header in bytes. 0: 100,000,000, the limit of the format */
  int32_t access;                   /**< one of SAFETENSORS_ACCESS_...; no effect for memory and sources */
  uint32_t accept;                  /**< bits SAFETENSORS_ACCEPT_...; 0: none */
  uint32_t threads;                 /**< threads that read headers, for a model of several files only. 0: at most 16 */
  uint32_t reserved;                /**< 0 */
  int32_t (*cancelled)(void* user); /**< a callback, called from time to time; it may ask a flag of another thread */
  void* user;                       /**< passed to `cancelled` */
} safetensors_open_options;
/** Initializer of safetensors_open_options. */
#define SAFETENSORS_OPEN_OPTIONS_INIT \
  { sizeof(safetensors_open_options), 0, SAFETENSORS_ACCESS_AUTOMATIC, 0, 0, 0, NULL, NULL }

/** Opens all files that a path stands for, and reads and checks their headers. It never waits for a FIFO or a device.
 *
 * `path` is a safetensors file; an index, whose name ends in `.json`; a folder with one model, also one of the cache of
 * huggingface_hub; or a pattern of files with `*`, `?` or `[a-z]`. docs/checkpoints.md says which files of a folder are
 * the model. If there is an index, it decides which tensors exist.
 *
 * A model keeps its files open if they are at most half of `RLIMIT_NOFILE`. Otherwise, it opens a file again when it
 * reads it. Such a file must not have changed: FILE_CHANGED.
 * Errors: OPEN_FAILED (with `os_error`), NOT_REGULAR_FILE, READ_FAILED, FILE_TRUNCATED, CANCELLED, those of rules 1 to
 * 10; INVALID_INDEX, AMBIGUOUS_CHECKPOINT (a folder with several equal models), NOT_FOUND (no model in the folder, or
 * no file of the pattern or the index), DUPLICATE_NAME (a tensor is in two files). */
SAFETENSORS_API safetensors_status safetensors_model_open(const char* path, const safetensors_open_options* options,
                                                          safetensors_model** model, safetensors_error* error);
/** Opens all files that several paths stand for as one model, in the order of the paths. `count` is at least 1.
 * Errors: those of safetensors_model_open(). */
SAFETENSORS_API safetensors_status safetensors_model_open_paths(const char* const* paths, size_t count,
                                                                const safetensors_open_options* options,
                                                                safetensors_model** model, safetensors_error* error);
/** Opens a file through a descriptor. Duplicates the descriptor: the caller keeps and closes their own. The position of
 * the descriptor does not move. Errors: those of safetensors_model_open(). */
SAFETENSORS_API safetensors_status safetensors_model_from_fd(int descriptor, const safetensors_open_options* options,
                                                             safetensors_model** model, safetensors_error* error);
/** Opens a file that is in memory, of `size` bytes. The memory must not change until the library calls `release(user)`,
 * once and on any thread, when nothing needs it any more. If `release` is NULL, the memory must outlive everything that
 * is made from it. On failure, `release` is not called.
 * Errors: CANCELLED, and those of rules 1 to 10. */
SAFETENSORS_API safetensors_status safetensors_model_from_memory(const void* data, size_t size,
                                                                 void (*release)(void* user), void* user,
                                                                 const safetensors_open_options* options,
                                                                 safetensors_model** model, safetensors_error* error);

/** Functions that read a file from storage of the caller. Any number of threads may call them at the same time, unless
 * `one_thread_at_a_time` is set. They must return normally. Initialize it with SAFETENSORS_SOURCE_INIT.
 *
 * `size` and `read_at` return 0, or an error code and an error that says more: its message, offset and path become
 * those of the call that read. */
typedef struct safetensors_source {
  uint64_t struct_size; /**< size of this struct in bytes */
  void* user;           /**< passed to the functions */
  /** Writes the size of the file in bytes to `*size`. Called once, when the file is opened. */
  safetensors_status (*size)(void* user, uint64_t* size, safetensors_error* error);
  /** Reads up to `capacity` bytes at `offset`. Writes the number of bytes read to `*count`, which is 0 on entry. It may
   * be below `capacity`; 0 means the end of the file. If `capacity` is 0, `destination` may be NULL. */
  safetensors_status (*read_at)(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                safetensors_error* error);
  /** Returns memory that holds `size` bytes at `offset`, or NULL if there is no such memory. It is valid until
   * `release`. May be NULL. */
  const void* (*memory)(void* user, uint64_t offset, uint64_t size);
  /** Called once, on any thread, when nothing needs the source any more. May be NULL. */
  void (*release)(void* user);
  /** Number of bytes per call of `read_at` that suits the source, such as 32 MiB for storage that reads a long range
   * with threads of its own. No call asks for more. 0: the library chooses, 2 MiB for plans. */
  uint64_t request_bytes;
  uint32_t one_thread_at_a_time; /**< 1: calls are made under a lock, and plans use one thread */
  uint32_t reserved;             /**< 0 */
} safetensors_source;
/** Initializer of safetensors_source. */
#define SAFETENSORS_SOURCE_INIT \
  { sizeof(safetensors_source), NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }

/** Opens a file that is in a source of the caller. Copies the struct. On failure, `release` is not called.
 * Errors: those of the source, CANCELLED, and those of rules 1 to 10. */
SAFETENSORS_API safetensors_status safetensors_model_from_source(const safetensors_source* source,
                                                                 const safetensors_open_options* options,
                                                                 safetensors_model** model, safetensors_error* error);
/** Frees a model. Plans, streams and arrays that use its files stay valid. */
SAFETENSORS_API void safetensors_model_free(safetensors_model* model);

/* --- Contents of models --- */

/** What a model consists of. Initialize it with SAFETENSORS_MODEL_INFO_INIT. */
typedef struct safetensors_model_info {
  uint64_t struct_size;         /**< size of this struct in bytes */
  uint64_t tensor_count;        /**< number of tensors */
  uint64_t file_count;          /**< number of files */
  const char* index_name;       /**< name of the index, or an empty text if there is none */
  size_t index_name_length;     /**< in bytes */
  const char* index_metadata;   /**< `metadata` of the index as JSON in one line, or an empty text */
  size_t index_metadata_length; /**< in bytes */
} safetensors_model_info;
/** Initializer of safetensors_model_info. */
#define SAFETENSORS_MODEL_INFO_INIT \
  { sizeof(safetensors_model_info), 0, 0, NULL, 0, NULL, 0 }

/** Writes the number of tensors and files to `*info`, and what the index says. */
SAFETENSORS_API safetensors_status safetensors_model_get_info(const safetensors_model* model,
                                                              safetensors_model_info* info, safetensors_error* error);

/** One file of a model. Initialize it with SAFETENSORS_FILE_INIT. */
typedef struct safetensors_file {
  uint64_t struct_size;      /**< size of this struct in bytes */
  const char* path;          /**< as it was opened, NUL-terminated; empty for a descriptor, memory and a source */
  uint64_t tensor_count;     /**< number of tensors, also of those that an index does not name */
  uint64_t metadata_count;   /**< number of metadata pairs */
  uint64_t header_bytes;     /**< N, the length of the header in bytes, with padding; the data begins at byte 8 + N */
  uint64_t data_bytes;       /**< size of the data in bytes */
  uint64_t unknown_dtypes;   /**< accepted faults: number of tensors of SAFETENSORS_DTYPE_UNKNOWN */
  uint64_t unused_bytes;     /**< accepted faults: number of bytes after the last tensor */
  uint32_t whitespace;       /**< accepted faults: 1 if white space preceded the `{` */
  uint32_t metadata_present; /**< 1 if there is a `__metadata__` object, also an empty one */
  int32_t access;            /**< SAFETENSORS_ACCESS_MAP or SAFETENSORS_ACCESS_READ, as decided at open */
  uint32_t reserved;         /**< 0 */
} safetensors_file;
/** Initializer of safetensors_file. */
#define SAFETENSORS_FILE_INIT \
  { sizeof(safetensors_file), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Writes the file at an index to `*file`. The files are in the order of the paths, those of one path by name.
 * Error: NOT_FOUND when `index` is not below `file_count`. */
SAFETENSORS_API safetensors_status safetensors_model_get_file(const safetensors_model* model, uint64_t index,
                                                              safetensors_file* file, safetensors_error* error);

/** A metadata pair. */
typedef struct safetensors_metadata {
  const char* key;     /**< valid UTF-8 */
  size_t key_length;   /**< length of `key` in bytes */
  const char* value;   /**< valid UTF-8; in safetensors_edit_metadata(), NULL removes the key */
  size_t value_length; /**< length of `value` in bytes */
} safetensors_metadata;

/** Writes the metadata pair at an index to `*pair`, of the file at the index `file`. The pairs are sorted by the bytes
 * of their keys. Error: NOT_FOUND when an index is not below its count. */
SAFETENSORS_API safetensors_status safetensors_model_get_metadata(const safetensors_model* model, uint64_t file,
                                                                  uint64_t index, safetensors_metadata* pair,
                                                                  safetensors_error* error);
/** Writes the metadata pair with this key to `*pair`, of the file at the index `file`. The shards of a model usually
 * have the same metadata. Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_model_find_metadata(const safetensors_model* model, uint64_t file,
                                                                   const char* key, size_t key_length,
                                                                   safetensors_metadata* pair,
                                                                   safetensors_error* error);

/** The entry of a tensor in a header. Initialize it with SAFETENSORS_TENSOR_INIT. */
typedef struct safetensors_tensor {
  uint64_t struct_size;     /**< size of this struct in bytes */
  const char* name;         /**< any valid UTF-8; show it with safetensors_printable() */
  size_t name_length;       /**< length of `name` in bytes */
  const uint64_t* shape;    /**< dimensions in elements, outermost first */
  size_t rank;              /**< number of dimensions */
  uint64_t nbytes;          /**< size in bytes */
  uint64_t file_offset;     /**< bytes from the start of the file to the first byte */
  const char* path;         /**< `path` of its file */
  const char* dtype_name;   /**< the dtype as a text; for SAFETENSORS_DTYPE_UNKNOWN the text in the file */
  size_t dtype_name_length; /**< length of `dtype_name` in bytes */
  safetensors_dtype dtype;  /**< type of the elements */
  uint32_t reserved;        /**< 0 */
} safetensors_tensor;
/** Initializer of safetensors_tensor. */
#define SAFETENSORS_TENSOR_INIT \
  { sizeof(safetensors_tensor), NULL, 0, NULL, 0, 0, 0, NULL, NULL, 0, 0, 0 }

/** Writes the tensor at an index to `*tensor`. The order is file after file, and by offset within a file.
 * Error: NOT_FOUND when `index` is not below `tensor_count`. */
SAFETENSORS_API safetensors_status safetensors_model_get_tensor(const safetensors_model* model, uint64_t index,
                                                                safetensors_tensor* tensor, safetensors_error* error);
/** Writes the tensor with this name to `*tensor`. Error: NOT_FOUND; the message has the most similar name, if there is
 * one. */
SAFETENSORS_API safetensors_status safetensors_model_find_tensor(const safetensors_model* model, const char* name,
                                                                 size_t name_length, safetensors_tensor* tensor,
                                                                 safetensors_error* error);

/* --- Slices --- */

/** Kinds of slices of one dimension. */
enum {
  SAFETENSORS_DIM_KIND_ALL = 0,     /**< the whole dimension */
  SAFETENSORS_DIM_KIND_INDEX = 1,   /**< one element, `begin`; the result does not have this dimension */
  SAFETENSORS_DIM_KIND_RANGE = 2,   /**< elements from `begin` to `end`, every `step` */
  SAFETENSORS_DIM_KIND_SHARD = 3,   /**< shard `begin` of `end`, as numpy.array_split cuts them */
  SAFETENSORS_DIM_KIND_ELLIPSIS = 4 /**< all dimensions that no other one of the slice takes */
};

/** A slice of one dimension, with the meaning that NumPy gives it. A slice of a tensor is an array of them, outermost
 * dimension first. Dimensions after the last one are taken whole, so a slice of 0 dimensions is the whole tensor. */
typedef struct safetensors_dim {
  int32_t kind;      /**< one of SAFETENSORS_DIM_KIND_... */
  uint32_t reserved; /**< 0 */
  /** First element. Negative counts from the end, and a range is clamped to the dimension. SAFETENSORS_DIM_NONE: the
   * first element in the direction of `step`. For a shard: its index. */
  int64_t begin;
  /** First element that does not belong to the range, as `begin`. SAFETENSORS_DIM_NONE: through the last element in the
   * direction of `step`. For a shard: the number of shards. */
  int64_t end;
  int64_t step; /**< from one element of a range to the next; negative goes backwards; 0 is an error */
} safetensors_dim;

/** `begin` or `end` of a range that is left out. */
#define SAFETENSORS_DIM_NONE INT64_MIN
/** Initializer of a safetensors_dim: the whole dimension. */
#define SAFETENSORS_DIM_ALL \
  { SAFETENSORS_DIM_KIND_ALL, 0, 0, 0, 0 }
/** Initializer of a safetensors_dim: one element. */
#define SAFETENSORS_DIM_INDEX(index) \
  { SAFETENSORS_DIM_KIND_INDEX, 0, (index), 0, 0 }
/** Initializer of a safetensors_dim: the elements [begin, end), every `step`. */
#define SAFETENSORS_DIM_RANGE(begin, end, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 0, (begin), (end), (step) }
/** Initializer of a safetensors_dim: the part of rank `rank` of `world`, if each rank gets an equal part. The first
 * (size % world) parts have one element more. */
#define SAFETENSORS_DIM_SHARD(rank, world) \
  { SAFETENSORS_DIM_KIND_SHARD, 0, (rank), (world), 0 }
/** Initializer of a safetensors_dim: all dimensions that no other one takes. */
#define SAFETENSORS_DIM_ELLIPSIS \
  { SAFETENSORS_DIM_KIND_ELLIPSIS, 0, 0, 0, 0 }

/** Parses the text of a NumPy index, such as `1:3,:,-1,::2,...`, into `dims`. `*count` becomes the number of
 * dimensions, also if the error is BUFFER_SIZE: `capacity`, in dimensions, is too small. Errors: SLICE_SYNTAX, with the
 * column; BUFFER_SIZE. */
SAFETENSORS_API safetensors_status safetensors_slice_parse(const char* text, size_t length, safetensors_dim* dims,
                                                           size_t capacity, size_t* count, safetensors_error* error);

/* --- Reading one tensor --- */

/** What to read of a tensor, and where it goes. All zero: the whole tensor, to new memory. Initialize it with
 * SAFETENSORS_REQUEST_INIT. */
typedef struct safetensors_request {
  uint64_t struct_size;         /**< size of this struct in bytes */
  const safetensors_dim* slice; /**< the slice to read */
  size_t slice_count;           /**< number of dimensions in `slice`; 0: the whole tensor */
  /** Memory for the result, or NULL: new memory. It must stay valid until the read is over. Two destinations of a plan
   * must not overlap, which is checked except for `strides`. */
  void* destination;
  /** Size of `destination` in bytes: exactly the size of the result. With `strides`, at least to the end of the last
   * element. */
  size_t destination_size;
  /** Distance between neighbouring elements in bytes, one value per dimension of the result. They are copied. Two
   * elements must not share a byte. */
  const uint64_t* strides;
  size_t stride_count; /**< number of strides; 0: C order */
  /** Dtype of the result. 0: the dtype of the tensor.
   *
   * Casts are possible between F64, F32, F16, BF16 and the F8 dtypes, rounded once, to the nearest, ties to even.
   * F8_E8M0 can be cast from, but not cast to. Casts are also possible between integers of 8 to 64 bits: a value that
   * the new dtype does not have is the error VALUE_OUT_OF_RANGE. There are no casts between floats and integers. */
  safetensors_dtype cast;
  uint32_t on_device; /**< not 0: `destination` is memory of a CUDA device, without strides */
  int32_t device;     /**< ordinal of the device */
  uint32_t reserved;  /**< 0 */
} safetensors_request;
/** Initializer of safetensors_request. */
#define SAFETENSORS_REQUEST_INIT \
  { sizeof(safetensors_request), NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0 }

/** Measures the result of a request, and reads nothing. `request` may be NULL. Its destination does not matter.
 *
 * Copies the dimensions of the result to `shape`, outermost first. `*rank` becomes their number, also if the error is
 * BUFFER_SIZE: `capacity`, in dimensions, is above 0 but too small. With a capacity of 0, `shape` may be NULL.
 * `*nbytes` becomes the size of the result in bytes. `rank` and `nbytes` may be NULL. Errors: NOT_FOUND; DTYPE_MISMATCH
 * (this cast is not possible, or a slice of SAFETENSORS_DTYPE_UNKNOWN); SLICE_INDEX, SLICE_STEP, SLICE_RANK, SLICE_BITS
 * (a slice of F4 or F6 must begin and end on byte boundaries); SIZE_OVERFLOW; BUFFER_SIZE. */
SAFETENSORS_API safetensors_status safetensors_model_measure(const safetensors_model* model, const char* name,
                                                             size_t name_length, const safetensors_request* request,
                                                             uint64_t* shape, size_t capacity, size_t* rank,
                                                             uint64_t* nbytes, safetensors_error* error);

/** The memory that you request from safetensors_model_view(). */
enum {
  SAFETENSORS_MAP_SHARED = 0,       /**< read-only memory, shared with all readers of the file */
  SAFETENSORS_MAP_COPY_ON_WRITE = 1 /**< writable memory of your own; the file never changes */
};

/** Returns a whole tensor without a copy, if possible: as a map of the file, or as memory of the caller or the source.
 *
 * Reads it into new memory if the access of the file is SAFETENSORS_ACCESS_READ, if its bytes are not aligned for its
 * dtype, if the system refuses the map, or if memory of the caller would have to be copied on write. `memory` of the
 * array says which it is. So the elements are always aligned.
 * Errors: NOT_FOUND, READ_FAILED, FILE_TRUNCATED, OPEN_FAILED, FILE_CHANGED. */
SAFETENSORS_API safetensors_status safetensors_model_view(const safetensors_model* model, const char* name,
                                                          size_t name_length, int32_t map, safetensors_array** array,
                                                          safetensors_error* error);
/** Reads a tensor, or the part that a request names. `request` may be NULL. Works like a plan with one item: the errors
 * and the array are those of safetensors_plan_add() and safetensors_plan_execute(). With a destination, `array` may be
 * NULL. */
SAFETENSORS_API safetensors_status safetensors_model_read(const safetensors_model* model, const char* name,
                                                          size_t name_length, const safetensors_request* request,
                                                          safetensors_array** array, safetensors_error* error);

/* --- Arrays --- */

/** Kinds of memory that an array can have. */
enum {
  SAFETENSORS_MEMORY_OWNED = 0,             /**< writable memory of the array, aligned to 64 bytes */
  SAFETENSORS_MEMORY_SHARED_MAP = 1,        /**< a read-only map of the file; changes of the file are visible */
  SAFETENSORS_MEMORY_COPY_ON_WRITE_MAP = 2, /**< a writable map of the file; the file never changes */
  SAFETENSORS_MEMORY_BORROWED = 3           /**< memory of the caller or of a source */
};

/** The elements of an array: in C order, little-endian, without gaps. Initialize it with SAFETENSORS_ARRAY_INFO_INIT.
 */
typedef struct safetensors_array_info {
  uint64_t struct_size;    /**< size of this struct in bytes */
  const void* data;        /**< the elements; NULL if there are no bytes */
  void* mutable_data;      /**< the same address if the memory is writable; otherwise NULL */
  size_t nbytes;           /**< size in bytes; 0 for a destination with strides or on a device */
  const uint64_t* shape;   /**< dimensions in elements, outermost first */
  size_t rank;             /**< number of dimensions */
  safetensors_dtype dtype; /**< type of the elements */
  int32_t memory;          /**< one of SAFETENSORS_MEMORY_... */
} safetensors_array_info;
/** Initializer of safetensors_array_info. */
#define SAFETENSORS_ARRAY_INFO_INIT \
  { sizeof(safetensors_array_info), NULL, NULL, 0, NULL, 0, 0, 0 }

/** Writes the address, dtype and shape of the elements to `*info`. A tensor of SAFETENSORS_DTYPE_UNKNOWN is an array of
 * U8. */
SAFETENSORS_API safetensors_status safetensors_array_get_info(const safetensors_array* array,
                                                              safetensors_array_info* info, safetensors_error* error);
/** Returns a DLPack tensor of version 1.1 on the CPU that shares the memory of an array and keeps it alive.
 *
 * SAFETENSORS_DLPACK_READ_ONLY is set unless the memory is writable. The holder calls `deleter` once, on any thread.
 * Error: UNSUPPORTED (a dimension is larger than INT64_MAX, which only a tensor without elements can have). */
SAFETENSORS_API safetensors_status safetensors_array_to_dlpack(const safetensors_array* array,
                                                               safetensors_dl_managed_tensor** tensor,
                                                               safetensors_error* error);
/** Does the same for consumers of DLPack before 1.0, which cannot be told that memory is read-only. */
SAFETENSORS_API safetensors_status safetensors_array_to_unversioned_dlpack(const safetensors_array* array,
                                                                           safetensors_dl_unversioned_tensor** tensor,
                                                                           safetensors_error* error);
/** Frees an array. Its memory stays as long as another array or DLPack tensor uses it. */
SAFETENSORS_API void safetensors_array_free(safetensors_array* array);

/* --- Plans --- */

/** A list of tensors and slices to read, and of their destinations. It keeps the files open, and may be read several
 * times. */
typedef struct safetensors_plan safetensors_plan;

/** Reads a plan in the background. safetensors_stream_cancel() may be called from any thread, also while another thread
 * waits in safetensors_stream_next(). In a forked child, you may only free it. */
typedef struct safetensors_stream safetensors_stream;

/** Modes in which reads use the page cache of the system. */
enum {
  /** Works as FILL if the files and the results together fit into half of the memory of the machine, or of the limit of
   * the control group. Otherwise works as KEEP. */
  SAFETENSORS_CACHE_AUTOMATIC = 0,
  /** Read cached data from the cache, and all other data directly from the device, so that the cache stays as it is.
   * Reads of less than 64 KiB, from a network, and from a file system without direct reads go through the cache. */
  SAFETENSORS_CACHE_KEEP = 1,
  /** Read all data through the cache, and keep it there. */
  SAFETENSORS_CACHE_FILL = 2
};

/** Options of safetensors_plan_execute() and safetensors_plan_stream(). Initialize them with
 * SAFETENSORS_READ_OPTIONS_INIT. */
typedef struct safetensors_read_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** Limit of the memory of the host, in bytes: for the bytes that are being read or converted, for pinned memory (up
   * to half of the limit, but at least 2 MiB per device), and for the results of a stream that wait for
   * safetensors_stream_next(). It does not cover other results, nor up to 4 MiB per thread for short pieces of slices
   * and for unaligned direct I/O.
   *
   * 0: 2 MiB per thread (16 MiB on network file systems) and 32 MiB of pinned memory per device; 256 MiB for a stream.
   */
  uint64_t memory_limit;
  uint32_t threads; /**< number of reader threads. 0: one per usable processor (at most 16), more if reads wait */
  int32_t cache;    /**< one of SAFETENSORS_CACHE_... */
  /** A callback with the number of bytes completed and the total, called from time to time and once at the end. A
   * stream calls it in safetensors_stream_next(). */
  int32_t (*progress)(void* user, uint64_t completed, uint64_t total);
  void* user; /**< passed to `progress` */
  /** A CUDA stream (CUstream) for destinations on a device. Copies begin after the work that this stream received
   * before the call. All destinations on devices must then be on its device: INVALID_ARGUMENT. NULL: the default stream
   * of each device. */
  void* device_stream;
} safetensors_read_options;
/** Initializer of safetensors_read_options. */
#define SAFETENSORS_READ_OPTIONS_INIT \
  { sizeof(safetensors_read_options), 0, 0, SAFETENSORS_CACHE_AUTOMATIC, NULL, NULL, NULL }

/** Makes an empty plan. */
SAFETENSORS_API safetensors_status safetensors_plan_create(safetensors_plan** plan, safetensors_error* error);
/** Adds a tensor of any model, or the part of it that a request names, as the next item. `request` may be NULL. The
 * index of the first item is 0. On failure, the plan does not change. Errors: those of safetensors_model_measure();
 * BUFFER_SIZE (the size of the destination is wrong), INVALID_ARGUMENT (strides or device). */
SAFETENSORS_API safetensors_status safetensors_plan_add(safetensors_plan* plan, const safetensors_model* model,
                                                        const char* name, size_t name_length,
                                                        const safetensors_request* request, safetensors_error* error);
/** Writes the number of items, and the size of all results in bytes. Either pointer may be NULL. */
SAFETENSORS_API safetensors_status safetensors_plan_get_size(const safetensors_plan* plan, uint64_t* count,
                                                             uint64_t* nbytes, safetensors_error* error);
/** Reads all items with several threads and waits for them.
 *
 * `arrays` gets an array per item, in the order of safetensors_plan_add(). It has room for `array_count` arrays, which
 * is the number of items. If every item has a destination, it may be NULL with a count of 0. New memory is aligned to
 * 64 bytes. An array over a destination does not keep it alive. On failure, the contents of the destinations are
 * undefined.
 *
 * Errors:
 * - CANCELLED, and the errors of a source of the caller;
 * - BUFFER_SIZE (`array_count`);
 * - READ_FAILED, FILE_TRUNCATED: the error names the tensor, the path and the offset;
 * - VALUE_OUT_OF_RANGE: the error names the tensor, the position and the value of the element, the path and the offset;
 * - FILE_CHANGED, OPEN_FAILED: for a file that is opened again; the error names the tensor and the path;
 * - OVERLAPPING_DESTINATION: two destinations overlap; the error names both tensors, and nothing was read;
 * - UNSUPPORTED (no driver), INVALID_ARGUMENT (no such device), DEVICE_FAILED: for destinations on devices. */
SAFETENSORS_API safetensors_status safetensors_plan_execute(const safetensors_plan* plan,
                                                            const safetensors_read_options* options,
                                                            safetensors_array** arrays, size_t array_count,
                                                            safetensors_error* error);
/** Starts to read the items in the background, in the order of safetensors_plan_add(). You may change or free the plan
 * in the meantime. Reading waits while `memory_limit` is full of results that wait for safetensors_stream_next().
 * Errors: OVERLAPPING_DESTINATION, and those of safetensors_plan_execute() for devices. */
SAFETENSORS_API safetensors_status safetensors_plan_stream(const safetensors_plan* plan,
                                                           const safetensors_read_options* options,
                                                           safetensors_stream** stream, safetensors_error* error);
/** Frees a plan. Its arrays and streams stay valid. */
SAFETENSORS_API void safetensors_plan_free(safetensors_plan* plan);

/** Waits for the next complete item. Writes its index to `*index` and returns its array. `*array` is NULL after the
 * last item. An error stops all reading. The items that were complete before come first. Then every call returns the
 * same error. Errors: those of safetensors_plan_execute(). */
SAFETENSORS_API safetensors_status safetensors_stream_next(safetensors_stream* stream, uint64_t* index,
                                                           safetensors_array** array, safetensors_error* error);
/** Stops reading. A waiting safetensors_stream_next() and all later calls of it return CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_stream_cancel(safetensors_stream* stream, safetensors_error* error);
/** Frees a stream. Stops its threads and waits for the reads that have already started. */
SAFETENSORS_API void safetensors_stream_free(safetensors_stream* stream);

/* --- Writing --- */

/** A tensor to write. */
typedef struct safetensors_tensor_data {
  const char* name;        /**< valid UTF-8 */
  size_t name_length;      /**< length of `name` in bytes */
  safetensors_dtype dtype; /**< type of the elements */
  uint32_t reserved;       /**< 0 */
  const uint64_t* shape;   /**< dimensions in elements, outermost first */
  size_t rank;             /**< number of dimensions */
  const void* data;        /**< elements in C order, little-endian; safetensors_writer_create() ignores them */
  size_t size;             /**< size of `data` in bytes; must match dtype and shape exactly */
} safetensors_tensor_data;

/** What a function that writes guarantees when it returns. At every level, other programs see the old files or the new
 * files. After an error, the old files are unchanged and no other file remains. */
enum {
  SAFETENSORS_DURABILITY_FULL = 0, /**< the new file survives a power cut */
  SAFETENSORS_DURABILITY_FILE = 1, /**< after a power cut, the path has the old file or the new file */
  SAFETENSORS_DURABILITY_NONE = 2  /**< after a power cut, the path may also have an empty file or zeros */
};

/** Options of the functions that write. Initialize them with SAFETENSORS_WRITE_OPTIONS_INIT. */
typedef struct safetensors_write_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** 0: the path is a file. Otherwise the path is a folder for a model of several files with an index, and this is the
   * maximum size of the tensors of one file, in bytes. A larger tensor gets a file of its own. huggingface_hub uses
   * 5,000,000,000. */
  uint64_t max_shard_size;
  /** Beginning of the names in a folder, NUL-terminated. NULL: "model", which makes `model.safetensors`, or
   * `model-00001-of-00002.safetensors` and so on with `model.safetensors.index.json`. */
  const char* stem;
  const safetensors_metadata* metadata; /**< `__metadata__` of every file. NULL: the files have none */
  size_t metadata_count;                /**< number of metadata pairs */
  uint64_t metadata_slack;              /**< minimum number of spaces at the end of the header, for later edits */
  uint32_t data_alignment;              /**< alignment of the data: a power of two from 1 to 65536. 0: 8 */
  int32_t durability;                   /**< one of SAFETENSORS_DURABILITY_... */
  uint32_t new_only;                    /**< not 0: a file or folder that exists is REPLACE_FAILED with EEXIST */
  uint32_t keep_old_files;              /**< not 0: files of an older model in the folder stay */
  /** Not 0: if the file system cannot rename, such as some mounts of object stores, write in place instead of returning
   * UNSUPPORTED. An error or a crash then may leave an incomplete file. */
  uint32_t in_place_if_no_rename;
  /** Not 0: safetensors_edit_metadata() overwrites the header of the file. This is fast for huge files, but not atomic.
   * If the new header does not fit into the place of the old one, the error is HEADER_DOES_NOT_FIT. */
  uint32_t edit_in_place;
  /** A callback with the number of bytes written and the total, every few MiB and at the end. It never runs in two
   * threads at once, and must not use the writer. */
  int32_t (*progress)(void* user, uint64_t completed, uint64_t total);
  void* user; /**< passed to `progress` */
} safetensors_write_options;
/** Initializer of safetensors_write_options. */
#define SAFETENSORS_WRITE_OPTIONS_INIT \
  { sizeof(safetensors_write_options), 0, NULL, NULL, 0, 0, 0, SAFETENSORS_DURABILITY_FULL, 0, 0, 0, 0, NULL, NULL }

/** Saves tensors to a file, or to a folder if `max_shard_size` is set. Tensors may be views of the files that are
 * replaced.
 *
 * A file is replaced atomically. In a folder, the rename of the index is the commit: readers see the old model before
 * it and the new model after it. The tensors are split in the order given, as huggingface_hub splits them. If they fit
 * into one file, there is no index. The files of an older model with the same stem are removed afterwards. Errors:
 * DUPLICATE_NAME, RESERVED_NAME, INVALID_UTF8, DATA_LENGTH, SIZE_OVERFLOW, MISALIGNED_SIZE, HEADER_TOO_LARGE,
 * INVALID_ALIGNMENT, OPEN_FAILED, NOT_REGULAR_FILE, WRITE_FAILED (`os_error` is ENOSPC or another code), SYNC_FAILED,
 * REPLACE_FAILED, REPLACED_NOT_DURABLE, UNSUPPORTED, CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_save(const char* path, const safetensors_tensor_data* tensors,
                                                    size_t tensor_count, const safetensors_write_options* options,
                                                    safetensors_error* error);
/** Returns the bytes of a file as an array of U8. Of the options, those of the header count. `max_shard_size` must be
 * 0. Errors: those of safetensors_save() that concern the tensors. */
SAFETENSORS_API safetensors_status safetensors_serialize(const safetensors_tensor_data* tensors, size_t tensor_count,
                                                         const safetensors_write_options* options,
                                                         safetensors_array** file, safetensors_error* error);
/** Sets metadata keys of a file, and removes the keys whose value is NULL. A missing key is not an error.
 *
 * Without `edit_in_place`, a new file replaces the old one. Of the options, `metadata_slack`, `durability`,
 * `in_place_if_no_rename`, `edit_in_place` and `progress` count.
 * Errors: those of opening and of safetensors_save(); HEADER_DOES_NOT_FIT; FILE_CHANGED (the old file was changed in
 * the meantime). */
SAFETENSORS_API safetensors_status safetensors_edit_metadata(const char* path, const safetensors_metadata* edits,
                                                             size_t edit_count,
                                                             const safetensors_write_options* options,
                                                             safetensors_error* error);

/** Writes a file, or the files of a model, in pieces and in any order. The files may be larger than the memory.
 *
 * Any number of threads may call safetensors_writer_write(), safetensors_writer_write_slice() and
 * safetensors_writer_copy() at the same time. No other call may run at the same time as safetensors_writer_commit().
 * Write each byte exactly once. After the first failure to write, all calls return that failure. In a forked child, you
 * may only free the writer. */
typedef struct safetensors_writer safetensors_writer;

/** Starts to write these tensors to a file, or to a folder if `max_shard_size` is set. Nothing appears at the path
 * before safetensors_writer_commit(). Errors: those of safetensors_save(). */
SAFETENSORS_API safetensors_status safetensors_writer_create(const char* path, const safetensors_tensor_data* tensors,
                                                             size_t tensor_count,
                                                             const safetensors_write_options* options,
                                                             safetensors_writer** writer, safetensors_error* error);
/** Writes `size` bytes of a tensor, `offset` bytes from its start.
 * Errors: NOT_FOUND, OVERLAPPING_WRITE, BUFFER_SIZE (after the end of the tensor), WRITE_FAILED, WRITER_CLOSED,
 * CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_writer_write(safetensors_writer* writer, const char* name,
                                                            size_t name_length, uint64_t offset, const void* data,
                                                            size_t size, safetensors_error* error);
/** Writes a slice of a tensor, such as the rows or the columns of a rank. `size` is in bytes: the elements of the
 * slice, in C order. Errors: those of safetensors_writer_write() and of slices; DATA_LENGTH (not the size of the
 * slice). */
SAFETENSORS_API safetensors_status safetensors_writer_write_slice(safetensors_writer* writer, const char* name,
                                                                  size_t name_length, const safetensors_dim* slice,
                                                                  size_t slice_count, const void* data, size_t size,
                                                                  safetensors_error* error);
/** Writes a whole tensor with the contents of the tensor `from` of a model. Both must have the same dtype and shape.
 * The memory is bounded. An error of reading is a failure of the writer, too. Errors: those of
 * safetensors_writer_write() and of reading; DTYPE_MISMATCH, DATA_LENGTH. */
SAFETENSORS_API safetensors_status safetensors_writer_copy(safetensors_writer* writer, const char* name,
                                                           size_t name_length, const safetensors_model* model,
                                                           const char* from, size_t from_length,
                                                           safetensors_error* error);
/** Completes the files and puts them in place. After it, the writer is closed.
 * Errors: those of safetensors_save(); WRITER_CLOSED; INCOMPLETE_WRITE, which names the first missing range. The writer
 * stays usable after that one. */
SAFETENSORS_API safetensors_status safetensors_writer_commit(safetensors_writer* writer, safetensors_error* error);
/** Frees a writer. Removes the bytes written, unless they are committed. */
SAFETENSORS_API void safetensors_writer_free(safetensors_writer* writer);

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_H */
