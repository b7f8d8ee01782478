"""Stored responses through the built binary: previous_response_id, GET, DELETE, input_items, cancel, background, compact.

Tests are named by the points of the conformance checklist they hold (56 to 66).
"""

import json
import os
import resource
import signal
import sqlite3
import threading
import time
import unittest

import openai

from harness import FULL, REPEAT_HELLO, ScriptedCase, Server, figure, until
from test_responses import CALL, PATCH, TOOLS, check_grammar, user

SLOW = {"match": "slowly", "chunks": ["word "] * 400, "itl_ms": 20, "repeat": True}
FLOOD = "y" * 8192
SCRIPT = [
    {"match": "Summarise this conversation", "text": "<think>hm</think>They like tea.", "repeat": True},
    {"match": "They like tea.", "text": "I know of the tea.", "repeat": True},
    {"match": "call the tool", "text": f"<think>plan it</think>Calling.{CALL}", "repeat": True},
    {"match": "patch call", "text": PATCH, "repeat": True},
    {"match": "breaks", "chunks": ["one ", "two "], "finish": "error", "repeat": True},
    {"match": "flood", "chunks": [FLOOD] * 400, "itl_ms": 5, "repeat": True},
    {"match": "quickly", "chunks": ["one ", "two ", "three"], "itl_ms": 5, "repeat": True},
    SLOW,
    *REPEAT_HELLO,
]


def parse(reply):
    return json.loads(reply.body)


def events_of(reply):
    """Documents of a stream that has been read whole."""
    return [json.loads(block.split("data: ", 1)[1]) for block in reply.body.decode().split("\n\n") if block]


