/* Files in the C interface: reading, sources, memory, DLPack. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <pthread.h>

#include "c/test_files.h"

static void reading(void) {
  write_all(path);
  for (int32_t access = SAFETENSORS_ACCESS_MAP; access <= SAFETENSORS_ACCESS_READ; ++access) {
    safetensors_file* file = open_file(path, access);
    int32_t decided = 0;
    const char* name = NULL;
    GOOD(safetensors_file_access(file, &decided, &error));
    CHECK(decided == access);
    GOOD(safetensors_file_path(file, &name, &error));
    CHECK(strcmp(name, path) == 0);
    read_all(file);
    safetensors_file_free(file);
  }
  const int descriptor = open(path, O_RDONLY);
  safetensors_file* file = NULL;
  GOOD(safetensors_file_from_fd(descriptor, NULL, &file, &error));
  CHECK(close(descriptor) == 0);
  read_all(file);
  safetensors_file_free(file);
  safetensors_file_free(NULL);
}

static void slices_of_tensors(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_tensor* tensor = tensor_of(file, "U8");
  safetensors_slice* slice = NULL;
  safetensors_array* array = NULL;
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  unsigned char read[4] = {0};
  GOOD(safetensors_slice_parse(TEXT("1,::2,-2:"), &slice, &error));
  GOOD(safetensors_tensor_read_into(tensor, slice, read, 4, &error));
  CHECK(memcmp(read, "\x0e\x0f\x16\x17", 4) == 0);
  FAILS(safetensors_tensor_read_into(tensor, slice, read, 3, &error), BUFFER_SIZE);
  FAILS(safetensors_tensor_read_into(tensor, slice, NULL, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_tensor_read_into(NULL, slice, read, 4, &error), INVALID_ARGUMENT);
  GOOD(safetensors_tensor_read(tensor, slice, &array, &error));
  safetensors_file_free(file); /* tensor and array live on */
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.nbytes == 4 && memcmp(info.data, read, 4) == 0 && info.memory == SAFETENSORS_MEMORY_OWNED);
  CHECK(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 2 && info.writable == 1);
  safetensors_array_free(array);
  GOOD(safetensors_tensor_read(tensor, NULL, &array, &error));
  uint64_t shape[3];
  size_t rank = 0;
  GOOD(safetensors_array_shape(array, shape, 3, &rank, &error));
  CHECK(rank == 3 && memcmp(shape, shape24, sizeof shape) == 0);
  FAILS(safetensors_array_shape(array, shape, 2, &rank, &error), BUFFER_SIZE);
  FAILS(safetensors_array_shape(NULL, shape, 3, &rank, &error), INVALID_ARGUMENT);
  safetensors_array_free(array);
  FAILS(safetensors_tensor_read(NULL, NULL, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_tensor_read(tensor, NULL, NULL, &error), INVALID_ARGUMENT);
  safetensors_slice_free(slice);
  GOOD(safetensors_slice_parse(TEXT("2"), &slice, &error));
  FAILS(safetensors_tensor_read(tensor, slice, &array, &error), SLICE_INDEX);
  CHECK(array == NULL);
  safetensors_slice_free(slice);
  GOOD(safetensors_tensor_file(tensor, &file, &error));
  safetensors_tensor_free(tensor);
  tensor = tensor_of(file, "F32");
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
}

