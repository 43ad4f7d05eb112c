/** @file
 * The part of the C interface that writes models of several files, also by several processes. It examines their
 * indexes, and hands their headers to other processes. c.h includes it. The rules of c.h apply. */

/* Before the guard: c.h includes this file where its types are declared. */
#include <safetensors/c.h>
#include <safetensors/c_plan.h>
#include <safetensors/c_write.h>

#ifndef SAFETENSORS_C_CHECKPOINT_H
#define SAFETENSORS_C_CHECKPOINT_H

#ifdef __cplusplus
extern "C" {
#endif

/* --- Layouts of models --- */

/** The files of a model: their names, their headers and the text of the index. */
typedef struct safetensors_checkpoint_layout safetensors_checkpoint_layout;

/** A tensor of a model that is to be split into files. This struct never changes. */
typedef struct safetensors_layout_tensor {
  const char* name;      /**< valid UTF-8 */
  size_t name_length;    /**< length of `name` in bytes */
  const uint64_t* shape; /**< dimensions in elements, outermost first */
  size_t rank;           /**< number of dimensions */
  /** Tensors with the same value share memory. They go into the same file, and the total size counts only the first of
   * them. 0: the tensor shares nothing, but tensors without bytes go into one file, unless `has_storage_bytes` is set.
   * This is what huggingface_hub does with torch tensors. Every tensor is nevertheless written whole. */
  uint64_t storage;
  /** The size of the tensor in the split and in the total size, in bytes. Used only if `has_storage_bytes` is not 0:
   * otherwise the size of the elements counts. huggingface_hub uses the size of the whole storage of a torch tensor. */
  uint64_t storage_bytes;
  safetensors_dtype dtype;    /**< type of the elements */
  uint32_t has_storage_bytes; /**< not 0: `storage_bytes` is set */
} safetensors_layout_tensor;

/** Options of safetensors_checkpoint_layout_create(). Initialize them with SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT.
 */
typedef struct safetensors_checkpoint_layout_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** Maximum size of the tensors in one file, in bytes. A larger tensor gets a file of its own. 0: 5,000,000,000. */
  uint64_t max_shard_size;
  /** The beginning of all file names, NUL-terminated: "model" makes "model.safetensors", or
   * "model-00001-of-00002.safetensors" and so on with "model.safetensors.index.json". It must not contain a separator,
   * and the names must be allowed in an index. NULL: "model". */
  const char* stem;
  /** `__metadata__` of every file. If there are no pairs, the files have no `__metadata__`. */
  const safetensors_metadata* metadata;
  size_t metadata_count; /**< number of metadata pairs */
  /** `metadata` of the index, as the text of a JSON object. `total_size` is replaced, all other members stay. Empty:
   * only `total_size`. safetensors_checkpoint_index_metadata() returns such a text. */
  const char* index_metadata;
  size_t index_metadata_length; /**< length of `index_metadata` in bytes */
  uint64_t metadata_slack;      /**< as in safetensors_layout_options, for every file */
  uint32_t data_alignment;      /**< as in safetensors_layout_options, for every file */
  uint32_t reserved;            /**< 0 */
} safetensors_checkpoint_layout_options;
/** Initializer of safetensors_checkpoint_layout_options. */
#define SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT \
  { sizeof(safetensors_checkpoint_layout_options), 0, NULL, NULL, 0, NULL, 0, 0, 0, 0 }

/** Splits tensors into files, in the order given, exactly as `split_torch_state_dict_into_shards` of huggingface_hub
 * does:
 *
 * - A tensor goes into the current file. If that file would then have more than `max_shard_size` bytes of tensors, the
 *   tensor begins the next file. Headers do not count.
 * - A tensor of more than `max_shard_size` bytes gets a file of its own. The current file stays current, so the number
 *   of the new file is lower than that of the current file.
 * - A tensor that shares its storage with an earlier tensor goes into the file of that tensor. Its size does not count.
 * - If there is one file, it is called `stem.safetensors`, and there is no index. If there are no tensors, there is one
 *   file without tensors.
 *
 * The layout depends only on the arguments. So several processes that make it from the same arguments have the same
 * layout. Copies all arguments.
 * Errors: those of the header builder; DUPLICATE_NAME (also across files); SIZE_OVERFLOW (the total size is larger than
 * 2^64-1); INVALID_ARGUMENT (a stem that is not allowed, or `index_metadata` is not an object). */
SAFETENSORS_API safetensors_status safetensors_checkpoint_layout_create(
    const safetensors_layout_tensor* tensors, size_t tensor_count, const safetensors_checkpoint_layout_options* options,
    safetensors_checkpoint_layout** layout, safetensors_error* error);
