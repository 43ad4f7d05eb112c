/** @file
 * The short way to list, read and save tensors in C: NUL-terminated names, and one call per task. c.h includes it. The
 * rules of c.h apply. All names, keys and values that these functions take are NUL-terminated UTF-8. The names that
 * they return in a safetensors_tensor_info do not end with NUL: they have `name_length` bytes.
 *
 * The functions for a file and those for a checkpoint do the same. A name that contains a NUL byte needs the functions
 * with a length, such as safetensors_file_tensor().
 *
 * **Threads.** As in c.h: any number of threads may use the same const handle at the same time. */
#ifndef SAFETENSORS_C_SIMPLE_H
#define SAFETENSORS_C_SIMPLE_H

#include <safetensors/c.h>
#include <safetensors/c_plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Listing --- */

/** Returns the number of tensors of a file, or 0 if `file` is NULL. */
SAFETENSORS_API uint64_t safetensors_file_count(const safetensors_file* file);
/** Writes the tensor at an index to `*info`. The order is that of the bytes in the file. The name is valid until the
 * file is freed.
 * Error: NOT_FOUND when `index` is not below the number of tensors. */
SAFETENSORS_API safetensors_status safetensors_file_info_at(const safetensors_file* file, uint64_t index,
                                                            safetensors_tensor_info* info, safetensors_error* error);
/** Writes the tensor with this name to `*info`. The name in it is valid until the file is freed.
 * Error: NOT_FOUND. The message has the most similar name, if there is one. */
SAFETENSORS_API safetensors_status safetensors_file_info(const safetensors_file* file, const char* name,
                                                         safetensors_tensor_info* info, safetensors_error* error);
/** Returns the number of tensors of a checkpoint, or 0 if `checkpoint` is NULL. */
SAFETENSORS_API uint64_t safetensors_checkpoint_count(const safetensors_checkpoint* checkpoint);
/** Writes the tensor at an index to `*info`. The order is file after file. The name is valid until the checkpoint is
 * freed.
 * Error: NOT_FOUND when `index` is not below the number of tensors. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_info_at(const safetensors_checkpoint* checkpoint,
                                                                  uint64_t index, safetensors_tensor_info* info,
                                                                  safetensors_error* error);
/** Writes the tensor with this name to `*info`. The name in it is valid until the checkpoint is freed.
 * Error: NOT_FOUND. The message has the most similar name, if there is one. */
SAFETENSORS_API safetensors_status safetensors_checkpoint_info(const safetensors_checkpoint* checkpoint,
                                                               const char* name, safetensors_tensor_info* info,
                                                               safetensors_error* error);
/** Writes the name, the dtype and the shape of a tensor to `text`, such as "embed.weight F32 [30522, 384]". Escapes the
 * name as safetensors_printable() does. `capacity` and `*length` work as in safetensors_error_format(). */
SAFETENSORS_API safetensors_status safetensors_tensor_info_format(const safetensors_tensor_info* info, char* text,
                                                                  size_t capacity, size_t* length,
                                                                  safetensors_error* error);
/** Copies the value of a metadata key to `value` and ends it with a NUL byte.
 *
 * `*length` becomes the length of the value in bytes, without the NUL, also if the error is BUFFER_SIZE. `length` may
 * be NULL. With a capacity of 0, the call only sets `*length`. The value comes from the file: show it with
 * safetensors_printable().
 * Errors: NOT_FOUND, BUFFER_SIZE if `capacity`, in bytes, is above 0 but too small. */
SAFETENSORS_API safetensors_status safetensors_file_metadata(const safetensors_file* file, const char* key, char* value,
                                                             size_t capacity, size_t* length, safetensors_error* error);

/* --- Reading --- */

/** Value of `rank` that accepts a tensor of any shape. `shape` is then not used. */
#define SAFETENSORS_ANY_RANK SIZE_MAX

