package supervise

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
)

// F1-10 and F2-9 with the programs that people run.
func TestPrograms(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}, net: hostAbstract})
	for _, c := range []struct{ name, script, want string }{
		{"touch, chmod and cp keep metadata", `touch -d 2001-01-01 f && chmod +x f && chmod 2755 sub && cp -a f g && stat -c '%a %Y' g f && ls -ld sub | cut -c1-10`, "755 978307200\n755 978307200\ndrwxr-sr-x\n"},
		{"tar keeps modes and times", `mkdir t && cd t && for i in 1 2 3; do echo $i > $i; chmod 70$i $i; touch -d @100$i $i; done; ln -s 1 l; touch -h -d @5000 l; cd ..; tar cf a.tar t && mkdir x && tar xpf a.tar -C x && cd x/t && stat -c '%n %a %Y' 1 2 3 l`, "1 701 1001\n2 702 1002\n3 703 1003\nl 777 5000\n"},
		{"git works", `export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; git init -q r && cd r && echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm m && git clone -q . ../r2 && git -C ../r2 log --format=%s`, "m\n"},
		{"python's multiprocessing works", `TMPDIR=$PWD python3 -c '
import multiprocessing as mp
from multiprocessing.managers import BaseManager
def f(x): return x * x
if __name__ == "__main__":
    mp.set_start_method("forkserver")
    q = mp.Manager().Queue()
    q.put(7)
    with mp.Pool(2) as p: print(p.map(abs, [-1, -2]), q.get())
'`, "[1, 2] 7\n"},
		{"python's asyncio serves a path", `python3 -c '
import asyncio
async def h(r, w):
    w.write(await r.read(3)); await w.drain(); w.close()
async def m():
    s = await asyncio.start_unix_server(h, "as.sock")
    print(s.sockets[0].getsockname())
    r, w = await asyncio.open_unix_connection("as.sock")
    w.write(b"abc"); print(await r.read(3)); w.close()
asyncio.run(m())'`, "as.sock\nb'abc'\n"},
		{"SIGPIPE comes where it would", `python3 -c '
import signal, socket
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
a, b = socket.socketpair(); b.close()
a.sendmsg([b"x"])'; echo $?`, "141\n"},
		{"a signal interrupts a blocked send", `python3 -c '
import signal, socket, time
a, b = socket.socketpair()
class Late(Exception): pass
def late(*_): raise Late
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.3)
t = time.time()
try:
    while True: a.sendmsg([b"x" * 100000])
except Late: print("late", time.time() - t < 2)
'`, "late True\n"},
		{"a handled signal restarts a blocked send", `python3 -c '
import signal, socket, threading, time
a, b = socket.socketpair()
hits = []
signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
def drain():
    time.sleep(0.7)
    n = 0
    while n < 10000000: n += len(b.recv(1 << 20))
    print("got", n)
d = threading.Thread(target=drain); d.start()
n = 0
while n < 10000000: n += a.sendmsg([b"x" * min(1000000, 10000000 - n)])
d.join(); signal.setitimer(signal.ITIMER_REAL, 0)
print(len(hits) > 0)
'`, "got 10000000\nTrue\n"},
		{"what is outside stays", `touch ../o/f 2>/dev/null; chmod 777 ../o/f 2>/dev/null; cp -a f ../o/f2 2>/dev/null; chmod 700 to-o 2>/dev/null; stat -c %a ../o/f`, "644\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.script, "python3") {
				if _, err := exec.LookPath("python3"); err != nil {
					t.Skip("no python3 here")
				}
			}
			before := state(t, d.O+"/f")
			out, err := s.run(d.W, "sh", "-c", c.script)
			if err != nil || out != c.want {
				t.Errorf("%v\n%s\nnot\n%s", err, out, c.want)
			}
			if after := state(t, d.O+"/f"); after != before {
				t.Errorf("%s became %s", before, after)
			}
		})
	}
	os.Remove(d.O + "/f2")
}
