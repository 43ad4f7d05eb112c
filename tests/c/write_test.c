/* Writing files in the C interface: whole files, files in pieces, and edits of metadata. */
#define _POSIX_C_SOURCE 200809L

#include <sys/stat.h>

#include "c/test_files.h"

static void writing(void) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  safetensors_header* header = NULL;
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  safetensors_layout_options layout = SAFETENSORS_LAYOUT_OPTIONS_INIT;
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  layout.data_alignment = 4096;
  GOOD(safetensors_layout(tensors, count, kMetadata, 1, &layout, &header, &error));
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.tensor_count == 22 && info.data_start == 4096 && info.metadata_count == 1);
  safetensors_header_free(header);
  GOOD(safetensors_layout(NULL, 0, kMetadata, 0, NULL, &header, &error)); /* metadata, but empty */
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.tensor_count == 0 && info.metadata_present == 1 && info.metadata_count == 0);
  safetensors_header_free(header);
  GOOD(safetensors_layout(NULL, 0, NULL, 0, NULL, &header, &error));
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.metadata_present == 0);
  safetensors_header_free(header);
  FAILS(safetensors_layout(NULL, 1, NULL, 0, NULL, &header, &error), INVALID_ARGUMENT);
  FAILS(safetensors_layout(tensors, count, NULL, 1, NULL, &header, &error), INVALID_ARGUMENT);
  FAILS(safetensors_layout(tensors, count, NULL, 0, NULL, NULL, &error), INVALID_ARGUMENT);
  safetensors_buffer* buffer = NULL;
  FAILS(safetensors_serialize(tensors, count, NULL, 0, NULL, NULL, &error), INVALID_ARGUMENT);
  tensors[3].size -= 1;
  FAILS(safetensors_serialize(tensors, count, NULL, 0, NULL, &buffer, &error), DATA_LENGTH);
  CHECK(buffer == NULL);
  tensors[3].dtype = 0;
  FAILS(safetensors_serialize(tensors, count, NULL, 0, NULL, &buffer, &error), INVALID_ARGUMENT);
  SAYS("tensor 3: unknown dtype 0");
  FAILS(safetensors_write_file(other_path, tensors, count, NULL, 0, NULL, NULL, &error), INVALID_ARGUMENT);
  options.durability = 3;
  FAILS(safetensors_write_file(other_path, tensors, 3, NULL, 0, &options, NULL, &error), INVALID_ARGUMENT);
  SAYS("unknown durability 3");
  CHECK(access(other_path, F_OK) != 0);
  options.durability = SAFETENSORS_DURABILITY_NONE;
  GOOD(safetensors_write_file(other_path, tensors, 3, NULL, 0, &options, &layout, &error));
  CHECK(unlink(other_path) == 0);
  FAILS(safetensors_write_file(NULL, tensors, 3, NULL, 0, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_write_file("/nowhere/x", tensors, 3, NULL, 0, NULL, NULL, &error), OPEN_FAILED);
  CHECK(error.os_error == 2);
}

static void progress_of_writing(void) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  struct told told = {0, 0, 0, 1};
  options.progress = tell_progress;
  options.user = &told;
  GOOD(safetensors_write_file(other_path, tensors, count, NULL, 0, &options, NULL, &error));
  CHECK(told.calls > 0 && told.done == told.total && told.total > 24);
  told.answer = 0;
  FAILS(safetensors_write_file(other_path, tensors, 1, NULL, 0, &options, NULL, &error), CANCELLED);
  CHECK(strncmp(error.message, TEXT("cancelled after ")) == 0);
  safetensors_file* file = open_file(other_path, SAFETENSORS_ACCESS_READ);
  read_all(file); /* the old file is as it was */
  safetensors_file_free(file);
  told.calls = 0;
  options.struct_size = offsetof(safetensors_write_options, progress); /* an older program's struct ends here */
  GOOD(safetensors_write_file(other_path, tensors, count, NULL, 0, &options, NULL, &error));
  CHECK(told.calls == 0);
  CHECK(unlink(other_path) == 0);
}

