/** @file
 * The part of the C interface that writes files. c.h includes it. The rules of c.h apply. */

/* Before the guard: c.h includes this file where its types are declared. */
#include <safetensors/c.h>

#ifndef SAFETENSORS_C_WRITE_H
#define SAFETENSORS_C_WRITE_H

#ifdef __cplusplus
extern "C" {
#endif

/* --- Writing --- */

/** Writes a file in several calls. */
typedef struct safetensors_writer safetensors_writer;

/** The guarantee of a writing call when it returns without error.
 *
 * At every level, other programs see the old file or the new file, never a mixture. After an error, the old file is
 * unchanged and no other file remains next to it. */
enum {
  /** The new file survives a power cut. */
  SAFETENSORS_DURABILITY_FULL = 0,
  /** After a power cut, the path has the old file or the new file. */
  SAFETENSORS_DURABILITY_FILE = 1,
  /** After a power cut, the path has the old file, the new file, an empty file, or zeros. */
  SAFETENSORS_DURABILITY_NONE = 2
};

/** Options of the functions that write files. Initialize them with SAFETENSORS_WRITE_OPTIONS_INIT. */
typedef struct safetensors_write_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  int32_t durability;   /**< one of SAFETENSORS_DURABILITY_... */
  /** Not 0: on a file system that cannot rename, write in place instead of returning UNSUPPORTED: the library writes
   * the whole new file beside the old one, and then copies it over the old one. This takes twice the space and time. An
   * error or a crash while it copies leaves an incomplete file. */
  uint32_t in_place_if_no_rename;
  /** Called every few MiB with the number of bytes written (`completed`) and the total size of the file, or of all
   * files together. Without an error, the last call has the total twice, also if no tensor has a byte. May be NULL.
   *
   * Runs in the thread that made the writing call, and never in two threads at once. Return 0 to cancel: this call, and
   * all later calls of a writer, return CANCELLED. The old file is then unchanged. It must return normally and must not
   * use the writer. */
  int32_t (*progress)(void* user, uint64_t completed, uint64_t total);
  void* user; /**< passed to `progress` */
  /** The treatment of a symlink at the path. 0: the link is followed, and the file that it leads to is replaced. Not 0:
   * the link becomes a regular file, and the file that it led to does not change. */
  uint32_t replace_symlinks;
  uint32_t reserved; /**< 0 */
} safetensors_write_options;
/** Initializer of safetensors_write_options. */
#define SAFETENSORS_WRITE_OPTIONS_INIT \
  { sizeof(safetensors_write_options), SAFETENSORS_DURABILITY_FULL, 0, NULL, NULL, 0, 0 }

/** Options of safetensors_edit_metadata(). Initialize them with SAFETENSORS_EDIT_OPTIONS_INIT. */
typedef struct safetensors_edit_options {
  uint64_t struct_size;              /**< size of this struct in bytes */
  uint64_t metadata_slack;           /**< without in_place: number of spaces to leave in the header for later edits */
  uint64_t max_header_bytes;         /**< as in safetensors_parse_options */
  uint32_t allow_leading_whitespace; /**< as in safetensors_parse_options */
  /** Not 0: overwrite only the header of the file. This is not atomic. A power cut during the write, or a reader that
   * opens the file during the write, gets a broken header. */
  uint32_t in_place;
  int32_t durability;             /**< one of SAFETENSORS_DURABILITY_... */
  uint32_t in_place_if_no_rename; /**< as in safetensors_write_options */
  /** As in safetensors_write_options. The last call comes when the new file is durable but not yet in place. With
   * `in_place`, it is not called. */
  int32_t (*progress)(void* user, uint64_t completed, uint64_t total);
  void* user; /**< passed to `progress` */
} safetensors_edit_options;
/** Initializer of safetensors_edit_options. */
#define SAFETENSORS_EDIT_OPTIONS_INIT \
  { sizeof(safetensors_edit_options), 0, 0, 0, 0, SAFETENSORS_DURABILITY_FULL, 0, NULL, NULL }

