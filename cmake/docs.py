#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the API reference with Doxygen: the headers for users, the pages and the examples, in build/docs/html.

    docs.py [--output FOLDER] [DIR]    prints each warning of Doxygen, and exits with 1 if there is one
    docs.py --examples [DIR]           lists the public names (types, functions, macros, constants) that no code of a header's
                                       comment and no example has, and exits with 1 if there is one
    docs.py [--examples] --self-test

Doxygen reads a copy in FOLDER/input, in which each line has the number that it has in the repository:
- The rows of a comment (Failure, Threads, Streams, Cost) become paragraphs with a heading.
- A member without a comment gets the description of cmake/doxygen/members.txt, if it has one there. Doxygen runs twice: the
  first run lists these members.
- Deleted functions, deduction guides and internal macros are left out.
- The page of a type links to the examples that name it, also if Doxygen itself finds none (concepts).
- A link to a page or a header leads to its place in the output. A link to another file of the repository becomes text.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import reference

SCRIPTS = pathlib.Path(__file__).resolve().parent
ROW = re.compile(r"^(\s*///) (Failure|Threads|Streams|Cost|Units|Source)\s{2,}(.*)$")
ROW_CONTINUED = re.compile(r"^(\s*///)\s{8,}(\S.*)$")
UNDOCUMENTED = re.compile(r"^(?P<file>\S+?):(?P<line>\d+): warning: (?:Member (?P<member>.*) \((?P<kind>[\w ]+)\) of (?:\w+ )?(?P<of>.*)|"
                          r"Compound (?P<compound>.*)) is not documented\.$")
EXAMPLES = ("*.cpp", "*.cu", "project/app.cu", "interop/*.cpp", "interop/*.cu", "torch/*.cpp")


# --- headers --------------------------------------------------------------------------------------------------------


def headers(top):
    """The headers for users: those at the top level of the folders (include/vram/README.md)."""
    include = top / "include/vram"
    return [path for path in [*sorted(include.glob("*.hpp")), *sorted(include.glob("*/*.hpp"))]
            if str(path.relative_to(include)) not in reference.FORMER]


def with_rows(lines):
    """The lines of a header, with its contract rows as paragraphs."""
    out, in_row = [], False
    for line in lines:
        if found := ROW.match(line):
            line, in_row = f"{found[1]} \\row{{{found[2]}}} {found[3]}", True
        elif in_row and (found := ROW_CONTINUED.match(line)):
            line = f"{found[1]} {found[2]}"
        else:
            in_row = False
        out.append(re.sub(r"(///.*)`::(?=\w)", r"\1`", line))  # Doxygen looks for `::x` in vram
    return out


def without_macros(lines):
    """The lines of a header, without the definitions of internal macros."""
    out, inside = [], False
    for line in lines:
        inside = inside or line.startswith("#define VRAM_DETAIL_")
        out.append("" if inside else line)
        inside = inside and line.endswith("\\")
    return out


GUIDE = re.compile(r"^template <[^;{]*?>\n(?: +requires[^\n]*\n)*\w+\((?:[^;{}]|\{\})*\)\s*->[^;{]*;", re.MULTILINE)


def without_guides(text):
    """The text of a header, without deduction guides."""
    return GUIDE.sub(lambda found: "\n" * found[0].count("\n"), text)


ENUM = re.compile(r"^( *)enum class (\w+)[^;{]*\{(.*?)\}", re.DOTALL | re.MULTILINE)
DETAIL = re.compile(r"^namespace detail \{$.*?^\} // namespace detail$", re.DOTALL | re.MULTILINE)


def with_values(text, table, used):
    """The text of a header with descriptions of the enumerators, and complaints (line, text) about those without one."""
    complaints = []
    internal = [found.span() for found in DETAIL.finditer(text)]

    def described(found):
        out, commented = [], False
        line = text.count("\n", 0, found.start(3)) + 1
        for each in found[3].split("\n"):
            code, mark, rest = each.partition("//")

            def value(name):
                key = f"{found[2]}::{name[1]}"
                if commented or rest.startswith("/<"):
                    return name[0]
                if key in table:
                    used.add(key)
                    return f"/** {table[key]} */ {name[0]}"
                if not found[1]:  # an enumeration of a class may be private
                    complaints.append((line, f"enumerator {key} is not documented"))
                return name[0]

            out.append(re.sub(r"(?<![\w=] )(?<!\w)([a-z_]\w*)(?=\s*(?:,|=|$))", value, code) + mark + rest)
            commented = mark and not code.strip()
            line += 1
        return found[0][: found.start(3) - found.start()] + "\n".join(out) + "}"

    def public(found):
        return found[0] if any(begin <= found.start() < end for begin, end in internal) else described(found)

    return ENUM.sub(public, text), complaints


