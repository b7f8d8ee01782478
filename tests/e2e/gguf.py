"""Finds places in a GGUF file, so that a test can spoil one (format: docs/gguf.md of the ggml project)."""

import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
ALIGNMENT = 32


class Gguf:
    """Where the tokens and the tensors of `data` stand. `tokens`: (offset of the length, bytes); `tensors`: name to
    (type, absolute offset); `template`: as a token; `metadata_end`: an offset."""

    def __init__(self, data):
        self.data, self.at = data, 0
        self.tokens, self.tensors, self.template = [], {}, None
        magic, _, tensors, entries = self.take("4sIQQ")
        assert magic == b"GGUF"
        for _ in range(entries):
            name = self.string()
            kind, at = self.take("I")[0], self.at
            self.value(kind, name == b"tokenizer.ggml.tokens")
            if name == b"tokenizer.chat_template":
                self.template = (at, self.data[at + 8:self.at])
        self.metadata_end = self.at
        places = {}
        for _ in range(tensors):
            name = self.string().decode()
            self.take("Q" * self.take("I")[0])
            places[name] = self.take("IQ")
        start = (self.at + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        self.tensors = {name: (kind, start + offset) for name, (kind, offset) in places.items()}

    def take(self, form):
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found

    def string(self):
        size = self.take("Q")[0]
        self.at += size
        return self.data[self.at - size:self.at]

    def value(self, kind, keep):
        if kind == STRING:
            at = self.at
            text = self.string()
            if keep:
                self.tokens.append((at, text))
        elif kind == ARRAY:
            element, count = self.take("IQ")
            for _ in range(count):
                self.value(element, keep)
        else:
            self.take(SCALARS[kind])


def with_empty_token_named_twice(data):
    """Token N empty and another spelt `[EMPTY_N]`, as a reader may name the empty one: two tokens of one spelling.
    The file keeps its size, so nothing else in it moves."""
    tokens = Gguf(data).tokens
    by_size = {}
    for index, (_, text) in enumerate(tokens):
        by_size.setdefault(len(text), []).append(index)
    for index, (at, text) in enumerate(tokens):
        name = b"[EMPTY_%d]" % index
        others = [other for other in by_size.get(len(name) - len(text), []) if other != index]
        if text and others:
            spoilt = {at: (text, b""), tokens[others[0]][0]: (tokens[others[0]][1], name)}
            out, end = b"", 0
            for place in sorted(spoilt):
                old, new = spoilt[place]
                out += data[end:place] + struct.pack("<Q", len(new)) + new
                end = place + 8 + len(old)
            return out + data[end:]
    raise AssertionError("no two tokens fit together")


def with_nan(data, tensor):
    """The first block of a Q8_0 tensor has a scale that is no number."""
    kind, at = Gguf(data).tensors[tensor]
    assert kind == 8, "Q8_0"
    return data[:at] + struct.pack("<e", float("nan")) + data[at + 2:]


def vocabulary_with(data, template):
    """A file of the metadata alone, with another chat template: enough for a tokenizer, and no weights to copy."""
    found = Gguf(data)
    at, old = found.template
    rest = data[at + 8 + len(old):found.metadata_end]
    return data[:8] + struct.pack("<Q", 0) + data[16:at] + struct.pack("<Q", len(template)) + template + rest
