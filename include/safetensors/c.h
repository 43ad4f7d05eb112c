/* The C interface, C99 and later: the only one that is stable in binary form. docs/c.md has a whole example.
 *
 * Errors. Every call that can fail returns a safetensors_status (0 is success) and takes, last, a safetensors_error of
 *   the caller, which may be NULL. On failure every out-parameter is NULL or 0, except where a needed size is told.
 *   NULL where something is needed, and a number that is no member of its enum, is SAFETENSORS_ERROR_INVALID_ARGUMENT.
 *   Any call that allocates may return SAFETENSORS_ERROR_OUT_OF_MEMORY; neither is repeated at each function.
 * Ownership. Each handle that a call gives out is the caller's, to be freed with its ..._free (NULL is allowed) on any
 *   thread, in any order: what one handle needs of another it keeps alive itself. Pointers given out point into the
 *   handle they were asked of and are valid until that handle is freed, unless said otherwise.
 * Threads. Calls that take a const handle may be made from any number of threads at once; a handle that is not const
 *   by one thread at a time, except as said at safetensors_writer and in c_plan.h. No handle may be freed while in use.
 * Strings. Names, keys and values are UTF-8, a pointer and a length in bytes, not NUL-terminated, and may hold NUL
 *   bytes. Paths are NUL-terminated. A pointer may be NULL where its length or count is 0.
 * Growing structs begin with struct_size and are made with their ..._INIT; all other fields 0 mean the default. A
 *   struct_size under that of ABI version 1, or over 4096, is SAFETENSORS_ERROR_INVALID_ARGUMENT. One over what the
 *   library knows is SAFETENSORS_ERROR_UNSUPPORTED when any of the unknown part is not 0; of a result that part is
 *   filled with 0. All other structs never change. Options may be NULL: all defaults. */
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

#define SAFETENSORS_ABI_VERSION 1

/* The ABI version of the library that is linked. Functions and status codes are only ever added to a version; a program
 * compiled with SAFETENSORS_ABI_VERSION works with every library that returns the same number. */
SAFETENSORS_API uint32_t safetensors_abi_version(void);
/* The version of the library that is linked, such as "0.8.0+cpp.1". Static. */
SAFETENSORS_API const char* safetensors_version_string(void);

/* --- Status and errors --- */

/* "invalid_offset"; "ok" for 0; "unknown" for a number that is no code. Static. */
SAFETENSORS_API const char* safetensors_status_name(safetensors_status status);
/* The rule of the format (1 to 10) that a code reports, or 0 when the file was not at fault. */
SAFETENSORS_API int32_t safetensors_status_rule(safetensors_status status);
/* 1 when the system refused (memory, open, read, write), else 0. */
SAFETENSORS_API int32_t safetensors_status_is_system_error(safetensors_status status);

/* Writes "path: message (byte 17)", what there is of it, escaped for showing; cut to capacity and NUL-terminated
 * (capacity 0: nothing is written). *length (may be NULL) is the whole text's length without the NUL. failure and error
 * may be the same struct: it is left as it is on success. */
SAFETENSORS_API safetensors_status safetensors_error_format(const safetensors_error* failure, char* text,
                                                            size_t capacity, size_t* length, safetensors_error* error);
/* Text made safe to show (names and metadata come from strangers): control, invisible and ill-formed characters are
 * escaped. Cut and counted as safetensors_error_format does. */
SAFETENSORS_API safetensors_status safetensors_printable(const char* text, size_t text_length, char* shown,
                                                         size_t capacity, size_t* length, safetensors_error* error);

/* --- Dtypes --- */

/* All dtypes, lowest rank first. *count is how many there are; with capacity 0 nothing else is done, with fewer than
 * that the error is BUFFER_SIZE, *count is set all the same. */
SAFETENSORS_API safetensors_status safetensors_dtype_list(safetensors_dtype* dtypes, size_t capacity, size_t* count,
                                                          safetensors_error* error);
/* Bits of one element: 4, 6, 8, 16, 32 or 64. */
SAFETENSORS_API safetensors_status safetensors_dtype_bits(safetensors_dtype dtype, uint32_t* bits,
                                                          safetensors_error* error);
/* 0 (BOOL) to 21 (U64): the writer puts tensors of a higher rank first. */
SAFETENSORS_API safetensors_status safetensors_dtype_rank(safetensors_dtype dtype, uint32_t* rank,
                                                          safetensors_error* error);
/* The name in the file, such as "F32"; static. */
SAFETENSORS_API safetensors_status safetensors_dtype_name(safetensors_dtype dtype, const char** name, size_t* length,
                                                          safetensors_error* error);
