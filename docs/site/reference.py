"""Writes one Markdown page per public header, from the XML that Doxygen made of it.

usage: reference.py XML_DIRECTORY HEADER_DIRECTORY OUTPUT_DIRECTORY

A page has the declarations in the order of the header. Members in one group (`/// @{`) are one entry. In a C header, the
comments `/* --- TITLE --- */` divide the page. No ready-made converter keeps this order, or knows enums without a name.
"""

import pathlib
import re
import sys
from xml.etree import ElementTree

SECTION = re.compile(r"^/\* --- (.*) --- \*/$")
WIDTH = 100


def escape(text):
    """Plain text as Markdown. A document that it names becomes a link."""
    text = re.sub(r"([\\`*_\[\]<])", r"\\\1", text)
    return re.sub(r"\bdocs/(\w+)\.md\b", r"[docs/\1.md](../docs/\1.md)", text)


def inner_text(element):
    return "" if element is None else "".join(element.itertext()).strip()


def clean_type(text):
    text = re.sub(r"\s+", " ", text).replace("< ", "<").replace(" >", ">").strip()
    text = re.sub(r" (&&|&|\*+)", r"\1", text).replace("(* ", "(*")
    return re.sub(r"([&*])(?=\w)(?<!\(\*)", r"\1 ", text)


class Entry:
    """A class, or members that share a comment."""

    def __init__(self, xml, kind, name, line):
        self.members, self.kind, self.name, self.line = [xml], kind, name, line
        self.children = []

    @property
    def ids(self):
        return [xml.get("id") for xml in self.members]


