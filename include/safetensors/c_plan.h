/** @file
 * The part of the C interface that reads several files and many tensors at once, and computes which process reads which
 * part of a tensor. c.h includes it. The rules of c.h apply. */

/* Before the guard: c.h includes this file where its types are declared. */
#include <safetensors/c.h>

#ifndef SAFETENSORS_C_PLAN_H
#define SAFETENSORS_C_PLAN_H

#ifdef __cplusplus
extern "C" {
#endif

/* --- Checkpoints --- */

/** The tensors of several files, such as the shards of a model. */
typedef struct safetensors_checkpoint safetensors_checkpoint;

/** Options of safetensors_checkpoint_open(). Initialize them with SAFETENSORS_CHECKPOINT_OPTIONS_INIT. */
typedef struct safetensors_checkpoint_options {
  uint64_t struct_size;              /**< size of this struct in bytes */
  uint64_t max_header_bytes;         /**< as in safetensors_parse_options */
  uint32_t allow_leading_whitespace; /**< as in safetensors_parse_options */
  int32_t access;                    /**< one of SAFETENSORS_ACCESS_... */
  uint32_t threads;                  /**< number of threads that read headers; 0: as many as are useful, at most 16 */
  uint32_t accept;                   /**< as in safetensors_parse_options */
  int32_t (*cancelled)(void* user);  /**< as in safetensors_parse_options */
  void* user;                        /**< passed to `cancelled` */
} safetensors_checkpoint_options;
/** Initializer of safetensors_checkpoint_options. */
#define SAFETENSORS_CHECKPOINT_OPTIONS_INIT \
  { sizeof(safetensors_checkpoint_options), 0, 0, SAFETENSORS_ACCESS_AUTOMATIC, 0, 0, NULL, NULL }

/** Opens all files that a path stands for. It reads and checks all headers, but no bytes of tensors.
 *
 * `path` is one of these:
 * - a safetensors file;
 * - an index, whose name ends in `.json`; it decides which tensors exist;
 * - a folder with one model: an index, a file `*.safetensors`, or all shards of one. A variant does not count beside
 *   the plain model. `model.safetensors` counts before an index that does not name it;
 * - a folder `models--ORG--NAME` of the cache of huggingface_hub: the snapshot that `refs/main` names, or the only one;
 * - a pattern of files, if nothing has that name: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a character that stands
 *   for itself.
 *
 * The files stay open if they are at most half of the descriptors that the process may have. Otherwise the library
 * opens each file again when it reads it. If it is another file by then, that call returns FILE_CHANGED.
 *
 * Errors: those of safetensors_file_open(), and
 * - INVALID_INDEX: the index is invalid, or a tensor is not in its file;
 * - AMBIGUOUS_CHECKPOINT: a folder with several candidates;
 * - NOT_FOUND: a folder without a candidate, or a pattern without a match;
 * - DUPLICATE_NAME: a tensor that is in two files. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_open(const char* path,
                                                               const safetensors_checkpoint_options* options,
                                                               safetensors_checkpoint** checkpoint,
                                                               safetensors_error* error);
/** Opens all files that `count` paths stand for, in the order of the paths.
 * Errors: those of safetensors_checkpoint_open(), and INVALID_ARGUMENT if there are no paths. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_open_paths(const char* const* paths, size_t count,
                                                                     const safetensors_checkpoint_options* options,
                                                                     safetensors_checkpoint** checkpoint,
                                                                     safetensors_error* error);
/** Frees a checkpoint. Its tensors and files stay valid. */
SAFETENSORS_API void safetensors_checkpoint_free(safetensors_checkpoint* checkpoint);
/** Writes the number of tensors and the number of files. Both pointers may be NULL. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_size(const safetensors_checkpoint* checkpoint,
                                                               uint64_t* tensor_count, uint64_t* file_count,
                                                               safetensors_error* error);
/** Returns the tensor at an index. The order is file after file, sorted by offset within a file. Error: NOT_FOUND when
 * `index` is not below the number of tensors. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_tensor_at(const safetensors_checkpoint* checkpoint,
                                                                    uint64_t index, safetensors_tensor** tensor,
                                                                    safetensors_error* error);
/** Returns the tensor with this name. Error: NOT_FOUND; the message has the most similar name, if there is one. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_tensor(const safetensors_checkpoint* checkpoint,
                                                                 const char* name, size_t name_length,
                                                                 safetensors_tensor** tensor, safetensors_error* error);
/** Writes 1 to `*contained` when there is a tensor with this name, otherwise 0. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_contains(const safetensors_checkpoint* checkpoint,
                                                                   const char* name, size_t name_length,
                                                                   int32_t* contained, safetensors_error* error);
/** Returns the file at an index. The order is that of the paths. The files of one path are sorted by the bytes of their
 * names. A file shows all its tensors, also those that an index does not name.
 * Error: NOT_FOUND when `index` is not below the number of files. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_file_at(const safetensors_checkpoint* checkpoint,
                                                                  uint64_t index, safetensors_file** file,
                                                                  safetensors_error* error);

/* --- Read plans --- */

/** A list of tensors and slices to read, and of their destinations. */
typedef struct safetensors_read_plan safetensors_read_plan;
/** The results of safetensors_read_plan_execute(). */
typedef struct safetensors_read_result safetensors_read_result;
/** The report on the work of a plan. */
typedef struct safetensors_read_report safetensors_read_report;
/** Reads a plan in the background and returns its items in the order in which they become complete. */
typedef struct safetensors_stream safetensors_stream;

/** Destination and dtype of an item. Initialize it with SAFETENSORS_ADD_OPTIONS_INIT. */
typedef struct safetensors_add_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** Memory of the caller. It must stay valid until the read is over. NULL: the result gets new memory. */
  void* destination;
  /** Size of `destination` in bytes. It must be exactly the size of the result. With `strides`, the memory must reach
   * at least to the end of the last element. Two destinations of a plan must not overlap. This is checked when the plan
   * runs, but not for `strides`. */
  size_t destination_size;
  /** Distance between neighbouring elements in bytes, one value per dimension of the result. They are copied. Two
   * elements must not share a byte. */
  const uint64_t* strides;
  size_t stride_count; /**< number of strides; 0: C order */
  /** Dtype of the result. 0: the dtype of the tensor.
   *
   * Casts are possible between F64, F32, F16, BF16 and the F8 dtypes. F8_E8M0 can be cast from, but not cast to. Values
   * are rounded once, to the nearest, ties to even. Casts are also possible between integers of 8 to 64 bits. A value
   * that the new dtype does not have is the error VALUE_OUT_OF_RANGE. There are no casts between floats and
   * integers. */
  safetensors_dtype cast;
  uint32_t on_device; /**< not 0: read to memory of a CUDA device instead of `destination`, without strides */
  /** Address of the memory on the device. The copy is complete when safetensors_read_plan_execute() returns, or when
   * safetensors_stream_next() returns the item. */
  uint64_t device_address;
  uint64_t device_size; /**< size of that memory in bytes; must be exactly the size of the result */
  int32_t device;       /**< ordinal of the device */
  uint32_t reserved;    /**< 0 */
} safetensors_add_options;
/** Initializer of safetensors_add_options. */
#define SAFETENSORS_ADD_OPTIONS_INIT \
  { sizeof(safetensors_add_options), NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0 }

