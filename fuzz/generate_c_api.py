"""Writes a call with drawn arguments for every function of the C headers: C++ that c_api.cpp includes.

usage: generate_c_api.py OUTPUT HEADER...

The parser knows the forms of our own headers and nothing else. A declaration or a parameter of another form ends it with
an error, so a new function cannot be left out: teach this file what its arguments mean.
"""

import re
import sys

# Pointers that a caller may leave out, as the headers say. NULL for any other is INVALID_ARGUMENT.
OPTIONAL = {
    ("safetensors_error_format", "text"), ("safetensors_error_format", "length"),
    ("safetensors_printable", "length"),
    ("safetensors_tensor_info_format", "text"), ("safetensors_tensor_info_format", "length"),
    ("safetensors_file_metadata", "value"), ("safetensors_file_metadata", "length"),
    ("safetensors_save", "metadata"),
    ("safetensors_slice_resolve", "slice"), ("safetensors_tensor_read", "slice"),
    ("safetensors_tensor_read_into", "slice"), ("safetensors_read_plan_add", "slice"),
    ("safetensors_resolved_slice_size", "nbytes"), ("safetensors_resolved_slice_size", "run_count"),
    ("safetensors_checkpoint_size", "tensor_count"), ("safetensors_checkpoint_size", "file_count"),
    ("safetensors_checkpoint_layout_size", "file_count"), ("safetensors_checkpoint_layout_size", "total_size"),
    ("safetensors_checkpoint_layout_file_at", "header"), ("safetensors_checkpoint_layout_index", "name"),
    ("safetensors_read_plan_size", "count"), ("safetensors_read_plan_size", "nbytes"),
}  # fmt: skip
# NUL-terminated texts that are no paths.
TEXTS = {"name", "key", "stem"}
# Sizes that are told also on failure.
TOLD = {"rank", "count", "length"}
NUMBERS = {"int": "descriptor", "int32_t": "enumerator", "uint32_t": "number32", "uint64_t": "number",
           "int64_t": "signed_number", "size_t": "size", "safetensors_status": "enumerator",
           "safetensors_dtype": "dtype"}  # fmt: skip
COUNTS = re.compile(r"^(length|size|capacity|rank|count|\w+_length|\w+_size|\w+_count)$")
RELEASE = "void (*release)(void* user)"
# Functions that a call runs before it returns, and how they are drawn.
VISITORS = {
    "void (*visit)(void* user, uint64_t file, const safetensors_tensor_info* info)": "visit_tensor",
    "void (*visit)(void* user, const char* name)": "visit_name",
}


def fail(text):
    sys.exit(f"generate_c_api.py: cannot understand: {' '.join(text.split())}")