def begin_of(lines, at):
    """The index of the first line of the declaration that has its name in line `at`."""
    while at > 0:
        above = at - 1
        if end := re.match(r"^(\s+)\}$", lines[above]):  # of a requires-expression?
            while above > 0 and re.match(end[1], lines[above]):
                above -= 1
        text = lines[above].split("//")[0].rstrip()
        if not re.match(r"^\s*(template\b|requires\b|\[\[)", text) or text.endswith((";", "}")):
            return at
        at = above
    return at


def declaration(lines, at):
    """The text of a declaration up to its end, and the index of its last line."""
    last = at
    while last + 1 < len(lines) and not re.search(r"[;{]", lines[last]):
        last += 1
    return " ".join(lines[at : last + 1]), last


def descriptions():
    """members.txt as a dictionary."""
    table = {}
    for line in (SCRIPTS / "doxygen/members.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, text = line.split(": ", 1)
            if key in table:
                raise SystemExit(f"members.txt describes {key} twice")
            table[key] = text
    return table


def description(table, used, member, of):
    """The description of a member by its class and name, by its name, or by its form; empty if there is none."""
    name = re.match(r"operator\s*(\(\)|[^\w\s(]+|[\w: ]+)?|~?\w+", member)[0].strip()
    owner = re.sub(r"<.*>", "", of).split("::")[-1].strip()
    if "(Same &other)" in member:
        name = "refused_copy"
    if "(Stream &&" in member:
        name = "refused_stream"
    usual = name == owner and re.search(rf"\({owner}\b", member) or member.endswith("()=default")  # copy, move, default
    for key in () if usual else (f"{owner}::{name}", name):
        if key in table:
            used.add(key)
            return table[key]
    if name == "operator=" or name == owner:
        what = "assignment" if name == "operator=" else "constructor"
        argument = re.search(rf"\(\s*(?:{owner})?(?:<[^()]*>)?(?: const)?\s*(&&?)?[^,]*\)", member)
        if argument and re.match(rf"\(\s*{owner}\b", argument[0]):
            return f"Copy {what}." if argument[1] == "&" else f"Move {what}."
        if member.split("(", 1)[1].startswith(")"):
            return "Default constructor."
    return "Destructor." if name.startswith("~") else ""


def describe(copy, warnings, table, used):
    """Writes descriptions above the members that Doxygen's first run listed."""
    changed = {}
    for warning in warnings:
        found = UNDOCUMENTED.match(warning)
        path = found and pathlib.Path(found["file"])
        if not found or not path.is_relative_to(copy):
            continue
        if path not in changed:
            changed[path] = (path.read_text().splitlines(), set())
        lines, done = changed[path]
        at = int(found["line"]) - 1
        first = begin_of(lines, at)
        if first in done:
            continue
        text, last = declaration(lines, at)
        if re.search(r"=\s*delete\s*;", text):
            done.add(first)
            lines[first : last + 1] = [""] * (last + 1 - first)
            continue
        told = description(table, used, found["member"] or found["compound"].split("::")[-1],
                           found["of"] or found["compound"].rsplit("::", 1)[0])
        if told:
            done.add(first)
            lines[first] = f"/** {told} */ {lines[first].lstrip()}"
    for path, (lines, _) in changed.items():
        path.write_text("\n".join(lines) + "\n")


# --- pages ----------------------------------------------------------------------------------------------------------


def anchor(heading):
    """The anchor that a heading has on GitHub."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def name_of(top, page):
    """The name of a page in the output."""
    relative = page.relative_to(top)
    if str(relative) == "README.md":
        return "index"
    return "-".join(("page", *relative.parts[:-1], relative.stem)).replace("page-docs-", "page-").lower()


def page(top, path, known, has_file):
    """A page as Doxygen is to read it."""
    name = name_of(top, path)

    def linked(match):
        text, target = match[1], match[2]
        if re.match(r"\w+:", target):
            return match[0]
        file, _, place = target.partition("#")
        target = (path.parent / file).resolve() if file else path
        if target in known and place == anchor(re.search(r"^# (.*)$", target.read_text(), re.MULTILINE)[1]):
            place = ""  # Doxygen gives the title the name of the page
        if target in known:
            there = name_of(top, target)
            return f'<a href="{there}.html{f"#{there}-{place}" if place else ""}">{text}</a>'
        if target in has_file:
            return f'<a href="{has_file[target]}">{text}</a>'
        return text

    def titled(match):
        nonlocal titles
        titles += 1
        if titles == 1:
            return match[0] if name == "index" else f"{match[0]} {{#{name}}}"
        return f"{match[0]} {{#{name}-{anchor(match[2])}}}"

    titles, out = 0, []
    for part in re.split(r"(^```.*?^```$)", path.read_text(), flags=re.DOTALL | re.MULTILINE):
        if part.startswith("```"):
            part = re.sub(r"^```(\S+)", lambda found: f"```{{.{found[1].replace('c++', 'cpp')}}}", part)
        else:
            part = re.sub(r"^<!--.*?-->$", "", part, flags=re.MULTILINE)
            part = re.sub(r"(?<!!)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)", linked, part)
            part = re.sub(r"^(#+) (.*)$", titled, part, flags=re.MULTILINE)
        out.append(part)
    return "".join(out)


def html_files(headers):
    """The page of each header. Doxygen puts the folder into its name if several headers have one name."""
    names = [header.name for header in headers]

    def page_of(header):
        shown = f"{header.parent.name}/{header.name}" if names.count(header.name) > 1 else header.name
        return shown.replace("_", "__").replace("/", "_2").replace(".", "_8") + ".html"

    return {header.resolve(): page_of(header) for header in headers}


def summary(path):
    """The first sentences of an example's comment."""
    lines = []
    for line in path.read_text().splitlines()[1:]:
        if not line.startswith("//"):
            if lines:
                break
            continue
        if line.strip("/ ") == "" and lines:
            break
        lines.append(line.strip("/ "))
    return " ".join(lines)


# --- Doxygen --------------------------------------------------------------------------------------------------------


def prepare(top, output, table, used):
    """Makes the copy of the headers, and returns complaints."""
    copy, complaints = output / "input", []
    for made in (copy, output / "html"):
        shutil.rmtree(made, ignore_errors=True)
    for header in headers(top):
        target = copy / header.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        text, found = with_values(header.read_text(), table, used)
        complaints += [f"{header.relative_to(top)}:{line}: {why}" for line, why in found]
        target.write_text("\n".join(without_macros(with_rows(without_guides(text).splitlines()))) + "\n")
    return complaints


def prepare_pages(top, copy, has_file):
    known = {path.resolve() for path in pages(top)}
    for path in pages(top):
        target = copy / path.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(top, path, known, has_file))
    text = ["/** \\namespace vram\n\\brief The names for users. */\n"]
    for path in examples(top):
        text.append(f"/** \\example {path.relative_to(top / 'examples')}\n\\details {summary(path)}\n*/\n")
    (copy / "names.dox").write_text("\n".join(text))