/** Modes in which reads use the page cache of the system. */
enum {
  /** Read cached data from the cache, and all other data directly from the device. The cache stays as it is. */
  SAFETENSORS_CACHE_KEEP = 0,
  /** Read all data through the cache, and keep it there. */
  SAFETENSORS_CACHE_FILL = 1,
  /** Read all data through the cache, and remove it from the cache afterwards. */
  SAFETENSORS_CACHE_DROP = 2,
  /** Read from the device if a read has at least 64 KiB and the file system supports it. Smaller reads go through the
   * cache, and their data is removed from the cache afterwards. */
  SAFETENSORS_CACHE_BYPASS = 3,
  /** Works as FILL if the files and the results together fit well into the available memory of the machine and of the
   * control group. Otherwise works as KEEP. Files whose data is in the cache already do not count. All other files
   * count with their whole size. The decision is made once, when the plan begins. */
  SAFETENSORS_CACHE_AUTOMATIC = 4
};

/** Options of safetensors_read_plan_execute() and safetensors_read_plan_stream(). Initialize them with
 * SAFETENSORS_READ_OPTIONS_INIT. 0 and NULL mean that the library chooses. */
typedef struct safetensors_read_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** Limit of the memory of the host, in bytes. It covers:
   * - the bytes that are being read or converted;
   * - pinned memory for destinations on devices: up to half of the limit, but at least 2 MiB per device;
   * - for a stream, the results that wait for safetensors_stream_next(), except those on devices. A stream reads an
   *   item alone if the item is larger than what the limit leaves for results.
   *
   * The limit does not cover the results of safetensors_read_plan_execute() and those that safetensors_stream_next()
   * has returned. It does not cover up to 4 MiB per thread for gathering short pieces of slices and for unaligned
   * direct I/O.
   *
   * 0: for safetensors_read_plan_execute(), 2 MiB per thread (16 MiB on network file systems), and 32 MiB of pinned
   * memory per device. For a stream, 256 MiB. */
  uint64_t memory_limit;
  /** Number of reader threads. 0: one per usable processor (at most 16). More if reads wait: 16 for a network, 8 for a
   * device, and two per processor (at most 8) if they fill the page cache. */
  uint32_t threads;
  int32_t cache; /**< one of SAFETENSORS_CACHE_... */
  /** Passed to `progress`. */
  void* user;
  /** Called with the number of bytes completed and the total, from time to time and once at the end. Runs in
   * the thread that calls safetensors_read_plan_execute() or safetensors_stream_next(). Return 0 to cancel
   * (CANCELLED). It may be NULL, and must return normally. A stream calls it until it is freed. */
  int32_t (*progress)(void* user, uint64_t completed, uint64_t total);
  /** A CUDA stream (CUstream) for destinations on a device. Copies begin after the work that this stream received
   * before the call. All destinations on devices must then be on one device, the one of this stream. Otherwise the
   * error is INVALID_ARGUMENT. NULL: the default stream of each device. */
  void* device_stream;
} safetensors_read_options;
/** Initializer of safetensors_read_options. */
#define SAFETENSORS_READ_OPTIONS_INIT \
  { sizeof(safetensors_read_options), 0, 0, SAFETENSORS_CACHE_AUTOMATIC, NULL, NULL, NULL }

