/** @file
 * Includes the C++ interface of the library `safetensors`, except `to_dlpack.h` (arrays for other frameworks). When you
 * compile this file as C, it includes c.h instead.
 *
 * **Reading** is a ladder. Each step gives you more control, and you climb only as far as you need:
 * - `File::open()` reads and checks the header, and nothing else. `Checkpoint::open()` does the same for a model of
 *   several files: a folder, an index, a pattern. Both hand out a Tensor per name.
 * - `get<T>()` and `Tensor::view()` return the bytes where they are, in a map of the file. Nothing is copied, and the
 *   system reads a page when you touch it. Use them to look at a few tensors, or if you do not need the bytes at once.
 * - `Tensor::read()`, `read_as<T>()` and `read_into()` copy a tensor or a slice into memory: new memory, a std::vector,
 *   or yours. Use them for one tensor.
 * - `ReadPlan` reads many tensors or slices of any files with several threads, into memory of its own, into yours, or
 *   onto devices, and casts them on the way. Use it to load a model. `execute()` returns everything at once. `stream()`
 *   returns one item after the other within a limit of memory.
 *
 * **Writing** is a ladder, too:
 * - `save()` writes tensors that are in memory, or in other files, to one file. `save_checkpoint()` writes them to a
 *   model of several files with an index.
 * - `Writer` writes one file piece by piece: first you declare all tensors, then you give their bytes in any order and
 *   from any thread. Use it if the tensors do not fit in memory.
 * - `CheckpointWriter` does the same for a model of several files, also from several processes.
 *
 * Nothing is at the path before all bytes are written: other programs see the old file or the new one.
 *
 * @code
 * namespace st = safetensors;
 *
 * st::Status example(st::Span<const float> weight) {
 *   // Write one file. A Status is true if all went well.
 *   if (st::Status s = st::save("model.safetensors", {{"weight", {2, 3}, weight}}); !s) return s;
 *
 *   st::Result<st::File> file = st::File::open("model.safetensors");
 *   if (!file) return std::move(file).error();
 *
 *   st::Result<st::TypedView<const float>> view = file->get<float>("weight", {2, 3});  // no copy
 *   if (!view) return std::move(view).error();
 *   std::printf("%g\n", (*view)(1, 2));
 *
 *   st::Result<std::vector<float>> column = (*file)["weight"].read_as<float>(":,1");   // a copy of 2 elements
 *   if (!column) return std::move(column).error();
 *
 *   st::ReadPlan plan;                                                                  // many tensors at once
 *   for (const st::Tensor& tensor : *file) {
 *     if (st::Status s = plan.add(tensor); !s) return s;
 *   }
 *   st::Result<st::ReadResult> all = plan.execute();
 *   if (!all) return std::move(all).error();
 *   const st::Array& loaded = (*all)["weight"];
 *   std::printf("%zu bytes\n", loaded.bytes().size());
 *   return {};
 * }
 * @endcode
 *
 * **Errors.** Functions do not throw, unless their comment says so. They return a Status, or a Result with a value.
 * `value()` of a Result throws `safetensors::Exception` if there is none.
 *
 * **Threads.** Several threads may call const functions of one object at the same time. A call that is not const needs
 * the object for itself. The exceptions, such as Writer, say so. Different objects are independent: the library has no
 * state of its own except facts about the machine.
 *
 * **Lifetimes.** Files, tensors, arrays and views keep alive what they need. So a view may outlive its File. References
 * and spans that a function returns belong to the object, and the compiler refuses them from a temporary object. */
#pragma once

#ifdef __cplusplus
#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "safetensors needs C++17: compile with -std=c++17"
#else
#include <safetensors/array.h>
#include <safetensors/callback.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/dtype.h>
#include <safetensors/durability.h>
#include <safetensors/element.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/path.h>
#include <safetensors/print.h>
#include <safetensors/read_plan.h>
#include <safetensors/save.h>
#include <safetensors/shape.h>
#include <safetensors/slice.h>
#include <safetensors/source.h>
#include <safetensors/span.h>
#include <safetensors/typed_view.h>
#include <safetensors/writer.h>
#endif
#else
#include <safetensors/c.h>
#endif