/** A tensor in memory of the caller. The memory must stay valid during the call. */
typedef struct safetensors_tensor_data {
  const char* name;        /**< valid UTF-8 */
  size_t name_length;      /**< length of `name` in bytes */
  const uint64_t* shape;   /**< dimensions in elements, outermost first */
  size_t rank;             /**< number of dimensions */
  const void* data;        /**< elements in C order, little-endian */
  size_t size;             /**< size of `data` in bytes; must match dtype and shape exactly */
  safetensors_dtype dtype; /**< type of the elements */
  uint32_t reserved;       /**< 0 */
} safetensors_tensor_data;

/** Returns the header that safetensors_serialize() and safetensors_write_file() write for these tensors.
 *
 * If `metadata` is NULL, there is no `__metadata__`. If it is not NULL and `metadata_count` is 0, `__metadata__` is
 * empty.
 * Errors: those of the header builder, and DATA_LENGTH. */
SAFETENSORS_API safetensors_status safetensors_layout(const safetensors_tensor_data* tensors, size_t tensor_count,
                                                      const safetensors_metadata* metadata, size_t metadata_count,
                                                      const safetensors_layout_options* options,
                                                      safetensors_header** header, safetensors_error* error);
/** Returns the bytes of a file, in one allocation. Errors: those of safetensors_layout(). */
SAFETENSORS_API safetensors_status safetensors_serialize(const safetensors_tensor_data* tensors, size_t tensor_count,
                                                         const safetensors_metadata* metadata, size_t metadata_count,
                                                         const safetensors_layout_options* options,
                                                         safetensors_buffer** file, safetensors_error* error);
/** Writes a file and replaces an existing file at the path. Tensors may be views of the file that is replaced.
 * Errors: those of safetensors_layout(), OPEN_FAILED, NOT_REGULAR_FILE, WRITE_FAILED, SYNC_FAILED, REPLACE_FAILED,
 * REPLACED_NOT_DURABLE, UNSUPPORTED, CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_write_file(const char* path, const safetensors_tensor_data* tensors,
                                                          size_t tensor_count, const safetensors_metadata* metadata,
                                                          size_t metadata_count,
                                                          const safetensors_write_options* options,
                                                          const safetensors_layout_options* layout_options,
                                                          safetensors_error* error);

/** Starts to write a file with this header in several calls, in any order.
 *
 * Nothing appears at the path before safetensors_writer_commit(). Any number of threads may call
 * safetensors_writer_write() and its siblings `_write_rows`, `_write_slice` and `_copy` at the same time. No other
 * call may run at the same time as safetensors_writer_commit(), safetensors_writer_abort() or
 * safetensors_writer_free(). Do not use the writer in a forked child.
 * Errors: those of safetensors_write_file(). */
SAFETENSORS_API safetensors_status safetensors_writer_create(const char* path, const safetensors_header* header,
                                                             const safetensors_write_options* options,
                                                             safetensors_writer** writer, safetensors_error* error);
/** Writes `size` bytes of a tensor. `offset` is in bytes from the start of the tensor. Write each byte exactly once.
 *
 * After the first failure to write, all calls return that failure.
 * Errors: NOT_FOUND, OVERLAPPING_WRITE, BUFFER_SIZE (after the end of the tensor), WRITE_FAILED, WRITER_CLOSED,
 * CANCELLED. */
SAFETENSORS_API safetensors_status safetensors_writer_write(safetensors_writer* writer, const char* name,
                                                            size_t name_length, uint64_t offset, const void* data,
                                                            size_t size, safetensors_error* error);
/** Writes whole rows of a tensor. Row i is the elements whose first index is i. `first_row` is the index of the first
 * row. `size` is in bytes: a whole number of rows, in C order. Write each row exactly once.
 *
 * Errors: those of safetensors_writer_write() (BUFFER_SIZE: more rows than there are after `first_row`);
 * SLICE_RANK (a scalar has no rows), SLICE_BITS (the rows of this dtype and shape do not end with a byte), SLICE_INDEX
 * (`first_row` is larger than the number of rows), DATA_LENGTH (not a whole number of rows). */
