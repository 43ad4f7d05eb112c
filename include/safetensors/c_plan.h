/* Many files and many tensors at once in the C interface; c.h includes it and says what holds for all. */
#ifndef SAFETENSORS_C_PLAN_H
#define SAFETENSORS_C_PLAN_H

#include <safetensors/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Checkpoints: many files opened as one set of tensors --- */

typedef struct safetensors_checkpoint safetensors_checkpoint;

typedef struct safetensors_checkpoint_options {
  uint64_t struct_size;
  uint64_t max_header_bytes;         /* as safetensors_parse_options */
  uint32_t allow_leading_whitespace; /* likewise */
  int32_t access;                    /* as safetensors_open_options */
  uint32_t threads;                  /* that read headers; 0: as many as are of use, at most 16 */
  uint32_t reserved;                 /* 0 */
  int32_t (*cancelled)(void* user);  /* as safetensors_parse_options */
  void* user;
} safetensors_checkpoint_options;
#define SAFETENSORS_CHECKPOINT_OPTIONS_INIT \
  { sizeof(safetensors_checkpoint_options), 0, 0, SAFETENSORS_ACCESS_AUTOMATIC, 0, 0, NULL, NULL }

/* Reads and checks all headers, no tensor's byte. path: a safetensors file; an index (*.json), which decides which
 * tensors there are; a folder: its model.safetensors.index.json, else its only *.safetensors.index.json, else its only
 * *.safetensors; or, where nothing has that name, a pattern of files (*, ?, [a-z], [!a-z], \ before a character that
 * means itself). At most half of the descriptors that the process may have stay open; a file that is opened again and
 * is another one by then is FILE_CHANGED. Errors: those of safetensors_file_open, INVALID_INDEX, AMBIGUOUS_CHECKPOINT
 * (a folder with several to choose from), NOT_FOUND (a folder with none, a pattern without a match), DUPLICATE_NAME (a
 * tensor in two files). */
SAFETENSORS_API safetensors_status safetensors_checkpoint_open(const char* path,
                                                               const safetensors_checkpoint_options* options,
                                                               safetensors_checkpoint** checkpoint,
                                                               safetensors_error* error);
/* All that count paths stand for, each as above, in their order. Errors: the same; INVALID_ARGUMENT for no paths. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_open_paths(const char* const* paths, size_t count,
                                                                     const safetensors_checkpoint_options* options,
                                                                     safetensors_checkpoint** checkpoint,
                                                                     safetensors_error* error);
/* Tensors and files that it gave out stay. */
SAFETENSORS_API void safetensors_checkpoint_free(safetensors_checkpoint* checkpoint);
/* How many there are. Either may be NULL. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_size(const safetensors_checkpoint* checkpoint,
                                                               uint64_t* tensor_count, uint64_t* file_count,
                                                               safetensors_error* error);
/* File after file, in a file by offset. Error: NOT_FOUND when index is not below the tensor count. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_tensor_at(const safetensors_checkpoint* checkpoint,
                                                                    uint64_t index, safetensors_tensor** tensor,
                                                                    safetensors_error* error);
/* Error: NOT_FOUND, with the most similar name when there is one. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_tensor(const safetensors_checkpoint* checkpoint,
                                                                 const char* name, size_t name_length,
                                                                 safetensors_tensor** tensor, safetensors_error* error);
/* *contained: 1 when there is a tensor of that name, else 0. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_contains(const safetensors_checkpoint* checkpoint,
                                                                   const char* name, size_t name_length,
                                                                   int32_t* contained, safetensors_error* error);
/* In the order of paths, the files of one path by the bytes of their names. The file shows all its tensors, also those
 * that an index does not name. Error: NOT_FOUND when index is not below the file count. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_file_at(const safetensors_checkpoint* checkpoint,
                                                                  uint64_t index, safetensors_file** file,
                                                                  safetensors_error* error);

/* --- Arenas: memory that results are read into, kept between loads --- */

/* An allocator of huge pages: a page of 2 MiB is free when the last array on it is freed, and nothing live is ever
 * given out again. Plans that use one arena may run at once, with calls of safetensors_arena_trim and _size as well. */