/** Makes an empty plan. */
SAFETENSORS_API safetensors_status safetensors_read_plan_create(safetensors_read_plan** plan, safetensors_error* error);
/** Frees a plan. Its results and streams stay valid. */
SAFETENSORS_API void safetensors_read_plan_free(safetensors_read_plan* plan);
/** Adds a slice of a tensor as the next item. The index of the first item is 0.
 *
 * If `slice` is NULL, the item is the whole tensor. You may free the slice and the tensor afterwards. On failure, the
 * plan does not change.
 * Errors: BUFFER_SIZE (the size of the destination is wrong), INVALID_ARGUMENT (strides or device), DTYPE_MISMATCH
 * (this cast is not possible), and those of safetensors_slice_resolve(). */
SAFETENSORS_API safetensors_status safetensors_read_plan_add(safetensors_read_plan* plan,
                                                             const safetensors_tensor* tensor,
                                                             const safetensors_slice* slice,
                                                             const safetensors_add_options* options,
                                                             safetensors_error* error);
/** Writes the number of items, and the size of all results in bytes. Both pointers may be NULL. */
SAFETENSORS_API safetensors_status safetensors_read_plan_size(const safetensors_read_plan* plan, uint64_t* count,
                                                              uint64_t* nbytes, safetensors_error* error);
/** Reads all items and waits for them. You may call it several times.
 *
 * Short pieces of slices may be copied from a map that raises no SIGBUS, unless the access of the file is
 * SAFETENSORS_ACCESS_READ. The first error stops all threads before the call returns. The contents of the destinations
 * are then undefined.
 *
 * Errors:
 * - CANCELLED, and the errors of a source of the caller;
 * - READ_FAILED, FILE_TRUNCATED: the error names the tensor, the path and the offset;
 * - VALUE_OUT_OF_RANGE: an integer does not fit into the dtype of its cast. The error names the tensor, the position
 * and the value of the element, the path and the offset;
 * - FILE_CHANGED, OPEN_FAILED: for a file that a checkpoint opens again; the error names the tensor and the path;
 * - OVERLAPPING_DESTINATION: two destinations overlap; the error names both tensors, and nothing was read;
 * - UNSUPPORTED (no driver), INVALID_ARGUMENT (no such device), DEVICE_FAILED: for destinations on devices. */
SAFETENSORS_API safetensors_status safetensors_read_plan_execute(const safetensors_read_plan* plan,
                                                                 const safetensors_read_options* options,
                                                                 safetensors_read_result** result,
                                                                 safetensors_error* error);

/** Frees a result. Its arrays stay valid. */
SAFETENSORS_API void safetensors_read_result_free(safetensors_read_result* result);
/** Writes the number of items. */
SAFETENSORS_API safetensors_status safetensors_read_result_count(const safetensors_read_result* result, uint64_t* count,
                                                                 safetensors_error* error);
/** Returns the array of the item at an index.
 *
 * New memory is aligned to 64 bytes. It is released when the result and all arrays that use it are freed. For an item
 * with a destination, the array is a view of the memory of the caller (SAFETENSORS_MEMORY_BORROWED). For a destination
 * with strides or on a device, the array has no bytes.
 * Error: NOT_FOUND when `index` is not below the number of items. */
SAFETENSORS_API safetensors_status safetensors_read_result_array(const safetensors_read_result* result, uint64_t index,
                                                                 safetensors_array** array, safetensors_error* error);
/** Returns the report of the read. */
SAFETENSORS_API safetensors_status safetensors_read_result_report(const safetensors_read_result* result,
                                                                  safetensors_read_report** report,
                                                                  safetensors_error* error);

/* --- Streams --- */

/** Starts to read the items in the background. You may change or free the plan in the meantime.
 *
 * The threads of the stream wait while `memory_limit` is full of results that wait for safetensors_stream_next(). In a
 * forked child, you may only free the stream.
 * Errors: OVERLAPPING_DESTINATION, and those of safetensors_read_plan_execute() for devices. */
