/* Checks for all C tests. They print and count failures. */
#ifndef SAFETENSORS_TESTS_C_EXPECT_H
#define SAFETENSORS_TESTS_C_EXPECT_H

#include <inttypes.h>
#include <safetensors/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;
static int failures;
static safetensors_error error;

static inline void check(int good, const char* text, const char* file, int line) {
  ++checks;
  if (good) return;
  ++failures;
  printf("%s:%d: not true: %s\n  error %s: %s\n", file, line, text, safetensors_status_name(error.code), error.message);
}

#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
/* GOOD: the call succeeds. FAILS: the call returns this error. Both check that `error` holds the same code. */
#define GOOD(call) check((call) == SAFETENSORS_OK && error.code == SAFETENSORS_OK, #call, __FILE__, __LINE__)
#define FAILS(call, what)                                                                                         \
  check((call) == SAFETENSORS_ERROR_##what && error.code == SAFETENSORS_ERROR_##what && error.message[0] != '\0', \
        #call " fails with " #what, __FILE__, __LINE__)
#define SAYS(text) check(strcmp(error.message, text) == 0, "the message is " text, __FILE__, __LINE__)

static inline int is_big_endian(void) {
  const uint16_t one = 1;
  return *(const unsigned char*)&one == 0;
}

/* A name or text with its length. */
#define TEXT(literal) (literal), (sizeof(literal) - 1)

static inline int same(const char* text, size_t length, const char* expected) {
  return length == strlen(expected) && memcmp(text, expected, length) == 0;
}

static inline int finish(const char* name) {
  printf("%s: %d checks, %d failed\n", name, checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}

#endif
