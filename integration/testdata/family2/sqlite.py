"""sqlite.py DB PROCESSES ROWS: writers in WAL mode with checkpoints in between."""
import multiprocessing
import sqlite3
import sys


def writer(path, who, rows):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("pragma synchronous=normal")
    for i in range(rows):
        db.execute("insert into t(who, i) values (?, ?)", (who, i))
        if i % 200 == 199:
            db.execute("pragma wal_checkpoint(passive)").fetchall()
    db.close()


def main():
    path, processes, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    mode = db.execute("pragma journal_mode=wal").fetchone()[0]
    db.execute("create table t(who integer, i integer)")
    children = [multiprocessing.Process(target=writer, args=(path, n, rows)) for n in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    checkpoint = db.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
    count = db.execute("select count(*) from t").fetchone()[0]
    check = db.execute("pragma integrity_check").fetchone()[0]
    db.close()
    print(mode, [child.exitcode for child in children], checkpoint, count, check)


if __name__ == "__main__":
    main()