SAFETENSORS_API safetensors_status safetensors_read_plan_stream(const safetensors_read_plan* plan,
                                                                const safetensors_read_options* options,
                                                                safetensors_stream** stream, safetensors_error* error);
/** Frees a stream. Stops the threads and waits for them. This takes as long as the reads that have already started. A
 * forked child does not have these threads; there, the resources of the stream are not released. */
SAFETENSORS_API void safetensors_stream_free(safetensors_stream* stream);
/** Waits for the next complete item and writes its index to `*index`. Returns its array as
 * safetensors_read_result_array() does; the stream keeps no copy. `*array` is NULL after the last item. An error stops
 * all reading. The items that were complete before come first. Then every call returns the same error.
 * Errors: those of safetensors_read_plan_execute(). */
SAFETENSORS_API safetensors_status safetensors_stream_next(safetensors_stream* stream, uint64_t* index,
                                                           safetensors_array** array, safetensors_error* error);
/** Waits until safetensors_stream_next() can return without waiting: with an item, with an error, or after the last
 * item. Writes 1 to `*ready` then, and 0 if that takes longer than `milliseconds`. Takes no item and does not call
 * `progress`. Call it from any thread, as safetensors_stream_cancel(). */
SAFETENSORS_API safetensors_status safetensors_stream_wait(const safetensors_stream* stream, uint64_t milliseconds,
                                                           int32_t* ready, safetensors_error* error);
/** Stops reading. A waiting safetensors_stream_next() and all later calls of it return CANCELLED. Call it from any
 * thread, also while another thread is in safetensors_stream_next(). */
SAFETENSORS_API safetensors_status safetensors_stream_cancel(safetensors_stream* stream, safetensors_error* error);
/** Returns a report on the bytes read until now. Call it from any thread, as safetensors_stream_cancel(). */
SAFETENSORS_API safetensors_status safetensors_stream_report(const safetensors_stream* stream,
                                                             safetensors_read_report** report,
                                                             safetensors_error* error);

/* --- Reports --- */

/** The report on the work of a plan. It helps to find out why a load is slow. Initialize it with
 * SAFETENSORS_READ_REPORT_INFO_INIT.
 *
 * `bytes_buffered` and `bytes_direct` are the bytes that the system or the source returned. They include gaps that are
 * read with the pieces of a slice or with small tensors, the rest of blocks, and the bytes of a read that failed later.
 * Their sum may be larger than `bytes`. They include neither the read-ahead of the system nor probes of the page cache.
 * A map needs no reads: `bytes_mapped` counts only the bytes that were copied, without the gaps between them.
 */
typedef struct safetensors_read_report_info {
  uint64_t struct_size;    /**< size of this struct in bytes */
  uint64_t bytes;          /**< bytes of the results */
  uint64_t bytes_buffered; /**< bytes read through the page cache, or from a source of the caller */
  uint64_t bytes_direct;   /**< bytes read directly from the device, in whole blocks */
  uint64_t bytes_mapped;   /**< bytes copied from memory that a source provided, or from a map */
  uint64_t bytes_device;   /**< bytes copied to devices */
  uint64_t pinned_bytes;   /**< size of the pinned memory for these copies, in bytes */
  uint64_t reads;          /**< number of calls that read */
  uint64_t page_faults;    /**< of the reader threads; about bytes / 2 MiB when huge pages are in use */
  uint64_t fallback_count; /**< number of features that were requested but are unavailable */
  double seconds;          /**< wall time */
  double cpu_seconds;      /**< processor time of the reader threads, in seconds */
  uint32_t threads;        /**< number of reader threads */
  int32_t cache;           /**< the mode that was used: one of SAFETENSORS_CACHE_..., never AUTOMATIC */
} safetensors_read_report_info;
/** Initializer of safetensors_read_report_info. */
#define SAFETENSORS_READ_REPORT_INFO_INIT \
  { sizeof(safetensors_read_report_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0 }

/** Frees a report. */
SAFETENSORS_API void safetensors_read_report_free(safetensors_read_report* report);
/** Writes the figures of a report to `*info`. */
SAFETENSORS_API safetensors_status safetensors_read_report_get_info(const safetensors_read_report* report,
                                                                    safetensors_read_report_info* info,
                                                                    safetensors_error* error);
/** Returns one feature that was requested but is unavailable (huge pages, direct reads), as a sentence that names the
 * file.
 * Error: NOT_FOUND when `index` is not below `fallback_count`. */
SAFETENSORS_API safetensors_status safetensors_read_report_fallback(const safetensors_read_report* report,
                                                                    uint64_t index, const char** text, size_t* length,
                                                                    safetensors_error* error);

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_PLAN_H */