/* Exact and case-sensitive. Error: UNKNOWN_DTYPE. */
SAFETENSORS_API safetensors_status safetensors_dtype_parse(const char* name, size_t length, safetensors_dtype* dtype,
                                                           safetensors_error* error);
SAFETENSORS_API safetensors_status safetensors_dtype_dlpack(safetensors_dtype dtype, safetensors_dl_data_type* type,
                                                            safetensors_error* error);

/* --- Bytes that the library allocated --- */

typedef struct safetensors_buffer safetensors_buffer;

/* *data is valid until the buffer is freed; it is aligned for any type. */
SAFETENSORS_API safetensors_status safetensors_buffer_bytes(const safetensors_buffer* buffer, const void** data,
                                                            size_t* size, safetensors_error* error);
SAFETENSORS_API void safetensors_buffer_free(safetensors_buffer* buffer);

/* --- Header: names, dtypes, shapes, offsets, metadata --- */

typedef struct safetensors_header safetensors_header;

typedef struct safetensors_header_info {
  uint64_t struct_size;
  uint64_t tensor_count;
  uint64_t metadata_count;
  uint64_t header_bytes; /* N, padding included */
  uint64_t data_bytes;
  uint64_t data_start; /* 8 + N */
  uint64_t file_bytes;
  uint32_t metadata_present; /* 1 when there is a __metadata__ object, be it empty */
  uint32_t leading_whitespace;
} safetensors_header_info;
#define SAFETENSORS_HEADER_INFO_INIT \
  { sizeof(safetensors_header_info), 0, 0, 0, 0, 0, 0, 0, 0 }

/* The dimensions that an info struct holds; safetensors_..._shape gives all of a tensor that has more. */
#define SAFETENSORS_INFO_DIMS 8