def pages(top):
    return [top / "README.md", top / "CONTRIBUTING.md", top / "include/vram/README.md", *sorted(top.glob("docs/*.md"))]


def examples(top):
    return [path for pattern in EXAMPLES for path in sorted((top / "examples").glob(pattern))]


def example_page(top, path):
    """The page of an example."""
    return str(path.relative_to(top / "examples")).replace("/", "_2").replace(".", "_8") + "-example.html"


def write_layout(path):
    """Writes Doxygen's own layout, with the contract of a class above the lists of its members."""
    subprocess.run(["doxygen", "-l", path], check=True, stdout=subprocess.DEVNULL)
    head, inside, tail = re.split(r"(<class>.*?</class>)", path.read_text(), flags=re.DOTALL)
    inside = re.sub(r" *<(briefdescription|detaileddescription) [^>]*/>\n", "", inside)
    inside = re.sub(r"( *<includes [^>]*/>\n)", r'\1    <detaileddescription title="Description"/>\n', inside)
    path.write_text(head + inside + tail)


def doxygen(top, output, **settings):
    """Runs Doxygen, and returns the lines of its warnings."""
    text = (SCRIPTS / "doxygen/Doxyfile").read_text()
    copy = output / "input"
    settings = {"OUTPUT_DIRECTORY": output, "INPUT": copy, "STRIP_FROM_PATH": copy / "include", "STRIP_FROM_INC_PATH": copy / "include",
                "EXAMPLE_PATH": top / "examples", "IMAGE_PATH": top / "docs", "HTML_EXTRA_STYLESHEET": SCRIPTS / "doxygen/style.css",
                "LAYOUT_FILE": output / "layout.xml", "USE_MDFILE_AS_MAINPAGE": copy / "README.md", "WARN_LOGFILE": output / "warnings", **settings}
    text += "".join(f'{key} = "{value}"\n' for key, value in settings.items())
    run = subprocess.run(["doxygen", "-"], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=top)
    warnings = (output / "warnings").read_text().splitlines() if (output / "warnings").is_file() else []
    if run.returncode:
        raise SystemExit(f"doxygen failed:\n{run.stdout}")
    return list(dict.fromkeys([*run.stdout.splitlines(), *warnings]))