/** Returns the elements of a tensor that must have this dtype and this shape, without a copy if possible.
 *
 * `shape` has `rank` dimensions, outermost first. Get the elements with safetensors_array_data(). Free the array when
 * you no longer need them. The memory is that of safetensors_tensor_view() with SAFETENSORS_MAP_SHARED. If that
 * memory is not aligned for the dtype, the elements are copied to new memory.
 *
 * Errors: NOT_FOUND; DTYPE_MISMATCH and SHAPE_MISMATCH, whose message has the dtypes and the shapes expected and found;
 * UNSUPPORTED (the machine is big-endian, and an element has several bytes); those of safetensors_tensor_read(). */
SAFETENSORS_API safetensors_status safetensors_file_get(const safetensors_file* file, const char* name,
                                                        safetensors_dtype dtype, const uint64_t* shape, size_t rank,
                                                        safetensors_array** array, safetensors_error* error);
/** Does the same for a tensor of a checkpoint. Errors: those of safetensors_file_get(). */
SAFETENSORS_API safetensors_status safetensors_checkpoint_get(const safetensors_checkpoint* checkpoint,
                                                              const char* name, safetensors_dtype dtype,
                                                              const uint64_t* shape, size_t rank,
                                                              safetensors_array** array, safetensors_error* error);
/** Returns the elements of an array, or NULL if `array` is NULL or has no bytes.
 *
 * The memory is valid until the array is freed. For an array of safetensors_file_get() or safetensors_checkpoint_get(),
 * the dtype is checked and the memory is aligned. For other arrays, use safetensors_array_as(), which checks both. */
SAFETENSORS_API const void* safetensors_array_data(const safetensors_array* array);

/** Reads a tensor that must have this dtype and this shape into memory of the caller.
 *
 * `shape` has `rank` dimensions, outermost first. `size`, in bytes, must be exactly the size of the tensor. The bytes
 * are little-endian, on every machine.
 * Errors: NOT_FOUND, DTYPE_MISMATCH and SHAPE_MISMATCH as in safetensors_file_get(), and those of
 * safetensors_tensor_read_into(). */
SAFETENSORS_API safetensors_status safetensors_file_read(const safetensors_file* file, const char* name,
                                                         safetensors_dtype dtype, const uint64_t* shape, size_t rank,
                                                         void* destination, size_t size, safetensors_error* error);
/** Does the same for a tensor of a checkpoint. Errors: those of safetensors_file_read(). */
SAFETENSORS_API safetensors_status safetensors_checkpoint_read(const safetensors_checkpoint* checkpoint,
                                                               const char* name, safetensors_dtype dtype,
                                                               const uint64_t* shape, size_t rank, void* destination,
                                                               size_t size, safetensors_error* error);

/* --- Saving --- */

/** A tensor for safetensors_save(): its name, and its elements in memory of the caller. This struct never changes.
 *
 * Example: `{"weight", SAFETENSORS_DTYPE_F32, 2, {2, 3}, weight, sizeof weight}`. */
typedef struct safetensors_named_tensor {
  const char* name;                      /**< valid UTF-8, NUL-terminated */
  safetensors_dtype dtype;               /**< type of the elements */
  size_t rank;                           /**< number of dimensions, at most 8; 0: a scalar */
  uint64_t shape[SAFETENSORS_INFO_DIMS]; /**< dimensions in elements, outermost first, then 0 */
  const void* data;                      /**< elements in C order, little-endian */
  size_t size;                           /**< size of `data` in bytes; must match dtype and shape exactly */
} safetensors_named_tensor;

/** Saves tensors in a file and replaces an existing file at the path, as safetensors_write_file() does with its default
 * options.
 *
 * `metadata` is a list that ends with NULL: `{"key", "value", "other key", "other value", NULL}`. If it is NULL or has
 * no keys, the file has no `__metadata__`. Tensors may be views of the file that is replaced. Their memory must stay
 * valid during the call.
 *
 * Errors: INVALID_ARGUMENT (more than 8 dimensions, a dimension after the last that is not 0, or a key without a
 * value), and those of safetensors_write_file(). */
SAFETENSORS_API safetensors_status safetensors_save(const char* path, const safetensors_named_tensor* tensors,
                                                    size_t tensor_count, const char* const* metadata,
                                                    safetensors_error* error);

#ifdef __cplusplus
}
#endif

#endif /* SAFETENSORS_C_SIMPLE_H */