static void links(void) {
  safetensors_tensor_data tensors[22];
  struct stat found;
  char target[160];
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  (void)make_tensors(tensors);
  snprintf(target, sizeof target, "%s/target", directory);
  CHECK(symlink("target", other_path) == 0);
  options.replace_symlinks = 1;
  options.struct_size =
      offsetof(safetensors_write_options, replace_symlinks); /* an older program: links are followed */
  GOOD(safetensors_write_file(other_path, tensors, 1, NULL, 0, &options, NULL, &error));
  CHECK(lstat(other_path, &found) == 0 && S_ISLNK(found.st_mode));
  CHECK(stat(other_path, &found) == 0 && found.st_size > 0);
  options.struct_size = sizeof options;
  GOOD(safetensors_write_file(other_path, tensors, 1, NULL, 0, &options, NULL, &error));
  CHECK(lstat(other_path, &found) == 0 && S_ISREG(found.st_mode));
  options.reserved = 1;
  FAILS(safetensors_write_file(other_path, tensors, 1, NULL, 0, &options, NULL, &error), UNSUPPORTED);
  CHECK(unlink(other_path) == 0);
  CHECK(unlink(target) == 0);
}

static void several_files(void) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  safetensors_file_contents files[] = {{path, tensors, count, kMetadata, 1}, {other_path, tensors, count, NULL, 0}};
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  safetensors_layout_options layout = SAFETENSORS_LAYOUT_OPTIONS_INIT;
  struct told told = {0, 0, 0, 1};
  options.progress = tell_progress;
  options.user = &told;
  layout.data_alignment = 64;
  CHECK(unlink(path) == 0);
  GOOD(safetensors_write_files(files, 2, &options, &layout, &error));
  CHECK(told.calls > 0 && told.done == told.total);
  for (size_t i = 0; i < 2; ++i) {
    safetensors_file* file = open_file(files[i].path, SAFETENSORS_ACCESS_READ);
    read_all(file);
    safetensors_file_free(file);
  }
  CHECK(unlink(other_path) == 0);
  told.answer = 0;
  FAILS(safetensors_write_files(files, 2, &options, NULL, &error), CANCELLED);
  FAILS(safetensors_write_files(NULL, 2, NULL, NULL, &error), INVALID_ARGUMENT);
  SAYS("argument files is NULL, its length 2");
  files[1].path = path;
  FAILS(safetensors_write_files(files, 2, NULL, NULL, &error), INVALID_ARGUMENT);
  SAYS("two of the files to be written have this path");
  CHECK(strcmp(error.path, path) == 0);
  files[1].path = NULL;
  FAILS(safetensors_write_files(files, 2, NULL, NULL, &error), INVALID_ARGUMENT);
  SAYS("file 1: argument path is NULL");
  files[1].path = other_path;
  files[1].metadata_count = 1;
  FAILS(safetensors_write_files(files, 2, NULL, NULL, &error), INVALID_ARGUMENT);
  SAYS("file 1: argument metadata is NULL, its length 1");
  options.durability = 3;
  FAILS(safetensors_write_files(files, 1, &options, NULL, &error), INVALID_ARGUMENT);
  SAYS("unknown durability 3");
  layout.reserved = 1;
  FAILS(safetensors_write_files(files, 0, NULL, &layout, &error), UNSUPPORTED);
  GOOD(safetensors_write_files(NULL, 0, NULL, NULL, &error));
  CHECK(access(other_path, F_OK) != 0);
}

/* 0 cancels a writer for good. */
static void progress_of_a_writer(void) {
  const uint64_t shape[1] = {UINT64_C(9) << 20};
  safetensors_header_builder* builder = NULL;
  safetensors_header* header = NULL;
  safetensors_writer* writer = NULL;
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  struct told told = {0, 0, 0, 0};
  unsigned char* bytes = calloc(1, (size_t)shape[0]);
  CHECK(bytes != NULL);
  if (!bytes) return;
  options.durability = SAFETENSORS_DURABILITY_NONE;
  options.progress = tell_progress;
  options.user = &told;
  GOOD(safetensors_header_builder_create(&builder, &error));
  GOOD(safetensors_header_builder_add(builder, TEXT("t"), SAFETENSORS_DTYPE_U8, shape, 1, &error));
  GOOD(safetensors_header_builder_build(builder, NULL, &header, &error));
  safetensors_header_builder_free(builder);
  GOOD(safetensors_writer_create(other_path, header, &options, &writer, &error));
  safetensors_header_free(header);
  FAILS(safetensors_writer_write(writer, TEXT("t"), 0, bytes, (size_t)shape[0], &error), CANCELLED);
  CHECK(told.calls == 1 && told.done == told.total && told.total > shape[0]);
  FAILS(safetensors_writer_commit(writer, &error), CANCELLED);
  safetensors_writer_free(writer);
  CHECK(access(other_path, F_OK) != 0);
  free(bytes);
}