def broken_links(html):
    """Complaints about links of the pages that lead nowhere."""
    text = {path.name: path.read_text(errors="replace") for path in html.glob("*.html")}
    there = {name: set(re.findall(r'\b(?:id|name)="([^"]+)"', content)) for name, content in text.items()}
    complaints = set()
    for name, content in text.items():
        if not name.startswith(("page-", "index.")):
            continue
        for file, place in re.findall(r'<a\b[^>]*? href="([^":#]*)(?:#([^"]*))?"', content):
            file = file or name
            if not (html / file).is_file() or place and file in there and place not in there[file]:
                complaints.add(f"{name}: a link leads to {file}#{place}, which is not there" if place else f"{name}: no {file}")
    return sorted(complaints)


def build(top, output):
    """Builds the reference, and returns the warnings."""
    copy, table, used = output / "input", descriptions(), set()
    warnings = prepare(top, output, table, used)
    write_layout(output / "layout.xml")
    describe(copy, doxygen(top, output, GENERATE_HTML="NO", USE_MDFILE_AS_MAINPAGE=""), table, used)
    has_file = html_files(headers(top))
    for path in examples(top):
        has_file[path.resolve()] = example_page(top, path)
    prepare_pages(top, copy, has_file)
    warnings += [line.replace(f"{copy}/", "") for line in doxygen(top, output)]
    warnings += link_examples(top, output / "html")
    warnings += broken_links(output / "html")
    return warnings + [f"cmake/doxygen/members.txt: no member has the description of {key}" for key in sorted(table.keys() - used)]


# --- examples -------------------------------------------------------------------------------------------------------


# Names at namespace scope, which begin their line.
NAMES = [re.compile(pattern, re.MULTILINE) for pattern in (
    r"^enum class (\w+)",
    r"^using (\w+)\s+=",
    r"^inline constexpr [\w:<>, ]*?(\w+)\s*(?:\{|=)",
    r"^# *define (VRAM_(?!DETAIL_)\w+)",
    # Functions, also those whose return type stands on the line before.
    r"^(?=[a-z\[])(?!static_assert|requires|template|class|struct|concept|enum|using|namespace|return)"
    r"(?:[\w:<>,&*\[\] ()]*?[ *&])?(\w+)\((?!\))")]
FORMER = re.compile(r"^.*///.*former name.*$", re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|concept) (?:\[\[.*?\]\] )?(\w+)(?!::)\b[^;]*$", re.MULTILINE)
NOT_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|^ *# *include[^\n]*', re.MULTILINE)  # strings, comments, includes


def code_of_comments(text):
    """The words of the code in the comments of a header."""
    return set(re.findall(r"\w+", "\n".join(re.findall(r"^ *///     +(.*)$", text, re.MULTILINE))))


def public_types(top):
    """The public types as (header, name, true if code in a comment of the header names it)."""
    for header in headers(top):
        text = DETAIL.sub("", header.read_text())
        code = code_of_comments(text)
        for name in dict.fromkeys(TYPE.findall(text)):
            yield header, name, name in code


def words(top):
    """The words of the code of each example."""
    return {path: set(re.findall(r"\w+", NOT_CODE.sub("", path.read_text()))) for path in examples(top)}


def public_names(top):
    """All public names at namespace scope, as `public_types`; names that are kept for older programs are left out."""
    yield from public_types(top)
    for header in headers(top):
        text = FORMER.sub("", DETAIL.sub("", header.read_text()))
        code = code_of_comments(text)
        for name in dict.fromkeys(name for pattern in NAMES for name in pattern.findall(text) if not name.startswith("operator")):
            yield header, name, name in code


def without_example(top):
    """The public names that no code of their header and no example has, as "HEADER: NAME", and the number of names."""
    named = set().union(*words(top).values())
    names = [*public_names(top)]
    return [f"{header.relative_to(top)}: {name}" for header, name, shown in names if not shown and name not in named], len(names)


