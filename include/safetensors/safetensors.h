/** @file
 * Includes the whole C++ interface. When you compile it as C, it includes c.h instead. */
#pragma once

#ifdef __cplusplus
#if __cplusplus < 202002L
#error "safetensors needs C++20: compile with -std=c++20, or include <safetensors/c.h>, which C++11 can use"
#else
#include <safetensors/arena.h>
#include <safetensors/array.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_index.h>
#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/clean.h>
#include <safetensors/diff.h>
#include <safetensors/dtype.h>
#include <safetensors/edit.h>
#include <safetensors/element.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/lint.h>
#include <safetensors/path.h>
#include <safetensors/print.h>
#include <safetensors/read_plan.h>
#include <safetensors/recognize.h>
#include <safetensors/reshard.h>
#include <safetensors/save.h>
#include <safetensors/shape.h>
#include <safetensors/slice.h>
#include <safetensors/source.h>
#include <safetensors/stats.h>
#include <safetensors/typed_view.h>
#include <safetensors/writer.h>
#endif
#else
#include <safetensors/c.h>
#endif