typedef struct safetensors_arena safetensors_arena;

/* An arena that has no memory for its own state keeps nothing: results come from the system. */
SAFETENSORS_API safetensors_status safetensors_arena_create(safetensors_arena** arena, safetensors_error* error);
/* Free pages go to the system at once, the others when their last array does. */
SAFETENSORS_API void safetensors_arena_free(safetensors_arena* arena);
/* In bytes: what is held of the system's, and how much of it is in pages that an array is on; the first is never more
 * than the second was at its highest, unless the system refuses to take some back. Either may be NULL. */
SAFETENSORS_API safetensors_status safetensors_arena_size(const safetensors_arena* arena, uint64_t* reserved,
                                                          uint64_t* live, safetensors_error* error);
/* Gives the free pages to the system; they stay reserved. *trimmed (may be NULL): how many bytes they are. */
SAFETENSORS_API safetensors_status safetensors_arena_trim(safetensors_arena* arena, uint64_t* trimmed,
                                                          safetensors_error* error);

/* --- Read plans: many tensors and slices, of one file or many, read by several threads within a budget --- */

typedef struct safetensors_read_plan safetensors_read_plan;
typedef struct safetensors_read_result safetensors_read_result;
typedef struct safetensors_read_report safetensors_read_report;
typedef struct safetensors_stream safetensors_stream;

/* Where a result goes, and as what. */
typedef struct safetensors_add_options {
  uint64_t struct_size;
  void* destination; /* the caller's memory, needed until the reading is over. NULL: memory of the library's */
  /* Exactly that of the result; with strides at least as far as its last element reaches. */
  size_t destination_size;
  /* In bytes, one for each dimension of the result, copied; stride_count 0: C order. No two elements share a byte. */
  const uint64_t* strides;
  size_t stride_count;
  /* The dtype of the result, or 0: as in the file. Between F64, F32, F16, BF16 and the F8s (from F8_E8M0 only), rounded
   * once to the nearest, ties to even. */
  safetensors_dtype cast;
  uint32_t on_device; /* not 0: to memory of a CUDA device instead of destination, without strides */
  /* That memory: device_size bytes, exactly those of the result. All is there when safetensors_read_plan_execute
   * returns or safetensors_stream_next gives the item out. */
  uint64_t device_address;
  uint64_t device_size;
  int32_t device;    /* its ordinal */
  uint32_t reserved; /* 0 */
} safetensors_add_options;
#define SAFETENSORS_ADD_OPTIONS_INIT \
  { sizeof(safetensors_add_options), NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0 }

/* Which part the page cache plays. */
enum {
  SAFETENSORS_CACHE_KEEP = 0,  /* what is cached comes from the cache, the rest past it: the cache stays as it is */
  SAFETENSORS_CACHE_FILL = 1,  /* everything comes through the cache and stays there */
  SAFETENSORS_CACHE_DROP = 2,  /* everything comes through the cache and leaves it when it was read */
  SAFETENSORS_CACHE_BYPASS = 3 /* reads of 64 KiB and more come from the device, if the file system lets them */
};