def link_examples(top, html):
    """Adds links to examples to the pages of types for which Doxygen found none: concepts, and types that an example names
    only as a part of another type. Returns complaints about types without a page."""
    complaints, named = [], words(top)
    for header, name, _ in public_types(top):
        escaped = name.replace("_", "__")
        pages = [path for kind in ("class", "struct", "concept") for path in html.glob(f"{kind}vram_1_1*{escaped}.html")
                 if re.fullmatch(rf"{kind}vram_1_1(with_1_1)?{escaped}", path.stem)]
        if len(pages) != 1:
            complaints.append(f"{header.relative_to(top)}: {name} has {len(pages)} pages")
            continue
        text = pages[0].read_text()
        links = [f'<a class="el" href="{example_page(top, path)}">{path.relative_to(top / "examples")}</a>'
                 for path in named if name in named[path]]
        if not links or "-example.html" in text:
            continue
        description = text.find('<a name="details"')
        end = re.compile(r"</div>(?=</div><!-- contents|<table class=\"memberdecls|<h2 class=\"groupheader)").search(text, max(description, 0))
        if description < 0 or not end:
            complaints.append(f"{pages[0].name}: no description to add the examples to")
            continue
        row = f'<dl class="section examples"><dt>Examples</dt><dd>{", ".join(links)}.</dd></dl>\n'
        pages[0].write_text(text[: end.start()] + row + text[end.start() :])
    return complaints


# --- the program ----------------------------------------------------------------------------------------------------


def self_test():
    checks = []

    def warnings(folder, member, text=""):
        top = pathlib.Path(folder)
        shutil.rmtree(top / "include", ignore_errors=True)
        for name in ("include/vram/a", "docs", "examples"):
            (top / name).mkdir(parents=True, exist_ok=True)
        (top / "README.md").write_text("# T\n\nText.\n" + text)
        (top / "CONTRIBUTING.md").write_text("# C\n\n## Two words\n\nText.\n")
        (top / "include/vram/README.md").write_text("# I\n")
        (top / "include/vram/a/b.hpp").write_text(
            "#pragma once\n\n/// \\file\n/// Text.\n\nnamespace vram {\n/// A class.\n///\n/// Failure   None.\n"
            "class b {\npublic:\n" + member + "};\n}\n")
        return [line for line in build(top, top / "out") if not line.startswith("cmake/doxygen/members.txt")]

    with tempfile.TemporaryDirectory() as folder:
        links = "[x](CONTRIBUTING.md#two-words) [`y`](include/vram/a/b.hpp)\n"
        checks.append(warnings(folder, "    /// Returns one.\n    int one();\n", links) == [])
        html = (pathlib.Path(folder) / "out/html/index.html").read_text()
        checks.append('href="page-contributing.html#page-contributing-two-words"' in html and 'href="b_8hpp.html"' in html)
        checks.append("<dt>Failure</dt>" in (pathlib.Path(folder) / "out/html/classvram_1_1b.html").read_text())
        example = pathlib.Path(folder) / "examples/e.cpp"  # Doxygen finds no use of b, the word counts
        example.write_text("// Text.\n#include <b.hpp>\nusing d = c<vram::b>;\n")
        checks.append(warnings(folder, "    /// Returns one.\n    int one();\n") == [])
        page = (pathlib.Path(folder) / "out/html/classvram_1_1b.html").read_text()
        checks.append(page.count('href="e_8cpp-example.html') == 1 and page.index("<dt>Failure</dt>") < page.index("<dt>Examples</dt>"))
        example.unlink()
        for condition, gone in (("0", True), ("__has_include(<sys/mman.h>)", False)):
            lines = warnings(folder, f"}};\n#if {condition}\n/// A class.\nclass d {{\n}};\n#endif\n/// A class.\nclass f {{\n")
            checks.append(lines == ["include/vram/a/b.hpp: d has 0 pages"] * gone)
        checks.append(warnings(folder, "    b(b const&);\n    b(b&&) = delete;\n    bool empty() const;\n") == [])
        checks.append([line.split(":")[:2] for line in warnings(folder, "    int one();\n")] == [["include/vram/a/b.hpp", "12"]])
        checks.append(len(warnings(folder, "    /// \\nonsense\n    int one();\n")) > 0)
        checks.append(len(warnings(folder, "", "[x](CONTRIBUTING.md#three)\n")) == 1)
        one_name = [pathlib.Path("/v/a/b_c.hpp"), pathlib.Path("/v/d/b_c.hpp"), pathlib.Path("/v/a/e.hpp")]
        checks.append([*html_files(one_name).values()] == ["a_2b__c_8hpp.html", "d_2b__c_8hpp.html", "e_8hpp.html"])
        text = "enum class e {\n    a, ///< one\n    b, // two\n    /// three\n    c = 1,\n};\nenum class bound { producer, other };\n"
        table = {"bound::producer": "Text."}
        checks.append([line for line, _ in with_values(text, table, set())[1]] == [3, 7])
        checks.append("{ /** Text. */ producer, other }" in with_values(text, table, set())[0])
    return tally(checks)