typedef struct safetensors_tensor_info {
  uint64_t struct_size;
  const char* name; /* of strangers: show it with safetensors_printable */
  size_t name_length;
  uint64_t begin; /* data_offsets: bytes from the start of the data, half open */
  uint64_t end;
  uint64_t nbytes;
  uint64_t file_offset; /* of the first byte, from the start of the file */
  safetensors_dtype dtype;
  uint32_t reserved;
  size_t rank;
  uint64_t shape[SAFETENSORS_INFO_DIMS]; /* the first 8 dimensions; 0 behind the last one */
} safetensors_tensor_info;
#define SAFETENSORS_TENSOR_INFO_INIT                                 \
  {                                                                  \
    sizeof(safetensors_tensor_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, { \
      0                                                              \
    }                                                                \
  }

/* The orders of the tensors in a header. */
enum {
  SAFETENSORS_ORDER_OFFSET = 0, /* as their bytes stand in the file; tensors of no bytes at one offset by name */
  SAFETENSORS_ORDER_NAME = 1    /* by the bytes of their names */
};

/* Rules 1 to 3. prefix: the first 8 bytes of the file or more, or all bytes of a shorter file. *length becomes N; the
 * header is the N bytes from byte 8 on. If the file is of another common kind, such as a zip archive, the error's
 * message names it; 512 bytes are enough to recognise all kinds. Errors: HEADER_TOO_SMALL, HEADER_TOO_LARGE,
 * INVALID_HEADER_LENGTH. */
SAFETENSORS_API safetensors_status safetensors_header_length(const void* prefix, size_t prefix_size, uint64_t file_size,
                                                             const safetensors_parse_options* options, uint64_t* length,
                                                             safetensors_error* error);
/* Rules 4 to 10. text: the N bytes, copied; data_size: how many bytes follow them in the file. Errors: those
 * rules', CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_header_parse(const char* text, size_t length, uint64_t data_size,
                                                            const safetensors_parse_options* options,
                                                            safetensors_header** header, safetensors_error* error);
SAFETENSORS_API void safetensors_header_free(safetensors_header* header);

SAFETENSORS_API safetensors_status safetensors_header_get_info(const safetensors_header* header,
                                                               safetensors_header_info* info, safetensors_error* error);
/* The tensor at an index of an order. Error: NOT_FOUND when index is not below the tensor count. */
SAFETENSORS_API safetensors_status safetensors_header_tensor_at(const safetensors_header* header, int32_t order,
                                                                uint64_t index, safetensors_tensor_info* info,
                                                                safetensors_error* error);
/* Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_find(const safetensors_header* header, const char* name,
                                                           size_t name_length, safetensors_tensor_info* info,
                                                           safetensors_error* error);
/* Copies a shape out. *rank is the number of dimensions; with capacity 0 nothing else is done, with fewer than that
 * nothing is copied and the error is BUFFER_SIZE, *rank is set all the same. Error also: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_shape(const safetensors_header* header, const char* name,
                                                            size_t name_length, uint64_t* shape, size_t capacity,
                                                            size_t* rank, safetensors_error* error);
/* The metadata pair at an index, sorted by the bytes of the keys. Error: NOT_FOUND when index is too large. */
SAFETENSORS_API safetensors_status safetensors_header_metadata_at(const safetensors_header* header, uint64_t index,
                                                                  const char** key, size_t* key_length,
                                                                  const char** value, size_t* value_length,
                                                                  safetensors_error* error);
/* Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_header_metadata_find(const safetensors_header* header, const char* key,
                                                                    size_t key_length, const char** value,
                                                                    size_t* value_length, safetensors_error* error);
/* The header's text as the library writes it, padded with spaces. */
SAFETENSORS_API safetensors_status safetensors_header_text(const safetensors_header* header, safetensors_buffer** text,
                                                           safetensors_error* error);

/* --- Header builder --- */

typedef struct safetensors_header_builder safetensors_header_builder;

typedef struct safetensors_layout_options {
  uint64_t struct_size;
  uint64_t metadata_slack; /* spaces kept at the end of the header for later edits in place */
  uint32_t data_alignment; /* the data starts at a multiple of this power of two, at most 65536. 0: 8 */
  uint32_t reserved;       /* 0 */
} safetensors_layout_options;
#define SAFETENSORS_LAYOUT_OPTIONS_INIT \
  { sizeof(safetensors_layout_options), 0, 0, 0 }

SAFETENSORS_API safetensors_status safetensors_header_builder_create(safetensors_header_builder** builder,
                                                                     safetensors_error* error);
SAFETENSORS_API void safetensors_header_builder_free(safetensors_header_builder* builder);
/* Errors: DUPLICATE_NAME, RESERVED_NAME, INVALID_UTF8, SIZE_OVERFLOW, MISALIGNED_SIZE. */
SAFETENSORS_API safetensors_status safetensors_header_builder_add(safetensors_header_builder* builder, const char* name,
                                                                  size_t name_length, safetensors_dtype dtype,
                                                                  const uint64_t* shape, size_t rank,
                                                                  safetensors_error* error);
/* Errors: DUPLICATE_NAME, INVALID_UTF8. */
SAFETENSORS_API safetensors_status safetensors_header_builder_metadata(safetensors_header_builder* builder,
                                                                       const char* key, size_t key_length,
                                                                       const char* value, size_t value_length,
                                                                       safetensors_error* error);
/* The header will have a __metadata__ object even if no pair is added. */
SAFETENSORS_API safetensors_status safetensors_header_builder_metadata_present(safetensors_header_builder* builder,
                                                                               safetensors_error* error);
/* May be called again. Errors: INVALID_ALIGNMENT, HEADER_TOO_LARGE, SIZE_OVERFLOW. */
SAFETENSORS_API safetensors_status safetensors_header_builder_build(const safetensors_header_builder* builder,
                                                                    const safetensors_layout_options* options,
                                                                    safetensors_header** header,
                                                                    safetensors_error* error);

/* --- Slices --- */

typedef struct safetensors_slice safetensors_slice;                   /* what is asked for */
typedef struct safetensors_resolved_slice safetensors_resolved_slice; /* of one dtype and shape */
typedef struct safetensors_runs safetensors_runs;                     /* a walk over its bytes */

enum {
  SAFETENSORS_DIM_KIND_ALL = 0,
  SAFETENSORS_DIM_KIND_INDEX = 1, /* the dimension disappears */
  SAFETENSORS_DIM_KIND_RANGE = 2,
  SAFETENSORS_DIM_KIND_SHARD = 3,
  SAFETENSORS_DIM_KIND_ELLIPSIS = 4 /* as many whole dimensions as are left; at most one in a slice */
};

/* What is asked of one dimension, with NumPy's meaning; make it with the macros below. */
typedef struct safetensors_dim_slice {
  int32_t kind;
  uint8_t has_begin; /* 0: from the first element that the step's direction meets */
  uint8_t has_end;   /* 0: through the last one */
  uint8_t reserved[2];
  int64_t index; /* negative counts from the end, as in begin and end */
  int64_t begin;
  int64_t end;
  int64_t step;
  uint64_t shard_rank;
  uint64_t shard_world;
} safetensors_dim_slice;

#define SAFETENSORS_DIM_ALL \
  { SAFETENSORS_DIM_KIND_ALL, 0, 0, {0, 0}, 0, 0, 0, 1, 0, 1 }
#define SAFETENSORS_DIM_AT(index) \
  { SAFETENSORS_DIM_KIND_INDEX, 0, 0, {0, 0}, (index), 0, 0, 1, 0, 1 }
#define SAFETENSORS_DIM_RANGE(begin, end, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 1, 1, {0, 0}, 0, (begin), (end), (step), 0, 1 }
#define SAFETENSORS_DIM_FROM(begin, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 1, 0, {0, 0}, 0, (begin), 0, (step), 0, 1 }
#define SAFETENSORS_DIM_UNTIL(end, step) \
  { SAFETENSORS_DIM_KIND_RANGE, 0, 1, {0, 0}, 0, 0, (end), (step), 0, 1 }
#define SAFETENSORS_DIM_STEP(step) \
  { SAFETENSORS_DIM_KIND_RANGE, 0, 0, {0, 0}, 0, 0, 0, (step), 0, 1 }
#define SAFETENSORS_DIM_SHARD(rank, world) \
  { SAFETENSORS_DIM_KIND_SHARD, 0, 0, {0, 0}, 0, 0, 0, 1, (rank), (world) }
#define SAFETENSORS_DIM_ELLIPSIS \
  { SAFETENSORS_DIM_KIND_ELLIPSIS, 0, 0, {0, 0}, 0, 0, 0, 1, 0, 1 }

typedef struct safetensors_byte_run {
  uint64_t offset; /* from the tensor's first byte */
  uint64_t size;
} safetensors_byte_run;

/* One entry a dimension, outermost first; dimensions without one are taken whole. Copies dims. */
SAFETENSORS_API safetensors_status safetensors_slice_create(const safetensors_dim_slice* dims, size_t count,
                                                            safetensors_slice** slice, safetensors_error* error);
/* Part rank of world of one dimension (negative counts from the end), cut as numpy.array_split cuts. */
SAFETENSORS_API safetensors_status safetensors_slice_shard(int64_t dim, uint64_t rank, uint64_t world,
                                                           safetensors_slice** slice, safetensors_error* error);
/* "1:3,:,-1,::2,...". Error: SLICE_SYNTAX. */
SAFETENSORS_API safetensors_status safetensors_slice_parse(const char* text, size_t length, safetensors_slice** slice,
                                                           safetensors_error* error);
SAFETENSORS_API void safetensors_slice_free(safetensors_slice* slice);

/* shape is copied. slice may be NULL: the whole tensor. Errors: SLICE_INDEX, SLICE_STEP, SLICE_RANK, SLICE_BITS,
 * SIZE_OVERFLOW. */
SAFETENSORS_API safetensors_status safetensors_slice_resolve(const safetensors_slice* slice, safetensors_dtype dtype,
                                                             const uint64_t* shape, size_t rank,
                                                             safetensors_resolved_slice** resolved,
                                                             safetensors_error* error);
SAFETENSORS_API void safetensors_resolved_slice_free(safetensors_resolved_slice* resolved);
/* The result's shape, as safetensors_header_shape copies. */
SAFETENSORS_API safetensors_status safetensors_resolved_slice_shape(const safetensors_resolved_slice* resolved,
                                                                    uint64_t* shape, size_t capacity, size_t* rank,
                                                                    safetensors_error* error);
/* *nbytes: of the result; *run_count: in how many contiguous runs of the tensor they lie. Either may be NULL. */
SAFETENSORS_API safetensors_status safetensors_resolved_slice_size(const safetensors_resolved_slice* resolved,
                                                                   uint64_t* nbytes, uint64_t* run_count,
                                                                   safetensors_error* error);
/* Starts a walk over the runs, in the order of the result's elements. */
SAFETENSORS_API safetensors_status safetensors_runs_create(const safetensors_resolved_slice* resolved,
                                                           safetensors_runs** runs, safetensors_error* error);
/* The next runs, at most capacity; *count tells how many: fewer than capacity when there are no more. */
SAFETENSORS_API safetensors_status safetensors_runs_next(safetensors_runs* runs, safetensors_byte_run* next,
                                                         size_t capacity, size_t* count, safetensors_error* error);
SAFETENSORS_API void safetensors_runs_free(safetensors_runs* runs);

/* --- Files --- */

typedef struct safetensors_file safetensors_file;
typedef struct safetensors_tensor safetensors_tensor;
typedef struct safetensors_array safetensors_array;

enum {
  SAFETENSORS_ACCESS_AUTOMATIC = 0, /* read on network and user-space file systems, else map */
  SAFETENSORS_ACCESS_MAP = 1,       /* a file made shorter while it is mapped raises SIGBUS */
  SAFETENSORS_ACCESS_READ = 2       /* never maps: a file made shorter is the error FILE_TRUNCATED */
};

typedef struct safetensors_open_options {
  uint64_t struct_size;
  uint64_t max_header_bytes;         /* as safetensors_parse_options */
  uint32_t allow_leading_whitespace; /* likewise */
  int32_t access;
  int32_t (*cancelled)(void* user); /* as safetensors_parse_options */
  void* user;
} safetensors_open_options;
#define SAFETENSORS_OPEN_OPTIONS_INIT \
  { sizeof(safetensors_open_options), 0, 0, SAFETENSORS_ACCESS_AUTOMATIC, NULL, NULL }

/* The caller's own bytes at offsets. The functions are called from any number of threads at once. One that fails
 * returns a code other than SAFETENSORS_OK, best READ_FAILED, and may fill *error, which is never NULL. */
typedef struct safetensors_source {
  uint64_t struct_size;
  void* user;
  /* In bytes; asked once, when a file is opened. */
  safetensors_status (*size)(void* user, uint64_t* size, safetensors_error* error);
  /* Reads up to capacity bytes at offset; *count tells how many. Fewer is allowed, 0 means the end. capacity may be 0:
   * destination may then be NULL, and *count, which is 0 on entry, must stay 0. */
  safetensors_status (*read_at)(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                safetensors_error* error);
  /* May be NULL. The memory of size bytes at offset, valid until release, or NULL when there is none. */
  const void* (*memory)(void* user, uint64_t offset, uint64_t size);
  /* May be NULL. Called once, on any thread, when no file, tensor, array or DLPack tensor needs the source. */
  void (*release)(void* user);
} safetensors_source;
#define SAFETENSORS_SOURCE_INIT \
  { sizeof(safetensors_source), NULL, NULL, NULL, NULL, NULL }

/* Reads and checks the header, nothing else; never waits on a FIFO or device. Errors: OPEN_FAILED (os_error),
 * NOT_REGULAR_FILE, READ_FAILED, FILE_TRUNCATED, CANCELLED, and those of rules 1 to 10. */
SAFETENSORS_API safetensors_status safetensors_file_open(const char* path, const safetensors_open_options* options,
                                                         safetensors_file** file, safetensors_error* error);
/* The same for a descriptor, which is duplicated: the caller keeps and closes his own. */
SAFETENSORS_API safetensors_status safetensors_file_from_fd(int descriptor, const safetensors_open_options* options,
                                                            safetensors_file** file, safetensors_error* error);
/* Over memory that holds a whole file and stays as it is until release(user), which is called as that of
 * safetensors_source; NULL: the memory outlives everything made of it. On failure release is not called. */
SAFETENSORS_API safetensors_status safetensors_file_from_memory(const void* data, size_t size,
                                                                void (*release)(void* user), void* user,
                                                                const safetensors_parse_options* options,
                                                                safetensors_file** file, safetensors_error* error);
/* Over the caller's own source; the struct is copied. On failure release is not called. Errors also: the source's. */
SAFETENSORS_API safetensors_status safetensors_file_from_source(const safetensors_source* source,
                                                                const safetensors_parse_options* options,
                                                                safetensors_file** file, safetensors_error* error);
SAFETENSORS_API void safetensors_file_free(safetensors_file* file);

SAFETENSORS_API safetensors_status safetensors_file_header(const safetensors_file* file, safetensors_header** header,
                                                           safetensors_error* error);
/* Error: NOT_FOUND, with the most similar name when there is one. */
SAFETENSORS_API safetensors_status safetensors_file_tensor(const safetensors_file* file, const char* name,
                                                           size_t name_length, safetensors_tensor** tensor,
                                                           safetensors_error* error);
/* SAFETENSORS_ACCESS_MAP or _READ: what was decided when the file was opened. */
SAFETENSORS_API safetensors_status safetensors_file_access(const safetensors_file* file, int32_t* access,
                                                           safetensors_error* error);
/* As given to safetensors_file_open, NUL-terminated; "" for the others. */
SAFETENSORS_API safetensors_status safetensors_file_path(const safetensors_file* file, const char** path,
                                                         safetensors_error* error);
/* The bytes of all tensors over one map, as U8: a tensor is [begin, end) of it. For many tensors at the cost of one.
 * Read where safetensors_tensor_view would. Errors: those of safetensors_tensor_view. */
SAFETENSORS_API safetensors_status safetensors_file_view(const safetensors_file* file, int32_t map,
                                                         safetensors_array** array, safetensors_error* error);
/* Reads up to size bytes of the file, header included, at offset; *count tells how many, 0 at the end. */
SAFETENSORS_API safetensors_status safetensors_file_read_at(const safetensors_file* file, uint64_t offset,
                                                            void* destination, size_t size, size_t* count,
                                                            safetensors_error* error);

/* --- Tensors: names in files, no bytes until asked --- */

enum {
  SAFETENSORS_MAP_SHARED = 0,       /* read-only, shared with every reader of the file */
  SAFETENSORS_MAP_COPY_ON_WRITE = 1 /* writable, private; owned memory instead if the system refuses the map */
};

SAFETENSORS_API void safetensors_tensor_free(safetensors_tensor* tensor);
SAFETENSORS_API safetensors_status safetensors_tensor_get_info(const safetensors_tensor* tensor,
                                                               safetensors_tensor_info* info, safetensors_error* error);
/* As safetensors_header_shape. */
SAFETENSORS_API safetensors_status safetensors_tensor_shape(const safetensors_tensor* tensor, uint64_t* shape,
                                                            size_t capacity, size_t* rank, safetensors_error* error);
SAFETENSORS_API safetensors_status safetensors_tensor_file(const safetensors_tensor* tensor, safetensors_file** file,
                                                           safetensors_error* error);
/* Zero copy where the file is mapped or its source gives memory, else read into memory of its own: the array's memory
 * tells. Errors: those of safetensors_tensor_read. */
SAFETENSORS_API safetensors_status safetensors_tensor_view(const safetensors_tensor* tensor, int32_t map,
                                                           safetensors_array** array, safetensors_error* error);
/* Into memory of its own, aligned to 64 bytes. slice may be NULL: the whole tensor. Errors: READ_FAILED,
 * FILE_TRUNCATED, and those of safetensors_slice_resolve. */
SAFETENSORS_API safetensors_status safetensors_tensor_read(const safetensors_tensor* tensor,
                                                           const safetensors_slice* slice, safetensors_array** array,
                                                           safetensors_error* error);
/* Into the caller's memory, whose size must be exactly the result's, else the error is BUFFER_SIZE. */
SAFETENSORS_API safetensors_status safetensors_tensor_read_into(const safetensors_tensor* tensor,
                                                                const safetensors_slice* slice, void* destination,
                                                                size_t size, safetensors_error* error);

/* --- Arrays: memory with a dtype and a shape; they outlive the file --- */

enum {
  SAFETENSORS_MEMORY_OWNED = 0,
  SAFETENSORS_MEMORY_SHARED_MAP = 1,  /* the file's pages, read-only; a file made shorter raises SIGBUS */
  SAFETENSORS_MEMORY_PRIVATE_MAP = 2, /* the file's pages, copied when written to */
  SAFETENSORS_MEMORY_BORROWED = 3     /* what the file was opened over, or a plan's destination; read-only */
};

/* Elements in C (row-major) order, little-endian, without gaps; F4 and F6 packed. */
typedef struct safetensors_array_info {
  uint64_t struct_size;
  const void* data; /* may be at an odd address: see safetensors_array_as */
  size_t nbytes;
  safetensors_dtype dtype;
  int32_t memory;
  uint32_t writable; /* 1: safetensors_array_mutable_data gives it */
  uint32_t reserved;
  size_t rank;
  uint64_t shape[SAFETENSORS_INFO_DIMS]; /* the first 8 dimensions; 0 behind the last one */
} safetensors_array_info;
#define SAFETENSORS_ARRAY_INFO_INIT                           \
  {                                                           \
    sizeof(safetensors_array_info), NULL, 0, 0, 0, 0, 0, 0, { \
      0                                                       \
    }                                                         \
  }

SAFETENSORS_API void safetensors_array_free(safetensors_array* array);
SAFETENSORS_API safetensors_status safetensors_array_get_info(const safetensors_array* array,
                                                              safetensors_array_info* info, safetensors_error* error);
/* As safetensors_header_shape. */
SAFETENSORS_API safetensors_status safetensors_array_shape(const safetensors_array* array, uint64_t* shape,
                                                           size_t capacity, size_t* rank, safetensors_error* error);
/* The elements, checked to be of this dtype and aligned for it; *count tells how many (F4 and F6: how many bytes).
 * Errors: DTYPE_MISMATCH, MISALIGNED_MEMORY. */
SAFETENSORS_API safetensors_status safetensors_array_as(const safetensors_array* array, safetensors_dtype dtype,
                                                        const void** elements, size_t* count, safetensors_error* error);
/* The memory to write to; writing needs the caller's own locking. Error: NOT_WRITABLE. */
SAFETENSORS_API safetensors_status safetensors_array_mutable_data(safetensors_array* array, void** data, size_t* nbytes,
                                                                  safetensors_error* error);
/* Of a map: brings the pages of size bytes at offset, clipped to the array, into memory now, so that touching them
 * later does not wait; a few MiB ahead of use are enough. Does nothing for other memory. Errors: READ_FAILED (also
 * where the file became shorter: the system does not tell that from a failing device), OUT_OF_MEMORY. */
SAFETENSORS_API safetensors_status safetensors_array_prefault(const safetensors_array* array, uint64_t offset,
                                                              uint64_t size, safetensors_error* error);
/* Of a shared map: the process gives up the pages that lie wholly within the array; touching them reads them again. The
 * array stays. Error: UNSUPPORTED for other memory (of a private map, what was written would be lost). */
SAFETENSORS_API safetensors_status safetensors_array_release_pages(const safetensors_array* array,
                                                                   safetensors_error* error);
/* The same memory for another library, on the CPU device; it outlives array and file. READ_ONLY is set unless the array
 * is writable. Error: UNSUPPORTED (a dimension over INT64_MAX, more than INT32_MAX dimensions). */
SAFETENSORS_API safetensors_status safetensors_array_to_dlpack(const safetensors_array* array,
                                                               safetensors_dl_managed_tensor** tensor,
                                                               safetensors_error* error);

/* --- Writing --- */

typedef struct safetensors_writer safetensors_writer;

/* What holds when a writing call returned without error. In every case programs see the old file or the new one, never
 * a mix, and after an error the old file is as it was, with nothing beside it. */
enum {
  SAFETENSORS_DURABILITY_FULL = 0, /* the new file is there, also after a power cut */
  SAFETENSORS_DURABILITY_FILE = 1, /* after a power cut the old file or the new one */
  SAFETENSORS_DURABILITY_NONE = 2  /* after a power cut the old file, the new one, an empty one, or zeros */
};

typedef struct safetensors_write_options {
  uint64_t struct_size;
  int32_t durability;
  uint32_t in_place_if_no_rename; /* not 0: where rename is missing write in place; an error leaves a torn file */
  /* May be NULL; must return normally and not use the writer. Called every few MiB with the bytes written so far and
   * the size of the file or of all files together, by the thread that writes and never by two at once. 0 ends the call,
   * and every later one of a writer, with CANCELLED; the old file is as it was. */
  int32_t (*progress)(void* user, uint64_t done, uint64_t total);
  void* user;
  /* A symlink at the path. 0: it is followed, and the file that it leads to is replaced. Not 0: the link itself becomes
   * a regular file, and what it leads to stays as it is. */
  uint32_t replace_symlinks;
  uint32_t reserved; /* 0 */
} safetensors_write_options;
#define SAFETENSORS_WRITE_OPTIONS_INIT \
  { sizeof(safetensors_write_options), SAFETENSORS_DURABILITY_FULL, 0, NULL, NULL, 0, 0 }

typedef struct safetensors_edit_options {
  uint64_t struct_size;
  uint64_t metadata_slack;           /* without in_place: spaces to leave for later edits */
  uint64_t max_header_bytes;         /* as safetensors_parse_options */
  uint32_t allow_leading_whitespace; /* likewise */
  uint32_t in_place; /* not 0: write only the header; not safe against a power cut or readers opening right then */
  int32_t durability;
  uint32_t in_place_if_no_rename;
  /* As in safetensors_write_options. The last call comes when the new file is durable and not yet in place; not called
   * with in_place. */
  int32_t (*progress)(void* user, uint64_t done, uint64_t total);
  void* user;
} safetensors_edit_options;
#define SAFETENSORS_EDIT_OPTIONS_INIT \
  { sizeof(safetensors_edit_options), 0, 0, 0, 0, SAFETENSORS_DURABILITY_FULL, 0, NULL, NULL }

/* A tensor in the caller's memory: C order, little-endian, exactly as long as dtype and shape say. */
typedef struct safetensors_tensor_data {
  const char* name;
  size_t name_length;
  const uint64_t* shape;
  size_t rank;
  const void* data;
  size_t size; /* in bytes */
  safetensors_dtype dtype;
  uint32_t reserved; /* 0 */
} safetensors_tensor_data;

typedef struct safetensors_metadata {
  const char* key;
  size_t key_length;
  const char* value; /* in safetensors_edit_metadata: NULL removes the key */
  size_t value_length;
} safetensors_metadata;

/* The header that safetensors_serialize and safetensors_write_file write. metadata NULL: no __metadata__ at all; not
 * NULL with metadata_count 0: an empty one. Errors: the builder's, and DATA_LENGTH. */
SAFETENSORS_API safetensors_status safetensors_layout(const safetensors_tensor_data* tensors, size_t tensor_count,
                                                      const safetensors_metadata* metadata, size_t metadata_count,
                                                      const safetensors_layout_options* options,
                                                      safetensors_header** header, safetensors_error* error);
/* The bytes of a file, in one allocation. Errors: those of safetensors_layout. */
SAFETENSORS_API safetensors_status safetensors_serialize(const safetensors_tensor_data* tensors, size_t tensor_count,
                                                         const safetensors_metadata* metadata, size_t metadata_count,
                                                         const safetensors_layout_options* options,
                                                         safetensors_buffer** file, safetensors_error* error);
/* Writes a file, replacing what is at path. Tensors may be views of the very file that is replaced. Errors: those of
 * safetensors_layout, OPEN_FAILED, NOT_REGULAR_FILE, WRITE_FAILED, SYNC_FAILED, REPLACE_FAILED, REPLACED_NOT_DURABLE,
 * UNSUPPORTED, CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_write_file(const char* path, const safetensors_tensor_data* tensors,
                                                          size_t tensor_count, const safetensors_metadata* metadata,
                                                          size_t metadata_count,
                                                          const safetensors_write_options* options,
                                                          const safetensors_layout_options* layout_options,
                                                          safetensors_error* error);

/* A file written in pieces, in any order. Nothing appears at path before safetensors_writer_commit. write and copy may
 * be called from any number of threads at once; commit, abort and free alone. Not to be used in a forked child.
 * Errors: those of safetensors_write_file. */
SAFETENSORS_API safetensors_status safetensors_writer_create(const char* path, const safetensors_header* header,
                                                             const safetensors_write_options* options,
                                                             safetensors_writer** writer, safetensors_error* error);
/* size bytes at offset of a tensor, each byte exactly once. After the first failure to write, every call returns it.
 * Errors: NOT_FOUND, OVERLAPPING_WRITE, BUFFER_SIZE (past the tensor's end), WRITE_FAILED, WRITER_CLOSED, CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_writer_write(safetensors_writer* writer, const char* name,
                                                            size_t name_length, uint64_t offset, const void* data,
                                                            size_t size, safetensors_error* error);
/* All of a tensor of another file, with the same dtype and shape, in bounded memory. Errors also: DTYPE_MISMATCH,
 * DATA_LENGTH, and those of reading. */
SAFETENSORS_API safetensors_status safetensors_writer_copy(safetensors_writer* writer, const char* name,
                                                           size_t name_length, const safetensors_tensor* tensor,
                                                           safetensors_error* error);
/* Puts the file in its place. After INCOMPLETE_WRITE, which names what is missing, the writer goes on. Errors also:
 * those of safetensors_write_file, WRITER_CLOSED. */
SAFETENSORS_API safetensors_status safetensors_writer_commit(safetensors_writer* writer, safetensors_error* error);
/* Removes what was written, unless it is committed; the writer is closed then. */
SAFETENSORS_API safetensors_status safetensors_writer_abort(safetensors_writer* writer, safetensors_error* error);
SAFETENSORS_API safetensors_status safetensors_writer_header(const safetensors_writer* writer,
                                                             safetensors_header** header, safetensors_error* error);
/* Aborts a writer that is not committed. */
SAFETENSORS_API void safetensors_writer_free(safetensors_writer* writer);

/* Sets the keys, and removes those whose value is NULL (one that is not there is no error). Without in_place a new file
 * replaces the old one as safetensors_write_file does. Errors: those of safetensors_file_open and
 * safetensors_write_file, HEADER_DOES_NOT_FIT, FILE_CHANGED (best effort: a change in the moment before the rename is
 * lost). */
SAFETENSORS_API safetensors_status safetensors_edit_metadata(const char* path, const safetensors_metadata* edits,
                                                             size_t edit_count, const safetensors_edit_options* options,
                                                             safetensors_error* error);

#ifdef __cplusplus
}
#endif

#include <safetensors/c_plan.h>

#endif /* SAFETENSORS_C_H */
