"""proxy: a TCP connection that a test can cut, stall in either direction, refuse."""

import selectors
import socket
import struct
import threading


class Proxy:
    """Listens on a free port, or the given one, and connects on to (host, port). One thread.

    stall(up=True) lets nothing more through to the server, stall(down=True) nothing to
    the client: both ends see a connection that lives and says nothing, as behind a
    firewall that drops. cut() resets what is there; refuse() also what comes.
    """

    CHUNK = 65536

    def __init__(self, host, port, listen=0):
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", int(listen)))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.pairs = []           # (client, server)
        self.refusing = False
        self.up_stalled = self.down_stalled = False
        self.accepted = 0
        self.closing = False
        self.wake_read, self.wake_write = socket.socketpair()
        self.wake_read.setblocking(False)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stall(self, up=False, down=False):
        with self.lock:
            self.up_stalled, self.down_stalled = self.up_stalled or up, self.down_stalled or down

    def resume(self):
        """Everything goes through again, what was held back first."""
        with self.lock:
            self.up_stalled = self.down_stalled = self.refusing = False
        self._wake()

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self._reset(pair)
        self._wake()

    def refuse(self):
        with self.lock:
            self.refusing = True
        self.cut()

    def connections(self):
        with self.lock:
            return len(self.pairs)

    def close(self):
        self.closing = True
        self._wake()
        self.thread.join(5)
        self.cut()
        self.listener.close()

    def _wake(self):
        try:
            self.wake_write.send(b"x")
        except OSError:
            pass

    @staticmethod
    def _reset(pair):
        for s in pair:
            try:
                # Linger 0: a reset, not an orderly end.
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
            except OSError:
                pass

    def _accept(self):
        client, _ = self.listener.accept()
        with self.lock:
            refusing = self.refusing
        if refusing:
            self._reset((client,))
            return
        try:
            server = socket.create_connection(self.target, timeout=5)
        except OSError:
            self._reset((client,))
            return
        for s in (client, server):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.settimeout(5)
        with self.lock:
            self.pairs.append((client, server))
            self.accepted += 1

    def _forward(self, source, sink, pair):
        try:
            data = source.recv(self.CHUNK)
            if data:
                sink.sendall(data)
                return
        except OSError:
            pass
        with self.lock:
            if pair in self.pairs:
                self.pairs.remove(pair)
        self._reset(pair)

    def _run(self):
        while not self.closing:
            with self.lock:
                pairs = list(self.pairs)
                up, down = not self.up_stalled, not self.down_stalled
            with selectors.DefaultSelector() as selector:
                selector.register(self.listener, selectors.EVENT_READ, None)
                selector.register(self.wake_read, selectors.EVENT_READ, "wake")
                try:
                    for client, server in pairs:
                        if up:
                            selector.register(client, selectors.EVENT_READ, (client, server, (client, server)))
                        if down:
                            selector.register(server, selectors.EVENT_READ, (server, client, (client, server)))
                except (ValueError, KeyError, OSError):     # cut meanwhile
                    continue
                # A stall that begins while we wait is seen within 50 ms.
                ready = selector.select(0.05)
            for key, _ in ready:
                if key.data is None:
                    self._accept()
                elif key.data == "wake":
                    try:
                        self.wake_read.recv(4096)
                    except OSError:
                        pass
                else:
                    source, sink, pair = key.data
                    with self.lock:
                        stalled = self.up_stalled if source is pair[0] else self.down_stalled
                    if not stalled:
                        self._forward(source, sink, pair)