/* Writes the first row of the tensor I16, 3 x 4 elements of 2 bytes, in two slices of columns. */
static void write_first_row(safetensors_writer* writer) {
  unsigned char columns[12];
  safetensors_slice* slice = NULL;
  for (size_t half = 0; half < 2; ++half) {
    for (size_t i = 0; i < 3; ++i) memcpy(columns + 4 * i, bytes24 + 8 * i + 4 * half, 4);
    GOOD(safetensors_slice_parse(half == 0 ? "0, :, :2" : "0, :, 2:", 8, &slice, &error));
    FAILS(safetensors_writer_write_slice(writer, TEXT("I16"), slice, columns, 11, &error), DATA_LENGTH);
    SAYS("tensor `I16`: the slice has shape [3, 2] and 12 bytes, the data 11");
    GOOD(safetensors_writer_write_slice(writer, TEXT("I16"), slice, columns, 12, &error));
    FAILS(safetensors_writer_write_slice(writer, TEXT("I16"), slice, columns, 12, &error), OVERLAPPING_WRITE);
    FAILS(safetensors_writer_write_slice(writer, TEXT("nothing"), slice, columns, 12, &error), NOT_FOUND);
    FAILS(safetensors_writer_write_slice(writer, TEXT("scalar"), NULL, columns, 12, &error), INVALID_ARGUMENT);
    FAILS(safetensors_writer_write_slice(NULL, TEXT("I16"), slice, columns, 12, &error), INVALID_ARGUMENT);
    safetensors_slice_free(slice);
  }
}

