/* The promises of c.h on arguments: each required pointer that is NULL is INVALID_ARGUMENT, results are NULL or 0 after
 * it, and every growing struct is refused if its size is wrong. */
#define _DEFAULT_SOURCE

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

#include "c/files.h"

/* Results of calls. Before a call they are 0xA5. After a failure, those that the call got are 0. */
static struct {
  safetensors_model* model;
  safetensors_array* array;
  safetensors_plan* plan;
  safetensors_stream* stream;
  safetensors_writer* writer;
  safetensors_dl_managed_tensor* managed;
  safetensors_dl_unversioned_tensor* older;
  uint64_t number;
  size_t count;
  safetensors_metadata pair;
} out;

static int filled(const void* memory, size_t size, int byte) {
  for (size_t i = 0; i < size; ++i)
    if (((const unsigned char*)memory)[i] != byte) return 0;
  return 1;
}

static void begin(void) {
  memset(&out, 0xA5, sizeof out);
}

static void refused(safetensors_status status, const char* argument, const char* call, int line) {
#define RESULT(name) \
  check(filled(&out.name, sizeof out.name, strstr(call, "&out." #name) ? 0 : 0xA5), call, __FILE__, line)
  check(status == SAFETENSORS_ERROR_INVALID_ARGUMENT && error.code == status, call, __FILE__, line);
  check(strstr(error.message, argument) != NULL, call, __FILE__, line);
  RESULT(model), RESULT(array), RESULT(plan), RESULT(stream), RESULT(writer), RESULT(managed), RESULT(older);
  RESULT(number), RESULT(count), RESULT(pair);
}
/* The call is refused, and its message names the argument. */
#define REFUSED(argument, call) begin(), refused(call, argument, #call, __LINE__)

static safetensors_model* model;
static safetensors_array* array;
static safetensors_plan* plan;
static safetensors_stream* stream;
static safetensors_writer* writer;

static safetensors_status whole_size(void* user, uint64_t* size, safetensors_error* failure) {
  (void)user, (void)failure;
  *size = 10;
  return SAFETENSORS_OK;
}
static safetensors_status whole_bytes(void* user, uint64_t offset, void* to, size_t capacity, size_t* count,
                                      safetensors_error* failure) {
  (void)user, (void)failure;
  *count = capacity < 10 - offset ? capacity : (size_t)(10 - offset);
  memcpy(to, &"\2\0\0\0\0\0\0\0{}"[offset], *count);
  return SAFETENSORS_OK;
}

static void null_of_models(void) {
  const char* const paths[] = {path, NULL};
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  safetensors_file file = SAFETENSORS_FILE_INIT;
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  const int descriptor = open(path, O_RDONLY);
  REFUSED("path", safetensors_model_open(NULL, NULL, &out.model, &error));
  REFUSED("model", safetensors_model_open(path, NULL, NULL, &error));
  REFUSED("paths", safetensors_model_open_paths(NULL, 1, NULL, &out.model, &error));
  REFUSED("path 1", safetensors_model_open_paths(paths, 2, NULL, &out.model, &error));
  REFUSED("model", safetensors_model_open_paths(paths, 1, NULL, NULL, &error));
  REFUSED("model", safetensors_model_from_fd(descriptor, NULL, NULL, &error));
  close(descriptor);
  REFUSED("data", safetensors_model_from_memory(NULL, 9, NULL, NULL, NULL, &out.model, &error));
  REFUSED("model", safetensors_model_from_memory("", 1, NULL, NULL, NULL, NULL, &error));
  REFUSED("source", safetensors_model_from_source(NULL, NULL, &out.model, &error));
  source.read_at = whole_bytes;
  REFUSED("size", safetensors_model_from_source(&source, NULL, &out.model, &error));
  source.size = whole_size;
  REFUSED("model", safetensors_model_from_source(&source, NULL, NULL, &error));
  source.read_at = NULL;
  REFUSED("read_at", safetensors_model_from_source(&source, NULL, &out.model, &error));
  REFUSED("model", safetensors_model_get_info(NULL, &info, &error));
  REFUSED("info", safetensors_model_get_info(model, NULL, &error));
  REFUSED("model", safetensors_model_get_file(NULL, 0, &file, &error));
  REFUSED("file", safetensors_model_get_file(model, 0, NULL, &error));
  REFUSED("model", safetensors_model_get_metadata(NULL, 0, 0, &out.pair, &error));
  REFUSED("pair", safetensors_model_get_metadata(model, 0, 0, NULL, &error));
  REFUSED("model", safetensors_model_find_metadata(NULL, 0, "a", NUL, &out.pair, &error));
  REFUSED("key", safetensors_model_find_metadata(model, 0, NULL, NUL, &out.pair, &error));
  REFUSED("pair", safetensors_model_find_metadata(model, 0, "a", NUL, NULL, &error));
  REFUSED("model", safetensors_model_get_tensor(NULL, 0, &tensor, &error));
  REFUSED("tensor", safetensors_model_get_tensor(model, 0, NULL, &error));
  REFUSED("model", safetensors_model_find_tensor(NULL, "byte", NUL, &tensor, &error));
  REFUSED("name", safetensors_model_find_tensor(model, NULL, 1, &tensor, &error));
  REFUSED("tensor", safetensors_model_find_tensor(model, "byte", NUL, NULL, &error));
}

static void null_of_reads(void) {
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  safetensors_dim dim;
  REFUSED("model", safetensors_model_measure(NULL, "byte", NUL, NULL, NULL, 0, &out.count, &out.number, &error));
  REFUSED("name", safetensors_model_measure(model, NULL, 1, NULL, NULL, 0, &out.count, &out.number, &error));
  REFUSED("shape", safetensors_model_measure(model, "byte", NUL, NULL, NULL, 1, &out.count, &out.number, &error));
  request.slice_count = 1;
  REFUSED("slice", safetensors_model_measure(model, "byte", NUL, &request, NULL, 0, &out.count, &out.number, &error));
  request.slice_count = 0;
  request.stride_count = 1;
  REFUSED("strides", safetensors_model_read(model, "byte", NUL, &request, &out.array, &error));
  request.stride_count = 0;
  request.destination_size = 1;
  REFUSED("destination", safetensors_plan_add(plan, model, "byte", NUL, &request, &error));
  REFUSED("model", safetensors_model_view(NULL, "byte", NUL, 0, &out.array, &error));
  REFUSED("name", safetensors_model_view(model, NULL, 1, 0, &out.array, &error));
  REFUSED("array", safetensors_model_view(model, "byte", NUL, 0, NULL, &error));
  REFUSED("model", safetensors_model_read(NULL, "byte", NUL, NULL, &out.array, &error));
  REFUSED("name", safetensors_model_read(model, NULL, 1, NULL, &out.array, &error));
  REFUSED("array", safetensors_model_read(model, "byte", NUL, NULL, NULL, &error));
  REFUSED("array", safetensors_array_get_info(NULL, &info, &error));
  REFUSED("info", safetensors_array_get_info(array, NULL, &error));
  REFUSED("array", safetensors_array_to_dlpack(NULL, &out.managed, &error));
  REFUSED("tensor", safetensors_array_to_dlpack(array, NULL, &error));
  REFUSED("array", safetensors_array_to_unversioned_dlpack(NULL, &out.older, &error));
  REFUSED("tensor", safetensors_array_to_unversioned_dlpack(array, NULL, &error));
  REFUSED("plan", safetensors_plan_create(NULL, &error));
  REFUSED("plan", safetensors_plan_add(NULL, model, "byte", NUL, NULL, &error));
  REFUSED("model", safetensors_plan_add(plan, NULL, "byte", NUL, NULL, &error));
  REFUSED("name", safetensors_plan_add(plan, model, NULL, 1, NULL, &error));
  REFUSED("plan", safetensors_plan_get_size(NULL, &out.number, NULL, &error));
  REFUSED("plan", safetensors_plan_execute(NULL, NULL, &out.array, 1, &error));
  REFUSED("arrays", safetensors_plan_execute(plan, NULL, NULL, 1, &error));
  REFUSED("plan", safetensors_plan_stream(NULL, NULL, &out.stream, &error));
  REFUSED("stream", safetensors_plan_stream(plan, NULL, NULL, &error));
  REFUSED("stream", safetensors_stream_next(NULL, &out.number, &out.array, &error));
  REFUSED("index", safetensors_stream_next(stream, NULL, &out.array, &error));
  REFUSED("array", safetensors_stream_next(stream, &out.number, NULL, &error));
  REFUSED("stream", safetensors_stream_cancel(NULL, &error));
  REFUSED("text", safetensors_slice_parse(NULL, 1, &dim, 1, &out.count, &error));
  REFUSED("dims", safetensors_slice_parse("1", NUL, NULL, 1, &out.count, &error));
  REFUSED("count", safetensors_slice_parse("1", NUL, &dim, 1, NULL, &error));
}

static void null_of_writes(void) {
  const char* const to = in_directory("new");
  const safetensors_metadata pairs[] = {{NULL, 1, "a", 1}, {"a", 1, NULL, 1}};
  safetensors_tensor_data tensors[3], wrong[3];
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  make_tensors(tensors);
  make_tensors(wrong);
  wrong[0].name = NULL, wrong[1].shape = NULL, wrong[2].data = NULL;
  REFUSED("path", safetensors_save(NULL, tensors, 3, NULL, &error));
  REFUSED("tensors", safetensors_save(to, NULL, 3, NULL, &error));
  REFUSED("tensor 0: argument name", safetensors_save(to, wrong, 1, NULL, &error));
  REFUSED("tensor 0: argument shape", safetensors_writer_create(to, wrong + 1, 1, NULL, &out.writer, &error));
  REFUSED("tensor 0: argument data", safetensors_serialize(wrong + 2, 1, NULL, &out.array, &error));
  options.metadata_count = 1;
  REFUSED("metadata", safetensors_save(to, tensors, 3, &options, &error));
  options.metadata = pairs;
  REFUSED("key", safetensors_save(to, tensors, 3, &options, &error));
  options.metadata = pairs + 1;
  REFUSED("value", safetensors_save(to, tensors, 3, &options, &error));
  REFUSED("tensors", safetensors_serialize(NULL, 1, NULL, &out.array, &error));
  REFUSED("file", safetensors_serialize(tensors, 3, NULL, NULL, &error));
  REFUSED("path", safetensors_edit_metadata(NULL, kMetadata, 1, NULL, &error));
  REFUSED("edits", safetensors_edit_metadata(path, NULL, 1, NULL, &error));
  REFUSED("key", safetensors_edit_metadata(path, pairs, 1, NULL, &error));
  REFUSED("path", safetensors_writer_create(NULL, tensors, 3, NULL, &out.writer, &error));
  REFUSED("tensors", safetensors_writer_create(to, NULL, 3, NULL, &out.writer, &error));
  REFUSED("writer", safetensors_writer_create(to, tensors, 3, NULL, NULL, &error));
  REFUSED("writer", safetensors_writer_write(NULL, "byte", NUL, 0, "", 1, &error));
  REFUSED("name", safetensors_writer_write(writer, NULL, 1, 0, "", 1, &error));
  REFUSED("data", safetensors_writer_write(writer, "byte", NUL, 0, NULL, 1, &error));
  REFUSED("writer", safetensors_writer_write_slice(NULL, "byte", NUL, NULL, 0, "", 1, &error));
  REFUSED("name", safetensors_writer_write_slice(writer, NULL, 1, NULL, 0, "", 1, &error));
  REFUSED("slice", safetensors_writer_write_slice(writer, "byte", NUL, NULL, 1, "", 1, &error));
  REFUSED("data", safetensors_writer_write_slice(writer, "byte", NUL, NULL, 0, NULL, 1, &error));
  REFUSED("writer", safetensors_writer_copy(NULL, "byte", NUL, model, "byte", NUL, &error));
  REFUSED("name", safetensors_writer_copy(writer, NULL, 1, model, "byte", NUL, &error));
  REFUSED("model", safetensors_writer_copy(writer, "byte", NUL, NULL, "byte", NUL, &error));
  REFUSED("from", safetensors_writer_copy(writer, "byte", NUL, model, NULL, 1, &error));
  REFUSED("writer", safetensors_writer_commit(NULL, &error));
}

/* A copy of an entry at the end of a page. The next page cannot be read. */
static void* before_wall(const void* entry, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) exit(1);
  return memcpy(pages + page - size, entry, size);
}

/* After the first bad entry of a list, no other entry is read. */
static void first_error_of_lists(void) {
  const char* const to = in_directory("new");
  const safetensors_tensor_data tensor = {"a", NUL, 99, 0, NULL, 0, NULL, 0};
  const safetensors_tensor_data* const tensors = before_wall(&tensor, sizeof tensor);
  const safetensors_dim dim = {99, 0, 0, 0, 0};
  const safetensors_dim* const slice = before_wall(&dim, sizeof dim);
  const safetensors_metadata pair = {NULL, 1, "a", 1};
  const safetensors_metadata* const pairs = before_wall(&pair, sizeof pair);
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.metadata = pairs;
  options.metadata_count = 2;
  REFUSED("tensor 0: unknown dtype 99", safetensors_save(to, tensors, 2, NULL, &error));
  REFUSED("tensor 0: unknown dtype 99", safetensors_writer_create(to, tensors, 2, NULL, &out.writer, &error));
  REFUSED("kind of a dimension's slice 99", safetensors_writer_write_slice(writer, "a", NUL, slice, 2, "", 1, &error));
  REFUSED("key", safetensors_save(to, NULL, 0, &options, &error));
  REFUSED("key", safetensors_edit_metadata(path, pairs, 2, NULL, &error));
}

/* Frees the handles that a call with a struct made. */
static void release(void) {
  if (!filled(&out.model, sizeof out.model, 0xA5)) safetensors_model_free(out.model);
  if (!filled(&out.array, sizeof out.array, 0xA5)) safetensors_array_free(out.array);
  if (!filled(&out.stream, sizeof out.stream, 0xA5)) safetensors_stream_free(out.stream);
  if (!filled(&out.writer, sizeof out.writer, 0xA5)) safetensors_writer_free(out.writer);
}

enum { kCases = 8 };

/* A copy of a struct in memory of the size that it names, or of 8 bytes if the size is wrong. */
static void* resized(int number, const void* initial, size_t known) {
  const uint64_t sizes[kCases] = {0, known - 1, 4097, UINT64_MAX, known, known + 8, 4096, known + 1};
  const size_t held = number < 4 ? (sizes[number] == known - 1 ? known - 1 : 8) : (size_t)sizes[number];
  unsigned char* const made = calloc(1, held);
  if (!made) exit(1);
  memcpy(made, initial, held < known ? held : known);
  memcpy(made, &sizes[number], sizeof sizes[number]);
  if (number == 7) made[held - 1] = 1; /* a member that is not known here */
  begin();
  return made;
}

static void sized(int number, safetensors_status status, int result, const unsigned char* given, size_t known,
                  const char* call) {
  const int later = result ? SAFETENSORS_OK : SAFETENSORS_ERROR_UNSUPPORTED;
  const safetensors_status good = number == 7 ? later : SAFETENSORS_OK;
  check(status == (number < 4 ? SAFETENSORS_ERROR_INVALID_ARGUMENT : good), call, __FILE__, 1000 + number);
  if (result && number == 7) check(given[known] == 0, call, __FILE__, 1000 + number);
  release();
}

/* Makes the call with `given`, a struct of this type, in each size. */
#define SIZES(type, init, result, call)                                         \
  for (int i = 0; i < kCases; ++i) {                                            \
    const type initial = init;                                                  \
    type* const given = resized(i, &initial, sizeof initial);                   \
    sized(i, call, result, (const unsigned char*)given, sizeof initial, #call); \
    free(given);                                                                \
  }

static void sizes_of_options(void) {
  safetensors_tensor_data tensors[3];
  const char* const paths[] = {path};
  const char* const to = in_directory("new");
  const int descriptor = open(path, O_RDONLY);
  unsigned char bytes[4096];
  const size_t size = (size_t)read(descriptor, bytes, sizeof bytes);
  make_tensors(tensors);
#define OPENS(call) SIZES(safetensors_open_options, SAFETENSORS_OPEN_OPTIONS_INIT, 0, call)
  OPENS(safetensors_model_open(path, given, &out.model, &error))
  OPENS(safetensors_model_open_paths(paths, 1, given, &out.model, &error))
  OPENS(safetensors_model_from_fd(descriptor, given, &out.model, &error))
  OPENS(safetensors_model_from_memory(bytes, size, NULL, NULL, given, &out.model, &error))
  close(descriptor);
#define REQUESTS(call) SIZES(safetensors_request, SAFETENSORS_REQUEST_INIT, 0, call)
  REQUESTS(safetensors_model_measure(model, "byte", NUL, given, NULL, 0, NULL, NULL, &error))
  REQUESTS(safetensors_model_read(model, "byte", NUL, given, &out.array, &error))
  REQUESTS(safetensors_plan_add(plan, model, "byte", NUL, given, &error))
#define READS(call) SIZES(safetensors_read_options, SAFETENSORS_READ_OPTIONS_INIT, 0, call)
  safetensors_plan* empty = NULL;
  GOOD(safetensors_plan_create(&empty, &error));
  READS(safetensors_plan_execute(empty, given, NULL, 0, &error))
  READS(safetensors_plan_stream(plan, given, &out.stream, &error))
#define WRITES(call) SIZES(safetensors_write_options, SAFETENSORS_WRITE_OPTIONS_INIT, 0, call)
  WRITES(safetensors_save(to, tensors, 3, given, &error))
  WRITES(safetensors_serialize(tensors, 3, given, &out.array, &error))
  WRITES(safetensors_edit_metadata(to, kMetadata, 2, given, &error))
  WRITES(safetensors_writer_create(to, tensors, 3, given, &out.writer, &error))
  CHECK(unlink(to) == 0);
  safetensors_plan_free(empty);
}

static void sizes_of_others(void) {
  static const safetensors_source source = {sizeof source, NULL, whole_size, whole_bytes, NULL, NULL, 0, 0, 0};
  SIZES(safetensors_source, source, 0, safetensors_model_from_source(given, NULL, &out.model, &error))
  OPENS(safetensors_model_from_source(&source, given, &out.model, &error))
  SIZES(safetensors_model_info, SAFETENSORS_MODEL_INFO_INIT, 1, safetensors_model_get_info(model, given, &error))
  SIZES(safetensors_file, SAFETENSORS_FILE_INIT, 1, safetensors_model_get_file(model, 0, given, &error))
  SIZES(safetensors_tensor, SAFETENSORS_TENSOR_INIT, 1, safetensors_model_get_tensor(model, 0, given, &error))
  SIZES(safetensors_tensor, SAFETENSORS_TENSOR_INIT, 1,
        safetensors_model_find_tensor(model, "byte", NUL, given, &error))
  SIZES(safetensors_array_info, SAFETENSORS_ARRAY_INFO_INIT, 1, safetensors_array_get_info(array, given, &error))
}

int main(void) {
  safetensors_tensor_data tensors[3];
  if (!make_directory()) return 1;
  write_file(path, 0);
  make_tensors(tensors);
  model = open_model(path);
  GOOD(safetensors_model_read(model, "byte", NUL, NULL, &array, &error));
  GOOD(safetensors_plan_create(&plan, &error));
  GOOD(safetensors_plan_add(plan, model, "byte", NUL, NULL, &error));
  GOOD(safetensors_plan_stream(plan, NULL, &stream, &error));
  GOOD(safetensors_writer_create(in_directory("written"), tensors, 3, NULL, &writer, &error));
  null_of_models();
  null_of_reads();
  null_of_writes();
  first_error_of_lists();
  sizes_of_options();
  sizes_of_others();
  safetensors_writer_free(writer);
  safetensors_stream_free(stream);
  safetensors_plan_free(plan);
  safetensors_array_free(array);
  safetensors_model_free(model);
  CHECK(unlink(path) == 0 && rmdir(directory) == 0);
  return finish("arguments");
}