static void writable_memory(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_MAP);
  safetensors_tensor* tensor = tensor_of(file, "U8");
  safetensors_array* array = NULL;
  void* data = NULL;
  size_t size = 0;
  GOOD(safetensors_tensor_view(tensor, SAFETENSORS_MAP_SHARED, &array, &error));
  FAILS(safetensors_array_mutable_data(array, &data, &size, &error), NOT_WRITABLE);
  CHECK(data == NULL && size == 0);
  safetensors_array_free(array);
  GOOD(safetensors_tensor_view(tensor, SAFETENSORS_MAP_COPY_ON_WRITE, &array, &error));
  GOOD(safetensors_array_mutable_data(array, &data, &size, &error));
  CHECK(size == 24);
  memset(data, 0xee, size);
  unsigned char read[24];
  GOOD(safetensors_tensor_read_into(tensor, NULL, read, 24, &error));
  CHECK(memcmp(read, bytes24, 24) == 0); /* the file is as it was */
  safetensors_array_free(array);
  FAILS(safetensors_array_mutable_data(NULL, &data, &size, &error), INVALID_ARGUMENT);
  FAILS(safetensors_tensor_view(tensor, 2, &array, &error), INVALID_ARGUMENT);
  SAYS("unknown map mode 2");
  FAILS(safetensors_tensor_view(NULL, 0, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_tensor_view(tensor, 0, NULL, &error), INVALID_ARGUMENT);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
}

/* All tensors over one map, and its pages. */
static void views_of_whole_files(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_MAP);
  safetensors_tensor* tensor = tensor_of(file, "U8");
  safetensors_array* array = NULL;
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  safetensors_array_info view = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_tensor_get_info(tensor, &info, &error));
  GOOD(safetensors_file_view(file, SAFETENSORS_MAP_SHARED, &array, &error));
  GOOD(safetensors_array_get_info(array, &view, &error));
  CHECK(view.dtype == SAFETENSORS_DTYPE_U8 && view.rank == 1 && view.shape[0] == view.nbytes);
  CHECK(view.memory == SAFETENSORS_MEMORY_SHARED_MAP && info.end <= view.nbytes);
  CHECK(memcmp((const unsigned char*)view.data + info.begin, bytes24, info.nbytes) == 0);
  GOOD(safetensors_array_prefault(array, 0, UINT64_MAX, &error));
  GOOD(safetensors_array_prefault(array, view.nbytes, 1, &error));
  GOOD(safetensors_array_release_pages(array, &error));
  CHECK(memcmp((const unsigned char*)view.data + info.begin, bytes24, info.nbytes) == 0);
  safetensors_array_free(array);
  GOOD(safetensors_file_view(file, SAFETENSORS_MAP_COPY_ON_WRITE, &array, &error));
  GOOD(safetensors_array_get_info(array, &view, &error));
  CHECK(view.memory == SAFETENSORS_MEMORY_COPY_ON_WRITE_MAP && view.writable == 1);
  GOOD(safetensors_array_prefault(array, 0, UINT64_MAX, &error));
  FAILS(safetensors_array_release_pages(array, &error), UNSUPPORTED);
  SAYS("cannot release pages: the map is private, and changes to it would be lost");
  safetensors_array_free(array);
  GOOD(safetensors_tensor_read(tensor, NULL, &array, &error));
  GOOD(safetensors_array_prefault(array, 0, 1, &error));
  FAILS(safetensors_array_release_pages(array, &error), UNSUPPORTED);
  safetensors_array_free(array);
  FAILS(safetensors_file_view(file, 2, &array, &error), INVALID_ARGUMENT);
  SAYS("unknown map mode 2");
  FAILS(safetensors_file_view(NULL, 0, &array, &error), INVALID_ARGUMENT);
  CHECK(array == NULL);
  FAILS(safetensors_file_view(file, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_array_prefault(NULL, 0, 1, &error), INVALID_ARGUMENT);
  FAILS(safetensors_array_release_pages(NULL, &error), INVALID_ARGUMENT);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
}