/* Writes the tensor I16: 2 rows of 24 bytes. */
static void write_rows(safetensors_writer* writer) {
  GOOD(safetensors_writer_write_rows(writer, TEXT("I16"), 1, bytes24 + 24, 24, &error));
  FAILS(safetensors_writer_write_rows(writer, TEXT("I16"), 1, bytes24 + 24, 24, &error), OVERLAPPING_WRITE);
  FAILS(safetensors_writer_write_rows(writer, TEXT("I16"), 0, bytes24, 23, &error), DATA_LENGTH);
  SAYS("tensor `I16` has rows of 24 bytes, the data 23");
  FAILS(safetensors_writer_write_rows(writer, TEXT("I16"), 3, bytes24, 24, &error), SLICE_INDEX);
  SAYS("tensor `I16` has 2 rows, the first row is 3");
  FAILS(safetensors_writer_write_rows(writer, TEXT("I16"), 1, bytes24, 48, &error), BUFFER_SIZE);
  FAILS(safetensors_writer_write_rows(writer, TEXT("nothing"), 0, bytes24, 24, &error), NOT_FOUND);
  FAILS(safetensors_writer_write_rows(writer, TEXT("I16"), 0, NULL, 24, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_write_rows(writer, NULL, 3, 0, bytes24, 24, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_write_rows(NULL, TEXT("I16"), 0, bytes24, 24, &error), INVALID_ARGUMENT);
  GOOD(safetensors_writer_write_rows(writer, TEXT("I16"), 2, NULL, 0, &error));
  write_first_row(writer);
}

/* A scalar has no rows, and rows of 3 elements with 4 bits do not end with a byte. */
static void tensors_without_rows(void) {
  const uint64_t shape[2] = {2, 3};
  safetensors_header_builder* builder = NULL;
  safetensors_header* header = NULL;
  safetensors_writer* writer = NULL;
  GOOD(safetensors_header_builder_create(&builder, &error));
  GOOD(safetensors_header_builder_add(builder, TEXT("scalar"), SAFETENSORS_DTYPE_U8, NULL, 0, &error));
  GOOD(safetensors_header_builder_add(builder, TEXT("packed"), SAFETENSORS_DTYPE_F4, shape, 2, &error));
  GOOD(safetensors_header_builder_build(builder, NULL, &header, &error));
  safetensors_header_builder_free(builder);
  GOOD(safetensors_writer_create(other_path, header, NULL, &writer, &error));
  safetensors_header_free(header);
  FAILS(safetensors_writer_write_rows(writer, TEXT("scalar"), 0, bytes24, 1, &error), SLICE_RANK);
  FAILS(safetensors_writer_write_rows(writer, TEXT("packed"), 0, bytes24, 1, &error), SLICE_BITS);
  safetensors_writer_free(writer);
}

static void writer_in_pieces(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_header* header = NULL;
  safetensors_header* same_header = NULL;
  safetensors_writer* writer = NULL;
  safetensors_tensor* tensor = tensor_of(file, "U8");
  GOOD(safetensors_file_header(file, &header, &error));
  GOOD(safetensors_writer_create(other_path, header, NULL, &writer, &error));
  GOOD(safetensors_writer_header(writer, &same_header, &error));
  safetensors_header_free(same_header);
  GOOD(safetensors_writer_write(writer, TEXT("U8"), 8, bytes24 + 8, 16, &error));
  FAILS(safetensors_writer_write(writer, TEXT("U8"), 7, bytes24 + 7, 2, &error), OVERLAPPING_WRITE);
  FAILS(safetensors_writer_write(writer, TEXT("U8"), 24, bytes24, 1, &error), BUFFER_SIZE);
  FAILS(safetensors_writer_write(writer, TEXT("nothing"), 0, bytes24, 1, &error), NOT_FOUND);
  FAILS(safetensors_writer_write(writer, TEXT("U8"), 0, NULL, 8, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_write(writer, NULL, 2, 0, bytes24, 8, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_write(NULL, TEXT("U8"), 0, bytes24, 8, &error), INVALID_ARGUMENT);
  GOOD(safetensors_writer_write(writer, TEXT("U8"), 0, bytes24, 8, &error));
  write_rows(writer);
  FAILS(safetensors_writer_copy(writer, TEXT("F32"), tensor, &error), DTYPE_MISMATCH);
  FAILS(safetensors_writer_copy(writer, TEXT("F32"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_copy(NULL, TEXT("F32"), tensor, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_commit(writer, &error), INCOMPLETE_WRITE);
  safetensors_tensor_free(tensor);
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(tensors[i].name, "U8") == 0 || strcmp(tensors[i].name, "I16") == 0) continue;
    tensor = tensor_of(file, tensors[i].name);
    GOOD(safetensors_writer_copy(writer, tensors[i].name, tensors[i].name_length, tensor, &error));
    safetensors_tensor_free(tensor);
  }
  CHECK(access(other_path, F_OK) != 0);
  GOOD(safetensors_writer_commit(writer, &error));
  FAILS(safetensors_writer_write(writer, TEXT("U8"), 0, bytes24, 8, &error), WRITER_CLOSED);
  safetensors_writer_free(writer);
  safetensors_file_free(file);
  file = open_file(other_path, SAFETENSORS_ACCESS_READ);
  read_all(file);
  safetensors_file_free(file);
  CHECK(unlink(other_path) == 0);

  GOOD(safetensors_writer_create(other_path, header, NULL, &writer, &error));
  GOOD(safetensors_writer_abort(writer, &error));
  FAILS(safetensors_writer_write(writer, TEXT("U8"), 0, bytes24, 8, &error), WRITER_CLOSED);
  FAILS(safetensors_writer_commit(writer, &error), WRITER_CLOSED);
  GOOD(safetensors_writer_abort(writer, &error));
  GOOD(safetensors_writer_header(writer, &same_header, &error));
  safetensors_header_free(same_header);
  safetensors_writer_free(writer);
  GOOD(safetensors_writer_create(other_path, header, NULL, &writer, &error));
  safetensors_writer_free(writer); /* removes it as well: main's rmdir proves it */
  safetensors_writer_free(NULL);
  FAILS(safetensors_writer_create(NULL, header, NULL, &writer, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_create(other_path, NULL, NULL, &writer, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_create(other_path, header, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_create("/nowhere/x", header, NULL, &writer, &error), OPEN_FAILED);
  CHECK(writer == NULL);
  FAILS(safetensors_writer_commit(NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_abort(NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_writer_header(NULL, &same_header, &error), INVALID_ARGUMENT);
  safetensors_header_free(header);
}

/* The value of a key, or NULL. */
static const char* metadata_of(const char* key) {
  static char text[64];
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_header* header = NULL;
  const char* value = NULL;
  size_t length = 0;
  GOOD(safetensors_file_header(file, &header, &error));
  const safetensors_status status = safetensors_header_metadata_find(header, key, strlen(key), &value, &length, &error);
  if (status == SAFETENSORS_OK) snprintf(text, sizeof text, "%.*s", (int)length, value);
  safetensors_header_free(header);
  read_all(file);
  safetensors_file_free(file);
  return status == SAFETENSORS_OK ? text : NULL;
}

struct edit_reports {
  int calls, most;
  uint64_t done, total;
};

static int32_t report_edit(void* user, uint64_t done, uint64_t total) {
  struct edit_reports* reports = user;
  reports->done = done;
  reports->total = total;
  return ++reports->calls <= reports->most;
}

static void edits_with_progress(void) {
  const safetensors_metadata edits[] = {{TEXT("draft"), TEXT("yes")}};
  struct edit_reports reports = {0, 0, 0, 0};
  safetensors_edit_options options = SAFETENSORS_EDIT_OPTIONS_INIT;
  options.progress = report_edit;
  options.user = &reports;
  FAILS(safetensors_edit_metadata(path, edits, 1, &options, &error), CANCELLED);
  CHECK(metadata_of("draft") == NULL);
  reports.most = 1000;
  GOOD(safetensors_edit_metadata(path, edits, 1, &options, &error));
  CHECK(metadata_of("draft") != NULL && reports.calls == 2 && reports.done == reports.total && reports.total > 0);
  /* A program that was built before there was progress. */
  options.struct_size = offsetof(safetensors_edit_options, progress);
  reports.most = 0;
  GOOD(safetensors_edit_metadata(path, edits, 1, &options, &error));
  CHECK(reports.calls == 2);
}

static void metadata_edits(void) {
  const safetensors_metadata edits[] = {{TEXT("license"), TEXT("apache-2.0")}, {TEXT("format"), NULL, 0}};
  const safetensors_metadata shorter[] = {{TEXT("license"), "", 0}};
  safetensors_edit_options options = SAFETENSORS_EDIT_OPTIONS_INIT;
  GOOD(safetensors_edit_metadata(path, edits, 2, NULL, &error));
  CHECK(metadata_of("format") == NULL);
  const char* license = metadata_of("license");
  CHECK(license && strcmp(license, "apache-2.0") == 0);
  options.in_place = 1;
  GOOD(safetensors_edit_metadata(path, shorter, 1, &options, &error));
  license = metadata_of("license");
  CHECK(license && license[0] == '\0');
  char value[4096];
  memset(value, 'v', sizeof value);
  const safetensors_metadata longer[] = {{TEXT("license"), value, sizeof value}};
  FAILS(safetensors_edit_metadata(path, longer, 1, &options, &error), HEADER_DOES_NOT_FIT);
  FAILS(safetensors_edit_metadata(NULL, edits, 2, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_edit_metadata(path, NULL, 2, NULL, &error), INVALID_ARGUMENT);
  options.durability = -1;
  FAILS(safetensors_edit_metadata(path, edits, 2, &options, &error), INVALID_ARGUMENT);
  FAILS(safetensors_edit_metadata("/nowhere/x", edits, 2, NULL, &error), OPEN_FAILED);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  writing();
  progress_of_writing();
  links();
  several_files();
  progress_of_a_writer();
  writer_in_pieces();
  tensors_without_rows();
  edits_with_progress();
  metadata_edits();
  remove_directory();
  return finish("c writing");
}