/** Frees a layout. */
SAFETENSORS_API void safetensors_checkpoint_layout_free(safetensors_checkpoint_layout* layout);
/** Writes the number of files, and the sum of the sizes of all tensors in bytes. Tensors that share a storage count
 * once. Both pointers may be NULL. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_layout_size(const safetensors_checkpoint_layout* layout,
                                                                      uint64_t* file_count, uint64_t* total_size,
                                                                      safetensors_error* error);
/** Writes the name of the file at an index, NUL-terminated, and returns its header. `header` may be NULL. The files are
 * in the order of their numbers.
 * Error: NOT_FOUND when `index` is not below the number of files. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_layout_file_at(const safetensors_checkpoint_layout* layout,
                                                                         uint64_t index, const char** name,
                                                                         safetensors_header** header,
                                                                         safetensors_error* error);
/** Writes the index of the file of a tensor to `*file`. Error: NOT_FOUND. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_layout_find(const safetensors_checkpoint_layout* layout,
                                                                      const char* name, size_t name_length,
                                                                      uint64_t* file, safetensors_error* error);
/** Writes the name of the index, NUL-terminated, and its text. If there is one file, there is no index: the text is
 * empty. `name` may be NULL.
 *
 * The text equals the text that huggingface_hub writes, byte for byte. Its format is in docs/checkpoints.md. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_layout_index(const safetensors_checkpoint_layout* layout,
                                                                       const char** name, const char** text,
                                                                       size_t* length, safetensors_error* error);

/* --- Writing models --- */

/** Writes the files of a model in several calls, and then their index.
 *
 * If there is nothing at the path of the folder, the files are written in a temporary folder next to it.
 * safetensors_checkpoint_writer_commit() renames it, so the whole model appears at once. A crash leaves at most the
 * temporary folder, which the next save to this path removes.
 *
 * In a folder that exists, the rename of the index is the commit: readers that follow the index see the old model
 * before it and the new model after it, also after a crash at any moment. New files never replace files of the old
 * model. If the folder has shards or an index of the stem, all new files get the names of the next generation, such as
 * `model-gen00002-00001-of-00008.safetensors`. Then the old files are removed. A model of one file has no index: one
 * rename replaces the old file. (If an index in the folder names the old file, the new model gets an index, too.) A
 * lock on the folder lets one writer at a time commit. A network file system has no such lock, and neither has a folder
 * that the caller may not list. Let only one process at a time save there.
 *
 * No file of an old model changes before the commit. Up to three descriptors per file are open at the same time. */
typedef struct safetensors_checkpoint_writer safetensors_checkpoint_writer;

/** Options of safetensors_checkpoint_writer_create() and safetensors_save_checkpoint(). Initialize them with
 * SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT. */
typedef struct safetensors_checkpoint_write_options {
  uint64_t struct_size; /**< size of this struct in bytes */
  /** Options of each file, or NULL for all defaults. Copied. `progress` counts the bytes of all files, without the
   * index. */
  const safetensors_write_options* write;
  /** Not 0: refuse a folder that exists. */
  uint32_t new_folder;
  /** After the new files are in place, the files of an older model with the same stem are removed: those that its index
   * names, and `stem.safetensors` and `stem-NNNNN-of-NNNNN.safetensors` in all generations. In a folder that the caller
   * may write but not read, numbered files stay that the index does not name, because they cannot be looked for.
   * Not 0: they stay. Other files always stay, and so do files that another index names. */
  uint32_t keep_old_files;
  /** Not 0: other processes write, too. See safetensors_checkpoint_writer_join(). `in_place_if_no_rename` of `write` is
   * then UNSUPPORTED. */
  uint32_t shared;
  uint32_t reserved; /**< 0 */
} safetensors_checkpoint_write_options;
/** Initializer of safetensors_checkpoint_write_options. */
#define SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT \
  { sizeof(safetensors_checkpoint_write_options), NULL, 0, 0, 0, 0 }

/** Saves tensors as a model of several files: makes the layout, in the order given, and writes the files and the index.
 *
 * The folder is written as by a safetensors_checkpoint_writer. Its parent must exist. Tensors may be views of the files
 * that are replaced.
 * Errors: those of safetensors_checkpoint_layout_create(), safetensors_checkpoint_writer_create() and
 * safetensors_checkpoint_writer_commit(); DATA_LENGTH. */
SAFETENSORS_API safetensors_status
safetensors_save_checkpoint(const char* folder, const safetensors_tensor_data* tensors, size_t tensor_count,
                            const safetensors_checkpoint_layout_options* layout_options,
                            const safetensors_checkpoint_write_options* options, safetensors_error* error);