SAFETENSORS_API safetensors_status safetensors_writer_write_rows(safetensors_writer* writer, const char* name,
                                                                 size_t name_length, uint64_t first_row,
                                                                 const void* data, size_t size,
                                                                 safetensors_error* error);
/** Writes a slice of a tensor, for instance a block of columns. `size` is in bytes: the elements of the slice, in C
 * order. Write each byte exactly once.
 *
 * Each run of the slice is one write. So a slice of whole rows is one write, and a slice of columns has one write per
 * row. Slices with any step are allowed.
 * Errors: those of safetensors_writer_write() and of safetensors_slice_resolve(); DATA_LENGTH (not the size of the
 * slice). */
SAFETENSORS_API safetensors_status safetensors_writer_write_slice(safetensors_writer* writer, const char* name,
                                                                  size_t name_length, const safetensors_slice* slice,
                                                                  const void* data, size_t size,
                                                                  safetensors_error* error);
/** Writes a whole tensor with the contents of a tensor of another file. Both must have the same dtype and shape. The
 * memory is bounded.
 * Errors: those of safetensors_writer_write(), DTYPE_MISMATCH, DATA_LENGTH, and those of reading. */
SAFETENSORS_API safetensors_status safetensors_writer_copy(safetensors_writer* writer, const char* name,
                                                           size_t name_length, const safetensors_tensor* tensor,
                                                           safetensors_error* error);
/** Completes the file and puts it in place. The error INCOMPLETE_WRITE names the first missing range. The writer stays
 * usable after it.
 * Errors: INCOMPLETE_WRITE, WRITER_CLOSED, and those of safetensors_write_file(). */
SAFETENSORS_API safetensors_status safetensors_writer_commit(safetensors_writer* writer, safetensors_error* error);
/** Closes the writer. Removes the bytes written, unless they are committed. */
SAFETENSORS_API safetensors_status safetensors_writer_abort(safetensors_writer* writer, safetensors_error* error);
/** Returns the header of the file. */
SAFETENSORS_API safetensors_status safetensors_writer_header(const safetensors_writer* writer,
                                                             safetensors_header** header, safetensors_error* error);
/** Frees a writer. Removes the bytes written, unless they are committed. */
SAFETENSORS_API void safetensors_writer_free(safetensors_writer* writer);

/** Sets metadata keys of a file, and removes the keys whose value is NULL. A missing key is not an error.
 *
 * Without `in_place`, a new file replaces the old one as in safetensors_write_file(). If the old file was changed in
 * the meantime, the error is FILE_CHANGED. This is best effort: a change just before the replacement is lost. Errors:
 * those of safetensors_file_open() and safetensors_write_file(), HEADER_DOES_NOT_FIT, FILE_CHANGED. */
SAFETENSORS_API safetensors_status safetensors_edit_metadata(const char* path, const safetensors_metadata* edits,
                                                             size_t edit_count, const safetensors_edit_options* options,
                                                             safetensors_error* error);

/* --- Writing several files --- */

/** One of the files that safetensors_write_files() writes. */
typedef struct safetensors_file_contents {
  const char* path;                       /**< path of the file, NUL-terminated */
  const safetensors_tensor_data* tensors; /**< tensors of the file */
  size_t tensor_count;                    /**< number of tensors */
  const safetensors_metadata* metadata;   /**< metadata, or NULL for no `__metadata__` */
  size_t metadata_count;                  /**< number of metadata pairs */
} safetensors_file_contents;

/** Writes several files, such as the shards of a checkpoint, with at most four threads.
 *
 * All files are written and synced before the first new file replaces an old one. An error or a crash before that
 * leaves all old files unchanged. Each file is replaced atomically, but the set is not. The message of an error during
 * the replacement says how many files were already replaced. Up to three descriptors per file are open at the same
 * time.
 * Errors: those of safetensors_write_file(), with the path of the file; INVALID_ARGUMENT if two paths lead to the same
 * file. */
SAFETENSORS_API safetensors_status safetensors_write_files(const safetensors_file_contents* files, size_t file_count,
                                                           const safetensors_write_options* options,
                                                           const safetensors_layout_options* layout_options,
                                                           safetensors_error* error);

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_WRITE_H */
