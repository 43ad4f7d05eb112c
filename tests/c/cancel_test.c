/* Cancelling from C: after a number of calls, and by a flag that a signal handler sets. */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stddef.h>

#include "c/test_files.h"

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
  (void)number;
  interrupted = 1;
}

static int32_t is_interrupted(void* user) {
  ++*(int*)user;
  return interrupted;
}

/* user: how many answers are left until it is a yes. */
static int32_t count_down(void* user) {
  return --*(int*)user <= 0;
}

/* A header of many tensors, NUL-terminated. */
static char* many_tensors(size_t count) {
  char* text = malloc(count * 64 + 16);
  size_t size = 0;
  if (!text) exit(1);
  for (size_t i = 0; i < count; ++i)
    size += (size_t)sprintf(text + size, "%c\"%08zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                            i == 0 ? '{' : ',', i);
  text[size++] = '}';
  text[size] = '\0';
  return text;
}

static void every_way_of_opening(void) {
  safetensors_parse_options parse = SAFETENSORS_PARSE_OPTIONS_INIT;
  safetensors_open_options open = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_checkpoint_options checkpoints = SAFETENSORS_CHECKPOINT_OPTIONS_INIT;
  safetensors_header* header = NULL;
  safetensors_file* file = NULL;
  safetensors_checkpoint* checkpoint = NULL;
  int left = 0;
  parse.cancelled = open.cancelled = checkpoints.cancelled = count_down;
  parse.user = open.user = checkpoints.user = &left;
  FAILS(safetensors_header_parse(TEXT("{}"), 0, &parse, &header, &error), CANCELLED);
  SAYS("cancelled while opening");
  FAILS(safetensors_file_open(path, &open, &file, &error), CANCELLED);
  CHECK(strcmp(error.path, path) == 0);
  FAILS(safetensors_file_from_memory("\2\0\0\0\0\0\0\0{}", 10, NULL, NULL, &parse, &file, &error), CANCELLED);
  FAILS(safetensors_checkpoint_open(path, &checkpoints, &checkpoint, &error), CANCELLED);
  CHECK(header == NULL && file == NULL && checkpoint == NULL && left == -4);
  left = 1000;
  GOOD(safetensors_file_open(path, &open, &file, &error));
  CHECK(left > 900 && left < 1000);
  safetensors_file_free(file);
}

static void a_flag_of_a_signal_handler(void) {
  safetensors_parse_options parse = SAFETENSORS_PARSE_OPTIONS_INIT;
  safetensors_header* header = NULL;
  struct sigaction action;
  char* text = many_tensors(20000);
  int questions = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = interrupt;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  parse.cancelled = is_interrupted;
  parse.user = &questions;
  GOOD(safetensors_header_parse(text, strlen(text), 0, &parse, &header, &error));
  CHECK(questions > 10);
  safetensors_header_free(header);
  CHECK(raise(SIGUSR1) == 0);
  FAILS(safetensors_header_parse(text, strlen(text), 0, &parse, &header, &error), CANCELLED);
  CHECK(header == NULL);
  free(text);
}

/* A program that was compiled before there was a cancellation: its structs end before it, whatever stands behind. */
static void older_structs(void) {
  safetensors_parse_options parse = SAFETENSORS_PARSE_OPTIONS_INIT;
  safetensors_open_options open = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_checkpoint_options checkpoints = SAFETENSORS_CHECKPOINT_OPTIONS_INIT;
  int left = 0;
  parse.cancelled = open.cancelled = checkpoints.cancelled = count_down;
  parse.user = open.user = checkpoints.user = &left;
  for (size_t part = 0; part < 2 * sizeof(void*); part += 4) { /* also a size between two fields is of neither */
    safetensors_header* header = NULL;
    safetensors_file* file = NULL;
    safetensors_checkpoint* checkpoint = NULL;
    parse.struct_size = offsetof(safetensors_parse_options, cancelled) + part;
    open.struct_size = offsetof(safetensors_open_options, cancelled) + part;
    checkpoints.struct_size = offsetof(safetensors_checkpoint_options, cancelled) + part;
    GOOD(safetensors_header_parse(TEXT("{}"), 0, &parse, &header, &error));
    GOOD(safetensors_file_open(path, &open, &file, &error));
    GOOD(safetensors_checkpoint_open(path, &checkpoints, &checkpoint, &error));
    safetensors_header_free(header);
    safetensors_file_free(file);
    safetensors_checkpoint_free(checkpoint);
  }
  CHECK(left == 0);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  every_way_of_opening();
  a_flag_of_a_signal_handler();
  older_structs();
  remove_directory();
  return finish("c cancel");
}