def tally(checks):
    print(f"tally: {sum(checks)} passed, {len(checks) - sum(checks)} failed, 0 skipped")
    return not all(checks)


def self_test_of_examples():
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "include/vram/a/core").mkdir(parents=True)
        (top / "examples").mkdir()
        header, example = top / "include/vram/a/b.hpp", top / "examples/e.cpp"

        def found(text, code=""):
            header.write_text(text)
            example.write_text(code)
            return without_example(top)

        missing = (["include/vram/a/b.hpp: b"], 1)
        checks.append(found("class b {\n};\n") == missing)
        for kind in ("class b {", "struct b {", "struct b : word<c> {", "class [[nodiscard]] b {", "concept b = c<B> &&\n    true;"):
            checks.append(found(kind + "\n};\n", "b one;\n") == ([], 1))
            checks.append(found(kind + "\n};\n", "bb one;\n") == missing)
        # A name in a comment, an include or a string is no example.
        for no_code in ("// b\n", "int i; // b\n", "#include <vram/a/b.hpp>\n", 'puts("a b");\n', 'puts("\\" b");\n'):
            checks.append(found("class b {\n};\n", no_code) == missing)
        checks.append(found("class b {\n};\n", 'puts("//"); b one;\n') == ([], 1))
        checks.append(found("/// Text.\n///\n///     b one;\nclass b {\n};\n") == ([], 1))
        checks.append(found("/// A b is text.\nclass b {\n};\n") == missing)
        # Neither declarations, nor internal types, nor specialisations of them.
        checks.append(found("class b;\nstruct detail::find<b> {\n};\n") == ([], 0))
        checks.append(found("namespace detail {\nclass b {\n};\n} // namespace detail\n") == ([], 0))
        (top / "include/vram/a/core/c.hpp").write_text("class c {\n};\n")
        checks.append(found("") == ([], 0))
        for name in ("enum class b {\n    one,\n};", "template <class T>\nusing b = c<T>;", "inline constexpr int b = 1;", "inline constexpr a<1> b{};",
                     "#define VRAM_B 1", "inline void b(int x) {\n}", "[[nodiscard]] constexpr d<e> const* b(int x);",
                     "[[noreturn]] inline void\nb(int x) {\n}"):
            checks.append(found(name + "\n") == ([f"include/vram/a/b.hpp: {'VRAM_B' if 'VRAM' in name else 'b'}"], 1))
            checks.append(found(name + "\n", "b VRAM_B\n") == ([], 1))
        checks.append(found("#define VRAM_B 1\n", "#if VRAM_B\n") == ([], 1))
        # Neither members, nor assertions, nor former names, nor internal macros.
        checks.append(found("    void b(int x);\nstatic_assert(b(1));\nusing b = c; ///< former name of `c`\n#define VRAM_DETAIL_B 1\n") == ([], 0))
        (top / "examples/project").mkdir()
        (top / "examples/project/app.cu").write_text("b one;\n")
        checks.append(found("class b {\n};\n") == ([], 1))
    return tally(checks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, help="build/docs")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("top", type=pathlib.Path, nargs="?", default=pathlib.Path("."), metavar="DIR")
    options = parser.parse_args()
    top = options.top.resolve()
    if options.examples:
        if options.self_test:
            return self_test_of_examples()
        found, count = without_example(top)
        print("\n".join([*found, f"{len(found)} of {count} public names have no example"]))
        return bool(found)
    if not shutil.which("doxygen"):
        print("skipped: no doxygen")
        return 0
    if options.self_test:
        return self_test()
    warnings = build(top, (options.output or top / "build/docs").resolve())
    print("\n".join(warnings) if warnings else f"{options.output or 'build/docs'}/html/index.html")
    return bool(warnings)


if __name__ == "__main__":
    sys.exit(main())
