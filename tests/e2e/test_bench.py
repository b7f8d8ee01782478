"""`kvern bench`: its relay relays, and at full size its figures are all there."""

import http.client
import json
import subprocess
import unittest

from harness import BINARY, FULL, REPEAT_HELLO, Server, figure


class Bench(unittest.TestCase):
    def test_the_relay_passes_bytes_both_ways(self):
        with Server(script=REPEAT_HELLO) as server:
            relay = subprocess.Popen([BINARY, "bench", "relay", "--origin", str(server.port)], stderr=subprocess.PIPE,
                                     stdin=subprocess.DEVNULL, text=True)
            try:
                port = int(relay.stderr.readline().rsplit(":", 1)[1])
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                for _ in range(2):
                    client.request("GET", "/v1/models")
                    self.assertEqual(json.loads(client.getresponse().read())["object"], "list")
                client.close()
            finally:
                relay.kill()
                relay.communicate()

    @unittest.skipUnless(FULL, "full size only")
    def test_http_measures_every_case(self):
        done = subprocess.run([BINARY, "bench", "http", "--rounds", "1", "--json"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        for case in ("one_connection", "rate", "paced", "streams"):
            self.assertLessEqual({"in_process", "relay", "through_worker"}, set(figures[case]))
        for name, value in figures["summary"].items():
            figure("bench http " + name, value)
            self.assertNotEqual(value, 0, name)


if __name__ == "__main__":
    unittest.main()
