"""Runs Python programs without the seconds that importing torch takes.

`python -I -S zygote.py [-c SOURCE | FILE] ARGS...` does what `python [-c SOURCE | FILE] ARGS...` does: same streams,
environment, folder, exit code and signal. A server, which the first client starts, has imported torch and forks a child
for each program, so that no program sees what another did. It ends with the process that PEER_OWNER names, or else with
the one that started its first client. Environments that libraries read while they load have servers of their own.
"""

import os
import sys

SLOW = ("torch.export", "torchvision", "xarray", "pandas", "netCDF4", "h5py", "zarr", "pyarrow")
EARLY = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "LD_", "PYTHON", "TORCH", "CUDA", "NVIDIA_", "ATEN_")


def main():
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(request(sys.argv[1:]))


# ---- The client. It imports little, since it starts for each program.


def request(arguments):
    import _socket as socket

    connection = connect(socket, int(os.environ.get("PEER_OWNER") or os.getppid()))
    message = encode([arguments, os.getcwdb(), [b"%s=%s" % one for one in os.environb.items()]])
    streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
    connection.sendmsg([len(message).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    while message:
        message = message[connection.send(message):]
    answer = connection.recv(4)
    if len(answer) != 4:
        sys.stderr.write("The server of Python programs ended before the program did.\n")
        return 1
    status = int.from_bytes(answer, "big")
    if os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def connect(socket, owner):
    """A connection to the owner's server, which is started where there is none."""
    import time

    early = sorted(b"%s=%s" % one for one in os.environb.items() if os.fsdecode(one[0]).startswith(EARLY))
    name = "hpctrain-peer-%d-%d-%08x" % (os.getuid(), owner, checksum(sys.executable.encode() + b"\0".join(early)))
    started = False
    for _ in range(2000):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect("\0" + name)
            assert_same_user(socket, connection)
            return connection
        except ConnectionRefusedError:
            connection.close()
        if not started:
            start(name, owner)
            started = True
        time.sleep(0.01)
    sys.exit("The server of Python programs did not start within 20 seconds.")


def checksum(data):
    import zlib

    return zlib.crc32(data)


def start(name, owner):
    """Starts the server outside this process's session, without its streams."""
    if os.fork() > 0:
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.chdir("/")
    program = os.path.abspath(__file__)
    os.execv(sys.executable, [sys.executable, program, "--serve", name, str(owner)])


def assert_same_user(socket, connection):
    """Anybody on the machine may use the name of an abstract socket."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    if int.from_bytes(peer[4:8], sys.byteorder) != os.getuid():
        sys.exit("The socket of the server of Python programs belongs to somebody else.")


def encode(value):
    """Lists and strings as bytes that `decode` reads."""
    import marshal

    return marshal.dumps(value)


def decode(data):
    import marshal

    return marshal.loads(data)


# ---- The server.


def serve(name, owner):
    import select
    import signal
    import socket

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind("\0" + name)
    except OSError:
        return  # another client's server was first
    listener.listen(64)
    ended = end_of(owner)
    warm({"torch"})
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children = {}  # child's id -> its client's connection
    while True:
        ready, _, _ = select.select([listener, ended, wake, *children.values()], [], [])
        if ended in ready:
            for child in children:
                os.kill(child, signal.SIGKILL)
            return
        for child, connection in list(children.items()):
            if connection in ready:  # the client is gone: nobody waits for this program
                os.kill(child, signal.SIGKILL)
        if wake in ready:
            os.read(wake, 4096)
        reap(children)
        if listener in ready:
            connection, _ = listener.accept()
            assert_same_user(socket, connection)
            arguments, folder, environment, streams = receive(socket, connection)
            warm(imported_by(arguments, folder))
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (listener, connection, *children.values()):
                    other.close()
                for fd in (ended, wake, woken):
                    os.close(fd)
                become(arguments, folder, environment, streams)
            for fd in streams:
                os.close(fd)
            children[child] = connection


def end_of(owner):
    """A file that can be read when the process has ended."""
    try:
        return os.pidfd_open(owner)
    except OSError:  # a kernel or a container without it
        import threading
        import time

        reader, writer = os.pipe()

        def look():
            while os.path.exists("/proc/%d" % owner):
                time.sleep(1)
            os.close(writer)

        threading.Thread(target=look, daemon=True).start()
        return reader


def reap(children):
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        connection = children.pop(child)
        try:
            connection.send(status.to_bytes(4, "big"))
        except OSError:
            pass  # the client was killed
        connection.close()


def receive(socket, connection):
    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    left = int.from_bytes(head, "big")
    parts = []
    while left > 0:
        parts.append(connection.recv(min(left, 1 << 20)))
        left -= len(parts[-1])
    return *decode(b"".join(parts)), streams


def imported_by(arguments, folder):
    """Those slow modules that a program's own lines import, or will have imported by what they do."""
    import re

    try:
        source = arguments[1] if arguments[0] == "-c" else open(os.path.join(folder, os.fsencode(arguments[0]))).read()
    except (OSError, ValueError):
        return set()  # the program's own run reports it
    lines = "\n".join(re.findall(r"^\s*(?:import|from) .*", source, re.MULTILINE))
    found = {name for name in SLOW if re.search(r"\b%s\b" % re.escape(name), lines)}
    if re.search(r"\boptim\b|\butils\.checkpoint\b", source):
        found.add("torch._dynamo")  # which the first optimizer imports
    return found


def warm(modules):
    """Imports what takes seconds, and moves it out of the collector's sight, which would touch and so copy its pages."""
    import gc
    import importlib

    also = {"torch": ["numpy"], "pyarrow": ["pyarrow.parquet"], "torch.export": ["torch._dynamo", "torch._export", "torch._export.serde.serialize"]}
    for module in modules:
        for name in (module, *also.get(module, [])):
            if name not in sys.modules:
                try:
                    importlib.import_module(name)
                except Exception:
                    pass  # the program that imports it reports why it can't be
    gc.freeze()


def become(arguments, folder, environment, streams):
    """Runs a program in this child, as `python` would, and ends."""
    import atexit
    import traceback

    code = 1
    try:
        for fd, stream in enumerate(streams):
            os.dup2(stream, fd)
        for stream in streams:
            os.close(stream)
        os.chdir(folder)
        for name in list(os.environb):
            del os.environb[name]
        for one in environment:
            name, _, value = one.partition(b"=")
            os.environb[name] = value
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", errors="backslashreplace", buffering=1)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        code = run(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code & 0xFF)


def run(arguments):
    import types

    sys.dont_write_bytecode = True  # as `python -B`: this folder is the repository
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if arguments[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments[2:]], ""
        code = compile(arguments[1], "<string>", "exec")
    else:
        path = arguments[0]
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(path))
        module.__file__ = path
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    exec(code, module.__dict__)
    return 0


if __name__ == "__main__":
    main()