static void opening_errors(void) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_file* file = NULL;
  FAILS(safetensors_file_open("/nowhere/x.safetensors", NULL, &file, &error), OPEN_FAILED);
  CHECK(file == NULL && error.os_error == 2 && strcmp(error.path, "/nowhere/x.safetensors") == 0);
  FAILS(safetensors_file_open(directory, NULL, &file, &error), NOT_REGULAR_FILE);
  FAILS(safetensors_file_open(NULL, NULL, &file, &error), INVALID_ARGUMENT);
  SAYS("argument path is NULL");
  FAILS(safetensors_file_open(path, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_from_fd(-1, NULL, &file, &error), OPEN_FAILED);
  FAILS(safetensors_file_from_fd(0, NULL, NULL, &error), INVALID_ARGUMENT);
  options.reserved = 12345;
  FAILS(safetensors_file_open(path, &options, &file, &error), UNSUPPORTED);
  options.reserved = 0;
  options.access = 3;
  FAILS(safetensors_file_open(path, &options, &file, &error), INVALID_ARGUMENT);
  SAYS("unknown access mode 3");
  options.access = SAFETENSORS_ACCESS_READ;
  options.max_header_bytes = 8;
  FAILS(safetensors_file_open(path, &options, &file, &error), HEADER_TOO_LARGE);

  file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_tensor* tensor = NULL;
  FAILS(safetensors_file_tensor(file, TEXT("nothing"), &tensor, &error), NOT_FOUND);
  CHECK(tensor == NULL);
  FAILS(safetensors_file_tensor(file, NULL, 1, &tensor, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_tensor(NULL, TEXT("U8"), &tensor, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_tensor(file, TEXT("U8"), NULL, &error), INVALID_ARGUMENT);
  safetensors_header* header = NULL;
  FAILS(safetensors_file_header(NULL, &header, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_header(file, NULL, &error), INVALID_ARGUMENT);
  int32_t access = 1;
  FAILS(safetensors_file_access(NULL, &access, &error), INVALID_ARGUMENT);
  CHECK(access == 0);
  FAILS(safetensors_file_access(file, NULL, &error), INVALID_ARGUMENT);
  const char* name = "x";
  FAILS(safetensors_file_path(NULL, &name, &error), INVALID_ARGUMENT);
  CHECK(name == NULL);
  size_t count = 1;
  char byte = 0;
  FAILS(safetensors_file_read_at(NULL, 0, &byte, 1, &count, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_read_at(file, 0, NULL, 1, &count, &error), INVALID_ARGUMENT);
  SAYS("argument destination is NULL, its length 1");
  FAILS(safetensors_file_read_at(file, 0, &byte, 1, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_file_read_at(file, UINT64_C(1) << 40, &byte, 1, &count, &error));
  CHECK(count == 0);
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  uint64_t shape[1];
  FAILS(safetensors_tensor_get_info(NULL, &info, &error), INVALID_ARGUMENT);
  FAILS(safetensors_tensor_shape(NULL, shape, 1, &count, &error), INVALID_ARGUMENT);
  safetensors_file* none = NULL;
  FAILS(safetensors_tensor_file(NULL, &none, &error), INVALID_ARGUMENT);
  safetensors_array_info view = SAFETENSORS_ARRAY_INFO_INIT;
  const void* elements = NULL;
  FAILS(safetensors_array_get_info(NULL, &view, &error), INVALID_ARGUMENT);
  FAILS(safetensors_array_as(NULL, SAFETENSORS_DTYPE_U8, &elements, &count, &error), INVALID_ARGUMENT);
  safetensors_tensor_free(NULL);
  safetensors_array_free(NULL);
  safetensors_file_free(file);
}

static void count_release(void* user) {
  ++*(int*)user;
}

static safetensors_buffer* serialize_all(void) {
  safetensors_tensor_data tensors[22];
  safetensors_buffer* buffer = NULL;
  const size_t count = make_tensors(tensors);
  GOOD(safetensors_serialize(tensors, count, kMetadata, 1, NULL, &buffer, &error));
  return buffer;
}

static void files_in_memory(void) {
  safetensors_buffer* buffer = serialize_all();
  const void* data = NULL;
  size_t size = 0;
  int released = 0;
  GOOD(safetensors_buffer_bytes(buffer, &data, &size, &error));
  safetensors_file* file = NULL;
  FAILS(safetensors_file_from_memory(data, size - 1, count_release, &released, NULL, &file, &error), INCOMPLETE_DATA);
  FAILS(safetensors_file_from_memory(NULL, size, count_release, &released, NULL, &file, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_from_memory(data, size, count_release, &released, NULL, NULL, &error), INVALID_ARGUMENT);
  CHECK(released == 0 && file == NULL);
  GOOD(safetensors_file_from_memory(data, size, NULL, NULL, NULL, &file, &error));
  safetensors_file_free(file);
  GOOD(safetensors_file_from_memory(data, size, count_release, &released, NULL, &file, &error));
  read_all(file);
  safetensors_tensor* tensor = tensor_of(file, "U8");
  safetensors_array* array = NULL;
  GOOD(safetensors_tensor_view(tensor, SAFETENSORS_MAP_SHARED, &array, &error));
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.memory == SAFETENSORS_MEMORY_BORROWED && info.writable == 0);
  CHECK((const char*)info.data > (const char*)data && (const char*)info.data < (const char*)data + size);
  safetensors_file_free(file);
  safetensors_tensor_free(tensor);
  CHECK(released == 0);
  safetensors_array_free(array);
  CHECK(released == 1);
  safetensors_buffer_free(buffer);
}

/* A source over memory that can be made to misbehave. */
struct source {
  const unsigned char* data;
  size_t size;
  size_t most;    /* bytes a read gives; 0: the end at once */
  int fail_size;  /* status of size */
  int fail_reads; /* status of every read */
  int lie;        /* reads claim more than was asked for */
  int with_memory;
  int released;
  int empty_reads;
};

static safetensors_status source_size(void* user, uint64_t* size, safetensors_error* failure) {
  struct source* source = user;
  if (source->fail_size) {
    failure->os_error = 5;
    strcpy(failure->message, "no size today");
  }
  *size = source->size;
  return source->fail_size;
}

static safetensors_status source_read_at(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                         safetensors_error* failure) {
  struct source* source = user;
  (void)failure;
  CHECK(*count == 0);
  if (capacity == 0) {
    ++source->empty_reads;
    return SAFETENSORS_OK;
  }
  if (source->fail_reads) return source->fail_reads;
  if (offset >= source->size) return SAFETENSORS_OK;
  *count = capacity < source->most ? capacity : source->most;
  if (*count > source->size - offset) *count = (size_t)(source->size - offset);
  memcpy(destination, source->data + offset, *count);
  if (source->lie) *count = capacity + 1;
  return SAFETENSORS_OK;
}

static const void* source_memory(void* user, uint64_t offset, uint64_t size) {
  struct source* source = user;
  return source->with_memory && offset <= source->size && size <= source->size - offset ? source->data + offset : NULL;
}

static void source_release(void* user) {
  ++((struct source*)user)->released;
}

static void sources(void) {
  safetensors_buffer* buffer = serialize_all();
  const void* data = NULL;
  struct source user;
  memset(&user, 0, sizeof user);
  GOOD(safetensors_buffer_bytes(buffer, &data, &user.size, &error));
  user.data = data;
  user.most = 7; /* short reads */
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  source.user = &user;
  source.size = source_size;
  source.read_at = source_read_at;
  source.release = source_release;
  safetensors_file* file = NULL;
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  read_all(file);
  size_t none = 1;
  GOOD(safetensors_file_read_at(file, 8, NULL, 0, &none, &error));
  CHECK(none == 0 && user.empty_reads > 0);
  safetensors_tensor* tensor = tensor_of(file, "U64");
  unsigned char read[192];
  user.fail_reads = 200; /* no code of ours */
  FAILS(safetensors_tensor_read_into(tensor, NULL, read, 192, &error), READ_FAILED);
  CHECK(strstr(error.message, "the source's read_at returned status 200") != NULL);
  user.fail_reads = SAFETENSORS_ERROR_CANCELLED;
  FAILS(safetensors_tensor_read_into(tensor, NULL, read, 192, &error), CANCELLED);
  user.fail_reads = 0;
  user.most = 0;
  FAILS(safetensors_tensor_read_into(tensor, NULL, read, 192, &error), FILE_TRUNCATED);
  user.most = 1000;
  user.lie = 1;
  FAILS(safetensors_tensor_read_into(tensor, NULL, read, 192, &error), READ_FAILED);
  CHECK(strstr(error.message, "gave 193 bytes, expected at most 192") != NULL);
  user.lie = 0;
  safetensors_file_free(file);
  CHECK(user.released == 0);
  safetensors_tensor_free(tensor);
  CHECK(user.released == 1);

  user.fail_size = SAFETENSORS_ERROR_READ_FAILED;
  FAILS(safetensors_file_from_source(&source, NULL, &file, &error), READ_FAILED);
  CHECK(error.os_error == 5 && strstr(error.message, "no size today") != NULL && file == NULL && user.released == 1);
  user.fail_size = 0;
  source.memory = source_memory;
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error)); /* without memory after all */
  read_all(file);
  safetensors_file_free(file);
  CHECK(user.released == 2);
  user.with_memory = 1;
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  tensor = tensor_of(file, "U8");
  safetensors_array* array = NULL;
  GOOD(safetensors_tensor_view(tensor, SAFETENSORS_MAP_SHARED, &array, &error));
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.memory == SAFETENSORS_MEMORY_BORROWED && (const unsigned char*)info.data > user.data);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  CHECK(user.released == 2);
  safetensors_array_free(array);
  CHECK(user.released == 3);

  source.read_at = NULL;
  FAILS(safetensors_file_from_source(&source, NULL, &file, &error), INVALID_ARGUMENT);
  source.struct_size = 8;
  FAILS(safetensors_file_from_source(&source, NULL, &file, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_from_source(NULL, NULL, &file, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_from_source(&source, NULL, NULL, &error), INVALID_ARGUMENT);
  safetensors_buffer_free(buffer);
}

static void* delete_on_thread(void* tensor) {
  safetensors_dl_managed_tensor* managed = tensor;
  managed->deleter(managed);
  return NULL;
}

static void dlpack_of_every_dtype(void) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  for (size_t i = 0; i < count; ++i) {
    const int32_t map = i % 2 == 0 ? SAFETENSORS_MAP_SHARED : SAFETENSORS_MAP_COPY_ON_WRITE;
    safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_MAP);
    safetensors_tensor* tensor = tensor_of(file, tensors[i].name);
    safetensors_array* array = NULL;
    safetensors_dl_managed_tensor* managed = NULL;
    safetensors_dl_data_type type;
    GOOD(safetensors_tensor_view(tensor, map, &array, &error));
    GOOD(safetensors_array_to_dlpack(array, &managed, &error));
    safetensors_array_free(array);
    safetensors_tensor_free(tensor);
    safetensors_file_free(file); /* the memory stays */
    GOOD(safetensors_dtype_dlpack(tensors[i].dtype, &type, &error));
    const safetensors_dl_tensor* dl = &managed->dl_tensor;
    CHECK(managed->version.major == 1 && managed->version.minor == 1);
    CHECK(managed->flags == (map == SAFETENSORS_MAP_SHARED ? SAFETENSORS_DLPACK_READ_ONLY : 0));
    CHECK(memcmp(&dl->dtype, &type, sizeof type) == 0 && dl->byte_offset == 0);
    CHECK(dl->device.device_type == SAFETENSORS_DLPACK_CPU && dl->device.device_id == 0);
    CHECK(dl->ndim == 3 && dl->shape[0] == 2 && dl->shape[1] == 3 && dl->shape[2] == 4);
    CHECK(dl->strides[0] == 12 && dl->strides[1] == 4 && dl->strides[2] == 1);
    CHECK(memcmp(dl->data, bytes24, tensors[i].size) == 0);
    if (map == SAFETENSORS_MAP_COPY_ON_WRITE) memset(dl->data, 1, tensors[i].size);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, delete_on_thread, managed) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

static safetensors_status dlpack_of_shape(const uint64_t* shape, size_t rank, safetensors_dl_managed_tensor** managed) {
  const unsigned char byte = 42;
  safetensors_tensor_data data = {"t", 1, shape, rank, &byte, rank != 2, SAFETENSORS_DTYPE_U8, 0};
  safetensors_buffer* buffer = NULL;
  const void* bytes = NULL;
  size_t size = 0;
  safetensors_file* file = NULL;
  safetensors_array* array = NULL;
  GOOD(safetensors_serialize(&data, 1, NULL, 0, NULL, &buffer, &error));
  GOOD(safetensors_buffer_bytes(buffer, &bytes, &size, &error));
  GOOD(safetensors_file_from_memory(bytes, size, NULL, NULL, NULL, &file, &error));
  safetensors_tensor* tensor = tensor_of(file, "t");
  GOOD(safetensors_tensor_read(tensor, NULL, &array, &error));
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  safetensors_buffer_free(buffer);
  const safetensors_status status = safetensors_array_to_dlpack(array, managed, &error);
  safetensors_array_free(array);
  return status;
}

static void dlpack_of_odd_shapes(void) {
  static const uint64_t huge[2] = {0, UINT64_C(1) << 63};
  static const uint64_t large[2] = {UINT64_C(1) << 62, 0};
  static const uint64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  safetensors_dl_managed_tensor* managed = NULL;
  FAILS(dlpack_of_shape(huge, 2, &managed), UNSUPPORTED);
  SAYS("dimension 1 is 9223372036854775808, DLPack allows 9223372036854775807");
  CHECK(managed == NULL);
  GOOD(dlpack_of_shape(large, 2, &managed));
  CHECK(managed->dl_tensor.data == NULL && managed->dl_tensor.shape[0] == INT64_C(1) << 62);
  managed->deleter(managed);
  GOOD(dlpack_of_shape(NULL, 0, &managed));
  CHECK(managed->dl_tensor.ndim == 0 && managed->dl_tensor.shape != NULL && managed->dl_tensor.strides != NULL);
  CHECK(*(unsigned char*)managed->dl_tensor.data == 42 && managed->flags == 0);
  managed->deleter(managed);
  GOOD(dlpack_of_shape(many, 9, &managed));
  CHECK(managed->dl_tensor.ndim == 9 && managed->dl_tensor.shape[8] == 1 && managed->dl_tensor.strides[0] == 1);
  managed->deleter(managed);
  FAILS(safetensors_array_to_dlpack(NULL, &managed, &error), INVALID_ARGUMENT);
  CHECK(managed == NULL);
}

static void misaligned_elements(void) {
  const uint64_t one[1] = {1};
  safetensors_tensor_data data = {"t", 1, one, 1, bytes24, 8, SAFETENSORS_DTYPE_F64, 0};
  safetensors_buffer* buffer = NULL;
  const void* bytes = NULL;
  size_t size = 0;
  GOOD(safetensors_serialize(&data, 1, NULL, 0, NULL, &buffer, &error));
  GOOD(safetensors_buffer_bytes(buffer, &bytes, &size, &error));
  char* moved = malloc(size + 1);
  CHECK(moved != NULL);
  if (!moved) return;
  memcpy(moved + 1, bytes, size);
  safetensors_buffer_free(buffer);
  safetensors_file* file = NULL;
  safetensors_array* array = NULL;
  const void* elements = NULL;
  size_t count = 0;
  GOOD(safetensors_file_from_memory(moved + 1, size, free, moved, NULL, &file, &error));
  safetensors_tensor* tensor = tensor_of(file, "t");
  GOOD(safetensors_tensor_view(tensor, SAFETENSORS_MAP_SHARED, &array, &error));
  FAILS(safetensors_array_as(array, SAFETENSORS_DTYPE_F64, &elements, &count, &error), MISALIGNED_MEMORY);
  FAILS(safetensors_array_as(array, 77, &elements, &count, &error), INVALID_ARGUMENT);
  safetensors_array_free(array);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
}

int main(void) {
  if (!make_directory()) return 1;
  reading();
  slices_of_tensors();
  writable_memory();
  views_of_whole_files();
  opening_errors();
  files_in_memory();
  sources();
  dlpack_of_every_dtype();
  dlpack_of_odd_shapes();
  misaligned_elements();
  remove_directory();
  return finish("c files");
}
