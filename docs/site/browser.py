"""A page of Chromium without a window, steered by the protocol of DevTools through two pipes; no package is needed."""

from __future__ import annotations

import json
import os
import signal
import time
from base64 import b64decode
from pathlib import Path
from typing import Any


class Browser:
    """One page of Chromium."""

    def __init__(self, program: str, profile: str) -> None:
        commands, self.write = os.pipe()
        self.read, answers = os.pipe()  # the last of four: neither 3 nor 4
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "about:blank")
        actions = (
            (os.POSIX_SPAWN_DUP2, commands, 3),
            (os.POSIX_SPAWN_DUP2, answers, 4),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        )
        command = [program, f"--user-data-dir={profile}", *flags]
        self.process = os.posix_spawn(program, command, os.environ, file_actions=actions)
        os.close(commands)
        os.close(answers)
        self.received = b""
        self.number, self.session = 0, None
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and return its result; events are skipped."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        session = {"sessionId": self.session} if self.session else {}
        os.write(self.write, json.dumps(message | session).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            pass
        return answer["result"]

    def _next(self) -> Any:
        """The next message of the browser."""
        while b"\0" not in self.received:
            if not (more := os.read(self.read, 1 << 16)):
                raise ConnectionError("the browser has ended")
            self.received += more
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def value(self, script: str, seconds: float = 20.0) -> Any:
        """The value of a script, which is tried until there is one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"]
            if (found := result.get("value")) is not None:
                return found
            time.sleep(0.05)
        raise TimeoutError(f"no value within {seconds:g} s: {script}")

    def open(self, address: str) -> None:
        """Go to a page, and wait until it is there."""
        self.call("Page.navigate", url=address)
        self.value(f'location.href === {json.dumps(address)} && document.readyState === "complete" || null')

    def look(self, theme: str, width: int) -> None:
        """Take a theme and a width, as on a desk or on a phone."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def picture(self, file: Path) -> None:
        """Save what is shown, as PNG."""
        file.write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """End the browser."""
        os.kill(self.process, signal.SIGTERM)
        os.waitpid(self.process, 0)