def texts(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


class Client:
    """What tests ask a server for."""

    def __init__(self, server, **headers):
        self.server = server
        self.headers = {"content-type": "application/json", **headers}

    def post(self, path, body):
        return self.server.post(path, body, headers=self.headers)

    def create(self, status=200, **fields):
        reply = self.post("/v1/responses", {"model": "m", **fields})
        assert reply.status == status, (reply.status, reply.body)
        return parse(reply) if status == 200 else parse(reply)["error"]

    def get(self, id, query="", status=200, method="GET"):
        reply = self.server.request(method, f"/v1/responses/{id}{query}", headers=self.headers)
        assert reply.status == status, (reply.status, reply.body)
        if "event-stream" in reply.headers["content-type"]:
            return events_of(reply)
        return parse(reply) if status == 200 else parse(reply)["error"]

    def delete(self, id, status=200):
        return self.get(id, method="DELETE", status=status)

    def cancel(self, id, status=200):
        reply = self.post(f"/v1/responses/{id}/cancel", {})
        assert reply.status == status, (reply.status, reply.body)
        return parse(reply) if status == 200 else parse(reply)["error"]

    def ended(self, id):
        return until(lambda: (found := self.get(id))["status"] not in ("queued", "in_progress") and found)

    def prompt_tokens(self, **fields):
        return self.create(**fields)["usage"]["input_tokens"]


class State(ScriptedCase):
    script = SCRIPT
    arguments = ("--name", "m")

    def setUp(self):
        self.client = Client(self.server)

    def test_56_store_continues_and_instructions_are_not_inherited(self):
        first = self.client.create(input="call the tool", tools=TOOLS, instructions="Be brief.")
        self.assertTrue(first["store"])
        call = next(item for item in first["output"] if item["type"] == "function_call")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "a.txt"}
        second = self.client.create(input=[output], previous_response_id=first["id"], tools=TOOLS)
        self.assertEqual(second["previous_response_id"], first["id"])
        # The same as the client's own replay, item by item.
        replay = user("call the tool") + first["output"] + [output]
        self.assertEqual(second["usage"]["input_tokens"],
                         self.client.prompt_tokens(input=replay, tools=TOOLS, store=False))
        third = self.client.create(input="and now?", previous_response_id=second["id"], tools=TOOLS)
        replay += second["output"] + user("and now?")
        self.assertEqual(third["usage"]["input_tokens"],
                         self.client.prompt_tokens(input=replay, tools=TOOLS, store=False))

    def test_56_thinking_and_custom_calls_continue_exactly(self):
        first = self.client.create(input="patch call", tools=TOOLS)
        call = first["output"][0]
        self.assertEqual(call["type"], "custom_tool_call")
        output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Done"}
        second = self.client.create(input=[output], previous_response_id=first["id"], tools=TOOLS)
        self.assertEqual(second["usage"]["input_tokens"], self.client.prompt_tokens(
            input=user("patch call") + first["output"] + [output], tools=TOOLS, store=False))

    def test_56_branches_and_streams(self):
        first = self.client.create(input="hi")
        left = self.client.create(input="left", previous_response_id=first["id"])
        stream = self.client.post("/v1/responses", {"model": "m", "input": "right", "stream": True,
                                                    "previous_response_id": first["id"]})
        events = events_of(stream)
        check_grammar(events)
        right = events[-1]["response"]
        self.assertEqual(self.client.get(right["id"]), right, "what is stored is what was sent")
        self.assertEqual(self.client.get(left["id"])["previous_response_id"], first["id"])

    def test_56_store_false_is_not_stored(self):
        first = self.client.create(input="hi", store=False)
        self.assertFalse(first["store"])
        self.client.get(first["id"], status=404)
        self.client.create(400, input="x", previous_response_id=first["id"])

    def test_57_unknown_deleted_and_foreign_ids_are_not_found(self):
        first = self.client.create(input="hi")
        second = self.client.create(input="more", previous_response_id=first["id"])
        self.client.delete(first["id"])
        for id in ("resp_1", "resp_0123456789abcdef", first["id"], second["id"], "x" * 60):
            error = self.client.create(400, input="x", previous_response_id=id)
            self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))
        self.assertEqual(self.client.get(second["id"])["id"], second["id"], "it can still be read")

    def test_56_another_tenants_response_is_not_there(self):
        theirs = Client(self.server, **{"x-tenant-id": "other"})
        mine = self.client.create(input="hi")
        theirs.get(mine["id"], status=404)
        theirs.get(mine["id"], "/input_items", status=404)
        theirs.get(mine["id"], "?stream=true", status=404)
        theirs.delete(mine["id"], status=404)
        theirs.cancel(mine["id"], status=404)
        self.assertEqual(theirs.create(400, input="x", previous_response_id=mine["id"])["code"],
                         "previous_response_not_found")
        item = mine["output"][0]["id"]
        self.assertEqual(theirs.create(400, input=[{"type": "item_reference", "id": item}])["code"], "not_found")
        self.client.get(mine["id"])

    def test_52_item_references_are_the_stored_items(self):
        first = self.client.create(input="call the tool", tools=TOOLS)
        items = self.client.get(first["id"], "/input_items")["data"]
        references = [{"type": "item_reference", "id": item["id"]} for item in items + first["output"]]
        output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "a.txt"}
        second = self.client.create(input=references + [output], tools=TOOLS)
        self.assertEqual(second["usage"]["input_tokens"], self.client.prompt_tokens(
            input=user("call the tool") + first["output"] + [output], tools=TOOLS, store=False))
        stored = self.client.get(second["id"], "/input_items?order=asc")["data"]
        self.assertEqual([item["type"] for item in stored],
                         ["message", "reasoning", "message", "function_call", "function_call_output"])
        error = self.client.create(400, input=[{"type": "item_reference", "id": "msg_0123456789abcdef_0"}])
        self.assertEqual((error["code"], error["param"]), ("not_found", "input[0].id"))

    def test_66_get_and_delete(self):
        first = self.client.create(input="hi", metadata={"a": "b"}, temperature=0.5)
        self.assertEqual(self.client.get(first["id"]), first)
        self.assertEqual(self.client.delete(first["id"]), {"id": first["id"], "object": "response", "deleted": True})
        for method in ("GET", "DELETE"):
            error = self.client.get(first["id"], method=method, status=404)
            self.assertEqual(error["type"], "invalid_request_error")
        self.client.get("nonsense", status=404)

    def test_66_input_items_in_pages(self):
        items = [{"role": "user", "content": f"message {i}"} for i in range(45)]
        id = self.client.create(input=items)["id"]
        seen, after = [], ""
        while True:
            page = self.client.get(id, f"/input_items?order=asc&limit=20{after}")
            self.assertEqual(page["object"], "list")
            self.assertEqual((page["first_id"], page["last_id"]), (page["data"][0]["id"], page["data"][-1]["id"]))
            seen += page["data"]
            if not page["has_more"]:
                break
            after = "&after=" + page["last_id"]
        self.assertEqual([item["content"] for item in seen],
                         [[{"type": "input_text", "text": f"message {i}"}] for i in range(45)])
        self.assertEqual(len({item["id"] for item in seen}), 45)
        self.assertEqual(self.client.get(id, "/input_items?limit=1")["data"][0], seen[-1], "the newest first")
        for query in ("?limit=0", "?limit=101", "?limit=x", "?order=up", "?after=none"):
            self.client.get(id, "/input_items" + query, status=400)

    def test_66_cancel_is_for_background_responses(self):
        first = self.client.create(input="hi")
        self.assertIn("background", self.client.cancel(first["id"], status=400)["message"])

    def test_66_background_goes_on_without_its_client(self):
        first = self.client.create(input="quickly", background=True)
        self.assertEqual((first["status"], first["background"], first["output"]), ("queued", True, []))
        self.assertIsNone(first["completed_at"])
        ended = self.client.ended(first["id"])
        self.assertEqual((ended["status"], texts(ended)), ("completed", "one two three"))
        more = self.client.create(input="more", previous_response_id=first["id"])
        self.assertEqual(more["status"], "completed")
        self.assertEqual(self.client.create(400, input="x", background=True, store=False)["param"], "background")

    def test_66_background_stream_from_any_event(self):
        stream = self.server.stream("/v1/responses", model="m", input="slowly", background=True)
        start = next(iter(stream))
        self.assertEqual((start["type"], start["response"]["status"]), ("response.created", "queued"))
        stream.hang_up()
        id = start["response"]["id"]
        until(lambda: self.client.get(id)["status"] == "in_progress")
        self.assertEqual(self.client.create(400, input="x", previous_response_id=id)["param"], "previous_response_id")
        first = []
        reader = threading.Thread(target=lambda: first.extend(self.client.get(id, "?stream=true")))
        reader.start()
        until(lambda: not reader.is_alive() or self.client.get(id)["status"] == "in_progress")
        cancelled = self.client.cancel(id)
        reader.join()
        self.assertEqual(cancelled["status"], "cancelled")
        self.assertEqual(self.client.cancel(id), cancelled, "twice is as once")
        self.assertEqual([event["sequence_number"] for event in first], list(range(len(first))))
        self.assertEqual([event["type"] for event in first[:3]],
                         ["response.created", "response.queued", "response.in_progress"])
        self.assertEqual(first[-1]["response"], cancelled)
        for after in (0, 5, len(first) - 2, len(first) - 1):
            self.assertEqual(self.client.get(id, f"?stream=true&starting_after={after}"), first[after + 1:])
        self.client.get(id, "?stream=true&starting_after=x", status=400)

    def take_up_a_flood(self, server):
        client = Client(server)
        before = server.metric("vllm:generation_tokens_total")
        id = client.create(input="flood", background=True)["id"]
        until(lambda: server.metric("vllm:generation_tokens_total") > before + 200, what="much of it")
        events = client.get(id, "?stream=true")
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        self.assertEqual(text, FLOOD * 400)

    def test_66_a_long_background_stream_is_taken_up_while_it_goes_on(self):
        """More of it than a connection may hold back."""
        self.take_up_a_flood(self.server)

    def test_66_a_long_background_stream_and_a_small_write_buffer(self):
        with Server("--alias", "m", script=SCRIPT, config={"limits": {"write_buffer_bytes": 4096}}) as server:
            self.take_up_a_flood(server)

    def test_66_background_stream_read_to_its_end(self):
        reply = self.client.post("/v1/responses", {"model": "m", "input": "quickly", "background": True, "stream": True})
        events = events_of(reply)
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        self.assertEqual(events[-1]["type"], "response.completed")
        id = events[-1]["response"]["id"]
        self.assertEqual(self.client.get(id), events[-1]["response"])
        self.assertEqual(self.client.get(id, "?stream=true"), events)

    def test_66_only_background_responses_are_streamed_again(self):
        first = self.client.create(input="hi")
        self.assertEqual(self.client.get(first["id"], "?stream=true", status=400)["param"], "stream")

    def test_66_background_failure_is_kept(self):
        id = self.client.create(input="breaks", background=True)["id"]
        ended = self.client.ended(id)
        self.assertEqual((ended["status"], ended["error"]["code"]), ("failed", "server_error"))
        self.assertEqual(self.client.get(id, "?stream=true")[-1]["type"], "response.failed")

    def test_66_delete_ends_a_background_response(self):
        id = self.client.create(input="slowly", background=True)["id"]
        self.assertTrue(self.client.delete(id)["deleted"])
        self.client.get(id, status=404)
        until(lambda: self.server.metric("vllm:num_requests_running") == 0)

    def test_65_compact(self):
        first = self.client.create(input="I like tea very much.")
        compacted = parse(self.client.post("/v1/responses/compact", {
            "model": "m", "input": "And biscuits.", "previous_response_id": first["id"]}))
        self.assertEqual(compacted["object"], "response.compaction")
        self.assertEqual([item["type"] for item in compacted["output"]], ["message", "message", "compaction"])
        self.assertEqual([item["content"][0]["text"] for item in compacted["output"][:2]],
                         ["I like tea very much.", "And biscuits."])
        self.assertNotIn("They like", json.dumps(compacted), "the summary is sealed")
        self.assertGreater(compacted["usage"]["output_tokens"], 0)
        after = self.client.create(input=compacted["output"] + user("What do you know?"), store=False)
        self.assertEqual(texts(after), "I know of the tea.")
        theirs = Client(self.server, **{"x-tenant-id": "other"})
        self.assertNotEqual(texts(theirs.create(input=compacted["output"] + user("What?"), store=False)),
                            "I know of the tea.")

    def test_65_compact_takes_nvext(self):
        body = {"model": "m", "input": "I like tea very much.", "nvext": {"extra_fields": ["timing"]}}
        self.assertIn("timing", parse(self.client.post("/v1/responses/compact", body))["nvext"])
        reply = self.client.post("/v1/responses/compact", {**body, "nvext": {"annotations": ["query_instance_id:"]}})
        self.assertEqual((reply.status, parse(reply)["error"]["param"]), (400, "nvext.annotations"))

    def test_65_compact_needs_a_model(self):
        reply = self.client.post("/v1/responses/compact", {"input": "x"})
        self.assertEqual((reply.status, parse(reply)["error"]["param"]), (400, "model"))
        self.assertEqual(self.client.post("/v1/responses/compact", {"model": "m"}).status, 400)

    def test_56_66_openai_sdk(self):
        api = openai.OpenAI(base_url=self.server.url + "/v1", api_key="unused", max_retries=0).responses
        first = api.create(model="m", input="hi")
        second = api.create(model="m", input="more", previous_response_id=first.id)
        self.assertEqual(api.retrieve(second.id).output_text, second.output_text)
        self.assertEqual([item.content[0].text for item in api.input_items.list(second.id)], ["more"])
        job = api.create(model="m", input="quickly", background=True)
        until(lambda: api.retrieve(job.id).status == "completed")
        with api.create(model="m", input="quickly", background=True, stream=True) as stream:
            id = next(iter(stream)).response.id
        seen = [event.sequence_number for event in api.retrieve(id, stream=True, starting_after=2)]
        self.assertEqual(seen, list(range(3, 3 + len(seen))))
        job = api.create(model="m", input="slowly", background=True)
        self.assertEqual(api.cancel(job.id).status, "cancelled")
        api.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            api.retrieve(first.id)


