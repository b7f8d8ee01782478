"""Blocks of the documentation, for tests that paste them as they are."""

import os
import re

from harness import ROOT


def blocks(page, language, word=""):
    """Every ```language block of a page that holds `word`; at least one."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        found = [block for block in re.findall(rf"```{language}\n(.*?)```", file.read(), re.S) if word in block]
    if not found:
        raise AssertionError(f"{page} has no {language} block with {word}")
    return found
