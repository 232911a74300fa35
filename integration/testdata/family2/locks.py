"""locks.py DIR: record locks, flock and open file description locks exclude
another process, and a shared mapping carries what the other one wrote."""
import fcntl
import mmap
import os
import struct
import subprocess
import sys

F_OFD_SETLK = 37  # fcntl(2), Linux 3.15; the module names it only since 3.9


def held(kind, path):
    with open(path, "r+b") as f:
        try:
            if kind == "record":
                fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
            elif kind == "flock":
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                fcntl.fcntl(f, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 10, 0))
        except OSError:
            return "held"
        return "free"


def main():
    if sys.argv[1] == "--try":
        print(held(sys.argv[2], sys.argv[3]))
        return
    if sys.argv[1] == "--map":
        with open(sys.argv[2], "r+b") as f, mmap.mmap(f.fileno(), 4096) as m:
            m[0:5] = b"child"
            m.flush()
        return
    directory = sys.argv[1]
    me = [sys.executable, os.path.abspath(__file__)]
    for kind in ("record", "flock", "ofd"):
        path = os.path.join(directory, "lock-" + kind)
        with open(path, "wb") as f:
            f.write(bytes(4096))
        with open(path, "r+b") as f:
            if kind == "record":
                fcntl.lockf(f, fcntl.LOCK_EX, 10, 0)
            elif kind == "flock":
                fcntl.flock(f, fcntl.LOCK_EX)
            else:
                fcntl.fcntl(f, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 10, 0))
            first = subprocess.check_output(me + ["--try", kind, path], text=True).strip()
        second = subprocess.check_output(me + ["--try", kind, path], text=True).strip()
        print(kind, first, second)
    path = os.path.join(directory, "lock-record")
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), 4096) as m:
        subprocess.check_call(me + ["--map", path])
        print("map", bytes(m[0:5]).decode())


if __name__ == "__main__":
    main()
