"""Holds the includes of src/ to the arrows of ARCHITECTURE.md, and each room to its README."""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SRC = os.path.join(ROOT, "src")

# A room may include itself and these.
MAY_INCLUDE = {
    "base": set(),
    "ir": {"base"},
    "api": {"ir", "base"},
    "prompt": {"ir", "base"},
    "parser": {"ir", "base"},
    "kv": {"base"},
    "router": {"kv", "ir", "base"},
    "engine": {"kv", "ir", "base"},
    "pipeline": {"prompt", "parser", "router", "kv", "engine", "ir", "base"},
    "net": {"base"},
    "sim": {"pipeline", "api", "prompt", "parser", "router", "kv", "engine", "ir", "base"},
    "app": {"api", "pipeline", "sim", "net", "engine", "prompt", "parser", "router", "kv", "ir", "base"},
}
ADAPTERS_MAY_ALSO = {"net"}  # engine/<adapter>/: some talk to workers
WALLS = ("prompt/", "engine/embedded/")  # where llama.cpp's headers may be included
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def files(room):
    for folder, _, names in os.walk(os.path.join(SRC, room)):
        for name in sorted(names):
            if name.endswith((".h", ".cc")):
                yield os.path.relpath(os.path.join(folder, name), SRC)


def includes(path):
    with open(os.path.join(SRC, path), encoding="utf-8") as file:
        return INCLUDE.findall(file.read())


def is_test(path):
    return path.endswith(("_test.cc", "_fuzz.cc"))


class Arrows(unittest.TestCase):
    def test_every_folder_of_src_is_a_room(self):
        rooms = {name for name in os.listdir(SRC) if os.path.isdir(os.path.join(SRC, name))}
        self.assertEqual(rooms - set(MAY_INCLUDE), set(), "a new room needs its arrows here and in ARCHITECTURE.md")

    def test_the_arrows_have_no_cycle(self):
        left = {room: set(arrows) for room, arrows in MAY_INCLUDE.items()}
        while left:
            free = {room for room, arrows in left.items() if not arrows & set(left)}
            self.assertTrue(free, f"a cycle among {sorted(left)}")
            left = {room: arrows for room, arrows in left.items() if room not in free}

    def test_rooms_include_only_what_their_arrows_allow(self):
        seen = 0
        for room, arrows in MAY_INCLUDE.items():
            for path in files(room):
                adapter = room == "engine" and path.count("/") > 1
                allowed = arrows | {room} | (ADAPTERS_MAY_ALSO if adapter else set())
                for included in includes(path):
                    seen += 1
                    with self.subTest(path=path, included=included):
                        target = included.split("/")[0]
                        if target in MAY_INCLUDE and "/" in included:
                            self.assertIn(target, allowed, f"{room} may not include {target}")
        self.assertGreater(seen, 50, "hardly an include was looked at: is this the source tree?")

    def test_includes_name_their_room_and_exist(self):
        for room in MAY_INCLUDE:
            for path in files(room):
                for included in includes(path):
                    with self.subTest(path=path, included=included):
                        if included.split("/")[0] in MAY_INCLUDE:
                            self.assertTrue(os.path.exists(os.path.join(SRC, included)), "no such file")
                        else:
                            # Fetched sources are named only behind the ports that wall them off.
                            self.assertTrue(path.startswith(WALLS), 'our own headers are "room/file.h"')

    def test_pipeline_knows_only_the_port_of_engines(self):
        for path in files("pipeline"):
            for included in includes(path):
                if included.startswith("engine/") and not is_test(path):
                    self.assertEqual(included.count("/"), 1, f"{path} includes {included}: an adapter, not the port")

    def test_headers_guard_themselves(self):
        for room in MAY_INCLUDE:
            for path in files(room):
                if path.endswith(".h"):
                    with self.subTest(path=path), open(os.path.join(SRC, path), encoding="utf-8") as file:
                        self.assertIn("#pragma once", file.read())

    def test_rooms_without_threads_know_of_none(self):
        with open(os.path.join(SRC, "CMakeLists.txt"), encoding="utf-8") as file:
            rooms = re.findall(r"kvern_room\(NAME (\w+) THREADLESS", file.read())
        self.assertTrue(rooms)
        for room in rooms:
            for path in files(room):
                with self.subTest(path=path), open(os.path.join(SRC, path), encoding="utf-8") as file:
                    self.assertIsNone(re.search(r"#include <(thread|mutex|atomic|shared_mutex|future|condition_variable)>|"
                                                r"\bthread_local\b", file.read()),
                                      "then ThreadSanitizer has to run its tests: take THREADLESS from its kvern_room")

    def test_every_room_has_a_readme_of_one_screen(self):
        for room in MAY_INCLUDE:
            if not any(files(room)):
                continue
            with self.subTest(room=room):
                path = os.path.join(SRC, room, "README.md")
                self.assertTrue(os.path.exists(path), "purpose, key types, where to look, pitfalls")
                with open(path, encoding="utf-8") as file:
                    self.assertLessEqual(len(file.readlines()), 70)


if __name__ == "__main__":
    unittest.main()