class Bounds(unittest.TestCase):
    def test_so_many_background_responses(self):
        with Server("--name", "m", "--background-max", "2", script=SCRIPT) as server:
            client = Client(server)
            ids = [client.create(input="slowly", background=True)["id"] for _ in range(2)]
            reply = client.post("/v1/responses", {"model": "m", "input": "x", "background": True})
            self.assertEqual(reply.status, 429)
            self.assertIn("retry-after", reply.headers)
            client.cancel(ids[0])
            client.create(input="quickly", background=True)

    def test_off_stores_nothing(self):
        with Server("--name", "m", "--responses-file", "off", script=SCRIPT) as server:
            client = Client(server)
            first = client.create(input="hi")
            self.assertFalse(first["store"])
            client.get(first["id"], status=404)
            self.assertEqual(client.create(400, input="x", background=True)["param"], "background")
            self.assertEqual(client.create(400, input="x", previous_response_id=first["id"])["code"],
                             "previous_response_not_found")

    def start_fails(self, server, *words):
        self.assertNotEqual(server.wait_exit(), 0)
        server.stop()
        for word in words:
            self.assertIn(word, server.output())

    def test_a_place_that_cannot_be_used_is_an_error_at_start(self):
        with Server("--name", "m", script=SCRIPT) as server:
            file = os.path.join(server.folder, "state", "responses.db")
            self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
            self.start_fails(Server("--responses-file", file, script=SCRIPT, wait=False), "another process uses it")
            damaged = server.write("notes.txt", "x" * 9000)
            self.start_fails(Server("--responses-file", damaged, script=SCRIPT, wait=False), "no database")
            self.start_fails(Server("--responses-file", "/proc/x/responses.db", script=SCRIPT, wait=False),
                             "/proc/x/responses.db", "off")

    def test_a_full_disk_is_503_with_advice_and_store_false_goes_on(self):
        def limits():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

        with Server("--name", "m", script=SCRIPT, limits=limits) as server:
            client = Client(server)
            kept = client.create(input="hi")
            long = "long " * 100_000
            error = client.create(503, input=[{"type": "custom_tool_call_output", "call_id": "c", "output": ""},
                                              *user("hi"), {"type": "web_search_call", "note": long}])
            self.assertEqual(error["code"], "storage_failed")
            self.assertIn("store: false", error["message"])
            streamed = events_of(client.post("/v1/responses", {
                "model": "m", "stream": True, "input": [*user("quickly"), {"type": "web_search_call", "note": long}]}))
            self.assertEqual(streamed[-1]["type"], "response.failed")
            self.assertEqual([event["sequence_number"] for event in streamed], list(range(len(streamed))))
            client.create(input="hi", store=False)
            self.assertEqual(client.get(kept["id"]), kept)