typedef struct safetensors_read_options {
  uint64_t struct_size;
  uint64_t chunk_bytes; /* bytes read at once; 0: 2 MiB, and 16 MiB from network file systems */
  /* The most bytes read or converted at one time and, of a stream, waiting to be taken; a larger item of a stream goes
   * alone. 0: as many as threads x chunk_bytes are; a stream's: 256 MiB. Besides, up to 2 MiB a thread. At most half of
   * it, but at least 2 MiB a device, is page-locked memory on the way to devices; 0: 128 MiB a device, of a stream for
   * all.
   */
  uint64_t memory_budget;
  uint32_t threads; /* that read; 0: one a processor (16 at most), 8 to 16 where reads wait for a device or a network */
  int32_t cache;
  safetensors_arena* arena; /* where owned memory comes from; NULL: from the system */
  /* The callbacks may be NULL, must return normally, and are given user. A stream calls them until it is freed. */
  void* user;
  /* Called by the thread that calls safetensors_read_plan_execute or safetensors_stream_next, now and then and at the
   * end, with the bytes of results that are there and that there will be. 0 ends the work with CANCELLED. */
  int32_t (*progress)(void* user, uint64_t done, uint64_t total);
  /* Called for every byte of every result once, in pieces, while they are still in a processor's cache: the item's
   * number in the order of adding, where the piece begins in the result, and the piece, in C order whatever the
   * destination's strides. Called by several threads at once. */
  void (*on_chunk)(void* user, uint64_t item, uint64_t offset, const void* bytes, size_t size);
  /* Of destinations on a device. Copies begin after what this CUstream was given before the call, of the one
   * device that the plan has destinations on, else INVALID_ARGUMENT; NULL: the default stream of each. cuda_driver: the
   * driver's library; NULL: libcuda.so.1. */
  void* device_stream;
  const char* cuda_driver;
} safetensors_read_options;
#define SAFETENSORS_READ_OPTIONS_INIT \
  { sizeof(safetensors_read_options), 0, 0, 0, SAFETENSORS_CACHE_KEEP, NULL, NULL, NULL, NULL, NULL, NULL }

SAFETENSORS_API safetensors_status safetensors_read_plan_create(safetensors_read_plan** plan, safetensors_error* error);
SAFETENSORS_API void safetensors_read_plan_free(safetensors_read_plan* plan);
/* Items are numbered from 0. slice may be NULL: the whole tensor. Slice and tensor may be freed afterwards. On failure
 * the plan is as it was. Errors: BUFFER_SIZE (of the destination), INVALID_ARGUMENT (strides, devices), DTYPE_MISMATCH
 * (cast), and those of safetensors_slice_resolve. */
SAFETENSORS_API safetensors_status safetensors_read_plan_add(safetensors_read_plan* plan,
                                                             const safetensors_tensor* tensor,
                                                             const safetensors_slice* slice,
                                                             const safetensors_add_options* options,
                                                             safetensors_error* error);
/* How many items there are, and the bytes of all results. Either may be NULL. */
SAFETENSORS_API safetensors_status safetensors_read_plan_size(const safetensors_read_plan* plan, uint64_t* count,
                                                              uint64_t* nbytes, safetensors_error* error);
/* Reads everything that was added; may be called again. Never maps. The first error stops all threads before it is
 * returned; what was in the destinations is then lost. Errors: READ_FAILED, FILE_TRUNCATED (tensor, path and offset are
 * named), CANCELLED, and what a source of the caller's returned; of a file that a checkpoint has to open again
 * FILE_CHANGED, OPEN_FAILED (tensor and path are named); of devices UNSUPPORTED (no driver), INVALID_ARGUMENT (no such
 * device), DEVICE_FAILED. */
SAFETENSORS_API safetensors_status safetensors_read_plan_execute(const safetensors_read_plan* plan,
                                                                 const safetensors_read_options* options,
                                                                 safetensors_read_result** result,
                                                                 safetensors_error* error);

/* Arrays that were given out stay. */
SAFETENSORS_API void safetensors_read_result_free(safetensors_read_result* result);
SAFETENSORS_API safetensors_status safetensors_read_result_count(const safetensors_read_result* result, uint64_t* count,
                                                                 safetensors_error* error);
/* The result of item index, at a multiple of 64 bytes; its memory goes when the result and all arrays on it are freed.
 * Of a destination: an array over it (SAFETENSORS_MEMORY_BORROWED); of one with strides or on a device: an array
 * without bytes.
 * Error: NOT_FOUND when index is not below the count. */
SAFETENSORS_API safetensors_status safetensors_read_result_array(const safetensors_read_result* result, uint64_t index,
                                                                 safetensors_array** array, safetensors_error* error);
SAFETENSORS_API safetensors_status safetensors_read_result_report(const safetensors_read_result* result,
                                                                  safetensors_read_report** report,
                                                                  safetensors_error* error);

/* --- Streams: the items of a plan in the order in which they become complete --- */

