#!/usr/bin/env python3
"""Writes vectors.jsonl: KV event payloads as vLLM and SGLang encode them, made with their encoder (msgspec).

    python3 -m venv VENV && VENV/bin/pip install msgspec==0.23.0 && VENV/bin/python make_vectors.py > vectors.jsonl

Each line: what it shows, the payload in hex, the events in the words of codec_test.cc, and the style whose encode()
gives the same bytes again, if there is one. The field lists are the engines' public wire (vllm/distributed/kv_events.py,
sglang/srt/disaggregation/kv_events.py, dynamo lib/kv-router/src/zmq_wire), the cases our own.
"""

import json

import msgspec

TS = 1757500000.25
encode = msgspec.msgpack.encode


def struct(name, fields, **options):
    tag = options.pop("tag", None)
    return msgspec.defstruct(name, fields, omit_defaults=options.pop("omit_defaults", True), tag=tag, **options)


REQUIRED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id"]
OPTIONAL = ["extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality"]
LATEST = ["ownership", "session_id"]


def stored(required, optional, **options):
    any_ = [(name, object) for name in required] + [(name, object, None) for name in optional]
    return struct("BlockStored", any_, tag="BlockStored", **options)


def removed(required, optional, **options):
    any_ = [(name, object) for name in required] + [(name, object, None) for name in optional]
    return struct("BlockRemoved", any_, tag="BlockRemoved", **options)


VllmStored = stored([*REQUIRED, "medium", "lora_name"], OPTIONAL)
VllmLatest = stored([*REQUIRED, "medium", "lora_name"], OPTIONAL + LATEST)
VllmTuple = stored([*REQUIRED, "medium", "lora_name"], OPTIONAL, array_like=True)
VllmRemoved = removed(["block_hashes", "medium"], ["group_idx", "locality"])
VllmRemovedTuple = removed(["block_hashes", "medium"], ["group_idx"], array_like=True)
SglangStored = stored(REQUIRED, ["medium", "cache_salt", "session_id"])
SglangRemoved = removed(["block_hashes"], ["medium"])
SglangTuple = stored(REQUIRED, ["medium"], array_like=True)
Cleared = struct("AllBlocksCleared", [], tag="AllBlocksCleared")
ClearedTuple = struct("AllBlocksCleared", [], tag="AllBlocksCleared", array_like=True)
Ignored = struct("Ignored", [("why", object)], tag="Ignored")
Future = struct("BlockMoved", [("block_hashes", object), ("to", object)], tag="BlockMoved")


def text(value):
    return "-" if value is None else str(value)


def hash_text(value):
    if value is None:
        return "-"
    return "x" + value.hex() if isinstance(value, bytes) else str(value % 2**64)


def key_text(key):
    if isinstance(key, str):
        return "t:" + key
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], int):
        return f"m:{key[0]}@{key[1]}"
    return "o:" + encode(key).hex()


def keys_text(blocks):
    if blocks is None:
        return "-"
    return ";".join("-" if keys is None else ",".join(map(key_text, keys)) for keys in blocks)


def say_stored(hashes, parent, tokens, size, lora_id=None, medium=None, lora_name=None, extra_keys=None, group=None,
               kind=None, window=None, locality=None, ownership=None, session=None, salt=None, source=None):
    pairs = bool(tokens) and isinstance(tokens[0], tuple)
    flat = [tokens[0][0]] + [second for _, second in tokens] if pairs else tokens
    return (f"stored {','.join(map(hash_text, hashes))} after {hash_text(parent)} tokens {','.join(map(str, flat))}"
            f"{' bigrams' if pairs else ''} size {size} lora {text(lora_id)} {text(lora_name)} salt {text(salt)} "
            f"keys {keys_text(extra_keys)} session {text(session)} | "
            + say_place(medium, group, kind, window, locality, ownership, source))


def say_place(medium=None, group=None, kind=None, window=None, locality=None, ownership=None, source=None):
    return " ".join(map(text, [medium, group, kind, window, locality, ownership, source]))


def say_removed(hashes, **place):
    return f"removed {','.join(map(hash_text, hashes))} | " + say_place(**place)


def line(name, payload, said, style=None, rank=None, ignored=0, unknown=0):
    print(json.dumps({"name": name, "style": style, "rank": rank, "ignored": ignored, "unknown": unknown,
                      "events": said, "hex": payload.hex()}))


