"""A long prefill on the three APIs: clients with idle timers see real events, not comments, at least every 15 s.

Named by the points of the conformance checklist (7, 8 and 79). Ends with the answer of a model that thinks long.
"""

import json
import threading
import time
import unittest

from apis import CHAT, MESSAGES, RESPONSES
from harness import FULL, JSON, ScriptedCase, figure

# Headers are held for 10 s; full size waits for a second sign of life behind the first.
SECONDS = 25 if FULL else 12


def signs_of_life(api, event):
    """Whether an event tells a waiting client of this API that the answer is still being made."""
    if api is CHAT:
        [choice] = event["choices"]
        return choice["finish_reason"] is None and not choice["delta"].get("content")
    if api is RESPONSES:
        return event["type"] in ("response.created", "response.in_progress")
    return event["type"] == "ping"


class KeepAlive(ScriptedCase):
    script = [{"text": "At last.", "ttft_ms": SECONDS * 1000, "repeat": True}]

    def watch(self, api, seen):
        """(seconds since the request, event) of a whole stream."""
        connection = self.server.connection(SECONDS + 60)
        started = time.monotonic()
        connection.request("POST", api.path, json.dumps(api.body(stream=True)), JSON)
        response = connection.getresponse()
        seen.append((time.monotonic() - started, response.getheader("content-type")))
        for raw in response:
            if raw.startswith(b"data: {"):
                seen.append((time.monotonic() - started, json.loads(raw[6:])))
            elif not raw.startswith((b"event: ", b"data: [DONE]")):
                self.assertEqual(raw.strip(), b"", "no comments")
        connection.close()

    def test_7_8_79_real_events_while_the_model_reads(self):
        watched = [(api, []) for api in (CHAT, RESPONSES, MESSAGES)]
        threads = [threading.Thread(target=self.watch, args=each) for each in watched]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for api, ((_, content_type), *seen) in watched:
            with self.subTest(api.name):
                self.assertTrue(content_type.startswith("text/event-stream"))
                times = [0, *(when for when, _ in seen)]
                gap = max(after - before for before, after in zip(times, times[1:]))
                figure(f"longest silence on {api.name}, s", round(gap, 1))
                self.assertLess(gap, 15)
                waiting = [event for when, event in seen if when < SECONDS - 0.5]
                self.assertGreaterEqual(len(waiting), 2 if FULL else 1)
                for event in waiting:
                    self.assertTrue(signs_of_life(api, event), event)
                self.assertGreater(len(seen), len(waiting), "the answer came behind")


if __name__ == "__main__":
    unittest.main()
