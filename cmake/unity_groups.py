#!/usr/bin/env python3
"""Which sources of one target may be compiled as one: cmake/unity_groups.py SIZE SRC FILE...

Prints "<group> <file>" for each FILE; cmake/kvern_room.cmake makes UNITY_GROUPs of them. Two sources are kept apart
when a name of the one's anonymous namespace is declared by the other or by a header of ours that it includes. Names are
found as clang-format leaves them: declarations of a namespace begin in the first column. A name that this misses is a
compiler's error (redefinition, or ambiguous), never another program.
"""

import functools
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+), (\w+)\)")
TYPE = re.compile(r"\b(?:class|struct|union|enum(?: class)?) (?:\w+\([^)]*\) )?(\w+)")
MACRO = re.compile(r"^#\s*define (\w+)")
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = .*")
OTHER = re.compile(r"(?<![\w:.>~])(\w+)(?:\(|\{| = |;|\[)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def declared(line):
    """The name that a line of the first column declares, or an alias with its meaning; None if it declares none."""
    test = TEST.match(line)
    if test:
        return "_".join(test.groups())
    if ALIAS.match(line):
        return line  # the same alias twice is no clash
    found = MACRO.match(line) or TYPE.search(line) or OTHER.search(line)
    return found.group(1) if found else None


@functools.lru_cache(maxsize=None)
def names(path):
    """Names of the file's namespaces: those of anonymous ones (and macros, which leak alike), and the others."""
    hidden, shown = set(), set()
    depth = 0
    for line in read(path).splitlines():
        if line.startswith("namespace {"):
            depth += 1
        elif depth and re.match(r"}\s*// namespace$", line):
            depth -= 1
        elif line and (line[0].isalpha() or line.startswith("#define")) and not line.startswith("namespace kvern"):
            name = declared(line)
            if name:
                (hidden if depth or line[0] == "#" or line.startswith(("static ", "TEST")) else shown).add(name)
    return hidden, shown


@functools.lru_cache(maxsize=None)
def headers(path, src):
    """Every header of ours that the file reaches."""
    seen, waiting = set(), [path]
    while waiting:
        for name in INCLUDE.findall(read(waiting.pop())):
            header = os.path.join(src, name)
            if header not in seen and os.path.exists(header):
                seen.add(header)
                waiting.append(header)
    return seen


def alike(hidden, visible):
    aliases = {name.split()[1]: name for name in visible if " " in name}
    for name in hidden:
        word = name.split()[1] if " " in name else name
        if (word in visible) or (word in aliases and aliases[word] != name):
            return True
    return False


def groups(files, src, size):
    made = []  # [files, hidden names, visible names]
    for path in files:
        hidden, shown = names(path)
        reached = set().union(*(names(header)[1] for header in headers(path, src)))
        visible = hidden | shown | reached
        for group in made:
            if len(group[0]) < size and not alike(hidden, group[2]) and not alike(group[1], visible):
                break
        else:
            group = ([], set(), set())
            made.append(group)
        group[0].append(path)
        group[1].update(hidden)
        group[2].update(visible)
    return [group[0] for group in made]


def main():
    size, src, files = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    for number, group in enumerate(groups(sorted(files), src, size)):
        for path in group:
            print(f"{number} {path}")


if __name__ == "__main__":
    main()