/** Does the same with a layout that was made before. `tensors` must be exactly the tensors of the layout, in any order.
 * Errors: those of safetensors_save_checkpoint(); NOT_FOUND (a tensor is not in the layout), DTYPE_MISMATCH and
 * SHAPE_MISMATCH (the layout has another dtype or shape), DUPLICATE_NAME, INCOMPLETE_WRITE (a tensor of the layout is
 * missing). */
SAFETENSORS_API safetensors_status
safetensors_save_checkpoint_with_layout(const char* folder, const safetensors_tensor_data* tensors, size_t tensor_count,
                                        const safetensors_checkpoint_layout* layout,
                                        const safetensors_checkpoint_write_options* options, safetensors_error* error);

/** Starts to write a model into a folder. The parent of the folder must exist.
 *
 * Any number of threads may call safetensors_checkpoint_writer_write(), its siblings `_write_rows`, `_write_slice` and
 * `_copy`, and safetensors_checkpoint_writer_accept() at the same time. No other call may run at the same time as
 * safetensors_checkpoint_writer_commit(), safetensors_checkpoint_writer_receipt(),
 * safetensors_checkpoint_writer_abort() or safetensors_checkpoint_writer_free(). In a forked child, you may only free
 * the writer. This removes nothing.
 * Errors: those of safetensors_writer_create(); REPLACE_FAILED with EEXIST (the folder exists, and `new_folder` is
 * set). */
SAFETENSORS_API safetensors_status
safetensors_checkpoint_writer_create(const char* folder, const safetensors_checkpoint_layout* layout,
                                     const safetensors_checkpoint_write_options* options,
                                     safetensors_checkpoint_writer** writer, safetensors_error* error);
/** Writes `size` bytes of a tensor, as safetensors_writer_write() does. Errors: those of that function. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_write(safetensors_checkpoint_writer* writer,
                                                                       const char* name, size_t name_length,
                                                                       uint64_t offset, const void* data, size_t size,
                                                                       safetensors_error* error);
/** Writes whole rows of a tensor, as safetensors_writer_write_rows() does. Errors: those of that function. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_write_rows(safetensors_checkpoint_writer* writer,
                                                                            const char* name, size_t name_length,
                                                                            uint64_t first_row, const void* data,
                                                                            size_t size, safetensors_error* error);
/** Writes a slice of a tensor, as safetensors_writer_write_slice() does. Errors: those of that function. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_write_slice(safetensors_checkpoint_writer* writer,
                                                                             const char* name, size_t name_length,
                                                                             const safetensors_slice* slice,
                                                                             const void* data, size_t size,
                                                                             safetensors_error* error);
/** Writes a whole tensor with the contents of a tensor of another file, as safetensors_writer_copy() does. Errors:
 * those of that function. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_copy(safetensors_checkpoint_writer* writer,
                                                                      const char* name, size_t name_length,
                                                                      const safetensors_tensor* tensor,
                                                                      safetensors_error* error);
/** Completes all files, puts them in place, then writes the index, then removes old files.
 *
 * If the new model is one file, an old index with the same stem is removed, because it would hide the new file. Old
 * files that cannot be removed are not an error: `safetensors verify` names them. After the error
 * REPLACED_NOT_DURABLE, the new model is in place, and old files stay. The error INCOMPLETE_WRITE names the first
 * missing range. The writer stays usable after it.
 * Errors: those of safetensors_writer_commit(); INVALID_ARGUMENT (the writer has joined); REPLACE_FAILED (also if the
 * old index cannot be removed, if something has appeared at the path of a new folder, or with EWOULDBLOCK if another
 * writer has held the lock of the folder for ten minutes). If the index cannot be put in place, the new files are
 * removed again. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_commit(safetensors_checkpoint_writer* writer,
                                                                        safetensors_error* error);
/** Closes the writer. Removes the bytes written, unless they are committed. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_abort(safetensors_checkpoint_writer* writer,
                                                                       safetensors_error* error);
/** Returns the layout of the model. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_layout(const safetensors_checkpoint_writer* writer,
                                                                        safetensors_checkpoint_layout** layout,
                                                                        safetensors_error* error);
/** Frees a writer. Removes the bytes written, unless they are committed. */
SAFETENSORS_API void safetensors_checkpoint_writer_free(safetensors_checkpoint_writer* writer);

/* --- Writing models by several processes --- */

