"""What must and must not be in the tree: licence and notices, no hosts of registries, no paths of one machine."""

import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Addresses that scripts and build files may name: this machine, and names reserved for examples.
HARMLESS = re.compile(r"127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1\]|json-schema\.org|example\.(com|org|net)|[a-z-]+\.example|\$")
ADDRESS = re.compile(r"https?://[^\s\"'`<>)\\]+", re.I)
# Folders that exist on one machine only: homes and scratch folders with a name in them.
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(?:home/[a-z]\w*|root|Users/\w+|work|tmp/\w+)/")
BUILD_FILES = (".cmake", ".json", ".toml", ".sh", ".txt")


def tracked():
    """Files of the tree as git sees it, or all outside build/ where there is no git."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             capture_output=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in ("build", ".git", "node_modules", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return sorted(name for name in names if os.path.isfile(os.path.join(ROOT, name)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = tracked()

    def test_there_is_a_tree(self):
        self.assertGreater(len(self.names), 50)

    def test_scripts_and_build_files_name_no_host(self):
        for name in self.names:
            base = os.path.basename(name)
            if not (name.startswith(("scripts/", ".ci/", "cmake/")) or base in ("Makefile", "CMakeLists.txt")
                    or name.endswith(BUILD_FILES)) or "_corpus/" in name:
                continue
            for address in ADDRESS.findall(read(name)):
                with self.subTest(name=name):
                    self.assertRegex(address, HARMLESS, "packages are named by name and version, never by host")

    def test_no_path_of_one_machine(self):
        for name in self.names:
            if name == "tests/tree_test.py" or "_corpus/" in name or name.endswith((".patch", "/LICENSE")):
                continue
            with self.subTest(name=name):
                self.assertIsNone(MACHINE_PATH.search(read(name)))

    def test_licence_and_notices(self):
        licence = read("LICENSE")
        self.assertIn("Apache License", licence)
        self.assertIn("END OF TERMS AND CONDITIONS", licence)
        notices = read("THIRD_PARTY.md")
        for package in self.packages() | self.python_packages():
            with self.subTest(package=package):
                self.assertIn(package, notices, "every dependency stands in THIRD_PARTY.md")

    def packages(self):
        lines = read("scripts/pins/packages.txt").splitlines()
        return {line for line in lines if line.startswith("lib") or line.startswith("prometheus")}

    def python_packages(self):
        names = set()
        for pins in ("engine.txt", "model.txt", "backend.txt", "sdk.txt"):
            names |= set(re.findall(r"^([a-z][\w-]*)==", read("scripts/pins/" + pins), re.M))
        return names

    def test_what_the_readme_promises_is_there(self):
        readme = read("README.md")
        for command in ("make serve", "make check", "content-type: application/json"):
            self.assertIn(command, readme)
        targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
        for target in set(re.findall(r"(?<![a-z])make ([a-z-]+)", readme + read("CONTRIBUTING.md"))):
            self.assertIn(target, targets, f"make {target} is documented but not in the Makefile")

    def test_links_between_pages_hold(self):
        for name in self.names:
            if not name.endswith(".md"):
                continue
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", read(name)):
                with self.subTest(page=name, target=target):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(name), target)), "a dead link")

    def test_sources_are_small_and_files_are_text(self):
        for name in self.names:
            with self.subTest(name=name):
                self.assertLess(os.path.getsize(os.path.join(ROOT, name)), 1_000_000, "data is fetched, not tracked")
                if name.startswith("src/") and name.endswith((".h", ".cc")):
                    self.assertLess(read(name).count("\n"), 900, "does one file tell two stories?")


if __name__ == "__main__":
    unittest.main()