class Restarts(unittest.TestCase):
    def setUp(self):
        holder = Server("--name", "m", "--responses-file", "off", script=SCRIPT)
        self.addCleanup(holder.stop)
        self.file = os.path.join(holder.folder, "kept", "responses.db")
        self.state = os.path.join(holder.folder, "state")

    def server(self):
        return Server("--name", "m", "--responses-file", self.file, "--state-dir", self.state, script=SCRIPT)

    def kill(self, server):
        server.signal(signal.SIGKILL)
        server.process.wait()
        server.stop()

    def test_a_restart_keeps_what_was_and_fails_what_was_under_way(self):
        server = self.server()
        client = Client(server)
        first = client.create(input="call the tool", tools=TOOLS)
        done = client.create(input="quickly", background=True)["id"]
        ended = client.ended(done)
        events = client.get(done, "?stream=true")
        cut = client.create(input="slowly", background=True)["id"]
        until(lambda: client.get(cut)["output"] or client.get(cut)["status"] == "in_progress")
        self.kill(server)
        with self.server() as server:
            client = Client(server)
            self.assertEqual(client.get(first["id"]), first)
            self.assertEqual(client.get(done), ended)
            self.assertEqual(client.get(done, "?stream=true&starting_after=3"), events[4:])
            lost = client.get(cut)
            self.assertEqual((lost["status"], lost["error"]["code"]), ("failed", "server_error"))
            self.assertEqual(client.cancel(cut), lost)
            last = client.get(cut, "?stream=true&starting_after=7")
            self.assertEqual([(event["type"], event["sequence_number"], event["response"]) for event in last],
                             [("response.failed", 8, lost)])
            output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "a"}
            again = client.create(input=[output], previous_response_id=first["id"], tools=TOOLS)
            self.assertEqual(again["usage"]["input_tokens"], client.prompt_tokens(
                input=user("call the tool") + first["output"] + [output], tools=TOOLS, store=False))

    def test_a_signal_lets_background_responses_end(self):
        server = self.server()
        client = Client(server)
        id = client.create(input="quickly", background=True)["id"]
        server.signal(signal.SIGTERM)
        server.wait_exit()
        server.stop()
        with self.server() as server:
            self.assertEqual(Client(server).get(id)["status"], "completed")

    def test_kill_between_turns_loses_no_acknowledged_response(self):
        """kill -9 while several conversations go on: whatever was acknowledged is there, word for word."""
        rounds = 100 if FULL else 10
        acknowledged, last = {}, [None] * 4
        for number in range(rounds):
            server = self.server()
            client = Client(server)
            for id in set(last) - {None}:
                self.assertEqual(client.get(id), acknowledged[id])
            stop = threading.Event()

            def converse(lane):
                while not stop.is_set():
                    try:
                        body = {"model": "m", "input": f"turn of {lane}", "stream": lane % 2 == 1}
                        if last[lane]:
                            body["previous_response_id"] = last[lane]
                        reply = client.post("/v1/responses", body)
                        assert reply.status == 200, reply.body
                        response = events_of(reply)[-1]["response"] if body["stream"] else parse(reply)
                    except (OSError, IndexError, ValueError, KeyError, __import__("http.client").client.HTTPException):
                        if stop.is_set():
                            return
                        raise
                    if response["status"] != "completed":
                        return
                    acknowledged[response["id"]] = response
                    last[lane] = response["id"]

            lanes = [threading.Thread(target=converse, args=(lane,)) for lane in range(4)]
            before = len(acknowledged)
            for lane in lanes:
                lane.start()
            until(lambda: len(acknowledged) >= before + 5 + number % 7)
            stop.set()
            self.kill(server)
            for lane in lanes:
                lane.join()
            with sqlite3.connect(self.file) as database:
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
                kept = {id & 0xFFFFFFFFFFFFFFFF for (id,) in database.execute("SELECT id FROM responses")}
            database.close()
            lost = [id for id in acknowledged if int(id.removeprefix("resp_"), 16) not in kept]
            self.assertEqual(lost, [], f"after kill number {number}")
        with self.server() as server:
            client = Client(server)
            started = time.monotonic()
            for id, response in acknowledged.items():
                self.assertEqual(client.get(id), response)
            figure("stored responses after kills", f"{len(acknowledged)} over {rounds} kills")
            figure("GET of a stored response, ms", round((time.monotonic() - started) * 1000 / len(acknowledged), 2))


if __name__ == "__main__":
    unittest.main()