def declarations(text):
    """The declarations of a header, without comments, the preprocessor and extern "C"."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", " ", text, flags=re.M)
    text = re.sub(r'extern "C" \{(.*)\}\s*$', r"\1", text, flags=re.S)
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == ";" and depth == 0:
            yield " ".join(text[start:at].split())
            start = at + 1
    if text[start:].strip():
        fail(text[start:])


def split_parameters(text):
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text + ","):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [] if parts == ["void"] else parts


def parse_variable(text):
    """(type, name); the type of a function pointer is the whole declaration."""
    if match := re.fullmatch(r"[\w ]+\*? ?\(\*(\w+)\)\(.*\)", text):
        return text, match[1]
    match = re.fullmatch(r"((?:const )?(?:struct )?\w+(?:\*(?: const)?)*) ?(\w+)(\[\w+\])?", text)
    return (match[1] + ("[]" if match[3] else ""), match[2]) if match else fail(text)


def parse(headers):
    handles, structs, functions = set(), {}, []
    for path in headers:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for declaration in declarations(text):
            if match := re.fullmatch(r"typedef struct (\w+) \1", declaration):
                handles.add(match[1])
            elif match := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", declaration):
                structs[match[1]] = [parse_variable(field.strip()) for field in match[2].split(";") if field.strip()]
            elif match := re.fullmatch(r"SAFETENSORS_API ((?:const )?\w+\*?) (\w+)\((.*)\)", declaration):
                functions.append((match[1], match[2], [parse_variable(p) for p in split_parameters(match[3])]))
            elif not re.fullmatch(r"typedef int32_t \w+|enum \{[^{}]*\}|typedef (struct )?DL\w+ \w+", declaration):
                fail(declaration)
    return handles, structs, functions


class Generator:
    def __init__(self, handles, structs):
        self.handles, self.structs = handles, structs
        self.growing = {name for name, fields in structs.items() if fields[0] == ("uint64_t", "struct_size")}

    def arguments(self, function, parameters):
        """Lines that draw the arguments, and the arguments themselves."""
        lines, names, at = [], [], 0
        while at < len(parameters):
            kind, name = parameters[at]
            following = parameters[at + 1] if at + 1 < len(parameters) else ("", "")
            needed = "false" if (function, name) in OPTIONAL else "true"
            drawn, count = self.argument(kind, name, following, needed)
            if drawn is None:
                fail(f"{kind} {name} of {function}")
            lines.append(f"  auto {name} = {drawn};")
            names.append(f"{name}.pointer()" if kind.endswith("*") or "(*" in kind else name)
            if count == 2:
                names.append(f"{name}.count()")
            at += count
            if kind == RELEASE or kind in VISITORS:  # and its user
                names[-1] = f"{name}.function()"
                names.append(f"{name}.user()")
                at += 1
        return lines, names

    def argument(self, kind, name, following, needed):
        """How an argument is drawn, and how many parameters it stands for."""
        counted = following[0] == "size_t" and COUNTS.fullmatch(following[1])
        if kind in NUMBERS:
            return f"s.{NUMBERS[kind]}()", 1
        if kind == RELEASE and following == ("void*", "user"):
            return "s.release()", 1
        if kind in VISITORS and following == ("void*", "user"):
            return f"s.{VISITORS[kind]}()", 1
        if kind == "safetensors_error*":
            return "s.error()", 1
        if kind == "const safetensors_error*":
            return "s.failure()", 1
        if kind == "const char* const*" and counted:
            return "s.paths()", 2
        if (match := re.fullmatch(r"const (\w+)\* const\*", kind)) and match[1] in self.handles and counted:
            return f"s.handles<{match[1]}>()", 2
        if kind == "const char* const*":
            return "s.terminated_list()", 1
        if kind == "const char*" and not counted:
            return f"s.{'name' if name in TEXTS else 'path'}({needed})", 1
        base = re.sub(r"^const |\*+$", "", kind)
        constant, stars = kind.startswith("const "), kind.count("*")
        if stars == 1 and base in self.handles:
            return f"s.handle<{base}>({needed})", 1
        if stars == 2 and not constant and (base in self.handles or base == "safetensors_dl_managed_tensor"):
            return f"s.out_handle<{base}>({needed})", 1
        if stars == 1 and base in self.growing:
            if not constant:
                return f"s.result<{base}>()", 1
            return f"s.options<{base}>([&](auto& given) {{ fill(s, given); }}, {self.nullable(base)})", 1
        if stars == 1 and counted:
            element = "unsigned char" if base == "void" else base
            if constant and base in self.structs:
                return f"s.list<{base}>([&](auto& given) {{ fill(s, given); }})", 2
            return f"s.{'input' if constant else 'output'}<{element}>()", 2
        if stars == 2 or (stars == 1 and not constant):
            told = "true" if name in TOLD else "false"
            pointed = kind[:-1]
            return f"s.out_value<{pointed}>({needed}, {told})", 1
        return None, 1

    @staticmethod
    def nullable(struct):
        return "false" if struct in ("safetensors_source", "safetensors_tensor_info") else "true"

    def filler(self, struct):
        """Fills a struct of options or of a list; pairs of pointer and count belong together."""
        fields, lines, at = self.structs[struct], [], 0
        while at < len(fields):
            kind, name = fields[at]
            following = fields[at + 1] if at + 1 < len(fields) else ("", "")
            if name == "struct_size":
                at += 1
                continue
            drawn, count = self.field(struct, kind, name, following)
            if drawn is None:
                fail(f"{kind} {name} of {struct}")
            if count == 2:
                lines += [f"  auto {name} = {drawn};", f"  given.{name} = {name}.pointer();",
                          f"  given.{following[1]} = {name}.count();"]  # fmt: skip
            else:
                lines.append(f"  {drawn};")
            at += count
        return [f"inline void fill([[maybe_unused]] Session& s, {struct}& given) {{", *lines, "}", ""]

    def field(self, struct, kind, name, following):
        base = re.sub(r"^const |\*+$", "", kind)
        counted = following[0] == "size_t" and COUNTS.fullmatch(following[1])
        if name == "reserved":
            return f"s.reserved(given.{name})", 1
        if name == "user" and kind == "void*":
            return "given.user = s.user()", 1
        if "(*" in kind:
            return f"s.callback_{name}(given.{name})", 1
        if name == "device_stream":  # no memory of a device is touched
            return f"s.no_device(given.{name})", 1
        if kind in NUMBERS:
            return f"given.{name} = s.{NUMBERS[kind]}()", 1
        if kind == "uint8_t":
            return f"given.{name} = s.byte()", 1
        if counted and base in self.structs:
            return f"s.list<{base}>([&](auto& inner) {{ fill(s, inner); }})", 2
        if counted:
            element = "unsigned char" if base == "void" else base
            return f"s.{'input' if kind.startswith('const ') else 'output'}<{element}>()", 2
        if (struct, name) == ("safetensors_tensor_info", "dims"):  # no call reads it
            return f"given.{name} = nullptr", 1
        if kind == "uint64_t[]":
            return f"s.dimensions(given.{name})", 1
        if kind == "const char*":
            return f"given.{name} = s.{'name' if name in TEXTS else 'path'}(false).pointer()", 1
        if base in self.handles:
            return f"given.{name} = s.handle<{base}>(false).pointer()", 1
        if base in self.growing:
            return f"given.{name} = s.options<{base}>([&](auto& inner) {{ fill(s, inner); }}, true).pointer()", 1
        return None, 1

    def call(self, result, function, parameters):
        lines, names = self.arguments(function, parameters)
        whole = f"{function}({', '.join(names)})"
        head = [f"inline void call_{function}([[maybe_unused]] Session& s) {{", f'  s.begin("{function}");', *lines]
        if function.endswith("_free"):
            name = parameters[0][1]
            return [*head, f"  s.forget({name}.pointer());", f"  {whole};", "}", ""]
        if result == "safetensors_status" and parameters[-1] == ("safetensors_error*", "error"):
            return [*head, f"  s.end({whole});", "}", ""]
        if result in ("const char*", "const void*", "int32_t", "uint32_t", "uint64_t"):
            return [*head, f"  s.plain({whole});", "}", ""]
        return fail(f"{result} {function}")


def main(output, headers):
    handles, structs, functions = parse(headers)
    generator = Generator(handles, structs)
    lines = ["// Written by generate_c_api.py.", ""]
    frees = {name for _, name, _ in functions if name.endswith("_free")}
    for handle in sorted(handles):
        if f"{handle}_free" not in frees:
            fail(f"a handle without a function to free it: {handle}")
        lines.append(f"inline void free_handle({handle}* handle) {{ {handle}_free(handle); }}")
    lines.append("")
    # A struct before those that hold a list of it.
    filled = [name for name in structs if name in generator.growing or name not in ("safetensors_error",)]
    filled = [name for name in filled if not re.search(r"(?<!_tensor)_info$|_dl_|_byte_run$|_error$", name)]
    for struct in filled:
        lines += generator.filler(struct)
    for result, name, parameters in functions:
        lines += generator.call(result, name, parameters)
    lines += ["inline constexpr void (*kCalls[])(Session&) = {"]
    lines += [f"    call_{name}," for _, name, _ in functions] + ["};", ""]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