TOKENS = [0, 1, 127, 128, 255, 256, 65535, 65536, 128255]  # each width of an integer
WIDE = [1, 2**63, 2**64 - 1, 127, 128]
SIGNED = [1, -1, -(2**63), 2**63 - 1, -32, -33, -129, -40000]
BYTES = [b"\xab" * 32, b"\x00\xff" * 16]
SALTED = [("tenant-1",), None, None]
MEDIA = [("adapter", ("0123456789abcdef" * 4, -3)), (("opaque-picture", 5),), None, (b"\x01\x02", 7, 1.5, True, None)]
TYPED = [({"type": "CacheSaltKey", "salt": "s"},), ()]


def main():
    # vLLM, maps.
    def vllm(name, event, said, rank=0, style="vllm_maps"):
        batch = [TS, [event]] if rank is None else [TS, [event], rank]
        line(name, encode(batch), [said], style, rank)

    first = dict(hashes=WIDE, parent=None, tokens=TOKENS, size=16)
    vllm("vllm map: unsigned hashes, token widths", VllmStored(WIDE, None, TOKENS, 16, None, "GPU", None),
         say_stored(**first, medium="GPU"))
    vllm("vllm map: no rank", VllmStored([5], 4, [1, 2], 2, None, "GPU", None),
         say_stored([5], 4, [1, 2], 2, medium="GPU"), rank=None)
    vllm("vllm map: hashes as bytes", VllmStored(BYTES, BYTES[0], [1, 2, 3, 4], 2, None, "GPU", None),
         say_stored(BYTES, BYTES[0], [1, 2, 3, 4], 2, medium="GPU"))
    vllm("vllm map: salt in extra keys, group, kind",
         VllmStored([1, 2, 3], None, [9] * 6, 2, None, "GPU", None, SALTED, 0, "full_attention"),
         say_stored([1, 2, 3], None, [9] * 6, 2, medium="GPU", extra_keys=SALTED, group=0, kind="full_attention"))
    vllm("vllm map: LoRA, media, bytes and other keys",
         VllmStored([1, 2, 3, 4], 9, [9] * 8, 2, 7, "CPU", "adapter", MEDIA, 1, "sliding_window", 128, "REMOTE"),
         say_stored([1, 2, 3, 4], 9, [9] * 8, 2, 7, "CPU", "adapter", MEDIA, 1, "sliding_window", 128, "REMOTE"))
    vllm("vllm map: removed", VllmRemoved([7, 8], "GPU", 0), say_removed([7, 8], medium="GPU", group=0))
    vllm("vllm map: removed elsewhere", VllmRemoved([7], None, None, "LOCAL"), say_removed([7], locality="LOCAL"))
    vllm("vllm map: cleared", Cleared(), "cleared -")
    # Its newest has so many fields that msgspec writes 16-bit map headers: equal events, other bytes.
    vllm("vllm newest map: owner, session, typed keys",
         VllmLatest([1, 2], None, [9] * 4, 2, None, "STORAGE", None, TYPED, None, None, None, None, "nixl", "s-1"),
         say_stored([1, 2], None, [9] * 4, 2, medium="STORAGE", extra_keys=TYPED, ownership="nixl", session="s-1"),
         style=None)
    batch = {"ts": TS, "events": [Cleared()], "data_parallel_rank": 3, "more": [1, {"a": None}]}
    line("batch as a map", encode(batch), ["cleared -"], None, 3)

    # vLLM, tuples.
    def tuples(name, event, said, style="vllm_tuples"):
        line(name, encode([TS, [event], 0]), [said], style, 0)

    # Their encoder writes nil for what is not set, however much follows; ours stops after the last that is.
    tuples("vllm tuple", VllmTuple(WIDE, 3, TOKENS, 16, None, "GPU", None), say_stored(WIDE, 3, TOKENS, 16, medium="GPU"),
           None)
    tuples("vllm tuple of fewer fields", ["BlockStored", WIDE, 3, TOKENS, 16, None, "GPU", None],
           say_stored(WIDE, 3, TOKENS, 16, medium="GPU"))
    tuples("vllm tuple: all", VllmTuple([1, 2, 3], None, [9] * 6, 2, 5, "GPU", "l", SALTED, 1, "mamba", 64, "LOCAL"),
           say_stored([1, 2, 3], None, [9] * 6, 2, 5, "GPU", "l", SALTED, 1, "mamba", 64, "LOCAL"))
    tuples("vllm tuple: group", VllmTuple([1], None, [9], 1, None, "GPU", None, None, 2),
           say_stored([1], None, [9], 1, medium="GPU", group=2), None)
    tuples("vllm tuple: removed", VllmRemovedTuple([1], "GPU", 2), say_removed([1], medium="GPU", group=2))
    tuples("vllm tuple: removed, no medium", VllmRemovedTuple([1], None), say_removed([1]), None)
    tuples("vllm tuple: cleared", ClearedTuple(), "cleared -")
    short = ["BlockStored", [11, 12], None, [1, 2, 3, 4], 2]
    tuples("short tuple: ends with the block size", short, say_stored([11, 12], None, [1, 2, 3, 4], 2), None)
    tuples("short tuple: removed", ["BlockRemoved", [11]], say_removed([11]), None)
    full = [*short, None, "GPU", None, None]
    plain = dict(hashes=[11, 12], parent=None, tokens=[1, 2, 3, 4], size=2, medium="GPU")
    tuples("tail: fixed, all five", [*full, 1, "mla_attention", 8, "REMOTE", "engine"],
           say_stored(**plain, group=1, kind="mla_attention", window=8, locality="REMOTE", source="engine"), "vllm_tuples")
    tuples("tail: fixed, window only", [*full, None, None, 8, None], say_stored(**plain, window=8), "vllm_tuples")
    tuples("tail: old, kind without a slot for the group", [*full, "full_attention"],
           say_stored(**plain, kind="full_attention"), None)
    tuples("tail: old, media before it", [*full, [None, {"mm_objects": []}], 3, "mamba", 9],
           say_stored(**plain, group=3, kind="mamba", window=9), None)
    tuples("tail: further elements", [*full, 1, "mamba", None, None, None, {"new": [1, 2]}, "x"],
           say_stored(**plain, group=1, kind="mamba"), None)
    tuples("removed, tail", ["BlockRemoved", [11], "CPU", 1, "mamba", None, "LOCAL", "pool"],
           say_removed([11], medium="CPU", group=1, kind="mamba", locality="LOCAL", source="pool"), "vllm_tuples")
    tuples("cleared, source and more", ["AllBlocksCleared", "pool", 5], "cleared pool", None)

    # SGLang.
    def sglang(name, event, said, style="sglang_maps", rank=0):
        line(name, encode([TS, [event], rank]), [said], style, rank)

    sglang("sglang map: signed hashes", SglangStored(SIGNED, -5, TOKENS, 1, None, "GPU"),
           say_stored(SIGNED, -5, TOKENS, 1, medium="GPU"))
    sglang("sglang map: salt and session, no rank", SglangStored([1], None, [7], 1, 3, None, "tenant", "s"),
           say_stored([1], None, [7], 1, 3, salt="tenant", session="s"), rank=None)
    pairs = [(10, 11), (11, 12), (12, 13), (13, 70000)]
    sglang("sglang map: bigrams", SglangStored([11, 12], None, pairs, 2, None, "CPU_PINNED"),
           say_stored([11, 12], None, pairs, 2, medium="CPU_PINNED"))
    sglang("sglang map: removed", SglangRemoved(SIGNED, "DISK"), say_removed(SIGNED, medium="DISK"))
    sglang("sglang map: cleared", Cleared(), "cleared -")
    sglang("sglang tuple", SglangTuple(SIGNED, 5, TOKENS, 1, None, "GPU"), say_stored(SIGNED, 5, TOKENS, 1, medium="GPU"),
           "sglang_tuples")
    sglang("sglang tuple: ends with lora_id", ["BlockStored", [-1], None, [4], 1, None],
           say_stored([-1], None, [4], 1), "sglang_tuples")
    sglang("sglang tuple: metadata with the salt", ["BlockStored", [-1], None, [4], 1, None, "GPU", {"cache_salt": "t"}],
           say_stored([-1], None, [4], 1, medium="GPU", salt="t"), "sglang_tuples")
    sglang("sglang tuple: removed", ["BlockRemoved", [-1, 2]], say_removed([-1, 2]), "sglang_tuples")

    # Unknown things.
    mixed = [Ignored("x"), Future([1], {"deep": [[[{}]]]}), ["BlockMoved", [1], 2], VllmRemoved([7], "GPU"), Cleared()]
    line("ignored and unknown events", encode([TS, mixed, 0]), [say_removed([7], medium="GPU"), "cleared -"], None, 0, 1, 2)
    line("unknown keys, type last", encode([TS, [{"block_hashes": [7], "new": {"a": [1]}, "medium": None,
                                                   "type": "BlockRemoved"}]]), [say_removed([7])])
    line("no events, further elements of the batch", encode([3, [], None, "epoch", {"a": 1}]), [])
    signed = bytes.fromhex("92ca3fc000009183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657393"
                           "d30000000000000005d0ffd3ffffffffffffffffa66d656469756dc0")
    line("float32 time, integers in wide and signed forms", signed, [say_removed([5, -1, -1])])


if __name__ == "__main__":
    main()
