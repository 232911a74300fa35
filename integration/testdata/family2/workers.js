// Worker threads with shared memory, child processes with an IPC channel and
// a passed handle, a server on a socket file, and a file watcher.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { fork, execFileSync, spawn } = require('child_process');
const fs = require('fs');
const net = require('net');
const path = require('path');

async function main() {
  const dir = process.argv[2];
  const shared = new Int32Array(new SharedArrayBuffer(4));
  await Promise.all([1, 2, 3, 4].map(() => new Promise((ok, bad) => {
    const w = new Worker(__filename, { workerData: { shared } });
    w.on('error', bad);
    w.on('exit', (code) => (code === 0 ? ok() : bad(new Error('worker ' + code))));
  })));
  console.log('workers', shared[0]);

  const child = fork(__filename, ['--child']);
  const answer = await new Promise((ok, bad) => {
    child.on('error', bad);
    child.on('message', ok);
    child.send({ n: 20 });
  });
  child.disconnect();
  await new Promise((ok) => child.on('exit', ok));
  console.log('ipc', answer.n);

  console.log('exec', execFileSync('echo', ['a b']).toString().trim());
  const cat = spawn('cat', [], { stdio: ['pipe', 'pipe', 'inherit'] });
  let echoed = '';
  cat.stdout.on('data', (d) => { echoed += d; });
  cat.stdin.end('piped');
  await new Promise((ok) => cat.on('close', ok));
  console.log('pipe', echoed);

  const sock = path.join(dir, 's.sock');
  const server = net.createServer((c) => c.end('served')).listen(sock);
  await new Promise((ok, bad) => { server.on('listening', ok); server.on('error', bad); });
  const got = await new Promise((ok, bad) => {
    let text = '';
    const c = net.connect(sock);
    c.on('data', (d) => { text += d; });
    c.on('end', () => ok(text));
    c.on('error', bad);
  });
  server.close();
  console.log('socket', got);

  const watched = path.join(dir, 'watched');
  fs.mkdirSync(watched);
  const seen = new Promise((ok, bad) => {
    const watcher = fs.watch(watched, (_, name) => { watcher.close(); ok(name); });
    watcher.on('error', bad);
  });
  fs.writeFileSync(path.join(watched, 'f'), 'x');
  console.log('watch', await seen);
}

if (!isMainThread) {
  Atomics.add(workerData.shared, 0, 1);
} else if (process.argv[2] === '--child') {
  process.on('message', (m) => process.send({ n: m.n + 1 }));
} else {
  main().catch((e) => { console.error(e); process.exit(1); });
}
