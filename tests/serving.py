"""`fak serve` as a child of a test, on a port of its own choice."""
import re
import subprocess
import threading


class DidNotStart(Exception):
    pass


class Serving:
    """Started and ready. `log`: the lines of stderr so far; `address`: where it listens."""

    def __init__(self, fak, *arguments, before=None, port=0, ready=True):
        """`before` runs in the child before the program does. port 0: any that is free. Not ready: listening
        is enough."""
        self.log = []
        self.process = subprocess.Popen([fak, "serve", "--port", str(port), *map(str, arguments)], stderr=subprocess.PIPE,
                                        text=True, errors="replace", preexec_fn=before)
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            words = "is ready on" if ready else "is (?:ready|listening) on"
            if found := re.search(rf" {words} https?://([\d.]+):(\d+)", line):
                self.address = found[1], int(found[2])
                break
        else:
            self.process.wait()
            raise DidNotStart("the server did not get ready: " + "\n".join(self.log))
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self):  # so that the pipe never fills
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def end(self, patience_s=60):
        """Asks it to end; its exit status. It is killed where that takes too long, and TimeoutExpired raised."""
        self.process.terminate()
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """Kills it if it still runs, and reads its log to the end."""
        if self.process.poll() is None:
            self.kill()
        self._reader.join()
        self.process.stderr.close()
