"""Process pools, semaphores and shared memory blocks of the standard library."""
import concurrent.futures
import multiprocessing
from multiprocessing import shared_memory


def square(n):
    return n * n


def fill(name):
    block = shared_memory.SharedMemory(name=name)
    block.buf[0] = 42
    block.close()


def main():
    with concurrent.futures.ProcessPoolExecutor() as pool:
        print(list(pool.map(square, [1, 2, 3])))
    sem = multiprocessing.Semaphore(1)
    assert sem.acquire()
    assert not sem.acquire(block=False)
    sem.release()
    block = shared_memory.SharedMemory(create=True, size=64)
    try:
        child = multiprocessing.Process(target=fill, args=(block.name,))
        child.start()
        child.join()
        print(child.exitcode, block.buf[0])
    finally:
        block.close()
        block.unlink()


if __name__ == "__main__":
    main()