class Reference:
    def __init__(self, xml_directory, header_directory):
        self.headers = pathlib.Path(header_directory)
        self.pages, self.anchors = {}, {}
        compounds = {}
        for path in sorted(pathlib.Path(xml_directory).glob("*.xml")):
            for compound in ElementTree.parse(path).getroot().iter("compounddef"):
                compounds[compound.get("id")] = compound
        self.files = {c.findtext("compoundname"): c for c in compounds.values() if c.get("kind") == "file"}
        entries, owners = {}, {}
        for key, compound in compounds.items():
            if compound.get("kind") not in ("class", "struct") or compound.get("prot", "public") != "public":
                continue
            name = re.sub(r"^safetensors(17)?::", "", compound.findtext("compoundname"))
            entry = Entry(compound, compound.get("kind"), name, int(compound.find("location").get("line")))
            entry.children = self.members(compound)
            entries[key] = entry
            for inner in compound.iter("innerclass"):
                owners[inner.get("refid")] = key
        for key, entry in entries.items():
            page = self.page_of(entry.members[0])
            if key in owners:
                if owners[key] in entries:
                    entries[owners[key]].children.append(entry)
            else:
                self.pages.setdefault(page, []).append(entry)
        for compound in compounds.values():
            if compound.get("kind") in ("file", "namespace"):
                for entry in self.members(compound):
                    self.pages.setdefault(self.page_of(entry.members[0]), []).append(entry)
        for page, found in self.pages.items():
            self.sort(found)
            self.give_anchors(page, found, "")
        for name, compound in self.files.items():
            self.anchors[compound.get("id")] = (name, "")

    @staticmethod
    def page_of(xml):
        return pathlib.Path(xml.find("location").get("file")).name

    def sort(self, entries):
        entries.sort(key=lambda entry: entry.line)
        for entry in entries:
            self.sort(entry.children)

    def members(self, compound):
        found = []
        for section in compound.findall("sectiondef"):
            shared = section.get("kind") == "user-defined"
            group = None
            for xml in section.findall("memberdef"):
                name, kind = xml.findtext("name"), xml.get("kind")
                described = inner_text(xml.find("briefdescription")) + inner_text(xml.find("detaileddescription"))
                if xml.get("prot") != "public" or not described:  # a friend class, a destructor that is defaulted
                    continue
                if shared and group is not None:
                    group.members.append(xml)
                    continue
                group = Entry(xml, kind, name, int(xml.find("location").get("line")))
                found.append(group)
        return found

    def give_anchors(self, page, entries, scope):
        taken = {anchor for known, anchor in self.anchors.values() if known == page}
        for entry in entries:
            name = entry.name
            if name.startswith("@"):
                name = common_prefix([v.findtext("name") for v in entry.members[0].iter("enumvalue")])
            anchor = base = scope + re.sub(r"\W+", "-", name.split("::")[-1]).strip("-")
            number = 1
            while anchor in taken:
                number += 1
                anchor = f"{base}-{number}"
            taken.add(anchor)
            entry.anchor = anchor
            for key in entry.ids:
                self.anchors[key] = (page, anchor)
            for value in entry.members[0].iter("enumvalue"):
                self.anchors[value.get("id")] = (page, anchor)
            self.give_anchors(page, entry.children, f"{anchor}-")

    # Text

    def inline(self, element, own):
        out = escape(element.text or "")
        for child in element:
            text = self.inline(child, own)
            if child.tag == "computeroutput":
                code = inner_text(child).replace("\xa0", " ")
                text = f"`` {code} ``" if "`" in code else f"`{code}`"
            elif child.tag == "ref":
                text = self.link(child, text, own)
            elif child.tag == "bold":
                text = f"**{text}**"
            elif child.tag == "emphasis":
                text = f"*{text}*"
            elif child.tag == "ulink":
                text = f"[{text}]({child.get('url')})"
            elif child.tag == "linebreak":
                text = "  \n"
            elif child.tag not in ("para", "sp", "highlight"):
                sys.exit(f"reference.py: teach me the element <{child.tag}>")
            out += text + escape(child.tail or "")
        return out

    def link(self, ref, text, own):
        if ref.get("refid") not in self.anchors or ref.get("refid") in own:
            return text
        # "Error:" and "Error codes" begin a sentence. They do not mention the class.
        if inner_text(ref) == "Error" and (ref.tail or "").startswith((":", " code")):
            return text
        page, anchor = self.anchors[ref.get("refid")]
        return f"[{text}]({page_file(page)}{'#' + anchor if anchor else ''})"

    def paragraphs(self, element, own):
        """The paragraphs of a description, as Markdown."""
        out = []
        for para in element if element is not None else ():
            if para.tag != "para":
                sys.exit(f"reference.py: teach me the element <{para.tag}> of a description")
            blocks = [child for child in para if child.tag in ("itemizedlist", "programlisting")]
            plain = ElementTree.Element("para")
            plain.text = para.text
            for child in para:
                if child in blocks:
                    out.append(self.inline(plain, own).strip())
                    out.append(self.block(child, own))
                    plain = ElementTree.Element("para")
                    plain.text = child.tail
                else:
                    plain.append(child)
            out.append(self.inline(plain, own).strip())
        # The errors are what readers look for: they get a paragraph of their own.
        parts = [part for text in out for part in re.split(r"(?:^|(?<=[.)])\s)(?=Errors?: )", text)]
        return [re.sub(r"^(Errors?): ", r"**\1:** ", part) for part in parts if part]

    def block(self, element, own):
        if element.tag == "programlisting":
            lines = []
            for line in element.iter("codeline"):
                text = ""
                for part in line.iter():
                    text += " " if part.tag == "sp" else (part.text or "")
                    text += part.tail or "" if part is not line else ""
                lines.append(text.rstrip())
            return "```cpp\n" + "\n".join(lines) + "\n```"
        items = [" ".join(self.paragraphs(item, own)) for item in element.findall("listitem")]
        return "\n".join(f"- {item}" for item in items)

    def description(self, xml, own):
        return [
            text
            for part in ("briefdescription", "detaileddescription")
            for text in self.paragraphs(xml.find(part), own)
        ]

    # Declarations

    def declaration(self, xml):
        kind, name = xml.get("kind"), xml.findtext("name")
        if kind == "define":
            parameters = [p.findtext("defname") for p in xml.findall("param")]
            value = inner_text(xml.find("initializer"))
            value = "" if parameters or "{" in value or not value else f" {value}"
            return f"#define {name}" + (f"({', '.join(parameters)})" if parameters else value)
        if kind == "typedef":
            text = xml.findtext("definition")
            return clean_type(re.sub(r"\bsafetensors(17)?::", "", text)) + ";"
        before = clean_type(inner_text(xml.find("type")))
        words = [word for word in ("static", "explicit") if xml.get(word) == "yes"]
        words += ["virtual"] if xml.get("virt") in ("virtual", "pure-virtual") else []
        words += ["friend"] if kind == "friend" else []
        before = " ".join([w for w in words if w not in before.split()] + ([before] if before else []))
        if kind == "variable":
            arguments = xml.findtext("argsstring") or ""
            value = clean_type(inner_text(xml.find("initializer")))
            value = (" " + value if value.startswith("=") else value) if value else ""
            return f"{before} {name}{clean_type(arguments)}{value};".replace("(* ", " (*")
        parameters = []
        for parameter in xml.findall("param"):
            text = clean_type(inner_text(parameter.find("type")))
            declared = parameter.findtext("declname") or ""
            if "(*" in text:
                text += inner_text(parameter.find("array"))
            elif declared:
                text += f" {declared}"
            default = clean_type(inner_text(parameter.find("defval")))
            parameters.append(text + (f" = {default}" if default else ""))
        after = (xml.findtext("argsstring") or "").rpartition(")")[2].strip()
        after = re.sub(r"\s*=\s*", " = ", re.sub(r"(&+)(?=\w)", r"\1 ", after)).replace("const &", "const&")
        after = f" {after}" if after else ""
        # Function pointers have parentheses in their parameters.
        whole = f"{before} {name}({', '.join(parameters)}){after};".strip()
        if len(whole) > WIDTH:
            indent = ",\n    "
            whole = f"{before} {name}(\n    {indent.join(parameters)}){after};".strip()
        return template_line(xml) + whole

    def enum(self, entry, own):
        xml = entry.members[0]
        underlying = clean_type(inner_text(xml.find("type")))
        lines = []
        for value in xml.iter("enumvalue"):
            initializer = (value.findtext("initializer") or "").strip()
            number = f" {initializer}" if initializer else ""
            text = "\n\n    ".join(self.description(value, own))
            if not text:  # Doxygen does not warn about these
                location = xml.find("location")
                place = f"{location.get('file')}:{location.get('line')}"
                sys.exit(f"{place}: the value {value.findtext('name')} of the enum has no comment")
            lines.append(f"`{value.findtext('name')}{number}`\n:   {text}\n")
        name = "" if entry.name.startswith("@") else " " + entry.name
        strong = " class" if xml.get("strong") == "yes" else ""
        head = [f"```cpp\nenum{strong}{name}{' : ' + underlying if underlying else ''}\n```"] if name else []
        return [*head, *self.description(xml, own), "\n".join(lines)]

    # Pages

    def entry(self, entry, level):
        own = set(entry.ids)
        xml = entry.members[0]
        title = entry.name
        if entry.kind == "enum" and title.startswith("@"):
            title = common_prefix([v.findtext("name") for v in xml.iter("enumvalue")]) + "\\_..."
        elif entry.kind == "function":
            title = escape(", ".join(dict.fromkeys(m.findtext("name") + "()" for m in entry.members)))
        else:
            title = escape(title)
        if entry.kind in ("class", "struct", "enum"):
            title = f"{entry.kind} {title}"
        # In the table of contents, what all names of C have in common says nothing.
        plain = title.replace("\\", "")
        short = re.sub(r"(?i)^(enum |struct |)safetensors_", r"\1", plain)
        label = f' data-toc-label="{short}"' if short != plain else ""
        out = [f"{'#' * level} {title} {{: #{entry.anchor}{label} }}"]
        if entry.kind == "enum":
            return out + self.enum(entry, own)
        if xml.tag == "compounddef":
            out += self.compound(entry, own)
            return out + self.children(entry, level)
        out.append("```cpp\n" + "\n".join(self.declaration(m) for m in entry.members) + "\n```")
        return out + self.description(xml, own)

    def compound(self, entry, own):
        xml = entry.members[0]
        bases = [f"{b.get('prot')} {clean_type(inner_text(b))}" for b in xml.findall("basecompoundref")]
        inherited = " : " + ", ".join(bases) if bases else ""
        head = f"```cpp\n{template_line(xml)}{entry.kind} {entry.name}{inherited}\n```"
        return [head, *self.description(xml, own)]

    def children(self, entry, level):
        """Data members are a list; everything else has a heading."""
        out, fields = [], []
        for child in entry.children:
            if child.kind == "variable":
                paragraphs = self.description(child.members[0], set(child.ids))
                text = "\n\n".join(paragraphs).replace("\n", "\n    ")
                names = "\n".join(f"`{self.declaration(m).removesuffix(';')}`" for m in child.members)
                names += f"{{: #{child.anchor} }}"
                fields.append(f"{names}\n:   {text}\n")
        if fields:
            out.append("\n".join(fields))
        for child in entry.children:
            if child.kind != "variable":
                out += self.entry(child, level + 1)
        return out

    def page(self, name):
        path = self.headers / name
        out = [f"# {escape(name)}", f"```cpp\n#include <safetensors/{name}>\n```"]
        out += self.description(self.files[name], {self.files[name].get("id")})
        entries = list(self.pages.get(name, []))
        # A C struct and its typedef have one name and one comment.
        structs = {entry.name for entry in entries if entry.kind == "struct"}
        entries = [e for e in entries if not (e.kind == "typedef" and e.name in structs)]
        sections = [
            (number, match[1])
            for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
            if (match := SECTION.match(line))
        ]
        level = 2
        for entry in entries:
            while sections and sections[0][0] < entry.line:
                out.append(f"## {escape(sections.pop(0)[1])}")
                level = 3
            out += self.entry(entry, level)
        return "\n\n".join(out) + "\n"


def template_line(xml):
    lists = [[clean_type(inner_text(p)) for p in found.findall("param")] for found in xml.findall("templateparamlist")]
    return "".join(f"template <{', '.join(parameters)}>\n" for parameters in lists)


def common_prefix(names):
    """What the values of an enum without a name have in common: SAFETENSORS_OK is no SAFETENSORS_ERROR_..."""
    names = names[1:] if len(names) > 2 else names
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), len(first))
    return first[:same].rpartition("_")[0]


def page_file(name):
    return name.replace(".", "_") + ".md"


def main(xml_directory, header_directory, output_directory):
    reference = Reference(xml_directory, header_directory)
    output = pathlib.Path(output_directory)
    output.mkdir(parents=True, exist_ok=True)
    for name in reference.files:
        (output / page_file(name)).write_text(reference.page(name), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
