#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one program that contains several, each in a namespace of its own. Their templates are compiled once.

    together.py OUT.cpp PROGRAM.cpp...    each has an int main(); a link NAME -> OUT runs the program NAME.cpp
"""
import pathlib
import re
import sys

out, *sources = [pathlib.Path(argument) for argument in sys.argv[1:]]
heads, bodies, names = [], [], []
for source in sources:
    lines = source.read_text().splitlines()
    first = max(i for i, line in enumerate(lines) if line.startswith("#include")) + 1
    while lines[first].startswith("#endif"):
        first += 1
    body = "\n".join(lines[first:]).rstrip()
    body, mains = re.subn(r"^int main\(\) \{", "int example_main() {", body, flags=re.MULTILINE)
    body, ends = re.subn(r"^(int example_main\(\) \{\n(?:.*\n)*?)\}", r"\1return 0; }", body, flags=re.MULTILINE)
    if mains != 1 or ends != 1:
        sys.exit(f"{source}: no int main() that ends at the begin of a line")
    heads += [f'#line 1 "{source}"', *lines[:first]]
    bodies += [f"namespace example_{source.stem} {{", f'#line {first + 1} "{source}"', body,
               f"}} // namespace example_{source.stem}"]
    names.append(source.stem)
table = "".join(f'    if (name == "{name}") {{ return example_{name}::example_main(); }}\n' for name in names)
text = "\n".join([*heads, *bodies, f'#line 1 "{out}"', ""]) + (
    "#include <string_view>\n"
    "int main(int, char** argv) {\n    std::string_view const path{argv[0]};\n"
    "    std::string_view const name = path.substr(path.rfind('/') + 1);\n" + table + "    return 2;\n}\n")
out.write_text(text)
