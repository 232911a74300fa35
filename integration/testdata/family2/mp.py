"""multiprocessing by every start method, with queues, pipes and a manager."""
import multiprocessing
import sys


def work(queue, pipe, n):
    queue.put(n * 2)
    pipe.send({"n": n})
    pipe.close()


def double(n):
    return n * 2


def main():
    for method in ("fork", "spawn", "forkserver"):
        ctx = multiprocessing.get_context(method)
        queue = ctx.Queue()
        ours, theirs = ctx.Pipe()
        child = ctx.Process(target=work, args=(queue, theirs, 21))
        child.start()
        got = queue.get(timeout=30), ours.recv()["n"]
        child.join()
        with ctx.Pool(2) as pool:
            doubled = pool.map(double, range(4))
        with ctx.Manager() as manager:
            shared = manager.dict()
            shared["k"] = "v"
            value = shared["k"]
        print(method, got, child.exitcode, doubled, value)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