/** Returns the ticket of a shared writer, the creator: a text that safetensors_checkpoint_writer_join() takes in other
 * processes.
 *
 * Several processes can write one model together, each its own bytes. The creator sets `shared`, and gives its ticket
 * to the others. They join, write, and return receipts. The creator accepts the receipts and commits. It may write a
 * part, too. The caller carries tickets and receipts by any means. docs/c.md has a complete example.
 *
 * Only the creator puts files in place and removes files. If any process fails or is killed before the commit, the old
 * model stays. The ticket names the temporary files, so it is valid until the commit or the end of the creator. It has
 * about 45 bytes per file. It is not NUL-terminated.
 *
 * On one machine, any two processes may write neighbouring bytes. On several machines, the path of the folder must lead
 * to the same folder on each. A network file system may write whole pages there: let no two machines write bytes of the
 * same 4096 bytes of a file, unless the file system keeps the caches of all machines coherent.
 * Errors: INVALID_ARGUMENT (the writer is not shared or has joined, or the path of the folder is not UTF-8),
 * OPEN_FAILED (the working directory is unknown), WRITER_CLOSED. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_ticket(const safetensors_checkpoint_writer* writer,
                                                                        safetensors_buffer** ticket,
                                                                        safetensors_error* error);
/** Joins the work of another process. `layout` must be made from the same arguments as the layout of the creator.
 * `ticket_length` is in bytes.
 *
 * The first write into a file opens its temporary file and compares its header with the layout. So a process with
 * another layout writes nothing. It needs permission to read and write the files of the creator: use the same user. The
 * joined writer never creates, renames or removes a file. safetensors_checkpoint_writer_free() leaves everything in
 * place. A forked child may join, if it does not use the writer of its parent.
 *
 * The call uses only `progress` of `options->write`. It counts the bytes that this writer writes. Its total is the size
 * of all files, so it never reaches the total. The ticket decides the durability.
 *
 * In a joined writer, the functions that write have more errors: OPEN_FAILED (the creator has committed, failed or
 * ended), NOT_REGULAR_FILE, READ_FAILED, FILE_CHANGED, and INVALID_ARGUMENT (the layout differs from that of the
 * creator).
 * Errors: INVALID_ARGUMENT (the text is not a ticket, or the layout has another number of files), and those of
 * safetensors_header_text(). */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_join(
    const char* ticket, size_t ticket_length, const safetensors_checkpoint_layout* layout,
    const safetensors_checkpoint_write_options* options, safetensors_checkpoint_writer** writer,
    safetensors_error* error);
/** Completes the part of a joined writer, and closes it. Syncs its files, according to the durability of the creator.
 * Returns the receipt: a text that safetensors_checkpoint_writer_accept() takes in the creator. It is not
 * NUL-terminated.
 *
 * The receipt lists the ranges written. Ranges of equal size at equal distances are one entry.
 * Errors: the first failure to write; SYNC_FAILED, WRITE_FAILED; WRITER_CLOSED; INVALID_ARGUMENT (the writer has not
 * joined, or it wrote more than 2^24 ranges that do not touch). */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_receipt(safetensors_checkpoint_writer* writer,
                                                                         safetensors_buffer** receipt,
                                                                         safetensors_error* error);
/** Adds the bytes that a joined writer wrote to those that this writer wrote. A receipt is accepted whole or not at
 * all. `receipt_length` is in bytes.
 *
 * Call it for the receipts of all processes before safetensors_checkpoint_writer_commit(), which then finds bytes that
 * nobody wrote. A process whose receipt is not accepted must not write any more. Needs about 64 bytes of memory for
 * each range that touches no other range.
 *
 * After the error OVERLAPPING_WRITE, two processes wrote the same byte. Nobody knows whose bytes the file has, so all
 * later calls return this error. After every other error, the writer stays usable.
 * Errors: INVALID_ARGUMENT (the writer is not shared or has joined, the text is not a receipt of this session, or the
 * receipt was already accepted), OVERLAPPING_WRITE, CANCELLED, WRITER_CLOSED. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_writer_accept(safetensors_checkpoint_writer* writer,
                                                                        const char* receipt, size_t receipt_length,
                                                                        safetensors_error* error);

/* --- Indexes --- */

/** Writes the object `metadata` of the index, as JSON in one line, such as `{"total_size":512}`.
 *
 * The text is empty if there is no index, or if its `metadata` is not an object. With several paths, it is that of the
 * first index. The text is valid until the checkpoint is freed. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_index_metadata(const safetensors_checkpoint* checkpoint,
                                                                         const char** text, size_t* length,
                                                                         safetensors_error* error);
/** Writes `total_size` of the metadata of the index: the number of bytes of all tensors, as the writer of the index
 * counted them. Nothing checks the number.
 * Error: NOT_FOUND if there is none, or if it is not an integer from 0 to 2^64-1. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_index_total_size(const safetensors_checkpoint* checkpoint,
                                                                           uint64_t* total_size,
                                                                           safetensors_error* error);

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_CHECKPOINT_H */