/* Begins to read in the background; plan may be changed or freed meanwhile. The stream's threads wait while
 * memory_budget bytes are read, being read, or not yet taken. Not to be used in a forked child. Errors, of devices:
 * those of safetensors_read_plan_execute. */
SAFETENSORS_API safetensors_status safetensors_read_plan_stream(const safetensors_read_plan* plan,
                                                                const safetensors_read_options* options,
                                                                safetensors_stream** stream, safetensors_error* error);
/* Stops the threads and waits for them, for as long as the reads under way take. In a forked child, which does not have
 * them, what it holds is left alone. */
SAFETENSORS_API void safetensors_stream_free(safetensors_stream* stream);
/* Waits for the next complete item: its number, and its array as safetensors_read_result_array gives it, the caller's
 * alone. *array is NULL after the last. After an error every call returns it. Errors: those of
 * safetensors_read_plan_execute. */
SAFETENSORS_API safetensors_status safetensors_stream_next(safetensors_stream* stream, uint64_t* item,
                                                           safetensors_array** array, safetensors_error* error);
/* Stops reading: a safetensors_stream_next that waits and every later one return CANCELLED. On any thread, also while
 * another one is in safetensors_stream_next. */
SAFETENSORS_API safetensors_status safetensors_stream_cancel(safetensors_stream* stream, safetensors_error* error);
/* Of what has been read until now; as safetensors_stream_cancel on any thread. */
SAFETENSORS_API safetensors_status safetensors_stream_report(const safetensors_stream* stream,
                                                             safetensors_read_report** report,
                                                             safetensors_error* error);

/* --- Reports: what a plan did --- */

typedef struct safetensors_read_report_info {
  uint64_t struct_size;
  uint64_t bytes;          /* of the results */
  uint64_t bytes_buffered; /* read through the page cache, or from a source of the caller's */
  uint64_t bytes_direct;   /* read past the page cache, in whole blocks */
  uint64_t bytes_mapped;   /* copied from memory that a source gave */
  uint64_t bytes_device;   /* copied to devices */
  uint64_t pinned_bytes;   /* of page-locked memory that they went through */
  uint64_t reads;          /* calls that read */
  uint64_t page_faults;    /* of the threads that read */
  uint64_t fallback_count; /* what was wished for and could not be had */
  double seconds;
  double cpu_seconds; /* of the threads that read */
  uint32_t threads;
  uint32_t reserved;
} safetensors_read_report_info;
#define SAFETENSORS_READ_REPORT_INFO_INIT \
  { sizeof(safetensors_read_report_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0 }

SAFETENSORS_API void safetensors_read_report_free(safetensors_read_report* report);
SAFETENSORS_API safetensors_status safetensors_read_report_get_info(const safetensors_read_report* report,
                                                                    safetensors_read_report_info* info,
                                                                    safetensors_error* error);
/* A sentence that names the file: huge pages, reads past the cache. Error: NOT_FOUND when index is too large. */
SAFETENSORS_API safetensors_status safetensors_read_report_fallback(const safetensors_read_report* report,
                                                                    uint64_t index, const char** text, size_t* length,
                                                                    safetensors_error* error);

/* --- Writing several files, the shards of a checkpoint --- */

/* One of them, as safetensors_write_file takes it. */
typedef struct safetensors_file_contents {
  const char* path;
  const safetensors_tensor_data* tensors;
  size_t tensor_count;
  const safetensors_metadata* metadata;
  size_t metadata_count;
} safetensors_file_contents;

/* By at most four threads. All are written and synced before the first takes its place: an error or a crash until then
 * leaves every old file. Each file is replaced atomically, the set is not: an error while they take their places says
 * how many did. Up to three descriptors for each file are open at once. Errors: those of safetensors_write_file, with
 * the path of the file; INVALID_ARGUMENT if two paths lead to one file. */
SAFETENSORS_API safetensors_status safetensors_write_files(const safetensors_file_contents* files, size_t file_count,
                                                           const safetensors_write_options* options,
                                                           const safetensors_layout_options* layout_options,
                                                           safetensors_error* error);

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_PLAN_H */
