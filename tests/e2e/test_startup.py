"""Starting: what goes wrong says what to do; what is configured is shown; the banner tells what serves."""

import json
import os
import socket
import subprocess
import tempfile
import unittest

import gguf
from harness import BINARY, CACHE, MODEL, REPEAT_HELLO, Server


def run(*arguments, environment=None):
    with tempfile.TemporaryDirectory() as state:  # the default place, but not that of whoever runs the tests
        variables = {**os.environ, "KVERN_CACHE": CACHE, "XDG_STATE_HOME": state, **(environment or {})}
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120, check=False,
                              stdin=subprocess.DEVNULL, env=variables)
    return done.returncode, done.stdout, done.stderr


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def script(self):
        return "scripted:" + self.file("s.jsonl", json.dumps(REPEAT_HELLO[0]).encode() + b"\n")

    def test_no_command_and_one_that_is_none(self):
        for words, said in (((), "a command is needed"), (("bogus",), "no command `bogus`"),
                            (("server",), "Did you mean serve?"), (("\x1b[2J",), "\\x1b[2J")):
            code, _, err = run(*words)
            self.assertEqual(code, 2)
            self.assertIn(said, err)
            self.assertIn("serve, worker, doctor, bench", err)

    def test_each_command_helps(self):
        for words in ((), ("serve",), ("worker",), ("doctor",), ("bench",)):
            code, out, _ = run(*words, "--help")
            self.assertEqual(code, 0)
            self.assertIn("--help", out)

    def test_the_doctor_prints_one_document_whatever_happens(self):
        for words, status in ((("--workers", "/nope"), 1), (("--config", "/nope"), 2)):
            code, out, err = run("doctor", "--json", *words)
            report = json.loads(out)
            self.assertEqual((code, report["well"], report["workers"]), (status, False, []))
            self.assertIn("/nope", report["error"])
            self.assertIn("/nope", err)

    def test_deadlines_of_workers_have_a_least(self):
        for flag, value in (("--worker-silent-deadline", "999ms"), ("--worker-silent-deadline", "0"),
                            ("--worker-first-token-deadline", "0"), ("--worker-connect-deadline", "1ms")):
            self.assert_fails([flag, value], flag, "at least")

    def assert_fails(self, arguments, *words, environment=None):
        code, out, err = run("serve", "--port", "0", *arguments, environment=environment)
        self.assertNotEqual(code, 0, out + err)
        self.assertLess(code, 128, "an error, not a crash")
        for word in words:
            self.assertIn(word, err)
        self.assertNotIn("terminate called", err)
        return err

    def test_a_taken_port(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = str(holder.getsockname()[1])
            code, _, err = run("serve", "--port", port, "--engine", self.script())
            self.assertNotEqual(code, 0)
            self.assertIn(port, err)
            self.assertIn("--port", err)

    def test_a_missing_model(self):
        self.assert_fails(["--model", os.path.join(self.folder.name, "no.gguf")], "no.gguf")

    def test_a_missing_default_model_names_the_setup(self):
        self.assert_fails([], "scripts/setup", environment={"KVERN_CACHE": self.folder.name,
                                                            "XDG_CACHE_HOME": self.folder.name})

    def test_broken_ggufs(self):
        with open(MODEL, "rb") as file:
            head = file.read(1 << 20)
        for name, data in {"empty.gguf": b"", "text.gguf": b"this is no model\n" * 100, "cut.gguf": head,
                           "lies.gguf": head[:8] + b"\xff" * 16 + head[24:], "magic.gguf": b"GGUF"}.items():
            with self.subTest(name):
                self.assert_fails(["--model", self.file(name, data)], name)

    def test_models_that_would_end_llama_cpp_or_answer_nonsense(self):
        with open(MODEL, "rb") as file:
            whole = file.read()
        for name, data in {"twice.gguf": gguf.with_empty_token_named_twice(whole),
                           "nan.gguf": gguf.with_nan(whole, "token_embd.weight")}.items():
            with self.subTest(name):
                self.assert_fails(["--model", self.file(name, data)], name)

    def test_an_unknown_config_key_gets_a_suggestion(self):
        self.assert_fails(["--engine", self.script(), "--config", self.file("k.yaml", b"prot: 9000\n")], "prot", "port")

    def test_a_wrong_value_names_its_key(self):
        self.assert_fails(["--engine", self.script(), "--config", self.file("k.yaml", b"port: many\n")], "port")

    def test_an_unknown_flag(self):
        self.assert_fails(["--prot", "9000"], "`--prot` means nothing to kvern serve; did you mean --port?")

    def test_a_bad_script_names_the_line(self):
        bad = "scripted:" + self.file("bad.jsonl", b'{"text": "a"}\n{"txet": "b"}\n')
        self.assert_fails(["--engine", bad], "2", "txet")

    def test_token_ids_of_a_script_are_in_the_vocabulary(self):
        for line in ({"token_ids": [1, 999999]}, {"text": "a", "logprobs": [{"logprob": -1, "top": [[999999, -1]]}]}):
            bad = "scripted:" + self.file("ids.jsonl", json.dumps(line).encode())
            self.assert_fails(["--engine", bad], "999999", "vocabulary", "ids.jsonl")

    def test_a_configured_model_that_is_not_served(self):
        config = self.file("k.yaml", b"models: [{name: other, aliases: ['gpt-*']}]\n")
        self.assert_fails(["--engine", self.script(), "--config", config], "`other`", "SmolLM2", "--name")

    def test_too_few_tokens_for_any_request(self):
        for flag in ("--ctx", "--kv-cache-tokens"):
            self.assert_fails(["--engine", self.script(), flag, "15"], flag[2:].replace("-", "_"), "15", "16")

    def test_a_listen_beyond_loopback_needs_a_word(self):
        self.assert_fails(["--engine", self.script(), "--host", "0.0.0.0"], "--insecure")
        self.assert_fails(["--engine", self.script(), "--host", "0.0.0.0", "--insecure=false"], "--insecure",
                          environment={"KVERN_INSECURE": "true"})


class Settings(unittest.TestCase):
    def test_help_and_version(self):
        for arguments in (["--help"], ["serve", "--help"], ["--version"]):
            code, out, err = run(*arguments)
            self.assertEqual(code, 0, err)
            self.assertTrue(out.strip())
        self.assertIn("0.1.0", run("--version")[1])

    def test_flags_win_over_variables_over_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("port: 1001\nname: from-file\nlog_level: error\n")

            def shown(*arguments, **environment):
                code, out, err = run("serve", "--config", path, "--print-config", *arguments,
                                     environment={"KVERN_" + name: value for name, value in environment.items()})
                self.assertEqual(code, 0, err)
                return out

            self.assertRegex(shown(), r'"?port"?: 1001')
            self.assertRegex(shown(PORT="1002"), r'"?port"?: 1002')
            self.assertRegex(shown("--port", "1003", PORT="1002"), r'"?port"?: 1003')
            self.assertRegex(shown(), r'"?name"?: "?from-file')
            self.assertRegex(shown(), r'"?body_bytes"?: 33554432')

    def test_the_banner(self):
        with Server(script=REPEAT_HELLO) as server:
            server.chat(max_tokens=1)
            told = server.output()
            self.assertRegex(told, r"listening on http://127\.0\.0\.1:\d+")
            for word in ("model", "context", "tool", "parser", "cache"):
                self.assertIn(word, told.lower())

    def test_a_name_and_an_alias(self):
        with Server("--name", "tiny", "--alias", "gpt-*", script=REPEAT_HELLO) as server:
            models = json.loads(server.get("/v1/models").body)["data"]
            self.assertIn("tiny", [model["id"] for model in models])
            self.assertEqual(server.chat(model="gpt-4o")["choices"][0]["message"]["content"], "Hello from the script.")
            self.assertEqual(server.post("/v1/chat/completions", {"model": "claude-x", "messages": [
                {"role": "user", "content": "x"}]}).status, 404)
            self.assertEqual(json.loads(server.get("/v1/models/gpt-4o").body)["id"], "tiny", "found by its alias")
            self.assertEqual(server.get("/v1/models/claude-x").status, 404)

    def test_names_in_a_path_are_decoded(self):
        with Server("--name", "org/my model", script=REPEAT_HELLO) as server:
            for path in ("org/my%20model", "org%2Fmy%20model", "%6Frg/my%20model"):
                reply = server.get("/v1/models/" + path)
                self.assertEqual((reply.status, json.loads(reply.body).get("id")), (200, "org/my model"), path)
            self.assertEqual(server.get("/v1/models/org%2").status, 404, "a broken escape stands for itself")


if __name__ == "__main__":
    unittest.main()
